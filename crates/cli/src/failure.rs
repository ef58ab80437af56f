//! How an error reaches the person: the one renderer of `error: …` and `hint: …`, and the exit
//! status.
//!
//! Invariant: every command fails through here, so each failure shows its whole chain of causes,
//! then what to do about it. Hints come from two places: [`HintExt::hint`], where the advice is
//! known when the error is made, and the causes of other crates that this module recognises. What a
//! server or a file put into a message can't steer the terminal.

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::terminal::plain;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// How a command that did not fail itself came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// All is well: exit status 0.
    Good,
    /// The work was done and what it found is bad (a program that raised, an attack that got
    /// through). The command has said so already: exit status 1.
    Bad,
}

impl Finish {
    /// `Good` if `good`.
    pub(crate) const fn from_good(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

/// The command was used wrongly, in a way that the argument parser can't see: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUse(pub(crate) String);

impl WrongUse {
    /// An error of this kind, ready to return.
    pub(crate) fn error(message: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(message.into()))
    }
}

/// Standard output was closed by its reader: `rocstar … | head` has what it wanted.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct ClosedOutput;

/// A link of the chain that carries advice and says nothing itself: the renderer skips it.
#[derive(Debug)]
struct Hinted {
    hint: String,
    source: anyhow::Error,
}

impl fmt::Display for Hinted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

impl Error for Hinted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// Adds advice to an error.
pub(crate) trait HintExt {
    /// Adds a `hint:` line, shown after the chain of causes.
    fn hint(self, hint: impl Into<String>) -> Self;
}

impl HintExt for anyhow::Error {
    fn hint(self, hint: impl Into<String>) -> Self {
        Self::new(Hinted { hint: hint.into(), source: self })
    }
}

impl<T> HintExt for anyhow::Result<T> {
    fn hint(self, hint: impl Into<String>) -> Self {
        self.map_err(|error| error.hint(hint))
    }
}

/// Writes what went wrong, if anything, to standard error and gives the exit status.
pub(crate) fn conclude(result: anyhow::Result<Finish>) -> ExitCode {
    let error = match result {
        Ok(Finish::Good) => return ExitCode::SUCCESS,
        Ok(Finish::Bad) => return ExitCode::from(1),
        Err(error) => error,
    };
    if error.chain().any(|cause| cause.is::<ClosedOutput>()) {
        return ExitCode::SUCCESS;
    }
    show(&error);
    ExitCode::from(if error.chain().any(|cause| cause.is::<WrongUse>()) { 2 } else { 1 })
}

/// Writes an error that doesn't end the command to standard error.
pub(crate) fn show(error: &anyhow::Error) {
    // Where even standard error is gone, nobody is left to tell.
    let _ = anstream::stderr().write_all(render(error).as_bytes());
}

fn render(error: &anyhow::Error) -> String {
    let mut messages: Vec<String> = Vec::new();
    let mut hints: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            hints.push(hinted.hint.clone());
            continue;
        }
        hints.extend(known_hint(cause).map(str::to_owned));
        let message = plain(&cause.to_string()).into_owned();
        // A transparent wrapper says the same as its source.
        if messages.last() != Some(&message) {
            messages.push(message);
        }
    }
    hints.dedup();
    let mut text = String::new();
    for (index, message) in messages.iter().enumerate() {
        text += &if index == 0 {
            format!("{ERROR}error{ERROR:#}: {}\n", message.trim_end())
        } else {
            format!("  caused by: {}\n", message.trim_end())
        };
    }
    for hint in hints {
        text += &format!("{HINT}hint{HINT:#}: {hint}\n");
    }
    text
}

/// Advice on causes that are made where nobody knows the command line.
fn known_hint(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<rocstar_jail::Error>() {
        return jail_hint(error);
    }
    if let Some(rocstar_sandbox::Error::Jail(error)) = cause.downcast_ref() {
        return jail_hint(error);
    }
    let error = cause.downcast_ref::<std::io::Error>()?;
    (error.kind() == std::io::ErrorKind::AddrInUse)
        .then_some("another program listens there; choose another port")
}

fn jail_hint(error: &rocstar_jail::Error) -> Option<&'static str> {
    match error {
        rocstar_jail::Error::Isolation { .. } => Some(
            "`rocstar doctor` shows each layer with a fix; `--allow-degraded` goes on without, \
             and marks every result `degraded`",
        ),
        rocstar_jail::Error::Python { .. } => Some(
            "choose an interpreter with `--python PATH`, or build one with `rocstar sandbox setup`",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::{HintExt as _, WrongUse, render};

    #[test]
    fn what_others_wrote_steers_no_terminal() {
        let error = WrongUse::error("the server says \u{1b}]0;owned\u{7}\nno");
        let text = anstream::adapter::strip_str(&render(&error)).to_string();
        assert_eq!(text, "error: the server says ·]0;owned·\nno\n");
    }

    #[test]
    fn shows_the_chain_then_the_hints() {
        let error = Err::<(), _>(WrongUse::error("`x` is not a number"))
            .hint("give a number")
            .context("can't read `--set a=x`")
            .hint("see `rocstar sandbox serve --dry-run`")
            .unwrap_err();
        let text = anstream::adapter::strip_str(&render(&error)).to_string();
        assert_eq!(
            text,
            "error: can't read `--set a=x`\n  caused by: `x` is not a number\n\
             hint: see `rocstar sandbox serve --dry-run`\nhint: give a number\n"
        );
    }
}
