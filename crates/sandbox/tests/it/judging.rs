//! Programs and cases to verdicts.

use pretty_assertions::assert_eq;
use rocstar_sandbox::Verdict::{AssertionFailed, Failed, Passed, Skipped, WrongOutput};
use rocstar_sandbox::{AnswerCase, JudgeCase, JudgeRequest, LocalSandbox, Sandbox as _, Verdict};

use crate::{client, small, start, until};

const DOUBLE: &str = "print(2 * int(input()))";

fn output(stdin: &str, expected_stdout: &str) -> JudgeCase {
    JudgeCase::Output { stdin: stdin.to_owned(), expected_stdout: expected_stdout.to_owned() }
}

fn asserts(asserts: &str) -> JudgeCase {
    JudgeCase::Asserts { asserts: asserts.to_owned() }
}

async fn verdicts(
    sandbox: &LocalSandbox,
    program: &str,
    cases: Vec<JudgeCase>,
    stop_early: bool,
) -> Vec<Verdict> {
    let limits = Default::default();
    let request = JudgeRequest { program: program.to_owned(), cases, stop_early, limits };
    let judgement = sandbox.judge(&client("a"), request).await.unwrap();
    let verdicts: Vec<_> = judgement.cases.iter().map(|case| case.verdict).collect();
    assert_eq!(judgement.passed, verdicts.iter().all(|verdict| *verdict == Passed));
    for case in &judgement.cases {
        assert_eq!(case.report.is_none(), case.verdict == Skipped);
    }
    verdicts
}

#[tokio::test]
async fn outputs_are_compared_case_by_case() {
    let Some(sandbox) = start(small()) else { return };
    let cases =
        vec![output("1\n", "2"), output("2\n", "5"), output("x\n", ""), output("4\n", "8\n")];
    let all = verdicts(&sandbox, DOUBLE, cases, false).await;
    assert_eq!(all, [Passed, WrongOutput, Failed, Passed]);
}

#[tokio::test]
async fn answers_are_compared_as_mathematics() {
    let Some(sandbox) = start(small()) else { return };
    let answer = |stdin: &str, expected: &str| {
        JudgeCase::Answer(AnswerCase { stdin: stdin.to_owned(), ..AnswerCase::new(expected) })
    };
    let cases = vec![answer("1\n", r"\frac{4}{2}"), answer("12\n", "2400"), answer("x\n", "2")];
    assert_eq!(verdicts(&sandbox, DOUBLE, cases, false).await, [Passed, WrongOutput, Failed]);
}

#[tokio::test]
async fn assertions_run_after_the_program() {
    let Some(sandbox) = start(small()) else { return };
    let program = "def double(x): return 2 * x";
    let cases = vec![
        asserts("assert double(1) == 2"),
        asserts("assert double(1) == 3"),
        asserts("triple(1)"),
    ];
    assert_eq!(verdicts(&sandbox, program, cases, false).await, [Passed, AssertionFailed, Failed]);
    let program = "import os\nos._exit(0)";
    assert_eq!(verdicts(&sandbox, program, vec![asserts("assert False")], false).await, [Failed]);
}

#[tokio::test]
async fn stopping_early_skips_and_frees_the_later_cases() {
    let Some(sandbox) = start(small()) else { return };
    // Case 1 fails at once; all later ones would run for ever.
    let program = "x = input()\nwhile x == 'loop': pass\nprint(x)";
    let mut cases = vec![output("a", "a"), output("b", "no")];
    cases.extend((0..100).map(|_| output("loop", "loop")));
    let all = verdicts(&sandbox, program, cases, true).await;
    assert_eq!(all[..2], [Passed, WrongOutput]);
    assert!(all[2..].iter().all(|verdict| *verdict == Skipped));
    let stats = until(&sandbox, |stats| stats.running == 0).await;
    assert_eq!((stats.accepted, stats.answered, stats.cancelled), (102, 2, 100));
}

#[tokio::test]
async fn a_long_expected_output_is_compared_whole() {
    let Some(sandbox) = start(small()) else { return };
    let program = "print('x' * 300_000 + input())";
    let long = "x".repeat(300_000);
    let cases = vec![output("a", &format!("{long}a")), output("b", &format!("{long}a"))];
    assert_eq!(verdicts(&sandbox, program, cases, false).await, [Passed, WrongOutput]);
}
