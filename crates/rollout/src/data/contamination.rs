//! Problems of evaluation sets, to keep out of what is learned from.
//!
//! Two problems are the same problem for this where they share eight words in a row, as the paper
//! has it; words are runs of letters and digits, whatever their case. A problem of fewer words is
//! known only as a whole.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use super::DataError;
use super::reader::{field, messages, text_of};
use crate::rows::{self, Columns, Next};

/// Words in a row that make two problems the same.
const WORDS: usize = 8;

/// Fields in which evaluation sets have their problems, beside the data's own.
const USUAL: [&str; 3] = ["problem", "question", "prompt"];

/// Runs of words of all evaluation problems, as 64-bit hashes.
#[derive(Debug, Default)]
pub(super) struct Known {
    runs: HashSet<u64>,
}

impl Known {
    /// Reads the problems of files, in the field that is named or a usual one.
    pub(super) fn read(paths: &[PathBuf], problem_field: &str) -> Result<Self, DataError> {
        let mut known = Self::default();
        for path in paths {
            rows::each(path, Columns::All, &mut |place, row| {
                let names = [problem_field].into_iter().chain(USUAL);
                let name = names.into_iter().find(|name| field(&row, name).is_some());
                let name = name.unwrap_or(problem_field);
                match messages(&row, name, None) {
                    Ok(messages) => known.runs.extend(runs(&text_of(&messages))),
                    Err(problem) => {
                        let field = name.to_owned();
                        return Err(DataError::Row { place, field, problem });
                    }
                }
                Ok(Next::More)
            })?;
        }
        Ok(known)
    }

    /// Whether a problem is one of theirs.
    pub(super) fn shares_words_with(&self, text: &str) -> bool {
        !self.runs.is_empty() && runs(text).iter().any(|run| self.runs.contains(run))
    }
}

fn runs(text: &str) -> Vec<u64> {
    let text = text.to_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let hash = |words: &[&str]| {
        let mut hasher = DefaultHasher::new();
        words.hash(&mut hasher);
        hasher.finish()
    };
    if words.len() < WORDS { vec![hash(&words)] } else { words.windows(WORDS).map(hash).collect() }
}
