//! Arena-Hard: what the judge is told, what its text comes to, and the win rate with its intervals.
#![cfg(test)]

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_eval::arena_hard::{
    Game, JudgePrompts, JudgePromptsError, Judgement, judge_settings, win_rate,
};
use rocstar_eval::suite::ArenaHardVersion;
use rocstar_record::message::Role;

use Judgement::{Better, MuchBetter, MuchWorse, Tie, Worse};

#[test]
fn the_five_verdicts_from_both_places() {
    let cases = [
        ("[[A>>B]]", MuchBetter),
        ("[[A>B]]", Better),
        ("[[A=B]]", Tie),
        ("[[B>A]]", Worse),
        ("[[B>>A]]", MuchWorse),
        ("[[A<<B]]", MuchWorse),
        ("[[B<A]]", Better),
        ("[[b=a]]", Tie),
    ];
    for (text, model_first) in cases {
        assert_eq!(Judgement::parse(text, Game::ModelFirst), Some(model_first), "{text}");
        let turned = Judgement::parse(text, Game::BaselineFirst).unwrap();
        assert_eq!(turned.step(), 1.0 - model_first.step(), "{text}");
    }
}

#[test]
fn the_verdict_is_looked_for_in_the_whole_text() {
    let parse = |text| Judgement::parse(text, Game::ModelFirst);
    assert_eq!(parse("I thought [[A>B]] first, but my final verdict is: [[B>A]]."), Some(Worse));
    assert_eq!(parse("**[[A>>B]]**\n"), Some(MuchBetter));
    assert_eq!(parse("My verdict: [A=B]"), Some(Tie));
    assert_eq!(parse("[[A>B]] rather than [B>A]"), Some(Better), "two brackets come first");
    assert_eq!(parse("A>B"), None);
    assert_eq!(parse("[[A>>>B]]"), None);
    assert_eq!(parse("[[]] [[C>A]] [A[0]]"), None);
    assert_eq!(parse(""), None);
}

#[test]
fn each_game_shows_both_answers_in_its_order() {
    let prompts = JudgePrompts::default();
    for (game, first, second) in
        [(Game::BaselineFirst, "base", "mine"), (Game::ModelFirst, "mine", "base")]
    {
        let messages = prompts.messages("hard_prompt", "Why {answer_b}?", "mine", "base", game);
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].role, messages[1].role), (Role::System, Role::User));
        assert!(messages[0].content.contains("[[A>>B]]") && messages[0].content.contains("own"));
        assert_eq!(
            messages[1].content,
            format!(
                "# Request\n\nWhy {{answer_b}}?\n\n# Answer A\n\n{first}\n\n# End of answer A\n\n# \
                 Answer B\n\n{second}\n\n# End of answer B"
            )
        );
    }
    let creative = prompts.messages("creative_writing", "q", "m", "b", Game::ModelFirst);
    assert!(!creative[0].content.contains("your own answer"));
}

#[test]
fn prompts_of_ones_own() {
    let text =
        r#"{"system": "s", "creative_writing": "c", "user": "{answer_b}{question}{answer_a}"}"#;
    let prompts = JudgePrompts::from_json(text).unwrap();
    let messages = prompts.messages("math", "Q", "M", "B", Game::BaselineFirst);
    assert_eq!((messages[0].content.as_str(), messages[1].content.as_str()), ("s", "MQB"));
    let lacks = r#"{"system": "s", "creative_writing": "c", "user": "{question}{answer_a}"}"#;
    assert_eq!(JudgePrompts::from_json(lacks), Err(JudgePromptsError::Lacks("{answer_b}")));
    let fault = JudgePrompts::from_json(r#"{"system": "s"}"#).unwrap_err().to_string();
    assert!(fault.contains("missing field `creative_writing`"), "{fault}");
}

#[test]
fn the_judges_of_the_published_tables() {
    assert_eq!(judge_settings(ArenaHardVersion::V01).model, "gpt-4-1106-preview");
    assert_eq!(judge_settings(ArenaHardVersion::V20).model, "gpt-4.1");
}

#[test]
fn a_win_rate_by_hand() {
    // Battles: 3 lost; 1 won; 1 tie; 3 won: (1 + 0.5 + 3) of 8.
    let questions = [vec![MuchWorse, Better], vec![Tie, MuchBetter]];
    let rate = win_rate(&questions, ArenaHardVersion::V20, 1).unwrap();
    assert_eq!((rate.value, rate.questions, rate.battles), (4.5 / 8.0, 2, 8));
    assert!(rate.interval.lower <= rate.value && rate.value <= rate.interval.upper);
    assert_eq!(win_rate(&[], ArenaHardVersion::V20, 1), None);
    assert_eq!(win_rate(&[vec![]], ArenaHardVersion::V20, 1), None);
}

/// With many questions the bootstrap's interval is the one of the normal distribution.
#[test]
fn intervals_have_the_width_that_theory_gives() {
    let questions: Vec<Vec<Judgement>> = (0..400)
        .map(|at| if at % 4 == 0 { vec![Worse, Worse] } else { vec![Better, Better] })
        .collect();
    let rate = win_rate(&questions, ArenaHardVersion::V01, 5).unwrap();
    let error = (0.75_f64 * 0.25 / 400.0).sqrt();
    let width = rate.interval.upper - rate.interval.lower;
    assert!((width / (2.0 * 1.96 * error) - 1.0).abs() < 0.1, "{rate:?}");
    // Both games of a question agree, so battles look like twice as many questions.
    let published = rate.published_interval.upper - rate.published_interval.lower;
    assert!((published / (2.0 * 1.96 * error / 2.0_f64.sqrt()) - 1.0).abs() < 0.25, "{rate:?}");
    assert_eq!(win_rate(&questions, ArenaHardVersion::V01, 5), Some(rate));
}

fn judgement() -> impl Strategy<Value = Judgement> {
    prop_oneof![Just(MuchWorse), Just(Worse), Just(Tie), Just(Better), Just(MuchBetter)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The rate equals the plain mean over battles, written out.
    #[test]
    fn the_rate_is_the_mean_over_battles(
        questions in prop::collection::vec(prop::collection::vec(judgement(), 2), 1..30)
    ) {
        let battles: Vec<f64> = questions.iter().flatten().flat_map(|it| match it {
            MuchWorse => vec![0.0; 3],
            Worse => vec![0.0],
            Tie => vec![0.5],
            Better => vec![1.0],
            MuchBetter => vec![1.0; 3],
        }).collect();
        let rate = win_rate(&questions, ArenaHardVersion::V20, 9).unwrap();
        prop_assert_eq!(rate.battles, battles.len());
        let mean = battles.iter().sum::<f64>() / battles.len() as f64;
        prop_assert!((rate.value - mean).abs() < 1e-12);
    }

    #[test]
    fn any_text_can_be_a_judges(text in "[AB<>=\\[\\] a]{0,30}") {
        let first = Judgement::parse(&text, Game::ModelFirst);
        let second = Judgement::parse(&text, Game::BaselineFirst);
        prop_assert_eq!(first.map(|it| it.step()), second.map(|it| 1.0 - it.step()));
    }
}
