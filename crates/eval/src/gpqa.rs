//! GPQA: questions with one right answer and three wrong ones, shown as choices in a drawn order.
//!
//! Hides the layout of the published files and where the right answer comes to stand. Invariant: the
//! order of a question's choices depends on seed and the question's number alone, so a problem is
//! the same in every run with the same seed, and every letter is right equally often.

use rocstar_record::draw::{Key, Purpose};
use serde_json::Value;

const QUESTION: &str = "Question";
const CORRECT: &str = "Correct Answer";
const INCORRECT: [&str; 3] = ["Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"];

/// One question as the data have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpqaQuestion {
    /// What is asked.
    pub question: String,
    /// The right answer.
    pub correct: String,
    /// The wrong ones.
    pub incorrect: [String; 3],
}

/// A question with its choices in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpqaProblem {
    /// The question and its choices, as the model is shown them.
    pub text: String,
    /// The right choice's letter, `A` the first.
    pub letter: char,
    /// The choices, `A` first.
    pub choices: Vec<String>,
}

/// A file or row that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{field}` {message}")]
pub struct GpqaError {
    /// Line of the file at which the row starts; 0 for a row that came without a file.
    pub line: u64,
    /// Which field.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl GpqaQuestion {
    /// Reads a file as Idavidrein/gpqa publishes it: comma-separated, with the columns `Question`,
    /// `Correct Answer` and `Incorrect Answer 1` to `3` among others, in any order.
    ///
    /// # Errors
    /// The file is no such table, or a row lacks a field.
    pub fn read_csv(bytes: &[u8]) -> Result<Vec<Self>, GpqaError> {
        let mut reader = csv::Reader::from_reader(bytes);
        let fault = |error: &csv::Error| GpqaError {
            line: error.position().map_or(1, csv::Position::line),
            field: "row".to_owned(),
            message: format!("is no row of comma-separated values: {error}"),
        };
        let headers = reader.headers().map_err(|error| fault(&error))?.clone();
        let place = |name: &str| headers.iter().position(|header| header.trim() == name);
        for name in [QUESTION, CORRECT].into_iter().chain(INCORRECT) {
            if place(name).is_none() {
                return Err(error(1, name, "is no column of the file"));
            }
        }
        let read = |record: Result<csv::StringRecord, csv::Error>| {
            let record = record.map_err(|error| fault(&error))?;
            let line = record.position().map_or(0, csv::Position::line);
            Self::read(line, |name| record.get(place(name)?).map(str::to_owned))
        };
        reader.records().map(read).collect()
    }

    /// Reads a row of a jsonl file with the same names.
    ///
    /// # Errors
    /// A field is missing or blank.
    pub fn from_row(row: &Value) -> Result<Self, GpqaError> {
        Self::read(0, |name| row.get(name)?.as_str().map(str::to_owned))
    }

    fn read(line: u64, field: impl Fn(&str) -> Option<String>) -> Result<Self, GpqaError> {
        let text = |name: &str| {
            let text = field(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
            text.ok_or_else(|| error(line, name, "must be a text that is not blank"))
        };
        let [first, second, third] = INCORRECT;
        let incorrect = [text(first)?, text(second)?, text(third)?];
        let read = Self { question: text(QUESTION)?, correct: text(CORRECT)?, incorrect };
        match read.incorrect.iter().position(|it| *it == read.correct) {
            Some(at) => Err(error(line, INCORRECT[at], "is the same as the correct answer")),
            None => Ok(read),
        }
    }

    /// The question with its choices in the order that is drawn for `seed` and the question's
    /// `number` within its data.
    pub fn shuffled(&self, seed: u64, number: u64) -> GpqaProblem {
        let mut choices: Vec<&String> =
            [&self.correct].into_iter().chain(&self.incorrect).collect();
        let key = Key { task: number, ..Key::new(seed, Purpose::Evaluation) };
        key.at(0).shuffle(&mut choices);
        let lettered: Vec<(char, &String)> = ('A'..).zip(choices).collect();
        let listed: Vec<String> =
            lettered.iter().map(|(letter, choice)| format!("{letter}) {choice}")).collect();
        let text = format!(
            "{}\n\n{}\n\nOne of the choices is right. Give its letter as the final answer.",
            self.question,
            listed.join("\n")
        );
        let right = lettered.iter().find(|(_, choice)| **choice == self.correct);
        let letter = right.map_or('A', |(letter, _)| *letter);
        let choices = lettered.into_iter().map(|(_, choice)| choice.clone()).collect();
        GpqaProblem { text, letter, choices }
    }
}

/// Words before the letter of a choice that say nothing.
const BEFORE: [&str; 12] = [
    "the",
    "correct",
    "right",
    "answer",
    "option",
    "choice",
    "letter",
    "is",
    "so",
    "thus",
    "hence",
    "therefore",
];

/// The letter that `found`, the piece of a response that holds its answer, names: `C`, `(C) Argon`,
/// `\text{C}`, `**option C**`. A small letter does where it is all there is. `None` where it names
/// none of so many choices.
pub fn letter_in(found: &str, choices: usize) -> Option<char> {
    let mut words = found
        .split_inclusive(|it: char| !it.is_alphanumeric() && it != '\\')
        .map(|it| it.trim_end_matches(|it: char| !it.is_alphanumeric()))
        // A command of LaTeX is no word.
        .filter(|it| !it.is_empty() && !it.starts_with('\\'))
        .skip_while(|it| BEFORE.contains(&it.to_ascii_lowercase().as_str()));
    let mut first = words.next()?.chars();
    let (letter, None) = (first.next()?, first.next()) else { return None };
    let stands_alone = words.next().is_none();
    let letter = if stands_alone { letter.to_ascii_uppercase() } else { letter };
    ('A'..='Z').take(choices).find(|it| *it == letter)
}

fn error(line: u64, field: &str, message: &str) -> GpqaError {
    GpqaError { line, field: field.to_owned(), message: message.to_owned() }
}
