//! The figures of an evaluation: everything that is said of the attempts at its problems.
//!
//! Invariant: figures follow from attempts and scores alone, and those without time in them are the
//! same whenever and wherever they are computed.

use std::collections::BTreeMap;

use rocstar_record::attempt::{Attempt, Score};
use rocstar_record::episode::{Finish, VerdictKind};
use serde::{Deserialize, Serialize};

use super::{AtK, Estimate, Votes, cons_at, pass_at};

/// One problem with its attempts.
#[derive(Debug, Clone)]
pub struct Sampled<'a> {
    /// Where the suite sorts its problems into categories.
    pub category: Option<&'a str>,
    /// Instructions of its prompt: what parts of its scores weigh whose names begin with
    /// `instruction_`. Of other suites 1.
    pub instructions: usize,
    /// Attempts that were made, with their scores.
    pub outcomes: Vec<Outcome<'a>>,
}

/// An attempt with its score.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// What the model wrote.
    pub attempt: &'a Attempt,
    /// What it is worth.
    pub score: &'a Score,
}

/// Figures; shares and values are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Problems that have an attempt.
    pub problems: usize,
    /// Attempts.
    pub attempts: usize,
    /// Fewest attempts at a problem that has one: the k of avg@k.
    pub samples: usize,
    /// avg@k: the mean score, each problem weighing the same. Where the suite has categories that it
    /// weighs alike, the mean of their means.
    pub score: Estimate,
    /// Whether the score weighs categories alike.
    #[serde(default)]
    pub weighs_categories: bool,
    /// pass@k for every k; absent where scores are no right and wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<AtK>,
    /// cons@k for every k; absent where answers can't be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consensus: Vec<AtK>,
    /// Mean of each part of the scores, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
    /// Each category by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub categories: BTreeMap<String, Category>,
    /// Tokens after the prompt, tools' answers included, of an attempt.
    pub response_tokens_mean: Option<f64>,
    /// Tokens that the model sampled, of an attempt.
    pub policy_tokens_mean: Option<f64>,
    /// Turns of an attempt.
    pub turns_mean: f64,
    /// Calls of an attempt, run or not.
    pub calls_mean: f64,
    /// Failed calls among those that were run; `None` where none was.
    pub tool_error_share: Option<f64>,
    /// Attempts that a limit cut off.
    pub truncated_share: f64,
    /// Attempts without an answer that can be read.
    pub unparseable_share: f64,
    /// Attempts whose answer is neither shown right nor wrong.
    pub undecided_share: f64,
}

/// A category of problems.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Category {
    /// Problems that have an attempt.
    pub problems: usize,
    /// Their mean score.
    #[serde(flatten)]
    pub score: Estimate,
}

/// Prices of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Of a million tokens that the model reads.
    pub input_per_million: f64,
    /// Of a million tokens that it writes.
    pub output_per_million: f64,
}

/// What attempts took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Wall time while attempts were made, as far as it was written down, in seconds.
    pub seconds: f64,
    /// Tokens of prompts and of tools' answers: each read once, as a server counts that keeps what
    /// it has read. `None` where some server doesn't say.
    pub input_tokens: Option<usize>,
    /// Tokens that the model sampled. `None` where some server doesn't say.
    pub output_tokens: Option<usize>,
    /// Sampled tokens a second of wall time.
    pub tokens_per_second: Option<f64>,
    /// In the currency of the prices, where they were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The prices that the cost was reckoned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// Whether two answers are equal.
pub type Same = dyn Fn(&str, &str) -> bool + Sync;

