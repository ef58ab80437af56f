//! Prompts with instructions, in the layout that Google Research publishes: `key`, `prompt`,
//! `instruction_id_list`, `kwargs`.

use std::sync::Arc;

use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_rollout::rows::{Place, Row};
use serde_json::{Map, Value};

use super::files::{self, Identities, fault};
use super::known::Found;
use super::{DataPlaces, Known, Read, SuiteError};
use crate::ifeval::IfEvalGold;
use crate::problem::{Gold, Problem};

pub(super) fn read(known: &Known, places: &DataPlaces) -> Result<Read, SuiteError> {
    let Found { paths, folder } = known.find(places)?;
    let mut identities = Identities::default();
    let mut problems = Vec::new();
    let mut measured = Vec::new();
    for path in &paths {
        measured.push(files::data_file(path, folder.as_deref())?);
        files::each_row(path, |place, row| {
            problems.push(problem(&place, row, &mut identities)?);
            Ok(())
        })?;
    }
    Ok(Read { problems, files: measured, note: None })
}

fn problem(place: &Place, row: Row, identities: &mut Identities) -> Result<Problem, SuiteError> {
    let id = match row.get("key") {
        Some(Value::Number(key)) => format!("ifeval-{key}"),
        Some(Value::String(key)) if !key.is_empty() => format!("ifeval-{key}"),
        _ => return Err(fault(place, "key", "must be a number or a text")),
    };
    let prompt = match row.get("prompt") {
        Some(Value::String(prompt)) if !prompt.trim().is_empty() => prompt.clone(),
        _ => return Err(fault(place, "prompt", "must be a text that is not blank")),
    };
    let row = Value::Object(row);
    let gold =
        IfEvalGold::from_row(&row).map_err(|error| fault(place, &error.field, error.message))?;
    let task = Task {
        id: identities.take(TaskId(id), place, "key")?,
        messages: vec![Message::text(Role::User, prompt)],
        answer: String::new(),
        functions: Vec::new(),
        meta: Map::new(),
    };
    Ok(Problem { task: Arc::new(task), gold: Gold::IfEval(gold) })
}
