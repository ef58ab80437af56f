//! Reads what an attack's program said and how it ended, and decides whether it was held.
//!
//! Pure. Invariant: no `Held` without a line in which the program itself says that it tried.

use rocstar_jail::{Outcome, Report};

use crate::{Error, Result};

/// What must be seen for an attack to count as held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// The program ends well and says `HELD`.
    Held,
    /// It dies of a trapped system call with this name.
    Denied(&'static str),
    /// It says what it tries, and ends by one of these outcomes (names of [`Outcome::name`]).
    Ends(&'static [&'static str]),
    /// Either of both.
    HeldOrEnds(&'static [&'static str]),
    /// It says what it tries, and dies of this signal.
    Signal(i32),
    /// The request is refused, naming this field.
    Refused(&'static str),
    /// Whatever happens to the program or its session; the service is what counts.
    Survived,
    /// A look of our own at the report: what was seen, or what is wrong.
    Seen(fn(&Report) -> std::result::Result<String, String>),
}

/// Whether an attack was held, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Held(String),
    Broken(String),
    /// The program said that it means nothing on this machine.
    Skipped(String),
}

/// Decides one call.
pub(super) fn judge(expected: &Expected, result: &Result<Report>) -> Verdict {
    match (expected, result) {
        (Expected::Refused(field), Err(error)) => judge_refusal(field, error),
        (Expected::Survived, Err(Error::NoSession { .. } | Error::Jail(_))) => {
            Verdict::Held("the session ended, and only it".to_owned())
        }
        (_, Err(error)) => Verdict::Broken(format!("no report: {error}")),
        (Expected::Refused(field), Ok(report)) => {
            Verdict::Broken(format!("`{field}` was accepted: {}", report.outcome.name()))
        }
        (_, Ok(report)) => judge_report(expected, report),
    }
}

fn judge_refusal(field: &str, error: &Error) -> Verdict {
    // Over HTTP the field stands in the text of the answer.
    let text = error.to_string();
    if text.contains(field) { Verdict::Held(text) } else { Verdict::Broken(text) }
}

fn judge_report(expected: &Expected, report: &Report) -> Verdict {
    let said = |kind: &str| lines(report, kind).collect::<Vec<_>>().join("\n");
    let (broken, tried) = (said("BROKEN"), said("TRIED"));
    if !broken.is_empty() {
        return Verdict::Broken(broken);
    }
    if let Outcome::Infrastructure { .. } | Outcome::Cancelled = report.outcome {
        if matches!(expected, Expected::Survived) && !tried.is_empty() {
            return Verdict::Held(describe(report));
        }
        return Verdict::Broken(describe(report));
    }
    if let Some(reason) = lines(report, "SKIP").next() {
        return Verdict::Skipped(reason.to_owned());
    }
    let held_by_itself = report.outcome.is_success() && !said("HELD").is_empty();
    let ended_by = |names: &[&str]| names.contains(&report.outcome.name()) && !tried.is_empty();
    let held = match expected {
        Expected::Held => held_by_itself,
        Expected::Denied(call) => {
            matches!(&report.outcome, Outcome::Denied { what } if what == call) && !tried.is_empty()
        }
        Expected::Ends(names) => ended_by(names),
        Expected::HeldOrEnds(names) => held_by_itself || ended_by(names),
        Expected::Signal(wanted) => {
            matches!(&report.outcome, Outcome::Signal { number, .. } if number == wanted)
                && !tried.is_empty()
        }
        Expected::Survived => !tried.is_empty(),
        Expected::Refused(_) => false,
        Expected::Seen(look) => {
            return look(report).map_or_else(Verdict::Broken, Verdict::Held);
        }
    };
    if held {
        let facts = [describe(report), tried, said("HELD")];
        Verdict::Held(facts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n"))
    } else {
        Verdict::Broken(format!(
            "ended another way: {}\n{}\n{}",
            describe(report),
            report.stdout.text,
            report.stderr.text
        ))
    }
}

/// What follows `kind: ` in the lines of standard output.
fn lines<'a>(report: &'a Report, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let marked = report.stdout.text.lines();
    marked.filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(": "))
}

