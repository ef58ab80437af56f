//! What the person types: messages of one or several lines, with a history, and a few commands.
//!
//! Invariant: a message arrives as it was typed, its continuation marks apart; the history is the
//! person's own file, and one that can't be read or written is done without.
//! Prompt and typing go to the terminal itself, also where standard output goes elsewhere.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Cmd, Config, Editor, Helper, KeyCode, KeyEvent, Modifiers};

use crate::python::cache_directory;

/// How to use it.
pub(super) const HELP: &str = "\
Type a message. Alt-Enter or a `\\` at a line's end begins another line; so does all between `\"\"\"`.\n\
/new forgets the conversation, /help shows this, /quit or Ctrl-D leaves. Ctrl-C stops a reply.";

const PROMPT: &str = "you> ";
const FENCE: &str = "\"\"\"";
const HISTORY: &str = "chat_history";

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Something to say.
    Message(String),
    /// Forget the conversation.
    New,
    /// Show the help.
    Help,
    /// Begins like a command and is none.
    Unknown(String),
    /// Enough.
    Leave,
}

/// The person's lines.
pub(super) struct Lines {
    editor: Editor<Continued, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It can't be had.
    pub(super) fn open() -> anyhow::Result<Self> {
        // The prompt belongs to the person and not to redirected data.
        let config = Config::builder().behavior(Behavior::PreferTerm).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Continued));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let history = cache_directory().ok().map(|folder| folder.join(HISTORY));
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// What is typed next.
    ///
    /// # Errors
    /// The terminal fails.
    pub(super) fn next(&mut self) -> anyhow::Result<Input> {
        loop {
            let line = match self.editor.readline(PROMPT) {
                Ok(line) => line,
                // An empty line is begun.
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(Input::Leave),
                Err(error) => return Err(error.into()),
            };
            if line.trim().is_empty() {
                continue;
            }
            self.remember(&line);
            return Ok(read(&line));
        }
    }

    fn remember(&mut self, line: &str) {
        let added = self.editor.add_history_entry(line).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| added) {
            // Talking works without a history as well.
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = self.editor.append_history(path);
        }
    }
}

/// The message or command of what was typed.
fn read(line: &str) -> Input {
    match line.trim() {
        "/new" => return Input::New,
        "/help" => return Input::Help,
        "/quit" | "/exit" => return Input::Leave,
        command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
            return Input::Unknown(command.to_owned());
        }
        _ => {}
    }
    let trimmed = line.trim();
    let fenced = trimmed.strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE));
    Input::Message(match fenced {
        Some(inner) => inner.trim_matches('\n').to_owned(),
        None => line.replace("\\\n", "\n"),
    })
}

/// Whether another line belongs to what was typed.
fn goes_on(line: &str) -> bool {
    let is_fenced = line.trim_start().starts_with(FENCE);
    let fence_is_open = is_fenced && line.matches(FENCE).count() < 2;
    fence_is_open || (!is_fenced && line.ends_with('\\'))
}

/// Knows where a message ends.
struct Continued;

impl Validator for Continued {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = goes_on(context.input());
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for Continued {
    type Candidate = String;
}
impl Hinter for Continued {
    type Hint = String;
}
impl Highlighter for Continued {}
impl Helper for Continued {}

#[cfg(test)]
mod tests {
    use super::{Input, goes_on, read};

    #[test]
    fn a_message_ends_where_the_person_ends_it() {
        for (line, expected) in [
            ("one", false),
            ("one\\", true),
            ("one\\\ntwo", false),
            ("\"\"\"one", true),
            ("\"\"\"one\\", true),
            ("\"\"\"one\ntwo\"\"\"", false),
            ("say \"\"\" once", false),
        ] {
            assert_eq!(goes_on(line), expected, "{line:?}");
        }
    }

    #[test]
    fn marks_of_continuation_are_no_part_of_a_message() {
        let message = |text: &str| Input::Message(text.to_owned());
        assert_eq!(read("one\\\ntwo"), message("one\ntwo"));
        assert_eq!(read("\"\"\"\n one\ntwo\n\"\"\""), message(" one\ntwo"));
        assert_eq!(read("a / b"), message("a / b"));
        assert_eq!(read("/usr/bin is a folder"), message("/usr/bin is a folder"));
    }

    #[test]
    fn commands_are_told_from_messages() {
        assert_eq!(read(" /new "), Input::New);
        assert_eq!(read("/quit"), Input::Leave);
        assert_eq!(read("/nwe"), Input::Unknown("/nwe".to_owned()));
    }
}
