//! A file of one's own: lines of JSON or a parquet table with `problem`, `answer` and perhaps `id`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_rollout::data::{self, TaskOptions};
use rocstar_verify::Extraction;

use super::files;
use super::{Read, SuiteError};
use crate::problem::{Gold, Problem};

/// Whether a person who wrote this meant a file.
pub(super) fn looks_like_a_path(text: &str) -> bool {
    let path = Path::new(text);
    let is_data = |extension| ["jsonl", "ndjson", "parquet", "json", "csv"].contains(&extension);
    path.extension().and_then(|extension| extension.to_str()).is_some_and(is_data)
        || text.starts_with(['/', '.', '~'])
}

pub(super) fn read(path: &Path, extraction: Extraction) -> Result<Read, SuiteError> {
    let options = TaskOptions { paths: vec![PathBuf::from(path)], ..TaskOptions::default() };
    let tasks = data::read(&options)?;
    let note = (tasks.counts.used < tasks.counts.rows).then(|| tasks.counts.to_string());
    let problem = |task: rocstar_rollout::Task| {
        let gold = Gold::Math { answer: task.answer.clone(), extraction };
        Problem { task: Arc::new(task), gold }
    };
    let problems = tasks.tasks.into_iter().map(problem).collect();
    Ok(Read { problems, files: vec![files::data_file(path, None)?], note })
}
