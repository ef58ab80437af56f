//! Questions with functions: `BFCL_v3_CATEGORY.json` and the calls that answer them in
//! `possible_answer/`, as the hub and the leaderboard's repository have them.
//!
//! A part is a category, a group of them, or several with commas: `bfcl-v3/simple,multiple`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_record::episode::TaskId;
use rocstar_rollout::Task;
use rocstar_rollout::rows::{Place, Row};
use serde_json::{Map, Value};

use super::files::{self, DataFile, Identities, fault};
use super::{DataPlaces, Known, Read, SuiteError};
use crate::bfcl::{BadRow, CallsIn, Category, Question};
use crate::problem::{Gold, Problem};

/// Folders of questions within a folder of data: a copy of the repository's, or a fetched one.
const FOLDERS: [&str; 2] = ["bfcl_v3", "bfcl-v3"];

pub(super) fn read(
    known: &Known,
    part: Option<&str>,
    places: &DataPlaces,
    calls_in: CallsIn,
) -> Result<Read, SuiteError> {
    let mut reader = Reader { calls_in, identities: Identities::default(), files: Vec::new() };
    let mut problems = Vec::new();
    for category in categories(known, part)? {
        let name = format!("{}/{category}", known.name);
        problems.extend(reader.category(&name, category, places)?);
    }
    Ok(Read { problems, files: reader.files, note: None })
}

/// The categories that a part names, in their own order.
fn categories(known: &Known, part: Option<&str>) -> Result<Vec<Category>, SuiteError> {
    let Some(part) = part else { return Ok(Category::ALL.to_vec()) };
    let mut chosen = Vec::new();
    for name in part.split(',').map(str::trim) {
        let is_live = |category: &Category| category.name().starts_with("live_");
        match (name, Category::named(name)) {
            ("live", _) => chosen.extend(Category::ALL.iter().filter(|it| is_live(it))),
            ("non-live", _) => chosen.extend(Category::ALL.iter().filter(|it| !is_live(it))),
            (_, Some(category)) => chosen.push(category),
            (_, None) => {
                let name = format!("{}/{name}", known.name);
                let parts = format!("live, non-live, {}", known.parts().join(", "));
                return Err(SuiteError::Part { name, parts });
            }
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// The categories that are here whole, each with its folder.
pub(super) fn parts_here(known: &Known, places: &DataPlaces) -> Vec<(&'static str, PathBuf)> {
    let here = |category: Category| {
        let (folder, _) = find(known.name, category, places).ok()?;
        let is_whole = !category.compares_calls() || answers_path(&folder, category).is_file();
        is_whole.then_some((category.name(), folder))
    };
    Category::ALL.into_iter().filter_map(here).collect()
}

fn answers_path(folder: &Path, category: Category) -> PathBuf {
    folder.join("possible_answer").join(format!("BFCL_v3_{category}.json"))
}

struct Reader {
    calls_in: CallsIn,
    identities: Identities,
    files: Vec<DataFile>,
}

impl Reader {
    fn category(
        &mut self,
        name: &str,
        category: Category,
        places: &DataPlaces,
    ) -> Result<Vec<Problem>, SuiteError> {
        let (folder, path) = find(name, category, places)?;
        let answers_path = answers_path(&folder, category);
        let mut answers = HashMap::new();
        if category.compares_calls() {
            if !answers_path.is_file() {
                let looked_for = vec![answers_path];
                return Err(SuiteError::Missing { name: name.to_owned(), looked_for });
            }
            self.files.push(files::data_file(&answers_path, Some(&folder))?);
            files::each_row(&answers_path, |place, row| {
                let id = row.get("id").and_then(Value::as_str).map(str::to_owned);
                let id = id.ok_or_else(|| fault(&place, "id", "must be a text"))?;
                answers.insert(id, (place, row));
                Ok(())
            })?;
        }
        self.files.push(files::data_file(&path, Some(&folder))?);
        let mut problems = Vec::new();
        files::each_row(&path, |place, row| {
            problems.push(self.problem(category, &place, &row, &answers)?);
            Ok(())
        })?;
        Ok(problems)
    }

    fn problem(
        &mut self,
        category: Category,
        place: &Place,
        row: &Row,
        answers: &HashMap<String, (Place, Row)>,
    ) -> Result<Problem, SuiteError> {
        let answer = row.get("id").and_then(Value::as_str).and_then(|id| answers.get(id));
        if answer.is_none() && category.compares_calls() {
            return Err(fault(place, "id", "has no answer in `possible_answer`"));
        }
        let bad = |BadRow { field, problem, in_answer }| match answer {
            Some((at, _)) if in_answer => fault(at, &field, problem),
            _ => fault(place, &field, problem),
        };
        let answer_row = answer.map(|(_, row)| row);
        let question = Question::from_rows(category, self.calls_in, row, answer_row);
        let Question { id, messages, functions, gold } = question.map_err(bad)?;
        let id = self.identity(category, id, place)?;
        let meta = Map::from_iter([("category".to_owned(), category.name().into())]);
        let task = Task { id, messages, answer: String::new(), functions, meta };
        Ok(Problem { task: Arc::new(task), gold: Gold::Bfcl(gold) })
    }
}

impl Reader {
    /// The published questions without answers have one identity twice; the second gets a number.
    fn identity(
        &mut self,
        category: Category,
        id: String,
        place: &Place,
    ) -> Result<TaskId, SuiteError> {
        if category.compares_calls() {
            return self.identities.take(TaskId(id), place, "id");
        }
        let numbered = (2..).map(|number| TaskId(format!("{id}#{number}")));
        let mut candidates = std::iter::once(TaskId(id.clone())).chain(numbered);
        let free = candidates.find(|candidate| !self.identities.has(candidate));
        self.identities.take(free.unwrap_or(TaskId(id)), place, "id")
    }
}

/// The folder that has a category's questions, and their file.
fn find(
    name: &str,
    category: Category,
    places: &DataPlaces,
) -> Result<(PathBuf, PathBuf), SuiteError> {
    let file = format!("BFCL_v3_{category}.json");
    let candidates = places.folders.iter().flat_map(|folder| FOLDERS.map(|name| folder.join(name)));
    let mut looked_for = Vec::new();
    for folder in candidates {
        let path = Path::new(&folder).join(&file);
        if path.is_file() {
            return Ok((folder, path));
        }
        looked_for.push(path);
    }
    Err(SuiteError::Missing { name: name.to_owned(), looked_for })
}
