//! Labelled pairs and gold answers of public data sets, which lie beside the repository.

#![cfg(test)]

use std::path::{Path, PathBuf};

use rocstar_verify::{Options, Verdict, verify};
use serde_json::Value;

/// Pairs whose label mathematics contradicts: the label calls 1 − 1/e and 1 + 1/e equal.
const WRONG_LABELS: [(&str, &str); 1] =
    [("$1 - \\frac{1}{\\mathrm{e}}$", "$1 + \\frac{1}{\\mathrm{e}}$")];

fn shared(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    if path.exists() {
        return Some(path);
    }
    println!("SKIP {file} is not beside the repository");
    None
}

fn lines(file: &str) -> Vec<Value> {
    let Some(path) = shared(file) else { return Vec::new() };
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_labelled_pair() {
    let mut failures = Vec::new();
    for case in lines("cases/math_equivalence.jsonl") {
        let text = |name: &str| case[name].as_str().unwrap();
        let (gold, answer) = (text("gold"), text("answer"));
        let mut options = Options::default();
        if let Some(digits) = case["precision"].as_u64() {
            options.precision = u32::try_from(digits).unwrap();
        }
        options.strict = case["strict"].as_bool().unwrap_or(options.strict);
        options.allow_set_relation_comp =
            case["allow_set_relation_comp"].as_bool().unwrap_or_default();
        let label = case["equal"].as_bool().unwrap() && !WRONG_LABELS.contains(&(gold, answer));
        let report = verify(gold, answer, &options);
        if (report.verdict == Verdict::Right) != label {
            failures.push(format!("{} [{label}] {report:#?}", text("kind")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Gold answers, one text each.
fn golds() -> Vec<String> {
    let mut golds = Vec::new();
    let files = ["math500", "aime24", "aime25", "hmmt25_feb", "gsm8k_test", "gsm8k_train"];
    for file in files {
        // Thousands of whole numbers: some of them show the same.
        let step = if file == "gsm8k_train" { 10 } else { 1 };
        for line in lines(&format!("data/{file}.jsonl")).into_iter().step_by(step) {
            let answer = match &line["answer"] {
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            golds.push(answer.rsplit("####").next().unwrap().trim().to_owned());
        }
    }
    golds
}

/// Honest ways to write the same answer.
fn respelled(gold: &str) -> Vec<String> {
    let mut texts = vec![
        gold.to_owned(),
        format!("  {gold}\n"),
        format!("${gold}$"),
        format!("\\({gold}\\)"),
        format!("So the answer is $\\boxed{{{gold}}}$."),
        format!("\\displaystyle {gold}"),
        gold.replace("\\frac", "\\dfrac"),
        gold.replace("\\left", "").replace("\\right", ""),
        format!("We add them.\n\n<answer>\\boxed{{{gold}}}</answer>"),
        format!("Final answer: ${gold}$"),
    ];
    if gold.parse::<i64>().is_ok() {
        texts.extend([
            format!("{gold}.0"),
            format!("\\frac{{{gold}}}{{1}}"),
            format!("x = {gold}"),
            format!("The answer is {gold}."),
            format!("#### {gold}"),
        ]);
    }
    texts
}

#[test]
fn every_gold_equals_itself_in_other_spellings() {
    let options = Options::default();
    let mut failures = Vec::new();
    for gold in golds() {
        for answer in respelled(&gold) {
            let report = verify(&gold, &answer, &options);
            if report.verdict != Verdict::Right {
                failures.push(format!("{gold} | {answer} | {report:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

/// Golds of one set are mostly different answers; where two are called the same, they must be.
#[test]
fn no_two_different_whole_golds_are_equal() {
    let golds: Vec<String> =
        golds().into_iter().filter(|it| it.replace(',', "").parse::<i64>().is_ok()).collect();
    let options = Options::default();
    let value = |text: &str| text.replace(',', "").parse::<i64>().unwrap();
    for (index, gold) in golds.iter().enumerate() {
        for answer in golds.iter().skip(index).step_by(37) {
            let same = verify(gold, answer, &options).verdict == Verdict::Right;
            assert_eq!(same, value(gold) == value(answer), "{gold} | {answer}");
        }
    }
}
