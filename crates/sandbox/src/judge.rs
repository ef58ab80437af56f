//! A program and its cases to verdicts.
//!
//! Invariants: the expected output never enters the sandbox; a failure of ours is never a verdict
//! on the program. With `stop_early` the verdicts do not depend on which case ended first: all
//! cases up to the first one, in their order, that fails are judged, and all later ones are
//! skipped, also those that ran beside it.

mod answer;

use std::sync::Arc;

use futures::StreamExt as _;
use rocstar_jail::{InvalidRequest, Kind, Limits, MAX_INPUT_BYTES, MAX_PROGRAM_BYTES, Outcome};
use rocstar_jail::{Report, Request};

use crate::intake::{Intake, check_count, run_program};
use crate::runner::Answers;
use crate::scheduler::Plan;
use crate::submission::Source;
use crate::{AnswerCase, CaseResult, Comparison, Error, JudgeCase, JudgeRequest, Judgement};
use crate::{MAX_PRECISION, Result, Verdict};

/// White space around the expected output that a program may print and still pass.
const SPARE_BYTES: u64 = 64 << 10;

/// A judgement that may be submitted: its cases are its calls.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) source: Source,
    pub(crate) request: Arc<JudgeRequest>,
}

/// Checks a request for a judgement.
pub(crate) fn prepare(request: JudgeRequest, intake: &Intake) -> Result<Prepared, InvalidRequest> {
    check_count("cases", request.cases.len(), intake.queue_calls())?;
    let program = Request { limits: request.limits, ..Request::new(request.program.as_str()) };
    intake.check(&program)?;
    let cases = request.cases.iter().enumerate();
    for (index, case) in cases {
        check_case(case, &request.program, intake).map_err(|(field, problem)| InvalidRequest {
            field: format!("cases[{index}].{field}"),
            problem,
        })?;
    }
    // The cases share one lane, so that they start in their order.
    let mut texts =
        std::iter::once(&request.program).chain(request.cases.iter().filter_map(asserts));
    let scientific = texts.any(|text| Kind::of_program(text) == Kind::Scientific);
    let kind = if scientific { Kind::Scientific } else { Kind::Bare };
    let mut plan = Plan::default();
    for (index, case) in (0_u32..).zip(&request.cases) {
        // The program is held once for all cases.
        let shared_bytes = if index == 0 { request.program.len() } else { 0 };
        plan.add(index, intake.lane(kind), shared_bytes + case_bytes(case));
    }
    intake.check_fits("cases", &plan)?;
    let usual_kept_bytes = intake.usual_kept_bytes();
    let request = Arc::new(request);
    let source: Source = {
        let request = Arc::clone(&request);
        Box::new(move |index| {
            let request = Arc::clone(&request);
            // The program is copied when its case runs, so only as often as cases run at once.
            Some(Box::new(move |jail, control| {
                let call = call_of(&request, index, kind, usual_kept_bytes);
                run_program(call)(jail, control)
            }))
        })
    };
    Ok(Prepared { plan, source, request })
}

fn asserts(case: &JudgeCase) -> Option<&String> {
    match case {
        JudgeCase::Output { .. } | JudgeCase::Answer(_) => None,
        JudgeCase::Asserts { asserts } => Some(asserts),
    }
}

fn case_bytes(case: &JudgeCase) -> usize {
    match case {
        JudgeCase::Output { stdin, expected_stdout } => stdin.len() + expected_stdout.len(),
        JudgeCase::Answer(case) => case.stdin.len() + case.expected_answer.len(),
        JudgeCase::Asserts { asserts } => asserts.len(),
    }
}

/// Checks one case beside the program; the field and what is wrong with it.
fn check_case(
    case: &JudgeCase,
    program: &str,
    intake: &Intake,
) -> Result<(), (&'static str, String)> {
    match case {
        JudgeCase::Output { stdin, expected_stdout } => {
            check_texts(stdin, ("expected_stdout", expected_stdout), intake)
        }
        JudgeCase::Answer(case) => {
            if case.precision > MAX_PRECISION {
                let problem = format!("at most {MAX_PRECISION}, is {}", case.precision);
                return Err(("precision", problem));
            }
            check_texts(&case.stdin, ("expected_answer", &case.expected_answer), intake)
        }
        JudgeCase::Asserts { asserts } => {
            let bytes = program.len() + 1 + asserts.len();
            if bytes > MAX_PROGRAM_BYTES {
                let problem =
                    format!("at most {MAX_PROGRAM_BYTES} bytes with the program, has {bytes}");
                return Err(("asserts", problem));
            }
            let checked = Request::new(asserts.as_str()).validate();
            checked.map_err(|error| ("asserts", error.problem))
        }
    }
}

