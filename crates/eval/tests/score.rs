//! What attempts are worth, by the kind of gold.
#![cfg(test)]

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use pretty_assertions::assert_eq;
use rocstar_eval::arena_hard::{Judgement, judgements};
use rocstar_eval::ifeval::IfEvalGold;
use rocstar_eval::problem::{Gold, Problem};
use rocstar_eval::score::{Judge, ScoreError, score};
use rocstar_record::attempt::{Attempt, AttemptTurn, SCHEMA_VERSION, Score, TokenCounts};
use rocstar_record::episode::{Finish, TaskId, Timing, VerdictKind};
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_verify::Extraction;
use serde_json::json;

fn problem(gold: Gold) -> Problem {
    let task = Task {
        id: TaskId("p".to_owned()),
        messages: vec![Message::text(Role::User, "What is 1 + 1?")],
        answer: String::new(),
        functions: Vec::new(),
        meta: serde_json::Map::new(),
    };
    Problem { task: Arc::new(task), gold }
}

fn attempt(texts: &[&str], finish: Finish) -> Attempt {
    let turn = |text: &&str| AttemptTurn { text: (*text).to_owned(), ..AttemptTurn::default() };
    Attempt {
        schema: SCHEMA_VERSION,
        problem: TaskId("p".to_owned()),
        sample: 0,
        turns: texts.iter().map(turn).collect(),
        finish,
        tokens: TokenCounts::default(),
        timing: Timing::default(),
        generator: "test".to_owned(),
    }
}

async fn scored(gold: Gold, text: &str) -> Score {
    score(&problem(gold), &attempt(&[text], Finish::Done), None).await.unwrap()
}

fn math(extraction: Extraction) -> Gold {
    Gold::Math { answer: "1/2".to_owned(), extraction }
}

fn choice(letter: char) -> Gold {
    Gold::Choice { letter, choices: 4 }
}

#[tokio::test]
async fn values_strictly_and_leniently() {
    let strict = |text| scored(math(Extraction::Strict), text);
    let right = strict("<answer>\\boxed{0.5}</answer>").await;
    assert_eq!((right.value, right.verdict.kind), (1.0, VerdictKind::Right));
    assert_eq!(right.verdict.answer.as_deref(), Some("0.5"));
    let wrong = strict("<answer>\\boxed{2}</answer>").await;
    assert_eq!((wrong.value, wrong.verdict.kind), (0.0, VerdictKind::Wrong));
    let none = strict("The answer is 1/2.").await;
    assert_eq!((none.value, none.verdict.kind), (0.0, VerdictKind::Unparseable));
    assert_eq!(none.verdict.explanation, "no \\boxed{} inside <answer>");
    let lenient = scored(math(Extraction::Lenient), "The answer is 1/2.").await;
    assert_eq!(lenient.verdict.kind, VerdictKind::Right);
}

#[tokio::test]
async fn what_was_cut_off_has_no_final_answer() {
    let boxed = "<answer>\\boxed{1/2}</answer>";
    for finish in
        [Finish::TurnLimit, Finish::TokenLimit, Finish::ContextLimit, Finish::ToolAnswerTooLong]
    {
        for gold in [math(Extraction::Strict), math(Extraction::Lenient), choice('A')] {
            let score = score(&problem(gold), &attempt(&[boxed], finish), None).await.unwrap();
            assert_eq!((score.value, score.verdict.kind), (0.0, VerdictKind::Unparseable));
            assert_eq!(score.verdict.answer, None);
            assert!(score.verdict.explanation.starts_with("cut off by "), "{score:?}");
        }
    }
}

#[tokio::test]
async fn only_the_last_turn_is_looked_at() {
    let turns = ["<answer>\\boxed{1/2}</answer>", "I am done."];
    let attempt = attempt(&turns, Finish::Done);
    let score = score(&problem(math(Extraction::Strict)), &attempt, None).await.unwrap();
    assert_eq!(score.verdict.kind, VerdictKind::Unparseable);
}