/// The figures of these problems; `None` where none has an attempt. `same` says whether two answers
/// are equal; without it there is no vote. `weighs_categories`: the score is the plain mean of the
/// categories' means.
pub fn figures(
    problems: &[Sampled<'_>],
    same: Option<&Same>,
    weighs_categories: bool,
) -> Option<Figures> {
    let tried: Vec<&Sampled<'_>> = problems.iter().filter(|it| !it.outcomes.is_empty()).collect();
    let samples = tried.iter().map(|problem| problem.outcomes.len()).min()?;
    let all: Vec<Outcome<'_>> = tried.iter().flat_map(|it| it.outcomes.iter().copied()).collect();
    let values: Vec<Vec<f64>> = tried.iter().map(|problem| values(problem)).collect();
    let of = || tried.iter().map(|problem| problem.category).zip(values.iter().map(Vec::as_slice));
    let score = if weighs_categories {
        Estimate::of_categories(of())?
    } else {
        Estimate::of_samples(&values)?
    };
    let categories = by_category(of());
    let share = |holds: &dyn Fn(&Outcome<'_>) -> bool| {
        all.iter().filter(|outcome| holds(outcome)).count() as f64 / all.len() as f64
    };
    let mean = |number: &dyn Fn(&Attempt) -> Option<usize>| {
        let numbers: Option<Vec<usize>> = all.iter().map(|it| number(it.attempt)).collect();
        numbers.map(|numbers| numbers.iter().sum::<usize>() as f64 / all.len() as f64)
    };
    let verdict =
        |kind: VerdictKind| share(&|outcome: &Outcome<'_>| outcome.score.verdict.kind == kind);
    Some(Figures {
        problems: tried.len(),
        attempts: all.len(),
        samples,
        score,
        weighs_categories: weighs_categories && !categories.is_empty(),
        pass: pass(&values, samples),
        consensus: same.map_or_else(Vec::new, |same| consensus(&tried, samples, same)),
        parts: parts(&tried),
        categories,
        response_tokens_mean: mean(&|attempt| attempt.tokens.response_tokens),
        policy_tokens_mean: mean(&|attempt| attempt.tokens.policy_tokens),
        turns_mean: mean(&|attempt| Some(attempt.turns.len())).unwrap_or(0.0),
        calls_mean: mean(&|attempt| Some(attempt.calls().count())).unwrap_or(0.0),
        tool_error_share: tool_error_share(&all),
        truncated_share: share(&|outcome| outcome.attempt.finish != Finish::Done),
        unparseable_share: verdict(VerdictKind::Unparseable),
        undecided_share: verdict(VerdictKind::Undecided),
    })
}

/// What the attempts took: `seconds` of wall time for all of them.
pub fn spent<'a>(
    attempts: impl Iterator<Item = &'a Attempt> + Clone,
    seconds: f64,
    prices: Option<Prices>,
) -> Spent {
    let output_tokens: Option<usize> =
        attempts.clone().map(|attempt| attempt.tokens.policy_tokens).sum();
    let read = |attempt: &Attempt| {
        let tokens = attempt.tokens;
        let of_tools = tokens.response_tokens?.saturating_sub(tokens.policy_tokens?);
        Some(tokens.prompt_tokens?.saturating_add(of_tools))
    };
    let input_tokens: Option<usize> = attempts.map(read).sum();
    let cost = prices.zip(input_tokens.zip(output_tokens)).map(|(prices, (input, output))| {
        (input as f64 * prices.input_per_million + output as f64 * prices.output_per_million) / 1e6
    });
    let rate = output_tokens.filter(|_| seconds > 0.0).map(|tokens| tokens as f64 / seconds);
    Spent { seconds, input_tokens, output_tokens, tokens_per_second: rate, cost, prices }
}

fn values(problem: &Sampled<'_>) -> Vec<f64> {
    problem.outcomes.iter().map(|outcome| outcome.score.value).collect()
}

fn at_every_k(samples: usize, per_problem: &[Vec<f64>]) -> Vec<AtK> {
    let at = |k: usize| {
        let numbers: Option<Vec<f64>> =
            per_problem.iter().map(|problem| problem.get(k - 1).copied()).collect();
        let estimate = Estimate::of(&numbers?)?;
        Some(AtK { k, estimate })
    };
    (1..=samples).filter_map(at).collect()
}

fn pass(values: &[Vec<f64>], samples: usize) -> Vec<AtK> {
    let is_binary = |value: &f64| *value == 0.0 || *value == 1.0;
    if !values.iter().flatten().all(is_binary) {
        return Vec::new();
    }
    let of_problem = |values: &Vec<f64>| -> Vec<f64> {
        let right = values.iter().filter(|value| **value == 1.0).count();
        (1..=samples).filter_map(|k| pass_at(k, values.len(), right)).collect()
    };
    at_every_k(samples, &values.iter().map(of_problem).collect::<Vec<_>>())
}

fn consensus(problems: &[&Sampled<'_>], samples: usize, same: &Same) -> Vec<AtK> {
    let of_problem = |problem: &&Sampled<'_>| {
        let (votes, silent) = votes(problem, same);
        cons_at(&votes, silent)
    };
    at_every_k(samples, &problems.iter().map(of_problem).collect::<Vec<_>>())
}

/// Answers that are equal to the first of their kind, together; what they are worth is the mean of
/// their scores. And how many samples gave none.
fn votes(problem: &Sampled<'_>, same: &Same) -> (Vec<Votes>, usize) {
    let mut clusters: Vec<(&str, Votes)> = Vec::new();
    let mut silent = 0;
    for Outcome { score, .. } in &problem.outcomes {
        let Some(answer) = score.verdict.answer.as_deref() else {
            silent += 1;
            continue;
        };
        let is_one = |first: &str| first == answer || same(first, answer);
        let at = clusters.iter().position(|(first, _)| *first == answer);
        let at = at.or_else(|| clusters.iter().position(|(first, _)| is_one(first)));
        match at.and_then(|at| clusters.get_mut(at)) {
            Some((_, votes)) => {
                let sum = votes.value * votes.samples as f64 + score.value;
                votes.samples += 1;
                votes.value = sum / votes.samples as f64;
            }
            None => clusters.push((answer, Votes { samples: 1, value: score.value })),
        }
    }
    (clusters.into_iter().map(|(_, votes)| votes).collect(), silent)
}

fn parts(problems: &[&Sampled<'_>]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for problem in problems {
        let parts = problem.outcomes.iter().flat_map(|outcome| &outcome.score.parts);
        for (name, value) in parts.filter_map(|(name, value)| Some((name, value.as_f64()?))) {
            let is_of_instructions = name.starts_with("instruction_");
            let weight = if is_of_instructions { problem.instructions as f64 } else { 1.0 };
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + value * weight, sum.1 + weight);
        }
    }
    sums.into_iter().map(|(name, (sum, weight))| (name.to_owned(), sum / weight)).collect()
}

