//! Values as the published checker, a Python program, sees them.
//!
//! Invariant: [`class`] and [`equal`] are Python's `type` and `==` on what `json.loads` makes of a
//! value: 1 and 1.0 and `True` are equal and of three classes.

use serde_json::Value;

/// A value's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    None,
    Bool,
    Int,
    Float,
    Str,
    List,
    Dict,
}

impl Class {
    /// Python's name of it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "null",
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Float => "float",
            Self::Str => "string",
            Self::List => "array",
            Self::Dict => "dict",
        }
    }
}

/// The class of a value.
pub(super) fn class(value: &Value) -> Class {
    match value {
        Value::Null => Class::None,
        Value::Bool(_) => Class::Bool,
        Value::Number(number) if number.is_f64() => Class::Float,
        Value::Number(_) => Class::Int,
        Value::String(_) => Class::Str,
        Value::Array(_) => Class::List,
        Value::Object(_) => Class::Dict,
    }
}

/// Whether two values are equal.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(key, value)| right.get(key).is_some_and(|other| equal(value, other));
            left.len() == right.len() && left.iter().all(same)
        }
        _ => match (number(left), number(right)) {
            (Some(left), Some(right)) => left == right,
            _ => false,
        },
    }
}

/// A number, or a truth value as one.
#[derive(Debug, PartialEq)]
enum Number {
    Whole(i128),
    Fraction(f64),
}

fn number(value: &Value) -> Option<Number> {
    let number = match value {
        Value::Bool(flag) => return Some(Number::Whole((*flag).into())),
        Value::Number(number) => number,
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    if let Some(whole) = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    {
        return Some(Number::Whole(whole));
    }
    let fraction = number.as_f64()?;
    // Up to 2^100 a float without a fraction is exactly this integer.
    let is_whole = fraction.fract() == 0.0 && fraction.abs() < 2_f64.powi(100);
    Some(if is_whole { Number::Whole(fraction as i128) } else { Number::Fraction(fraction) })
}

/// A text as texts are compared: in lower case, without spaces and `,./-_*^`, and with double quotes
/// only.
pub(super) fn standardized(text: &str) -> String {
    let kept = text.chars().filter(|c| !" ,./-_*^".contains(*c)).collect::<String>();
    kept.to_lowercase().replace('\'', "\"")
}

/// A value in which a text is [`standardized`]; texts further inside stay.
pub(super) fn with_standard_text(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(standardized(text)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_truth_values_are_equal_by_value_and_differ_by_class() {
        let values = [json!(1), json!(1.0), json!(true)];
        for left in &values {
            for right in &values {
                assert!(equal(left, right), "{left} {right}");
            }
        }
        assert_eq!(values.map(|value| class(&value)), [Class::Int, Class::Float, Class::Bool]);
        assert!(equal(&json!({"a": [1, "x"], "b": 2}), &json!({"b": 2.0, "a": [true, "x"]})));
        assert!(!equal(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992.0)));
        assert!(!equal(&json!(0), &json!(null)));
        assert!(!equal(&json!("1"), &json!(1)));
    }

    #[test]
    fn texts_are_compared_without_case_spaces_and_some_signs() {
        assert_eq!(standardized("April 1, 2024"), standardized("april 1 2024"));
        assert_eq!(standardized("it's_A-b.c/d*e^2"), "it\"sabcde2");
        assert_eq!(standardized("a:b;c\td"), "a:b;c\td");
    }
}