/// Checks the lengths of an input and of what is expected, which has this name.
fn check_texts(
    stdin: &str,
    (name, expected): (&'static str, &str),
    intake: &Intake,
) -> Result<(), (&'static str, String)> {
    if stdin.len() > MAX_INPUT_BYTES {
        return Err(("stdin", format!("at most {MAX_INPUT_BYTES} bytes, has {}", stdin.len())));
    }
    let most = intake.most_kept_bytes().saturating_sub(SPARE_BYTES);
    if expected.len() as u64 > most {
        return Err((name, format!("at most {most} bytes, has {}", expected.len())));
    }
    Ok(())
}

/// The call that runs one case.
fn call_of(request: &JudgeRequest, index: usize, kind: Kind, usual_kept_bytes: u64) -> Request {
    let call = Request { kind: Some(kind), limits: request.limits, ..Request::default() };
    let (stdin, expected) = match &request.cases[index] {
        JudgeCase::Output { stdin, expected_stdout } => (stdin, expected_stdout),
        JudgeCase::Answer(case) => (&case.stdin, &case.expected_answer),
        JudgeCase::Asserts { asserts } => {
            return Request { program: format!("{}\n{asserts}", request.program), ..call };
        }
    };
    // Enough of the output is kept to compare all of it.
    let asked = request.limits.kept_bytes.unwrap_or(usual_kept_bytes);
    let needed = expected.len() as u64 + SPARE_BYTES;
    let limits = Limits { kept_bytes: Some(asked.max(needed)), ..request.limits };
    let stdin = (!stdin.is_empty()).then(|| stdin.clone().into_bytes());
    Request { program: request.program.clone(), stdin, limits, ..call }
}

/// What a report says about a case.
fn verdict(case: &JudgeCase, report: &Report) -> Verdict {
    match (case, &report.outcome) {
        (_, Outcome::Infrastructure { .. }) => Verdict::Infrastructure,
        (JudgeCase::Output { expected_stdout, .. }, outcome) if outcome.is_success() => {
            match whole_text(report) {
                Some(text) if text.trim() == expected_stdout.trim() => Verdict::Passed,
                _ => Verdict::WrongOutput,
            }
        }
        // A text that can be compared was compared before.
        (JudgeCase::Answer(_), outcome) if outcome.is_success() => Verdict::WrongOutput,
        // An exit with status 0 before the assertions have run is no pass.
        (JudgeCase::Asserts { .. }, Outcome::Ok) => Verdict::Passed,
        (JudgeCase::Asserts { .. }, Outcome::Exception { name, .. })
            if name == "AssertionError" =>
        {
            Verdict::AssertionFailed
        }
        (JudgeCase::Output { .. } | JudgeCase::Answer(_) | JudgeCase::Asserts { .. }, _) => {
            Verdict::Failed
        }
    }
}

/// Standard output, where all of it was kept and it is text.
fn whole_text(report: &Report) -> Option<&str> {
    let stdout = &report.stdout;
    (stdout.cut_bytes == 0 && stdout.base64.is_none()).then_some(stdout.text.as_str())
}

/// A case with what its report says of it.
async fn result(case: &JudgeCase, report: Report) -> CaseResult {
    let compared = match (case, whole_text(&report)) {
        (JudgeCase::Answer(case), Some(text)) if report.outcome.is_success() => {
            compare(case.clone(), text.to_owned()).await
        }
        _ => (verdict(case, &report), None),
    };
    let (verdict, comparison) = compared;
    CaseResult { verdict, report: Some(report), comparison }
}

/// Compares an answer off the runtime's threads, since that is arithmetic.
async fn compare(case: AnswerCase, text: String) -> (Verdict, Option<Comparison>) {
    match tokio::task::spawn_blocking(move || answer::compare(&case, &text)).await {
        Ok((verdict, comparison)) => (verdict, Some(comparison)),
        Err(_) => (Verdict::Infrastructure, None),
    }
}

/// Whether a verdict ends a judgement that stops early. A failure of ours says nothing about the
/// program and ends nothing.
fn ends_early(verdict: Verdict) -> bool {
    match verdict {
        Verdict::WrongOutput | Verdict::AssertionFailed | Verdict::Failed => true,
        Verdict::Passed | Verdict::Undecided | Verdict::Skipped | Verdict::Infrastructure => false,
    }
}

/// Reads the answers of the cases into a judgement.
///
/// # Errors
/// The first error of a case that counts; the rest is given up.
pub(crate) async fn judge(request: &JudgeRequest, mut answers: Answers) -> Result<Judgement> {
    let skipped = || CaseResult { verdict: Verdict::Skipped, report: None, comparison: None };
    let mut cases: Vec<CaseResult> = request.cases.iter().map(|_| skipped()).collect();
    let mut first_failed = usize::MAX;
    while let Some((index, answer)) = answers.next().await {
        if index > first_failed {
            continue;
        }
        let report = crate::Result::<Report>::from(answer)?;
        if report.outcome == Outcome::Cancelled {
            // Nobody cancels a case at or before the first failed one but the service's end.
            return Err(Error::ShuttingDown);
        }
        cases[index] = result(&request.cases[index], report).await;
        if request.stop_early && ends_early(cases[index].verdict) {
            first_failed = index;
            answers.give_up_from(index + 1);
        }
    }
    if let Some(later) = first_failed.checked_add(1) {
        cases[later..].fill_with(skipped);
    }
    let passed = cases.iter().all(|case| case.verdict == Verdict::Passed);
    Ok(Judgement { passed, cases })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::{Captured, Config, Kind, Outcome, Report};

    use super::{call_of, prepare, verdict};
    use crate::intake::Intake;
    use crate::{AnswerCase, JudgeCase, JudgeRequest, Verdict};

    fn output(expected_stdout: &str) -> JudgeCase {
        JudgeCase::Output { stdin: String::new(), expected_stdout: expected_stdout.to_owned() }
    }

    fn asserts(asserts: &str) -> JudgeCase {
        JudgeCase::Asserts { asserts: asserts.to_owned() }
    }

    fn report(outcome: Outcome, stdout: &str) -> Report {
        let stdout = Captured {
            text: stdout.to_owned(),
            total_bytes: stdout.len() as u64,
            ..Captured::default()
        };
        Report { stdout, ..Report::without_run(outcome) }
    }

    fn exception(name: &str) -> Outcome {
        Outcome::Exception { name: name.to_owned(), line: None, message: String::new() }
    }

    #[test]
    fn output_passes_when_equal_but_for_surrounding_space() {
        for (stdout, expected) in [
            ("4\n", Verdict::Passed),
            ("\n 4", Verdict::Passed),
            ("4 4", Verdict::WrongOutput),
            ("", Verdict::WrongOutput),
        ] {
            assert_eq!(verdict(&output("4"), &report(Outcome::Ok, stdout)), expected, "{stdout:?}");
        }
        let exit = |code| report(Outcome::Exit { code }, "4");
        assert_eq!(verdict(&output("4"), &exit(0)), Verdict::Passed);
        assert_eq!(verdict(&output("4"), &exit(1)), Verdict::Failed);
        assert_eq!(verdict(&output("4"), &report(Outcome::Timeout, "4")), Verdict::Failed);
    }

    #[test]
    fn output_that_was_cut_or_is_not_text_does_not_pass() {
        let mut cut = report(Outcome::Ok, "4");
        cut.stdout.cut_bytes = 1;
        assert_eq!(verdict(&output("4"), &cut), Verdict::WrongOutput);
        let mut bytes = report(Outcome::Ok, "\\xff");
        bytes.stdout.base64 = Some("/w==".to_owned());
        assert_eq!(verdict(&output("\\xff"), &bytes), Verdict::WrongOutput);
    }

    #[test]
    fn asserts_pass_only_at_the_end_of_the_program() {
        let case = asserts("assert f() == 1");
        for (outcome, expected) in [
            (Outcome::Ok, Verdict::Passed),
            (Outcome::Exit { code: 0 }, Verdict::Failed),
            (exception("AssertionError"), Verdict::AssertionFailed),
            (exception("NameError"), Verdict::Failed),
            (Outcome::MemoryLimit, Verdict::Failed),
            (Outcome::Infrastructure { cause: String::new() }, Verdict::Infrastructure),
        ] {
            assert_eq!(verdict(&case, &report(outcome.clone(), "")), expected, "{outcome:?}");
        }
    }

    fn request(program: &str, cases: Vec<JudgeCase>) -> JudgeRequest {
        JudgeRequest {
            program: program.to_owned(),
            cases,
            stop_early: false,
            limits: Default::default(),
        }
    }

    #[test]
    fn the_expected_output_is_no_part_of_the_call() {
        let answer = JudgeCase::Answer(AnswerCase::new("the secret"));
        let request = request("print(4)", vec![output("the secret"), answer]);
        for index in 0..2 {
            let call = call_of(&request, index, Kind::Bare, 0);
            assert!(!format!("{call:?}").contains("secret"), "{call:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_case_and_its_field() {
        let intake = Intake::new(Config::default(), true, 65_536, 1 << 30);
        let refusal = |request| prepare(request, &intake).err().expect("refused").field;
        assert_eq!(refusal(request("1", vec![])), "cases");
        assert_eq!(refusal(request("\0", vec![output("")])), "program");
        assert_eq!(refusal(request("1", vec![output(""), asserts("\0")])), "cases[1].asserts");
        let long = output(&"1".repeat(17 << 20));
        assert_eq!(refusal(request("1", vec![long])), "cases[0].expected_stdout");
        let precise = AnswerCase { precision: 1_001, ..AnswerCase::new("1") };
        let precise = JudgeCase::Answer(precise);
        assert_eq!(refusal(request("1", vec![precise])), "cases[0].precision");
    }
}
