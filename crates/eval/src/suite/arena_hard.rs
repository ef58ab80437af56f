//! Prompts of users with the answers of the model that all others are compared with, in the layouts
//! of lmarena/arena-hard-auto: both the ones of its first year and those since.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_rollout::rows::{Place, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::{self, Identities, fault};
use super::{DataPlaces, Known, Read, SuiteError};
use crate::problem::{Gold, Problem};

/// A published Arena-Hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// 500 prompts, compared with GPT-4 of March 2024.
    #[default]
    #[serde(rename = "v0.1")]
    V01,
    /// 500 hard prompts, compared with o3-mini, and 250 of creative writing, compared with Gemini
    /// 2.0 Flash.
    #[serde(rename = "v2.0")]
    V20,
}

impl Version {
    /// Its name, as `v0.1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V01 => "v0.1",
            Self::V20 => "v2.0",
        }
    }

    /// The model that answers of a category are compared with.
    pub fn baseline(self, category: &str) -> &'static str {
        match (self, category) {
            (Self::V01, _) => "gpt-4-0314",
            (Self::V20, "creative_writing") => "gemini-2.0-flash-001",
            (Self::V20, _) => "o3-mini-2025-01-31",
        }
    }

    const fn baselines(self) -> &'static [&'static str] {
        match self {
            Self::V01 => &["gpt-4-0314"],
            Self::V20 => &["o3-mini-2025-01-31", "gemini-2.0-flash-001"],
        }
    }
}

pub(super) fn read(
    known: &Known,
    places: &DataPlaces,
    version: Version,
) -> Result<Read, SuiteError> {
    let (folder, fetched) = find(known, places, version)?;
    let mut measured = Vec::new();
    let mut measure = |path: &Path| -> Result<(), SuiteError> {
        measured.push(files::data_file(path, fetched.as_deref())?);
        Ok(())
    };
    let questions = folder.join("question.jsonl");
    measure(&questions)?;
    let mut answers = HashMap::new();
    for model in version.baselines() {
        let path = answers_of(&folder, model);
        measure(&path)?;
        answers.insert(*model, baseline_answers(&path)?);
    }
    let mut identities = Identities::default();
    let mut problems = Vec::new();
    files::each_row(&questions, |place, row| {
        problems.push(problem(&place, &row, version, &answers, &mut identities)?);
        Ok(())
    })?;
    Ok(Read { problems, files: measured, note: None })
}

/// The versions that are here whole, each with its folder.
pub(super) fn versions_here(known: &Known, places: &DataPlaces) -> Vec<(&'static str, PathBuf)> {
    let here = |version: Version| Some((version.name(), find(known, places, version).ok()?.0));
    [Version::V01, Version::V20].into_iter().filter_map(here).collect()
}

fn answers_of(folder: &Path, model: &str) -> PathBuf {
    folder.join("model_answer").join(format!("{model}.jsonl"))
}

/// The folder of the version, and the fetched one that it is in.
fn find(
    known: &Known,
    places: &DataPlaces,
    version: Version,
) -> Result<(PathBuf, Option<PathBuf>), SuiteError> {
    let name = format!("arena-hard-{}", version.name());
    let mut looked_for = Vec::new();
    for folder in &places.folders {
        let fetched = folder.join(known.folder());
        let candidates =
            [(folder.join(&name), None), (fetched.join("data").join(&name), Some(fetched))];
        for (candidate, fetched) in candidates {
            let models = version.baselines().iter().map(|model| answers_of(&candidate, model));
            let missing = std::iter::once(candidate.join("question.jsonl")).chain(models);
            match missing.into_iter().find(|path| !path.is_file()) {
                None => return Ok((candidate, fetched)),
                Some(path) => looked_for.push(path),
            }
        }
    }
    Err(SuiteError::Missing { name: known.name.to_owned(), looked_for })
}

/// The identity that questions and answers share.
fn identity(place: &Place, row: &Row) -> Result<String, SuiteError> {
    let id = row.get("uid").or_else(|| row.get("question_id")).and_then(Value::as_str);
    let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
    id.ok_or_else(|| fault(place, "uid", "must be a text, as must `question_id` in older files"))
}

fn problem(
    place: &Place,
    row: &Row,
    version: Version,
    answers: &HashMap<&str, HashMap<String, String>>,
    identities: &mut Identities,
) -> Result<Problem, SuiteError> {
    let id = identity(place, row)?;
    let first_turn = || row.get("turns")?.get(0)?.get("content")?.as_str();
    let prompt = row.get("prompt").and_then(Value::as_str).or_else(first_turn);
    let prompt = prompt.filter(|prompt| !prompt.trim().is_empty());
    let prompt = prompt.ok_or_else(|| {
        fault(place, "prompt", "must be a text that is not blank (or `turns[0].content`)")
    })?;
    let category = row.get("category").and_then(Value::as_str).unwrap_or_default();
    let model = version.baseline(category);
    let baseline = answers.get(model).and_then(|answers| answers.get(&id));
    let baseline = baseline
        .ok_or_else(|| fault(place, "uid", format!("`{id}` has no answer of `{model}`")))?
        .clone();
    let mut meta = Map::new();
    meta.insert("category".to_owned(), category.into());
    meta.insert("baseline_model".to_owned(), model.into());
    let task = Task {
        id: identities.take(TaskId(id), place, "uid")?,
        messages: vec![Message::text(Role::User, prompt)],
        answer: String::new(),
        functions: Vec::new(),
        meta,
    };
    Ok(Problem { task: Arc::new(task), gold: Gold::Judged { baseline } })
}

fn baseline_answers(path: &Path) -> Result<HashMap<String, String>, SuiteError> {
    let mut answers = HashMap::new();
    files::each_row(path, |place, row| {
        let id = identity(&place, &row)?;
        let answer = newer(&row).or_else(|| older(&row)).ok_or_else(|| {
            fault(&place, "messages", "must end with the assistant's answer (or `choices`)")
        })?;
        answers.insert(id, answer.to_owned());
        Ok(())
    })?;
    Ok(answers)
}

/// `messages`, the last of which holds the answer, plain or as `answer`.
fn newer(row: &Row) -> Option<&str> {
    let content = row.get("messages")?.as_array()?.last()?.get("content")?;
    content.as_str().or_else(|| content.get("answer")?.as_str())
}

/// `choices[0].turns[0].content`.
fn older(row: &Row) -> Option<&str> {
    row.get("choices")?.get(0)?.get("turns")?.get(0)?.get("content")?.as_str()
}
