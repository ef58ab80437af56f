//! Recipes as text: reading with the place of a fault, writing, and what differs between two.

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::{Recipe, RlStage, SftStage};

/// A recipe that can't be read or written. Says line and column where the text has them.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// Not TOML, an unknown key, or a value of a wrong type.
    #[error("{}", .0.to_string().trim_end())]
    Read(#[from] toml::de::Error),
    /// A value that TOML can't hold.
    #[error("can't write the recipe: {0}")]
    Write(#[from] toml::ser::Error),
}

/// A key with two values: of two recipes, or of one before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the key, such as `stage.0.optimizer.learning_rate`.
    pub key: String,
    /// The first recipe's value; `None` where it has none.
    pub before: Option<String>,
    /// The second recipe's value; `None` where it has none.
    pub after: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
        write!(formatter, "`{}`: {} -> {}", self.key, shown(&self.before), shown(&self.after))
    }
}

impl Recipe {
    /// Reads a recipe, or a part of one: what is not there has its default.
    ///
    /// # Errors
    /// The text is no TOML, has an unknown key or a value of a wrong type; with line and column.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text).map_err(|error| located_in_stage(text).unwrap_or(error))
    }

    /// The recipe as a file that reads as the same recipe.
    ///
    /// # Errors
    /// A number that TOML can't hold.
    pub fn to_toml(&self) -> Result<String, RecipeError> {
        Ok(toml::to_string_pretty(self)?)
    }

    /// What differs from `self` to `other`, sorted by key.
    ///
    /// # Errors
    /// A number that TOML can't hold.
    pub fn differences(&self, other: &Self) -> Result<Vec<Difference>, RecipeError> {
        let mut all = Vec::new();
        let before = Value::Table(Table::try_from(self)?);
        let after = Value::Table(Table::try_from(other)?);
        compare("", Some(&before), Some(&after), &mut all);
        all.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(all)
    }
}

/// The tag of a stage's kind makes serde lose the place of a fault within the stage. So the fault is
/// looked for once more, stage by stage.
fn located_in_stage(text: &str) -> Option<toml::de::Error> {
    let mut table = DeTable::parse(text).ok()?.into_inner();
    let DeValue::Array(stages) = table.remove("stage")?.into_inner() else { return None };
    for stage in stages {
        let (span, value) = (stage.span(), stage.into_inner());
        let DeValue::Table(mut stage) = value else { return None };
        let kind = stage.remove("kind")?;
        let kind = kind.get_ref().as_str().map(str::to_owned);
        let stage = toml::Spanned::new(span, DeValue::Table(stage));
        let read = match kind.as_deref() {
            Some("sft") => SftStage::deserialize(stage.into_deserializer()).map(drop),
            Some("rl") => RlStage::deserialize(stage.into_deserializer()).map(drop),
            _ => return None,
        };
        if let Err(mut error) = read {
            error.set_input(Some(text));
            return Some(error);
        }
    }
    None
}

fn compare(key: &str, before: Option<&Value>, after: Option<&Value>, all: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    let inner = |name: &str| {
        if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
    };
    match (before, after) {
        (Some(Value::Table(before)), Some(Value::Table(after))) => {
            let only_after = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(only_after) {
                compare(&inner(name), before.get(name), after.get(name), all);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.iter().chain(after).all(Value::is_table) =>
        {
            for index in 0..before.len().max(after.len()) {
                let name = inner(&index.to_string());
                compare(&name, before.get(index), after.get(index), all);
            }
        }
        _ => all.push(Difference {
            key: key.to_owned(),
            before: before.map(ToString::to_string),
            after: after.map(ToString::to_string),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Stage;

    const TEXT: &str = "seed = 3\n[model]\npath = \"m\"\n[[stage]]\nkind = \"sft\"\nepochs = 2\n\
                        data.paths = [\"a.jsonl\"]\n[stage.optimizer]\nlearning_rate = 1e-3\n";

    #[test]
    fn a_written_recipe_reads_as_the_same() {
        let recipe = Recipe::from_toml(TEXT).unwrap();
        let Stage::Sft(stage) = &recipe.stage[0] else { panic!("no SFT stage") };
        assert_eq!((recipe.seed, stage.epochs, stage.optimizer.beta2), (3, Some(2), 0.95));
        let again = Recipe::from_toml(&recipe.to_toml().unwrap()).unwrap();
        assert_eq!(again, recipe);
    }

    #[test]
    fn a_fault_in_a_stage_has_its_line() {
        let text = TEXT.replace("learning_rate", "learning_rat");
        let error = Recipe::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("line 9, column 1"), "{error}");
        assert!(error.contains("unknown field `learning_rat`, expected one of"), "{error}");
        let text = TEXT.replace("epochs = 2", "epochs = \"two\"");
        let error = Recipe::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("line 6") && error.contains("expected u64"), "{error}");
        let text = TEXT.replace("\"sft\"", "\"sftt\"");
        let error = Recipe::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("unknown variant `sftt`, expected `sft`"), "{error}");
    }

    #[test]
    fn differences_name_the_key() {
        let before = Recipe::from_toml(TEXT).unwrap();
        let after = Recipe::from_toml(&TEXT.replace("1e-3", "2e-3")).unwrap();
        let shown: Vec<String> =
            before.differences(&after).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["`stage.0.optimizer.learning_rate`: 0.001 -> 0.002"]);
        assert_eq!(before.differences(&before).unwrap(), []);
    }
}
