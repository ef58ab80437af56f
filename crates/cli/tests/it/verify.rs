//! `rocstar verify`: one pair, a file of pairs, and what it says to wrong use.

use std::process::Stdio;

use pretty_assertions::assert_eq;

use crate::harness::{Harness, show};

fn pair(gold: &str, answer: &str, more: &[&str]) -> String {
    let mut arguments = vec!["verify", "--gold", gold, "--answer", answer];
    arguments.extend(more);
    Harness::new().run(&arguments)
}

#[test]
fn the_exit_status_is_the_verdict() {
    assert_eq!(pair("1/2", "\\boxed{0.5}", &[]), "exit status: 0\n--- stdout\nright\n--- stderr\n");
    assert_eq!(pair("24", "2400", &[]), "exit status: 1\n--- stdout\nwrong\n--- stderr\n");
    assert_eq!(pair("-5", "5 +", &[]), "exit status: 1\n--- stdout\nunparseable\n--- stderr\n");
    assert_eq!(pair("1", "1/0", &[]), "exit status: 1\n--- stdout\nundecided\n--- stderr\n");
}

#[test]
fn it_explains_itself() {
    assert_eq!(
        pair("(x+1)^2", "So \\boxed{x^2+1}.", &["--explain"]),
        "exit status: 1\n--- stdout\nwrong\ndifference: x^2+2*x+1 and x^2+1\n\
         gold: (x+1)^2 (found by: whole)\ngold normal form: x^2+2*x+1\n\
         answer: x^2+1 (found by: boxed)\nanswer normal form: x^2+1\n--- stderr\n"
    );
}

#[test]
fn options_reach_the_verifier() {
    assert!(pair("1/3", "0.33", &[]).starts_with("exit status: 1"));
    assert!(pair("1/3", "0.33", &["--precision", "2"]).starts_with("exit status: 0"));
    assert!(pair("f(x)", "f(y)", &["--not-strict"]).starts_with("exit status: 0"));
    assert!(pair("5", "\\boxed{5}", &["--extraction", "strict"]).starts_with("exit status: 1"));
    let relation = ["--allow-set-relation-comp"];
    assert!(pair("(5,\\infty)", "x>5", &relation).starts_with("exit status: 0"));
}

