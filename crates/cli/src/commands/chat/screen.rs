//! A reply as it is seen: the model's text on standard output, its calls on standard error.
//!
//! Invariant: a call is shown with its program when it leaves, and with its result and cost when it
//! is answered; what the two streams show together on a terminal reads from top to bottom.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};
use rocstar_record::episode::Finish;
use rocstar_record::message::{Arguments, ToolCall};
use rocstar_rollout::{Answered, Heard, Reply};

use crate::quantity::show_size;
use crate::terminal::{Terminal, plain};

const FRAME: Style = AnsiColor::Cyan.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
const COST: Style = Style::new().dimmed();

/// Longest result that is shown, in lines; the model may have seen more.
const MOST_LINES: usize = 40;

/// Shows one reply while it comes.
pub(super) struct Screen {
    terminal: Terminal,
    is_silent: bool,
    /// Whether the text so far ends within a line.
    in_line: bool,
    /// The first failure to write: what is heard after it is not shown.
    failure: Option<anyhow::Error>,
}

impl Screen {
    /// `is_silent` where the reply is printed as JSON when it is whole.
    pub(super) const fn new(terminal: Terminal, is_silent: bool) -> Self {
        Self { terminal, is_silent, in_line: false, failure: None }
    }

    /// Shows a part of the reply.
    pub(super) fn hear(&mut self, heard: &Heard<'_>) {
        if self.is_silent || self.failure.is_some() {
            return;
        }
        match heard {
            Heard::Text(text) => self.text(text),
            Heard::Again => {
                self.end_line();
                self.terminal.note("the answer broke off; asked again");
            }
            Heard::Called(call) => {
                self.end_line();
                self.framed(&format!("┌ {}", call.name), &program(call), FRAME);
            }
            Heard::Answered(_, answer) => self.answered(answer),
            Heard::NotRun(call) => {
                self.end_line();
                self.framed("┌ a call that was not run", call.told(), FAILED);
                self.terminal.note(format_args!("{FAILED}└{FAILED:#}"));
            }
        }
    }

    /// Ends the last line.
    ///
    /// # Errors
    /// Standard output couldn't be written.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.end_line();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn text(&mut self, text: &str) {
        let written = if std::io::stdout().is_terminal() {
            self.terminal.data(plain(text).as_bytes())
        } else {
            self.terminal.data(text.as_bytes())
        };
        if let Err(error) = written {
            self.failure = Some(error);
        }
        self.in_line = if text.is_empty() { self.in_line } else { !text.ends_with('\n') };
    }

    fn end_line(&mut self) {
        if self.in_line {
            self.text("\n");
        }
    }

    fn answered(&self, answer: &Answered) {
        let failed = answer.outcome.is_failure();
        let style = if failed { FAILED } else { FRAME };
        let outcome = if failed { format!("{} · ", answer.outcome) } else { String::new() };
        self.framed("├ result", &answer.text, style);
        let memory = answer.memory_bytes.map(|bytes| format!(" · {}", show_size(bytes)));
        self.terminal.note(format_args!(
            "{style}└{style:#} {COST}{}{:.1} ms wall · {:.1} ms CPU{}{COST:#}",
            plain(&outcome),
            answer.wall_us as f64 / 1e3,
            answer.cpu_us as f64 / 1e3,
            memory.unwrap_or_default(),
        ));
    }

    fn framed(&self, title: &str, text: &str, style: Style) {
        self.terminal.note(format_args!("{style}{}{style:#}", plain(title)));
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for line in lines.iter().take(MOST_LINES) {
            self.terminal.note(format_args!("{style}│{style:#} {}", plain(line)));
        }
        if lines.len() > MOST_LINES {
            let more = lines.len() - MOST_LINES;
            self.terminal.note(format_args!("{style}│{style:#} {COST}… {more} more lines{COST:#}"));
        }
    }
}

/// The program of a call, or its arguments where it has none.
fn program(call: &ToolCall) -> String {
    match &call.arguments {
        Arguments::Object(arguments) => match arguments.get("code") {
            Some(serde_json::Value::String(code)) => code.clone(),
            _ => call.arguments.to_text(),
        },
        Arguments::Text(text) => text.clone(),
    }
}

/// One line of what a reply took.
pub(super) fn note_end(terminal: Terminal, reply: &Reply, seed: u64) {
    let seconds = reply.timing.total_us as f64 / 1e6;
    let tokens = reply.policy_tokens.map(|tokens| {
        let generating = (reply.timing.generating_us as f64 / 1e6).max(1e-6);
        format!(" · {tokens} tokens, {:.1} a second", tokens as f64 / generating)
    });
    let calls = match reply.calls.len() {
        0 => String::new(),
        1 => " · 1 call".to_owned(),
        calls => format!(" · {calls} calls"),
    };
    let cut = match reply.finish {
        Finish::Done => "",
        Finish::TurnLimit => " · cut off: the last turn called a tool",
        Finish::TokenLimit => " · cut off: `--response-tokens` was reached",
        Finish::ContextLimit => " · cut off: the model's context is full",
        Finish::ToolAnswerTooLong => " · cut off: the tool's answer left no room",
    };
    let tokens = tokens.unwrap_or_default();
    terminal.note(format_args!("{COST}{seconds:.1} s{tokens}{calls} · seed {seed}{cut}{COST:#}"));
}
