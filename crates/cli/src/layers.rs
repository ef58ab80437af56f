//! Configuration in layers: files, environment, options and assignments put over one another.
//!
//! Invariant: every layer is checked when it is added, so that a fault is told with the layer that
//! has it (and with line and column where it is a file); an unknown key is refused, with the nearest
//! known one. Later layers win key by key; a list is replaced as a whole, except that an assignment
//! reaches into one by index (`stage.0.epochs=2`).

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::failure::{HintExt as _, WrongUse};

/// What layers make in the end. Every key must have a default, so that each layer can be checked
/// alone.
pub(crate) trait Layered: DeserializeOwned {
    /// An assignment to show people, such as `service.jail.slots=16`.
    const EXAMPLE: &'static str;

    /// Reads one file; overridden where that gives a fault a better place.
    ///
    /// # Errors
    /// The text is no TOML, has an unknown key or a value of a wrong type.
    fn from_text(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// The layers put together, not yet checked as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers(Table);

impl Layers {
    /// Sets `path` (such as `["http", "token"]`) over what earlier layers said.
    pub(crate) fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        merge(&mut self.0, nested(path, value.into()));
    }

    /// What the layers say of `path`.
    pub(crate) fn value(&self, path: &[&str]) -> Option<&Value> {
        let (last, tables) = path.split_last()?;
        let table = tables.iter().try_fold(&self.0, |table, key| table.get(*key)?.as_table())?;
        table.get(*last)
    }

    /// Adds a file.
    ///
    /// # Errors
    /// It can't be read, or is no layer of `T`.
    pub(crate) fn add_file<T: Layered>(&mut self, path: &Path) -> anyhow::Result<()> {
        let problem = || format!("can't use the configuration file {}", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|error| WrongUse::error(error.to_string()))
            .with_context(problem)?;
        self.add_text::<T>(&text).with_context(problem)
    }

    /// Adds the text of a file.
    ///
    /// # Errors
    /// It is no layer of `T`.
    pub(crate) fn add_text<T: Layered>(&mut self, text: &str) -> anyhow::Result<()> {
        // Read once as settings, for errors with line and column, and once as a layer to merge.
        T::from_text(text).map_err(|error| wrong_key(&error))?;
        merge(&mut self.0, text.parse()?);
        Ok(())
    }

    /// Adds an assignment, `a.b=value`; `origin` is where it was written, such as `--set a.b=value`.
    ///
    /// # Errors
    /// There is no `=`, no such key, or the value is of a wrong type.
    pub(crate) fn assign<T: Layered>(&mut self, text: &str, origin: &str) -> anyhow::Result<()> {
        let problem = || format!("can't use `{origin}`");
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| WrongUse::error("`=` is missing"))
            .hint(format!("write `--set {}`", T::EXAMPLE))
            .with_context(problem)?;
        // What is no TOML value is a string: `--set listen=0.0.0.0:80` needs no second quotes.
        let value = format!("value = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(value.to_owned()));
        let path: Vec<&str> = key.trim().split('.').collect();
        let mut with = self.clone();
        place(&mut with.0, &path, value).with_context(problem)?;
        with.resolve::<T>().with_context(problem)?;
        *self = with;
        Ok(())
    }

    /// What the layers make, checked for unknown keys and wrong types.
    ///
    /// # Errors
    /// Which key is wrong.
    pub(crate) fn resolve<T: Layered>(&self) -> anyhow::Result<T> {
        self.0.clone().try_into().map_err(|error| wrong_key(&error))
    }
}

/// Puts `value` at `path`, into lists by index.
fn place(table: &mut Table, path: &[&str], value: Value) -> anyhow::Result<()> {
    let (key, rest) = match path {
        [] => return Ok(()),
        [key] => {
            merge(table, nested(&[key], value));
            return Ok(());
        }
        [key, rest @ ..] => (*key, rest),
    };
    match (table.get_mut(key), rest) {
        (Some(Value::Table(inner)), _) => place(inner, rest, value),
        (Some(Value::Array(elements)), [index, inner_path @ ..]) => {
            let length = elements.len();
            let element = index.parse::<usize>().ok().and_then(|index| elements.get_mut(index));
            match (element, inner_path) {
                (Some(element), []) => *element = value,
                (Some(Value::Table(inner)), _) => place(inner, inner_path, value)?,
                _ => {
                    return Err(WrongUse::error(format!(
                        "`{key}` is a list of {length}, and has no `{}`",
                        rest.join(".")
                    )));
                }
            }
            Ok(())
        }
        _ => {
            merge(table, nested(path, value));
            Ok(())
        }
    }
}

fn nested(path: &[&str], value: Value) -> Table {
    let mut table = Table::new();
    match path {
        [] => {}
        [key] => drop(table.insert((*key).to_owned(), value)),
        [key, rest @ ..] => {
            drop(table.insert((*key).to_owned(), Value::Table(nested(rest, value))));
        }
    }
    table
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// A wrong key or value is wrong use; for an unknown key the nearest known one is named.
fn wrong_key(error: &toml::de::Error) -> anyhow::Error {
    let wrong = WrongUse::error(error.to_string().trim_end());
    match nearest_key(error.message()) {
        Some(nearest) => wrong.hint(format!("did you mean `{nearest}`?")),
        None => wrong,
    }
}

/// From serde's "unknown field `slot`, expected one of `slots`, …": the nearest of the known.
fn nearest_key(message: &str) -> Option<&str> {
    let rest = message
        .strip_prefix("unknown field `")
        .or_else(|| message.strip_prefix("unknown variant `"))?;
    let (unknown, expected) = rest.split_once('`')?;
    let known = expected.split('`').skip(1).step_by(2);
    known
        .map(|name| (strsim::normalized_damerau_levenshtein(unknown, name), name))
        .filter(|(similarity, _)| *similarity >= 0.5)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{Layered, Layers, nearest_key};

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Example {
        one: u32,
        list: Vec<Element>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Element {
        two: u32,
    }

    impl Layered for Example {
        const EXAMPLE: &'static str = "one=1";
    }

    #[test]
    fn an_assignment_reaches_into_a_list() {
        let mut layers = Layers("one = 1\n[[list]]\ntwo = 2\n[[list]]\n".parse().unwrap());
        layers.assign::<Example>("list.1.two=3", "--set list.1.two=3").unwrap();
        layers.assign::<Example>("one=4", "--set one=4").unwrap();
        let expected = Example { one: 4, list: vec![Element { two: 2 }, Element { two: 3 }] };
        assert_eq!(layers.resolve::<Example>().unwrap(), expected);
        for wrong in ["list.2.two=3", "list.x.two=3", "list.0.too=3", "one.two=3", "one"] {
            let error = layers.assign::<Example>(wrong, wrong).unwrap_err();
            assert_eq!(error.to_string(), format!("can't use `{wrong}`"));
        }
        assert_eq!(layers.resolve::<Example>().unwrap(), expected);
    }

    #[test]
    fn names_the_nearest_key() {
        let message = "unknown field `slot`, expected one of `python`, `slots`, `sessions`";
        assert_eq!(nearest_key(message), Some("slots"));
        assert_eq!(nearest_key("unknown field `zzz`, expected `python` or `slots`"), None);
        assert_eq!(nearest_key("invalid type: string"), None);
    }
}