impl Estimate {
    /// avg@k where categories weigh alike: the plain mean of the categories' means. Scores of a
    /// problem come with its category; where none has one, problems weigh alike.
    pub(crate) fn of_categories<'a>(
        problems: impl Iterator<Item = (Option<&'a str>, &'a [f64])> + Clone,
    ) -> Option<Self> {
        let categories = by_category(problems.clone());
        if categories.is_empty() {
            return Self::of_samples(&problems.map(|(_, values)| values).collect::<Vec<_>>());
        }
        Some(mean_of_categories(&categories))
    }
}

fn by_category<'a>(
    problems: impl Iterator<Item = (Option<&'a str>, &'a [f64])>,
) -> BTreeMap<String, Category> {
    let mut all: BTreeMap<&str, Vec<&[f64]>> = BTreeMap::new();
    for (category, values) in problems.filter(|(_, values)| !values.is_empty()) {
        if let Some(category) = category {
            all.entry(category).or_default().push(values);
        }
    }
    let category = |(name, values): (&str, Vec<&[f64]>)| {
        let score = Estimate::of_samples(&values)?;
        Some((name.to_owned(), Category { problems: values.len(), score }))
    };
    all.into_iter().filter_map(category).collect()
}

/// The plain mean of the categories' means; its error from theirs, which are independent.
fn mean_of_categories(categories: &BTreeMap<String, Category>) -> Estimate {
    let count = categories.len() as f64;
    let value = categories.values().map(|category| category.score.value).sum::<f64>() / count;
    let squares: Option<f64> = categories
        .values()
        .map(|category| category.score.standard_error.map(|error| error.powi(2)))
        .sum();
    Estimate { value, standard_error: squares.map(|squares| squares.sqrt() / count) }
}

