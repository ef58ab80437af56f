//! `rocstar config show`: a recipe as it is in the end, and where each value that was given comes from.
//!
//! Invariant: what is printed reads as the same recipe; the origins are comments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use rocstar_train::recipe::Recipe;
use serde::Serialize;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::commands::train::recipe::{self, LayerOptions};
use crate::failure::Finish;
use crate::terminal::Terminal;

/// Print a recipe as it is in the end, with where each given value comes from
///
/// Defaults, the files from left to right, the environment (`ROCSTAR_TRAIN__SEED=3`) and `--set`, put
/// over one another as `rocstar train` does. Values without a comment are defaults.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Recipe (TOML); of several, later ones win
    #[arg(value_name = "RECIPE", required = true)]
    recipes: Vec<PathBuf>,
    /// One value by its path, such as `stage.0.optimizer.learning_rate=1e-4`; wins over everything
    /// else
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// Print recipe and origins as one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    recipe: &'a Recipe,
    origins: &'a BTreeMap<String, String>,
    problems: &'a [String],
}

impl Show {
    /// Runs the command.
    ///
    /// # Errors
    /// The recipe can't be read.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let layers =
            LayerOptions { files: &self.recipes, assignments: &self.assignments, run: None };
        let recipe = recipe::resolve(&layers)?;
        let origins = self.origins()?;
        let problems = recipe.validate();
        if self.json {
            terminal.json(&Shown { recipe: &recipe, origins: &origins, problems: &problems })?;
        } else {
            terminal.data(annotated(&recipe.to_toml()?, &origins)?.as_bytes())?;
            problems.iter().for_each(|problem| terminal.note(format_args!("problem: {problem}")));
        }
        Ok(Finish::from_good(problems.is_empty()))
    }

    /// Where each value that was given comes from, by its path.
    fn origins(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut origins = Origins::default();
        for path in &self.recipes {
            let text = std::fs::read_to_string(path)?;
            origins.add_file(path, &text)?;
        }
        for (variable, assignment) in recipe::environment() {
            let name = variable.split('=').next().unwrap_or_default();
            origins.add_assignment(&assignment, &format!("environment {name}"));
        }
        for assignment in &self.assignments {
            origins.add_assignment(assignment, "--set");
        }
        if let Some(first) = self.recipes.first() {
            let name = format!("name of {}", first.display());
            origins.0.entry("run.name".to_owned()).or_insert(name);
        }
        Ok(origins.0)
    }
}

/// Where values come from, by their paths.
#[derive(Debug, Default)]
struct Origins(BTreeMap<String, String>);

impl Origins {
    fn add_file(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        let table = DeTable::parse(text)?;
        each_table(table.get_ref(), "", &mut |event| match event {
            // A list replaces a list.
            Found::List(key) => self.forget_within(key),
            Found::Value { key, start, .. } => {
                let origin = format!("{}:{}", path.display(), line_of(text, start) + 1);
                self.0.insert(key.to_owned(), origin);
            }
        });
        Ok(())
    }

    fn add_assignment(&mut self, assignment: &str, origin: &str) {
        let Some((key, value)) = assignment.split_once('=') else { return };
        // What is no TOML value is a string.
        let value = format!("value = {value}").parse::<Table>().ok();
        match value.and_then(|mut table| table.remove("value")) {
            Some(value) => self.add_value(key.trim(), &value, origin),
            None => drop(self.0.insert(key.trim().to_owned(), origin.to_owned())),
        }
    }

    fn add_value(&mut self, key: &str, value: &Value, origin: &str) {
        match value {
            Value::Table(table) => {
                for (name, value) in table {
                    self.add_value(&format!("{key}.{name}"), value, origin);
                }
            }
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_table) => {
                self.forget_within(key);
                for (index, value) in list.iter().enumerate() {
                    self.add_value(&format!("{key}.{index}"), value, origin);
                }
            }
            _ => drop(self.0.insert(key.to_owned(), origin.to_owned())),
        }
    }

    fn forget_within(&mut self, key: &str) {
        let inside = format!("{key}.");
        self.0.retain(|other, _| !other.starts_with(&inside));
    }
}

/// What a walk over a file finds.
enum Found<'a> {
    /// A list of tables begins.
    List(&'a str),
    /// A value that is no table, with the byte at which its key starts and that at which it ends.
    Value { key: &'a str, start: usize, end: usize },
}

fn each_table(table: &DeTable<'_>, path: &str, tell: &mut dyn FnMut(Found<'_>)) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value.get_ref() {
            DeValue::Table(table) => each_table(table, &inner, tell),
            DeValue::Array(list)
                if !list.is_empty() && list.iter().all(|element| element.get_ref().is_table()) =>
            {
                tell(Found::List(&inner));
                for (index, element) in list.iter().enumerate() {
                    if let DeValue::Table(table) = element.get_ref() {
                        each_table(table, &format!("{inner}.{index}"), tell);
                    }
                }
            }
            _ => tell(Found::Value { key: &inner, start: key.span().start, end: value.span().end }),
        }
    }
}

/// Number of the line that holds a byte, from 0.
fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// The recipe with the origin of each value as a comment behind it.
fn annotated(text: &str, origins: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let table = DeTable::parse(text)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    each_table(table.get_ref(), "", &mut |event| {
        if let Found::Value { key, end, .. } = event
            && let Some(origin) = origins.get(key)
            && let Some(line) = lines.get_mut(line_of(text, end))
        {
            *line += &format!("  # {origin}");
        }
    });
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn later_layers_win_and_a_list_replaces_a_list() {
        let mut origins = Origins::default();
        let first = "seed = 1\n[[stage]]\nkind = \"sft\"\nsteps = 3\n[[stage]]\nkind = \"rl\"\n";
        origins.add_file(Path::new("a.toml"), first).unwrap();
        let second = "[[stage]]\nkind = \"sft\"\ndata.paths = [\n  \"x\",\n]\n";
        origins.add_file(Path::new("b.toml"), second).unwrap();
        origins.add_assignment("stage.0.steps=7", "--set");
        origins.add_assignment("run.name=a b", "--set");
        let told: Vec<(&str, &str)> =
            origins.0.iter().map(|(key, origin)| (key.as_str(), origin.as_str())).collect();
        assert_eq!(
            told,
            [
                ("run.name", "--set"),
                ("seed", "a.toml:1"),
                ("stage.0.data.paths", "b.toml:3"),
                ("stage.0.kind", "b.toml:2"),
                ("stage.0.steps", "--set"),
            ]
        );
    }

    #[test]
    fn comments_change_nothing() {
        let text = "seed = 3\n[[stage]]\nkind = \"sft\"\ndata.system = \"\"\"a\nb\"\"\"\n\
                    data.paths = [\"x\", \"y\"]\n";
        let recipe = Recipe::from_toml(text).unwrap();
        let mut origins = Origins::default();
        origins.add_file(Path::new("a.toml"), text).unwrap();
        let shown = annotated(&recipe.to_toml().unwrap(), &origins.0).unwrap();
        assert!(shown.contains("seed = 3  # a.toml:1\n"), "{shown}");
        assert_eq!(shown.matches("# a.toml:").count(), 4, "{shown}");
        assert_eq!(Recipe::from_toml(&shown).unwrap(), recipe);
    }
}
