use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::metrics::Spent;
use crate::protocol::{ModelIdentity, ModelPlace, Preset, Protocol, SuiteIdentity};
use crate::suite::Scorer;

fn result(name: &str, values: &[(&str, &[f64])]) -> EvalResult {
    let place = ModelPlace::Endpoint {
        urls: vec!["http://localhost".to_owned()],
        model: name.to_owned(),
        server: "chat".to_owned(),
        are_tokens_exact: false,
        tool_calls: "server".to_owned(),
        tool_answer_chars: 2048,
        settings: serde_json::Map::new(),
    };
    let protocol = Protocol {
        schema: crate::protocol::SCHEMA_VERSION,
        rocstar: "0.1.0".to_owned(),
        model: ModelIdentity { name: name.to_owned(), place, template: None, call_format: None },
        suite: SuiteIdentity {
            name: "gsm8k".to_owned(),
            sha256: "00".to_owned(),
            size: values.len(),
            problems: values.len(),
        },
        judge: None,
        settings: Preset::Greedy.settings(Scorer::Math),
    };
    let problem = |(id, values): &(&str, &[f64])| ProblemResult {
        id: TaskId((*id).to_owned()),
        category: None,
        values: values.to_vec(),
        response_tokens_mean: Some(10.0),
    };
    EvalResult {
        win_rates: std::collections::BTreeMap::new(),
        schema: crate::report::SCHEMA_VERSION,
        status: Status::Complete,
        missing: 0,
        failures: BTreeMap::new(),
        protocol,
        figures: None,
        spent: Spent {
            seconds: 1.0,
            input_tokens: None,
            output_tokens: None,
            tokens_per_second: None,
            cost: None,
            prices: None,
        },
        problems: values.iter().map(problem).collect(),
    }
}

#[test]
fn a_comparison_says_what_changed_and_how_sure_it_is() {
    let first = result("old", &[("a", &[0.0, 0.0]), ("b", &[1.0, 0.0]), ("c", &[1.0, 1.0])]);
    let second = result("new", &[("b", &[1.0, 1.0]), ("a", &[1.0, 1.0]), ("d", &[0.0])]);
    let found = compare(&first, &second, CompareOptions::default()).unwrap();
    assert_eq!(found.problems, 2);
    assert_eq!(found.scores, [0.25, 1.0]);
    assert_eq!(found.difference, 0.75);
    // Two problems that differ by 1 and by 0.5: means of two draws are 0.5, 0.75 and 1.
    assert_eq!(found.interval, [0.5, 1.0]);
    let moved: Vec<&str> = found.moved.iter().map(|moved| moved.id.0.as_str()).collect();
    assert_eq!(moved, ["a", "b"]);
    assert_eq!(found.alone, [vec![TaskId("c".to_owned())], vec![TaskId("d".to_owned())]]);
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert_eq!(found.response_tokens_mean, Some([10.0, 10.0]));
    assert_eq!(found, compare(&first, &second, CompareOptions::default()).unwrap());
}

#[test]
fn other_protocols_are_told_with_what_differs() {
    let first = result("old", &[("a", &[0.0])]);
    let mut second = result("new", &[("a", &[0.0])]);
    second.protocol.settings.temperature = 1.0;
    second.status = Status::Partial;
    second.missing = 3;
    let found = compare(&first, &second, CompareOptions::default()).unwrap();
    assert_eq!(
        found.warnings,
        [
            "the protocols differ: `settings.temperature` is 0.0 and 1.0",
            "the second result is partial: 3 missing"
        ]
    );
    // No difference at all: every draw is as far from the mean as the mean from nothing.
    assert_eq!((found.difference, found.p_value), (0.0, 1.0));
}

#[test]
fn results_without_a_common_problem_are_refused() {
    let (first, second) = (result("x", &[("a", &[0.0])]), result("y", &[("b", &[0.0])]));
    let error = compare(&first, &second, CompareOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no problem in common"), "{error}");
    let none = CompareOptions { draws: 0, seed: 0 };
    assert_eq!(compare(&first, &first, none), Err(CompareError::NoDraws));
}

#[test]
fn categories_are_drawn_within_themselves_and_weigh_alike() {
    let with_categories = |mut result: EvalResult| {
        let names = ["big", "big", "big", "small"];
        for (problem, name) in result.problems.iter_mut().zip(names) {
            problem.category = Some(name.to_owned());
        }
        result
    };
    let zero: &[f64] = &[0.0];
    let one: &[f64] = &[1.0];
    let first = with_categories(result("x", &[("a", zero), ("b", zero), ("c", zero), ("d", zero)]));
    let second = with_categories(result("y", &[("a", zero), ("b", zero), ("c", zero), ("d", one)]));
    let pairs = pairs(&first, &second);
    let strata = strata(&pairs, true, &|scores| scores[1] - scores[0]);
    assert_eq!(strata, [vec![0.0, 0.0, 0.0], vec![1.0]]);
    assert_eq!(mean_of_means(&strata), 0.5);
    let (interval, _) = bootstrap(&strata, 0.5, CompareOptions::default());
    assert_eq!(interval, [0.5, 0.5]);
}

#[test]
fn the_interval_is_that_of_the_normal_distribution_for_many_problems() {
    // 400 problems, a quarter of which changed for the better: deviation √(0.25 · 0.75 / 400).
    let differences: Vec<f64> = (0..400).map(|index| f64::from(index % 4 == 0)).collect();
    let (interval, p_value) = bootstrap(&[differences], 0.25, CompareOptions::default());
    let half = 1.96 * (0.25_f64 * 0.75 / 400.0).sqrt();
    assert!((interval[0] - (0.25 - half)).abs() < 0.003, "{interval:?}");
    assert!((interval[1] - (0.25 + half)).abs() < 0.003, "{interval:?}");
    assert_eq!(p_value, 1.0 / 10_001.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_other_way_round_is_the_mirror_image(
        values in prop::collection::vec((0.0_f64..1.0, 0.0_f64..1.0), 1..20),
        seed: u64,
    ) {
        let ids: Vec<String> = (0..values.len()).map(|index| index.to_string()).collect();
        let side = |pick: fn(&(f64, f64)) -> f64| -> Vec<(String, Vec<f64>)> {
            ids.iter().cloned().zip(values.iter().map(|pair| vec![pick(pair)])).collect()
        };
        let make = |name: &str, all: &[(String, Vec<f64>)]| {
            let all: Vec<(&str, &[f64])> =
                all.iter().map(|(id, values)| (id.as_str(), values.as_slice())).collect();
            result(name, &all)
        };
        let first = make("x", &side(|pair| pair.0));
        let second = make("y", &side(|pair| pair.1));
        let options = CompareOptions { seed, draws: 200 };
        let there = compare(&first, &second, options).unwrap();
        let back = compare(&second, &first, options).unwrap();
        prop_assert!((there.difference + back.difference).abs() < 1e-12);
        prop_assert!((there.interval[0] + back.interval[1]).abs() < 1e-9);
        prop_assert!((there.p_value - back.p_value).abs() < 1e-12);
        prop_assert!(there.interval[0] <= there.interval[1]);
        prop_assert!((0.0..=1.0).contains(&there.p_value) && there.p_value > 0.0);
    }
}