#[tokio::test]
async fn letters_of_choices() {
    for right in [
        "\\boxed{C}",
        "<answer>C</answer>",
        "The answer is (C).",
        "The answer is C",
        "Answer: C",
        "**Answer: C**",
        "So the final answer is **C**.",
        "\\boxed{\\text{C}}",
        "<answer>\\boxed{(C)}</answer>",
        "A and B are wrong. The correct answer is C) Argon",
        "C",
        "(C)",
        "\\boxed{C. Argon}",
        "Option C is right.",
        "The correct answer is option C.",
        "The correct option is (C): Argon",
        "**C**",
        "Answer: c",
        "Therefore C.",
    ] {
        let score = scored(choice('C'), right).await;
        assert_eq!(score.verdict.kind, VerdictKind::Right, "{right}: {score:?}");
    }
    for wrong in ["\\boxed{B}", "The answer is (D).", "Answer: A"] {
        let score = scored(choice('C'), wrong).await;
        assert_eq!(
            (score.value, score.verdict.kind),
            (0.0, VerdictKind::Wrong),
            "{wrong}: {score:?}"
        );
    }
    for none in ["", "\\boxed{42}", "\\boxed{E}", "I don't know.", "The answer is Argon."] {
        let score = scored(choice('C'), none).await;
        assert_eq!(score.verdict.kind, VerdictKind::Unparseable, "{none}: {score:?}");
    }
    let bold = scored(choice('C'), "**Answer: (B)**").await;
    assert_eq!(bold.verdict.answer.as_deref(), Some("B"));
}

#[tokio::test]
async fn instructions_in_parts() {
    let row = json!({
        "key": 1,
        "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
        "kwargs": [{}, {}],
    });
    let gold = Gold::IfEval(IfEvalGold::from_row(&row).unwrap());
    let good = scored(gold.clone(), "\"Fine.\"").await;
    assert_eq!((good.value, good.verdict.kind), (1.0, VerdictKind::Right));
    assert_eq!(good.verdict.explanation, "all 2 instructions are followed");
    let loose = scored(gold, "Here it is:\n\"Fine.\"").await;
    assert_eq!((loose.value, loose.verdict.kind), (0.0, VerdictKind::Wrong));
    assert_eq!(
        serde_json::to_value(&loose.parts).unwrap(),
        json!({"prompt_loose": 1.0, "instruction_strict": 0.5, "instruction_loose": 1.0})
    );
    assert_eq!(
        loose.verdict.explanation,
        "not followed: startend:quotation: not in double quotation marks (followed loosely)"
    );
}

/// A judge by rule, which stands for a model behind an endpoint.
#[derive(Debug)]
struct RuleJudge(fn(&str) -> Result<&'static str, &'static str>);

impl Judge for RuleJudge {
    fn ask<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Result<String, String>> {
        let text = (self.0)(&messages[1].content);
        async move { text.map(str::to_owned).map_err(str::to_owned) }.boxed()
    }
}

async fn judged(judge: Option<&RuleJudge>) -> Result<Score, ScoreError> {
    let problem = problem(Gold::Judged { baseline: "Perhaps 3.".to_owned() });
    let attempt = attempt(&["It is 2."], Finish::Done);
    score(&problem, &attempt, judge.map(|it| it as &dyn Judge)).await
}

#[tokio::test]
async fn a_judge_is_asked_in_both_orders() {
    let fair = RuleJudge(|content| {
        let (good, bad) = (content.find("It is 2."), content.find("Perhaps 3."));
        Ok(if good < bad { "[[A>>B]]" } else { "[[B>A]]" })
    });
    let score = judged(Some(&fair)).await.unwrap();
    assert_eq!(judgements(&score), Some([Judgement::Better, Judgement::MuchBetter]));
    assert_eq!((score.value, score.verdict.kind), (1.0, VerdictKind::Right));
    // One that likes whatever comes first cancels itself.
    let score = judged(Some(&RuleJudge(|_| Ok("[[A>B]]")))).await.unwrap();
    assert_eq!(judgements(&score), Some([Judgement::Worse, Judgement::Better]));
    assert_eq!((score.value, score.verdict.kind), (0.5, VerdictKind::Undecided));
    // Significantly better counts three times: 3 of 4 battles.
    let partial = RuleJudge(|content| {
        Ok(if content.find("It is 2.") < content.find("Perhaps 3.") {
            "[[A>>B]]"
        } else {
            "[[A>B]]"
        })
    });
    assert_eq!(judged(Some(&partial)).await.unwrap().value, 0.75);
}

#[tokio::test]
async fn a_judge_that_fails_gives_no_score() {
    assert_eq!(judged(None).await, Err(ScoreError::NoJudge { problem: "p".to_owned() }));
    let error = judged(Some(&RuleJudge(|_| Err("no route")))).await.unwrap_err();
    assert_eq!(error.to_string(), "the judging model failed on problem p: no route");
    let error = judged(Some(&RuleJudge(|_| Ok("Both are fine.")))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the judging model failed on problem p: no verdict such as [[A>B]] in its answer, which \
         ends `Both are fine.`"
    );
}
