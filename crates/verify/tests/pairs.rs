//! Tables of pairs, a file for each kind of answer: `gold ≡ answer` is right, `gold ≢ answer` is
//! wrong. A line that begins with `!` sets an option for its file.

#![cfg(test)]

use std::path::Path;

use rocstar_verify::{Options, Verdict, verify};

#[test]
fn every_pair_of_every_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pairs");
    let mut failures = Vec::new();
    let mut pairs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let options = options(&text);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '!'])) {
            pairs += 1;
            let (gold, answer, right) = pair(line).unwrap_or_else(|| panic!("{name}: {line}"));
            // Where a relation is given for a set, only one of the two may be.
            let turned = (!options.allow_set_relation_comp).then_some((answer, gold));
            for (gold, answer) in [Some((gold, answer)), turned].into_iter().flatten() {
                let report = verify(gold, answer, &options);
                let expected = if right { Verdict::Right } else { Verdict::Wrong };
                if report.verdict != expected {
                    failures.push(format!("{name}: {gold} | {answer} | {report:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {pairs}:\n{}", failures.len(), failures.join("\n"));
    assert!(pairs > 400, "{pairs}");
}

fn pair(line: &str) -> Option<(&str, &str, bool)> {
    let right = line.split_once(" ≡ ").map(|(gold, answer)| (gold, answer, true));
    right.or_else(|| line.split_once(" ≢ ").map(|(gold, answer)| (gold, answer, false)))
}

fn options(text: &str) -> Options {
    let mut options = Options::default();
    for line in text.lines().filter_map(|line| line.strip_prefix("! ")) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("allow_set_relation_comp", _) => options.allow_set_relation_comp = true,
            ("not_strict", _) => options.strict = false,
            ("precision", digits) => options.precision = digits.parse().unwrap(),
            other => panic!("no option: {other:?}"),
        }
    }
    options
}
