//! `rocstar config explain`: what a key of a recipe means, what it may be, and what it is otherwise.

use std::fmt::Write as _;

use clap::Args;

use super::keys::{self, Key};
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::terminal::Terminal;

/// Explain a key of recipes, or list all
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Path, such as `stage.rl.selection.epsilon`; without the stage's kind, of every kind; of a
    /// table, all its keys
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print the keys as one JSON list
    #[arg(long)]
    json: bool,
    /// Print the reference of recipes as Markdown
    #[arg(long, conflicts_with_all = ["json", "key"])]
    markdown: bool,
}

impl Explain {
    /// Runs the command.
    ///
    /// # Errors
    /// There is no such key.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let all = keys::all();
        let found = match &self.key {
            None => all,
            Some(key) => find(all, key)?,
        };
        if self.json {
            terminal.json(&found)?;
        } else if self.markdown {
            terminal.data(reference(&found)?.as_bytes())?;
        } else if self.key.is_some() && found.iter().all(|key| !key.is_table()) {
            terminal.data(found.iter().map(described).collect::<Vec<_>>().join("\n").as_bytes())?;
        } else {
            let rows: Vec<Vec<String>> = found.iter().map(row).collect();
            terminal.table(&["key", "type", "default", "meaning"], &rows, usize::MAX)?;
        }
        Ok(Finish::Good)
    }
}

/// The keys that a path names: itself or, of a table, all within.
fn find(all: Vec<Key>, wanted: &str) -> anyhow::Result<Vec<Key>> {
    let wanted = wanted.trim();
    let parts: Vec<&str> =
        wanted.split('.').filter(|part| part.parse::<usize>().is_err()).collect();
    let named = |key: &Key| {
        let path: Vec<&str> = key.path.split('.').collect();
        // A path without the stage's kind names the key of each.
        let without_kind = match path.as_slice() {
            ["stage", _, rest @ ..] => [&["stage"], rest].concat(),
            _ => Vec::new(),
        };
        path.starts_with(&parts) || (parts.len() > 1 && without_kind.starts_with(&parts))
    };
    let (found, others): (Vec<Key>, Vec<Key>) = all.into_iter().partition(named);
    if !found.is_empty() {
        return Ok(found);
    }
    let error = WrongUse::error(format!("recipes have no key `{wanted}`"));
    let nearest = nearest(&others, &parts.join("."));
    if nearest.is_empty() {
        return Err(error.hint("`rocstar config explain` lists all keys"));
    }
    Err(error.hint(format!("did you mean {}?", nearest.join(" or "))))
}

/// Keys of the same last name or, where there are none, the one that is written most alike.
fn nearest(keys: &[Key], wanted: &str) -> Vec<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let same = keys.iter().filter(|key| last(&key.path) == last(wanted));
    let same: Vec<String> = same.map(|key| format!("`{}`", key.path)).take(3).collect();
    if !same.is_empty() {
        return same;
    }
    let short =
        |path: &str| path.replacen("stage.sft.", "stage.", 1).replacen("stage.rl.", "stage.", 1);
    let alike = |path: &str| {
        let whole = strsim::normalized_damerau_levenshtein(wanted, path);
        let short = strsim::normalized_damerau_levenshtein(wanted, &short(path));
        let name = strsim::normalized_damerau_levenshtein(wanted, &last(path));
        whole.max(short).max(name)
    };
    let scored = keys.iter().map(|key| (alike(&key.path), &key.path));
    let best =
        scored.filter(|(alike, _)| *alike >= 0.6).max_by(|left, right| left.0.total_cmp(&right.0));
    best.into_iter().map(|(_, path)| format!("`{path}`")).collect()
}

fn row(key: &Key) -> Vec<String> {
    vec![key.path.clone(), shown_type(key), key.shown_default(), key.meaning.clone()]
}

/// The type, or the values where these are few.
fn shown_type(key: &Key) -> String {
    if key.choices.is_empty() {
        return key.value_type.clone();
    }
    let values: Vec<String> =
        key.choices.iter().map(|choice| format!("\"{}\"", choice.value)).collect();
    let list = if key.value_type.starts_with("list") { "list of " } else { "" };
    format!("{list}{}", values.join(" | "))
}

fn described(key: &Key) -> String {
    let mut text = format!("{}\n  {}\n  type:    {}\n", key.path, key.meaning, key.value_type);
    text += &format!("  default: {}\n", key.shown_default());
    let width = key.choices.iter().map(|choice| choice.value.len()).max().unwrap_or(0);
    for (index, choice) in key.choices.iter().enumerate() {
        let head = if index == 0 { "values: " } else { "        " };
        let line = format!("  {head} {:width$}  {}", choice.value, choice.meaning);
        text += &format!("{}\n", line.trim_end());
    }
    text
}

/// All keys as Markdown, a section a table.
fn reference(keys: &[Key]) -> Result<String, std::fmt::Error> {
    let mut text = String::from(
        "# Keys of recipes\n\n<!-- Generated by `rocstar config explain --markdown`. A test compares \
         it and says how to refresh it. -->\n\nA recipe is a TOML file. An unknown key is an error. \
         Layers, the later ones winning: defaults, files from left to right, environment \
         (`ROCSTAR_TRAIN__RUN__NAME=x`), `--set run.name=x`. In a recipe stages are a list, \
         `[[stage]]` with a `kind`; an assignment names one by its number, \
         `stage.0.steps=3`. `rocstar config show` prints what a recipe is in the end, \
         `rocstar config schema` the same keys as JSON Schema.\n\n## The recipe\n\n",
    );
    text += HEAD;
    let has_parent = |key: &&Key| key.path.contains('.');
    for key in keys.iter().filter(|key| !has_parent(key)) {
        write_row(&mut text, key, &key.path)?;
    }
    for table in keys.iter().filter(|key| key.is_table() && key.path != "stage") {
        let within = |key: &&Key| {
            key.path
                .strip_prefix(&table.path)
                .is_some_and(|rest| rest.strip_prefix('.').is_some_and(|name| !name.contains('.')))
        };
        write!(text, "\n## `{}`\n\n{}\n\n{HEAD}", table.path, table.meaning)?;
        for key in keys.iter().filter(within) {
            write_row(&mut text, key, key.path.rsplit('.').next().unwrap_or_default())?;
        }
    }
    Ok(text)
}

const HEAD: &str = "| key | type | default | meaning |\n|---|---|---|---|\n";

fn write_row(text: &mut String, key: &Key, name: &str) -> std::fmt::Result {
    let mut meaning = key.meaning.clone();
    let told: Vec<String> = key
        .choices
        .iter()
        .filter(|choice| !choice.meaning.is_empty())
        .map(|choice| format!("`{}`: {}", choice.value, choice.meaning))
        .collect();
    if !told.is_empty() {
        meaning += &format!(" <br>{}", told.join(" <br>"));
    }
    let default = key.shown_default();
    let default =
        if default.is_empty() || default == "unset" { default } else { format!("`{default}`") };
    let cells = [shown_type(key), default, meaning].map(|cell| cell.replace('|', "\\|"));
    writeln!(text, "| `{name}` | {} |", cells.join(" | "))
}
