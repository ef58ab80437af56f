//! In what two protocols differ, field by field.
//!
//! Works on the JSON of both, so that a field that is added to the protocol is compared without a
//! word here. Invariant: equal protocols have no differences, and others have one at least.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its path, such as `settings.temperature`.
    pub field: String,
    /// Its value in the first; `null` where it has none.
    pub first: Value,
    /// Its value in the second; `null` where it has none.
    pub second: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}, now {}", self.field, self.first, self.second)
    }
}

pub(super) fn between(first: &impl Serialize, second: &impl Serialize) -> Vec<Difference> {
    // A protocol holds nothing that JSON can't.
    let value = |result: serde_json::Result<Value>| result.unwrap_or_default();
    let first = value(serde_json::to_value(first));
    let second = value(serde_json::to_value(second));
    let mut differences = Vec::new();
    compare(String::new(), &first, &second, &mut differences);
    differences
}

fn compare(field: String, first: &Value, second: &Value, all: &mut Vec<Difference>) {
    if first == second {
        return;
    }
    let (Value::Object(left), Value::Object(right)) = (first, second) else {
        all.push(Difference { field, first: first.clone(), second: second.clone() });
        return;
    };
    let only_right = right.keys().filter(|key| !left.contains_key(*key));
    for key in left.keys().chain(only_right) {
        let path = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
        let absent = Value::Null;
        let (first, second) = (left.get(key), right.get(key));
        compare(path, first.unwrap_or(&absent), second.unwrap_or(&absent), all);
    }
}