/// The outcome in a few words.
pub(super) fn describe(report: &Report) -> String {
    let name = report.outcome.name();
    match &report.outcome {
        Outcome::Exception { name: class, message, .. } => format!("{name} {class}: {message}"),
        Outcome::Exit { code } => format!("{name} {code}"),
        Outcome::Signal { name: signal, .. } => format!("{name} {signal}"),
        Outcome::OutputLimit { stream } => format!("{name} of {stream:?}"),
        Outcome::Denied { what } => format!("{name}: {what}"),
        Outcome::Infrastructure { cause } => format!("{name}: {cause}"),
        Outcome::Ok
        | Outcome::Timeout
        | Outcome::CpuLimit
        | Outcome::MemoryLimit
        | Outcome::ProcessLimit
        | Outcome::FileLimit
        | Outcome::TmpLimit
        | Outcome::Cancelled => name.to_owned(),
    }
}

/// How many pairs of reports have `WINDOW: begin end` lines that overlap.
pub(super) fn overlaps(reports: &[&Report]) -> usize {
    let window = |report: &&Report| {
        let (begin, end) = lines(report, "WINDOW").next()?.split_once(' ')?;
        Some((begin.parse::<u64>().ok()?, end.parse::<u64>().ok()?))
    };
    let windows: Vec<(u64, u64)> = reports.iter().filter_map(window).collect();
    let later = |index: usize| windows.get(index + 1..).unwrap_or_default();
    let pairs = windows.iter().enumerate().flat_map(|(index, one)| {
        later(index).iter().filter(move |other| one.0 < other.1 && other.0 < one.1)
    });
    pairs.count()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::{Captured, InvalidRequest};

    use super::*;

    fn report(outcome: Outcome, stdout: &str) -> Report {
        let stdout = Captured { text: stdout.to_owned(), ..Captured::default() };
        Report { stdout, ..Report::without_run(outcome) }
    }

    fn holds(expected: Expected, outcome: Outcome, stdout: &str) -> bool {
        matches!(judge(&expected, &Ok(report(outcome, stdout))), Verdict::Held(_))
    }

    #[test]
    fn nothing_is_held_without_evidence() {
        let denied = || Outcome::Denied { what: "mount".to_owned() };
        assert!(holds(Expected::Held, Outcome::Ok, "HELD: x\n"));
        assert!(!holds(Expected::Held, Outcome::Ok, ""), "silence");
        assert!(!holds(Expected::Held, Outcome::Exit { code: 1 }, "HELD: x\n"), "a failure");
        assert!(!holds(Expected::Held, Outcome::Ok, "HELD: x\nBROKEN: y\n"), "one hole");
        assert!(holds(Expected::Denied("mount"), denied(), "TRIED: mount\n"));
        assert!(!holds(Expected::Denied("mount"), denied(), ""), "not tried");
        assert!(!holds(Expected::Denied("bpf"), denied(), "TRIED: bpf\n"), "another call");
        assert!(holds(Expected::Ends(&["timeout"]), Outcome::Timeout, "TRIED: x\n"));
        assert!(!holds(Expected::Ends(&["timeout"]), Outcome::Ok, "TRIED: x\n"), "another end");
        let failed = Outcome::Infrastructure { cause: "x".to_owned() };
        assert!(!holds(Expected::Ends(&["infrastructure"]), failed, "TRIED: x\n"), "our failure");
    }

    #[test]
    fn a_refusal_names_the_field() {
        let error = |field: &str| {
            let (field, problem) = (field.to_owned(), "must not hold `..`".to_owned());
            Err(Error::Invalid(InvalidRequest { field, problem }))
        };
        let expected = Expected::Refused("files[0].path");
        assert!(matches!(judge(&expected, &error("files[0].path")), Verdict::Held(_)));
        assert!(matches!(judge(&expected, &error("program")), Verdict::Broken(_)));
        let accepted = Ok(report(Outcome::Ok, "HELD: x\n"));
        assert!(matches!(judge(&expected, &accepted), Verdict::Broken(_)));
    }

    #[test]
    fn overlapping_windows_are_counted_in_pairs() {
        let reports = ["WINDOW: 0 10", "WINDOW: 5 15", "WINDOW: 12 20", "no window"]
            .map(|text| report(Outcome::Ok, text));
        assert_eq!(overlaps(&reports.iter().collect::<Vec<_>>()), 2);
    }
}
