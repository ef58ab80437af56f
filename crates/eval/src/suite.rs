//! Suites: named sets of problems, where their data lies and how they are asked.
//!
//! Hides where each suite's data comes from and in which layouts. Invariants: nothing is downloaded
//! here; every row becomes a problem or an error that names file, row and field; a suite says with
//! which bytes it was made ([`DataFile`]), so that a figure can name them.

mod arena_hard;
mod bfcl;
mod choice;
mod error;
mod files;
mod instructions;
mod known;
mod math;
mod own;
mod practice;
mod prompt;

use std::path::{Path, PathBuf};

use rocstar_verify::Extraction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bfcl::CallsIn;
use crate::problem::Problem;

pub use arena_hard::Version as ArenaHardVersion;
pub use error::SuiteError;
pub use files::{DataFile, SOURCE_FILE, Source, SourceFile};
pub use known::{Data, HubData, HubFile, KNOWN, Known, Where};
pub use prompt::Prompt;

/// Problems, ready to be asked.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Its name, as `gsm8k` or `bfcl-v3/simple`; of a file of one's own, its path.
    pub name: String,
    /// What its answers are scored by.
    pub scorer: Scorer,
    /// How its problems were worded; already applied.
    pub prompt: Prompt,
    /// The problems, in the data's order. A problem's index is its number in draws.
    pub problems: Vec<Problem>,
    /// Problems that the data has, before a limit.
    pub size: usize,
    /// What they were read from, in the order in which it was read; empty where they are made up.
    pub files: Vec<DataFile>,
    /// What became of the rows, where some were left out.
    pub note: Option<String>,
}

/// Kinds of scorers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scorer {
    /// A value, compared by `rocstar-verify`.
    Math,
    /// The letter of a choice.
    Choice,
    /// Instructions that a program checks.
    Instructions,
    /// Calls of functions.
    Calls,
    /// A judging model.
    Judge,
}

/// Where data is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataPlaces {
    /// Folders, in the order in which they are looked at: a folder of one's own, then the one that
    /// `rocstar data fetch` fills.
    pub folders: Vec<PathBuf>,
}

/// How a suite is made of its data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadOptions {
    /// How problems of mathematics and with choices are worded; `None`: as the suite does it. Other
    /// suites are worded by their own data, whatever stands here.
    pub prompt: Option<Prompt>,
    /// How answers are looked for in mathematics; `None`: strict under [`Prompt::RStar2`] and for
    /// `practice`, else lenient.
    pub extraction: Option<Extraction>,
    /// Only the first problems.
    pub limit: Option<usize>,
    /// Shuffles choices, and draws problems that are made up.
    pub seed: u64,
    /// Where calls of functions are looked for.
    pub calls_in: CallsIn,
    /// Which published Arena-Hard is meant.
    pub arena_hard: ArenaHardVersion,
}

/// A suite's problems before the prompt and the limit.
struct Read {
    problems: Vec<Problem>,
    files: Vec<DataFile>,
    note: Option<String>,
}

/// Reads the suite of this name, or the file of problems at this path.
///
/// # Errors
/// No suite is called so, its data is not here, or a row is no problem.
pub fn load(
    name_or_path: &str,
    places: &DataPlaces,
    options: &LoadOptions,
) -> Result<Suite, SuiteError> {
    let part = name_or_path.split_once('/').map(|(_, part)| part);
    let path = Path::new(name_or_path);
    let Some(known) = Known::of(name_or_path) else {
        if !path.exists() && !own::looks_like_a_path(name_or_path) {
            let nearest = Known::nearest(name_or_path).map(str::to_owned);
            return Err(SuiteError::Unknown { name: name_or_path.to_owned(), nearest });
        }
        let prompt = options.prompt.clone().unwrap_or(Prompt::Boxed);
        let read = own::read(path, extraction(options, &prompt, Extraction::Lenient))?;
        return Ok(finish(name_or_path, Scorer::Math, prompt, read, options.limit));
    };
    let prompt = match known.scorer {
        Scorer::Math | Scorer::Choice => {
            options.prompt.clone().unwrap_or_else(|| known.prompt.clone())
        }
        Scorer::Instructions | Scorer::Calls | Scorer::Judge => Prompt::Plain,
    };
    let lenient = || extraction(options, &prompt, Extraction::Lenient);
    if part.is_some() && !matches!(known.data, Data::Calls | Data::MadeUp) {
        return Err(SuiteError::Part { name: name_or_path.to_owned(), parts: String::new() });
    }
    let read = match known.data {
        Data::Problems => math::read(known, places, lenient())?,
        Data::Choices => choice::read(known, places, options.seed)?,
        Data::Instructions => instructions::read(known, places)?,
        Data::Calls => bfcl::read(known, part, places, options.calls_in)?,
        Data::Compared => arena_hard::read(known, places, options.arena_hard)?,
        Data::MadeUp => {
            practice::read(part, options.seed, extraction(options, &prompt, Extraction::Strict))?
        }
    };
    Ok(finish(name_or_path, known.scorer, prompt, read, options.limit))
}

fn extraction(options: &LoadOptions, prompt: &Prompt, otherwise: Extraction) -> Extraction {
    options.extraction.unwrap_or(match prompt {
        Prompt::RStar2 => Extraction::Strict,
        Prompt::Plain | Prompt::Boxed | Prompt::Custom { .. } => otherwise,
    })
}

fn finish(name: &str, scorer: Scorer, prompt: Prompt, read: Read, limit: Option<usize>) -> Suite {
    let size = read.problems.len();
    let kept = read.problems.into_iter().take(limit.unwrap_or(usize::MAX));
    Suite {
        name: name.to_owned(),
        scorer,
        problems: kept.map(|problem| prompt.worded(problem)).collect(),
        prompt,
        size,
        files: read.files,
        note: read.note,
    }
}

impl Suite {
    /// SHA-256 of its data, in hexadecimal: that of its file; over the sums of its files where there
    /// are several; over what is asked and right where it is made up.
    pub fn sha256(&self) -> String {
        match self.files.as_slice() {
            [file] => file.sha256.clone(),
            [] => {
                let mut sum = Sha256::new();
                for Problem { task, .. } in &self.problems {
                    for text in task.messages.iter().map(|message| &message.content) {
                        sum.update(format!("{} {text} {}\n", task.id.0, task.answer));
                    }
                }
                files::hexadecimal(&sum.finalize())
            }
            several => {
                let mut sum = Sha256::new();
                several.iter().for_each(|file| sum.update(format!("{}\n", file.sha256)));
                files::hexadecimal(&sum.finalize())
            }
        }
    }
}

impl Scorer {
    /// The scorer in a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Math => "value",
            Self::Choice => "choice",
            Self::Instructions => "instructions",
            Self::Calls => "calls",
            Self::Judge => "judge",
        }
    }
}