#[test]
fn a_report_is_json() {
    let harness = Harness::new();
    let output =
        harness.command(&["verify", "--gold", "5", "--answer", "5.0", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "right");
    assert_eq!(report["rule"], "exact");
}

const LINES: &str = r#"{"id": 1, "gold": "1/2", "answer": "0.5"}
{"id": 2, "gold": "1/3", "answer": "0.33"}

{"gold": "1/3", "precision": 2, "id": 3, "answer": "0.33"}
{"id": 4, "gold": 24, "answer": 25}
{"id": 5, "gold": "5", "answer": "5 +"}
{"id": 6, "gold": "5", "answer": "1/0", "note": {"kept": [1]}}
"#;

const WRITTEN: &str = r#"{"id":1,"gold":"1/2","answer":"0.5","verdict":"right","rule":"exact"}
{"id":2,"gold":"1/3","answer":"0.33","verdict":"wrong","rule":null}
{"gold":"1/3","precision":2,"id":3,"answer":"0.33","verdict":"right","rule":"decimal"}
{"id":4,"gold":24,"answer":25,"verdict":"wrong","rule":null}
{"id":5,"gold":"5","answer":"5 +","verdict":"unparseable","rule":null}
{"id":6,"gold":"5","answer":"1/0","note":{"kept": [1]},"verdict":"undecided","rule":null}
"#;

const COUNTS: &str = "\
right                2   33.3 %
wrong                2   33.3 %
unparseable          1   16.7 %
undecided            1   16.7 %
lines                6  100.0 %
";

#[test]
fn a_batch_writes_each_line_back_and_counts() {
    let harness = Harness::new();
    std::fs::write(harness.path().join("pairs.jsonl"), LINES).unwrap();
    assert_eq!(
        harness.run(&["verify", "--batch", "pairs.jsonl"]),
        format!("exit status: 0\n--- stdout\n{WRITTEN}--- stderr\n{COUNTS}")
    );
    let counts = r#"{"lines":6,"right":2,"wrong":2,"unparseable":1,"undecided":1}"#;
    assert_eq!(
        harness.run(&["verify", "--batch", "pairs.jsonl", "-o", "out.jsonl", "--json"]),
        format!("exit status: 0\n--- stdout\n--- stderr\n{counts}\n")
    );
    assert_eq!(std::fs::read_to_string(harness.path().join("out.jsonl")).unwrap(), WRITTEN);
}

#[test]
fn a_batch_may_come_from_standard_input() {
    use std::io::Write as _;
    let harness = Harness::new();
    let mut command = harness.command(&["verify", "--batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(LINES.as_bytes()).unwrap();
    let shown = show(&child.wait_with_output().unwrap());
    assert_eq!(shown, format!("exit status: 0\n--- stdout\n{WRITTEN}--- stderr\n{COUNTS}"));
}

#[test]
fn many_lines_keep_their_order() {
    let harness = Harness::new();
    let lines: String =
        (0..1_000).map(|it| format!("{{\"gold\": {it}, \"answer\": \"{it}.0\"}}\n")).collect();
    std::fs::write(harness.path().join("pairs.jsonl"), lines).unwrap();
    let output = harness.command(&["verify", "--batch", "pairs.jsonl"]).output().unwrap();
    for (index, line) in String::from_utf8(output.stdout).unwrap().lines().enumerate() {
        let expected = format!(
            "{{\"gold\":{index},\"answer\":\"{index}.0\",\"verdict\":\"right\",\"rule\":\"exact\"}}"
        );
        assert_eq!(line, expected);
    }
}

#[test]
fn lines_come_back_as_they_were_and_half_characters_are_text() {
    let harness = Harness::new();
    let lines = "\u{feff}{\"id\": 123456789012345678901234567890, \"gold\": \"42\", \
                 \"answer\": \"\\ud800 \\\\ud800 \\ud83d\\ude00 \\\\boxed{42}\"}\r\n\n";
    std::fs::write(harness.path().join("pairs.jsonl"), lines).unwrap();
    let shown = harness.run(&["verify", "--batch", "pairs.jsonl"]);
    let written = "{\"id\":123456789012345678901234567890,\"gold\":\"42\",\
                   \"answer\":\"\\ud800 \\\\ud800 \\ud83d\\ude00 \\\\boxed{42}\",\
                   \"verdict\":\"right\",\"rule\":\"exact\"}\n";
    assert!(shown.contains(written), "{shown}");
    let bad =
        "{\"gold\": \"1\", \"answer\": \"1\"}\n".bytes().chain(*b"\xff\n").collect::<Vec<u8>>();
    std::fs::write(harness.path().join("bytes.jsonl"), bad).unwrap();
    let shown = harness.run(&["verify", "--batch", "bytes.jsonl"]);
    assert!(shown.contains("bytes.jsonl, line 2") && shown.contains("not UTF-8"), "{shown}");
}

#[test]
fn a_bad_line_is_told_with_its_place() {
    let bad = [
        ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "not a JSON object"),
        (r#"{"gold": "1"}"#, "field `answer` is missing"),
        (r#"{"gold": [], "answer": "1"}"#, "field `gold`: not a text"),
        (
            r#"{"gold": "1", "answer": "1", "precision": -1}"#,
            "field `precision`: not a number from 0 to 1000",
        ),
        (
            r#"{"gold": "1", "answer": "1", "strict": "no"}"#,
            "field `strict`: neither true nor false",
        ),
    ];
    for (line, problem) in bad {
        let harness = Harness::new();
        let good = "{\"gold\": \"1\", \"answer\": \"1\"}";
        std::fs::write(harness.path().join("pairs.jsonl"), format!("{good}\n{line}\n")).unwrap();
        assert_eq!(
            harness.run(&["verify", "--batch", "pairs.jsonl"]),
            format!(
                "exit status: 2\n--- stdout\n--- stderr\nerror: pairs.jsonl, line 2\n  \
                 caused by: {problem}\n"
            )
        );
    }
}

#[test]
fn a_pair_needs_both_sides() {
    let shown = Harness::new().run(&["verify", "--gold", "1"]);
    assert!(shown.starts_with("exit status: 2") && shown.contains("--answer"), "{shown}");
}
