//! Problems that are made up: those that the quickstart holds out. No data is needed.

use std::sync::Arc;

use rocstar_rollout::practice::{self, Split};
use rocstar_verify::Extraction;

use super::{Read, SuiteError};
use crate::problem::{Gold, Problem};

/// How many there are unless the name says otherwise.
pub(super) const PROBLEMS: usize = 200;
/// How many there may be.
const MOST: usize = 100_000;

/// `part` is how many.
pub(super) fn read(
    part: Option<&str>,
    seed: u64,
    extraction: Extraction,
) -> Result<Read, SuiteError> {
    let count = match part {
        None => PROBLEMS,
        Some(part) => match part.parse() {
            Ok(count) if (1..=MOST).contains(&count) => count,
            _ => {
                let name = format!("practice/{part}");
                let parts = format!("`practice` and `practice/N`, N from 1 to {MOST}");
                return Err(SuiteError::Part { name, parts });
            }
        },
    };
    let problem = |task: rocstar_rollout::Task| {
        let gold = Gold::Math { answer: task.answer.clone(), extraction };
        Problem { task: Arc::new(task), gold }
    };
    let problems = practice::tasks(count, seed, Split::HeldOut).into_iter().map(problem).collect();
    Ok(Read { problems, files: Vec::new(), note: None })
}
