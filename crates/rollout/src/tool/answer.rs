//! What the policy is told of a program that ran.
//!
//! First what the program printed, then the value of its last expression, as a notebook shows it;
//! then, where it failed, `Type at line N: message` with that line of the program. Nothing is told
//! of time, memory or place: the same program gives the same text.

use rocstar_sandbox::jail::{Outcome, Report, Stream};

/// The answer to a program that ended with this report. `wall_ms` is the limit it ran under.
///
/// Failures of ours have no text: [`Outcome::Infrastructure`] and [`Outcome::Cancelled`] give an
/// empty one, and never reach a policy.
pub fn answer_text(program: &str, report: &Report, wall_ms: u64) -> String {
    let failure = failure(program, &report.outcome, wall_ms);
    let mut parts = vec![report.stdout.text.trim_end_matches('\n').to_owned()];
    parts.extend(report.value.clone());
    parts.push(standard_error(report).to_owned());
    parts.extend(failure);
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { NO_OUTPUT.to_owned() } else { parts.join("\n") }
}

/// What is told of a program that ended well and printed nothing.
const NO_OUTPUT: &str = "The program ended without output.";

/// What the program itself wrote to standard error: the traceback, which the failure's own line
/// stands for, is left out.
fn standard_error(report: &Report) -> &str {
    let text = report.stderr.text.as_str();
    let own = match report.outcome {
        Outcome::Exception { .. } | Outcome::MemoryLimit => {
            let starts = ["Traceback (most recent call last):", "  File \"/tmp/program.py\""];
            let at = starts.iter().filter_map(|start| text.find(start)).min();
            at.map_or(text, |at| &text[..at])
        }
        _ => text,
    };
    own.trim_end_matches('\n')
}

fn failure(program: &str, outcome: &Outcome, wall_ms: u64) -> Option<String> {
    Some(match outcome {
        Outcome::Ok
        | Outcome::Exit { code: 0 }
        | Outcome::Cancelled
        | Outcome::Infrastructure { .. } => return None,
        Outcome::Exception { name, line, message } => exception(program, name, *line, message),
        Outcome::Exit { code } => format!("The program left with exit status {code}."),
        Outcome::Signal { name, .. } => format!("The program was killed by {name}."),
        Outcome::Timeout | Outcome::CpuLimit => {
            format!("Timeout: the program ran longer than {wall_ms} ms and was stopped.")
        }
        Outcome::MemoryLimit => "MemoryError: the program used more memory than it may.".to_owned(),
        Outcome::OutputLimit { stream } => {
            let stream = match stream {
                Stream::Stdout => "standard output",
                Stream::Stderr => "standard error",
            };
            format!("The program was stopped: it wrote too much to {stream}.")
        }
        Outcome::ProcessLimit => {
            "The program failed: no further process or thread is allowed.".to_owned()
        }
        Outcome::FileLimit => "The program failed: a file became too large.".to_owned(),
        Outcome::TmpLimit => "The program failed: its folder is full.".to_owned(),
        Outcome::Denied { what } => format!("The program was stopped: {what} is not allowed."),
    })
}

fn exception(program: &str, name: &str, line: Option<u32>, message: &str) -> String {
    // Python adds the file's name to what it says of syntax.
    let message = match (message.rfind(" (program.py, line "), message.ends_with(')')) {
        (Some(at), true) => &message[..at],
        _ => message,
    };
    let mut text = name.to_owned();
    if let Some(line) = line {
        text += &format!(" at line {line}");
    }
    if !message.is_empty() {
        text += &format!(": {message}");
    }
    let source = line.and_then(|line| program.lines().nth((line as usize).checked_sub(1)?));
    match source.map(str::trim).filter(|source| !source.is_empty()) {
        Some(source) => format!("{text}\n    {source}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_sandbox::jail::Captured;

    use super::*;

    fn report(outcome: Outcome, stdout: &str, stderr: &str) -> Report {
        let captured = |text: &str| Captured { text: text.to_owned(), ..Captured::default() };
        Report {
            stdout: captured(stdout),
            stderr: captured(stderr),
            ..Report::without_run(outcome)
        }
    }

    fn exception(name: &str, line: u32, message: &str) -> Outcome {
        let (name, message) = (name.to_owned(), message.to_owned());
        Outcome::Exception { name, line: Some(line), message }
    }

    #[test]
    fn success_is_what_was_printed_and_the_last_value() {
        let mut ok = report(Outcome::Ok, "a\nb\n", "");
        assert_eq!(answer_text("", &ok, 1), "a\nb");
        ok.value = Some("7".to_owned());
        assert_eq!(answer_text("", &ok, 1), "a\nb\n7");
        let silent = report(Outcome::Exit { code: 0 }, "\n", "");
        assert_eq!(answer_text("", &silent, 1), "The program ended without output.");
        let warned = report(Outcome::Ok, "1\n", "careful\n");
        assert_eq!(answer_text("", &warned, 1), "1\ncareful");
    }

    #[test]
    fn a_failure_is_told_with_its_line() {
        let trace = "hm\nTraceback (most recent call last):\n  File \"/tmp/program.py\", line 2\n";
        let failed = report(exception("NameError", 2, "name 'y' is not defined"), "1\n", trace);
        let text = answer_text("print(1)\n  print(y)", &failed, 1);
        assert_eq!(text, "1\nhm\nNameError at line 2: name 'y' is not defined\n    print(y)");
        let message = "'(' was never closed (program.py, line 1)";
        let failed = report(exception("SyntaxError", 1, message), "", "");
        let text = answer_text("print(1", &failed, 1);
        assert_eq!(text, "SyntaxError at line 1: '(' was never closed\n    print(1");
        let bare = report(exception("ValueError", 9, ""), "", "");
        assert_eq!(answer_text("x", &bare, 1), "ValueError at line 9");
    }

    #[test]
    fn limits_are_told_without_times_of_this_run() {
        let timeout = report(Outcome::Timeout, "so far\n", "");
        let text = answer_text("", &timeout, 500);
        assert_eq!(text, "so far\nTimeout: the program ran longer than 500 ms and was stopped.");
        let left = report(Outcome::Exit { code: 3 }, "", "why\n");
        assert_eq!(answer_text("", &left, 1), "why\nThe program left with exit status 3.");
    }
}
