//! The keys of recipes, read from the schema of their types.
//!
//! Invariant: every key that a recipe may have is here once, with the default that it has at its
//! place: a table's own default wins over that of its type (`stage.rl.optimizer.learning_rate` is not
//! `stage.sft.optimizer.learning_rate`).

use rocstar_train::recipe::Recipe;
use serde::Serialize;
use serde_json::{Map, Value};

/// A key of recipes. Stages have their kind where a recipe has their number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Key {
    /// Path, such as `stage.rl.selection.epsilon`.
    pub(super) path: String,
    /// What it is.
    pub(super) meaning: String,
    /// Type of its value.
    #[serde(rename = "type")]
    pub(super) value_type: String,
    /// Value where the recipe has none; `None` if it then is unset.
    pub(super) default: Option<Value>,
    /// Values that it may have, where these are few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) choices: Vec<Choice>,
}

/// A value that a key may have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Choice {
    /// The value.
    pub(super) value: String,
    /// What it does; empty where its name says it.
    pub(super) meaning: String,
}

/// Type of a key that holds further keys.
pub(super) const TABLE: &str = "table";

impl Key {
    /// It holds further keys.
    pub(super) fn is_table(&self) -> bool {
        self.value_type.contains(TABLE)
    }

    /// The default as TOML has it.
    pub(super) fn shown_default(&self) -> String {
        match &self.default {
            _ if self.is_table() => String::new(),
            None => "unset".to_owned(),
            Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
            Some(value) => value.to_string(),
        }
    }
}

/// The schema of recipes. A key without a value is left out of a recipe: TOML has no `null`.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(Recipe).to_value();
    without_null(&mut schema);
    schema
}

fn without_null(node: &mut Value) {
    match node {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    object["type"] = only.clone();
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
            }
            object.retain(|_, value| !value.is_null());
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = plain(text);
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A doc comment as a text for people: on one line, and links to items as the keys they name.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("[`")
        && let Some((item, after)) = after.split_once("`]")
    {
        let name = item.rsplit("::").next().unwrap_or(item).to_lowercase();
        plain += &format!("{before}`{name}`");
        rest = after;
    }
    plain + rest
}

/// All keys, in the order of the types.
pub(super) fn all() -> Vec<Key> {
    let schema = schema();
    let mut walk = Walk { schema: &schema, keys: Vec::new() };
    walk.properties("", &schema, schema.get("default"));
    walk.keys
}

struct Walk<'a> {
    schema: &'a Value,
    keys: Vec<Key>,
}

impl<'a> Walk<'a> {
    fn properties(&mut self, path: &str, node: &'a Value, default: Option<&Value>) {
        for (name, property) in object(node.get("properties")) {
            if property.get("const").is_some() {
                // The kind of a stage, which its path names.
                continue;
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let default =
                default.and_then(|table| table.get(name)).or_else(|| property.get("default"));
            self.key(&path, property, default);
        }
    }

    fn key(&mut self, path: &str, property: &'a Value, default: Option<&Value>) {
        let node = self.followed(property);
        let is_list = node.get("type").is_some_and(|name| name == "array");
        let element = if is_list {
            node.get("items").map_or(node, |items| self.followed(items))
        } else {
            node
        };
        let stages = stages(element);
        let is_table = element.get("properties").is_some() || !stages.is_empty();
        let meaning = [property, node].into_iter().find_map(|node| node.get("description"));
        let value_type = match (is_list, is_table) {
            (false, false) => type_of(element).to_owned(),
            (false, true) => TABLE.to_owned(),
            (true, false) => format!("list of {}", plural(type_of(element))),
            (true, true) => format!("list of {TABLE}s"),
        };
        self.keys.push(Key {
            path: path.to_owned(),
            meaning: text(meaning),
            value_type,
            default: default.cloned(),
            choices: choices(element),
        });
        self.properties(path, element, if is_list { None } else { default });
        for stage in stages {
            let kind = text(stage.pointer("/properties/kind/const"));
            let path = format!("{path}.{kind}");
            self.keys.push(Key {
                path: path.clone(),
                meaning: text(stage.get("description")),
                value_type: TABLE.to_owned(),
                default: None,
                choices: Vec::new(),
            });
            self.properties(&path, stage, None);
        }
    }

    /// The schema that a node stands for.
    fn followed(&self, node: &'a Value) -> &'a Value {
        let only = node.pointer("/anyOf/0").unwrap_or(node);
        let reference = only.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|path| self.schema.pointer(path.trim_start_matches('#')));
        target.unwrap_or(only)
    }
}

fn object(node: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    node.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn text(node: Option<&Value>) -> String {
    node.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The kinds of a stage, if the node is one.
fn stages(node: &Value) -> Vec<&Value> {
    let variants = node.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    variants.filter(|variant| variant.pointer("/properties/kind").is_some()).collect()
}

/// The values that a node allows, where it says them.
fn choices(node: &Value) -> Vec<Choice> {
    let named = node.get("enum").and_then(Value::as_array).into_iter().flatten();
    let named = named.filter_map(Value::as_str);
    let mut all: Vec<Choice> =
        named.map(|name| Choice { value: name.to_owned(), meaning: String::new() }).collect();
    for variant in node.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        if let Some(value) = variant.get("const").and_then(Value::as_str) {
            let meaning = text(variant.get("description"));
            all.push(Choice { value: value.to_owned(), meaning });
        } else {
            all.extend(choices(variant));
        }
    }
    all
}

fn type_of(node: &Value) -> &'static str {
    match node.get("type").and_then(Value::as_str) {
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("boolean") => "true or false",
        Some("string") => "text",
        _ if !choices(node).is_empty() => "text",
        _ => "any value",
    }
}

fn plural(name: &str) -> String {
    if name == "any value" { "values".to_owned() } else { format!("{name}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(path: &str) -> Key {
        all().into_iter().find(|key| key.path == path).unwrap()
    }

    #[test]
    fn a_tables_default_wins_over_its_types() {
        assert_eq!(key("stage.rl.optimizer.learning_rate").default, Some(json!(1e-6)));
        assert_eq!(key("stage.sft.optimizer.learning_rate").default, Some(json!(1e-5)));
    }

    #[test]
    fn every_key_is_there_once_with_a_meaning() {
        let keys = all();
        let mut paths: Vec<&str> = keys.iter().map(|key| key.path.as_str()).collect();
        paths.sort_unstable();
        let length = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), length);
        for key in &keys {
            assert!(!key.meaning.is_empty() && !key.meaning.contains("[`"), "{key:?}");
        }
    }

    #[test]
    fn what_a_key_allows_is_told() {
        let mode = key("stage.rl.selection.mode");
        let values: Vec<&str> = mode.choices.iter().map(|choice| choice.value.as_str()).collect();
        assert_eq!(values, ["paper", "released", "off"]);
        assert!(mode.choices[1].meaning.contains("at least `released_minimum` of each class"));
        assert_eq!(key("stage.rl.data.only.at_least").value_type, "number");
        assert_eq!(key("stage.sft.lora.targets").choices.len(), 7);
        assert_eq!(key("stage.sft.lora.targets").value_type, "list of texts");
    }
}