fn tool_error_share(outcomes: &[Outcome<'_>]) -> Option<f64> {
    let calls = outcomes.iter().flat_map(|outcome| outcome.attempt.calls());
    let runs: Vec<bool> =
        calls.filter_map(|call| Some(call.run.as_ref()?.outcome.is_failure())).collect();
    let failed = runs.iter().filter(|failed| **failed).count();
    (!runs.is_empty()).then(|| failed as f64 / runs.len() as f64)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_record::attempt::{AttemptTurn, SCHEMA_VERSION, TokenCounts};
    use rocstar_record::episode::{TaskId, Timing, Verdict};
    use serde_json::{Map, json};

    use super::*;

    fn attempt(finish: Finish, policy_tokens: Option<usize>) -> Attempt {
        Attempt {
            schema: SCHEMA_VERSION,
            problem: TaskId("p".to_owned()),
            sample: 0,
            turns: vec![AttemptTurn::default(); 2],
            finish,
            tokens: TokenCounts {
                prompt_tokens: Some(100),
                policy_tokens,
                response_tokens: policy_tokens.map(|tokens| tokens + 50),
                are_exact: true,
            },
            timing: Timing::default(),
            generator: "test".to_owned(),
        }
    }

    fn score(value: f64, answer: Option<&str>) -> Score {
        let kind = match (value, answer) {
            (_, None) => VerdictKind::Unparseable,
            (1.0, _) => VerdictKind::Right,
            _ => VerdictKind::Wrong,
        };
        let verdict = Verdict {
            kind,
            answer: answer.map(str::to_owned),
            explanation: String::new(),
            second_opinion: None,
        };
        Score { value, verdict, parts: Map::new() }
    }

    fn sampled<'a>(attempt: &'a Attempt, scores: &'a [Score]) -> Sampled<'a> {
        let outcomes = scores.iter().map(|score| Outcome { attempt, score }).collect();
        Sampled { category: None, instructions: 1, outcomes }
    }

    fn close(found: &[AtK], expected: &[f64]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.estimate.value - expected).abs() < 1e-12, "{found:?} {expected}");
        }
    }

    #[test]
    fn figures_of_two_problems_worked_by_hand() {
        let (done, cut) = (attempt(Finish::Done, Some(10)), attempt(Finish::TokenLimit, Some(30)));
        let first = [score(1.0, Some("1/2")), score(1.0, Some("0.5")), score(0.0, Some("7"))];
        let second = [score(0.0, None), score(0.0, None), score(1.0, Some("3"))];
        let problems = [sampled(&done, &first), sampled(&cut, &second), sampled(&done, &[])];
        let same = |a: &str, b: &str| [a, b].iter().all(|it| ["1/2", "0.5"].contains(it));
        let found = figures(&problems, Some(&same), false).unwrap();
        assert_eq!((found.problems, found.attempts, found.samples), (2, 6, 3));
        assert!((found.score.value - 0.5).abs() < 1e-12);
        // Means 2/3 and 1/3: the deviation over the root of two is 1/6.
        assert!((found.score.standard_error.unwrap() - 1.0 / 6.0).abs() < 1e-12);
        close(&found.pass, &[0.5, (1.0 + 2.0 / 3.0) / 2.0, 1.0]);
        // The first: both halves vote together. The second: the only vote is right.
        close(&found.consensus, &[0.5, (2.0 / 3.0 + 2.0 / 3.0) / 2.0, 1.0]);
        assert_eq!(found.truncated_share, 0.5);
        assert!((found.unparseable_share - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(
            (found.response_tokens_mean, found.policy_tokens_mean),
            (Some(70.0), Some(20.0))
        );
        assert_eq!((found.turns_mean, found.tool_error_share), (2.0, None));
    }

    #[test]
    fn categories_weigh_alike_and_parts_are_means() {
        let done = attempt(Finish::Done, None);
        let with = |value: f64, part: f64| {
            let mut score = score(value, Some("x"));
            score.parts.insert("loose".to_owned(), json!(part));
            [score]
        };
        let scores = [with(1.0, 1.0), with(0.0, 1.0), with(0.0, 0.0), with(1.0, 0.5)];
        let names = ["simple", "simple", "simple", "live"];
        let problems: Vec<_> = scores
            .iter()
            .zip(names)
            .map(|(scores, name)| Sampled { category: Some(name), ..sampled(&done, scores) })
            .collect();
        let found = figures(&problems, None, true).unwrap();
        assert!((found.score.value - (1.0 / 3.0 + 1.0) / 2.0).abs() < 1e-12);
        assert_eq!(found.score.standard_error, None);
        assert_eq!(found.parts["loose"], 2.5 / 4.0);
        assert_eq!(found.categories["simple"].problems, 3);
        assert_eq!((found.response_tokens_mean, found.consensus.len()), (None, 0));
        let plain = figures(&problems, None, false).unwrap();
        assert_eq!(plain.score.value, 0.5);
    }

    #[test]
    fn instructions_weigh_alike_whatever_their_prompts() {
        let done = attempt(Finish::Done, None);
        let with = |share: f64| {
            let mut score = score(0.0, Some("x"));
            score.parts.insert("instruction_strict".to_owned(), json!(share));
            [score]
        };
        let scores = [with(1.0), with(1.0 / 3.0)];
        let problems: Vec<_> = scores
            .iter()
            .zip([1, 3])
            .map(|(scores, instructions)| Sampled { instructions, ..sampled(&done, scores) })
            .collect();
        let found = figures(&problems, None, false).unwrap();
        assert_eq!(found.parts["instruction_strict"], 0.5);
    }

    #[test]
    fn what_tokens_cost_is_said_where_they_are_known() {
        let (known, unknown) = (attempt(Finish::Done, Some(10)), attempt(Finish::Done, None));
        let prices = Prices { input_per_million: 2.0, output_per_million: 10.0 };
        let found = spent([&known, &known].into_iter(), 4.0, Some(prices));
        assert_eq!((found.input_tokens, found.output_tokens), (Some(300), Some(20)));
        assert_eq!(found.tokens_per_second, Some(5.0));
        assert!((found.cost.unwrap() - 800.0 / 1e6).abs() < 1e-15);
        let found = spent([&known, &unknown].into_iter(), 4.0, Some(prices));
        assert_eq!((found.output_tokens, found.cost), (None, None));
    }
}
