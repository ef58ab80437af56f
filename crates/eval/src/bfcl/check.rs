//! The rules by which calls are compared with answers.
//!
//! Follows the published checker rule by rule, its oddities included, since figures are compared
//! across systems: types are checked one level deep; integers are accepted for fractions at the top
//! level only; a value of the answer's own class is accepted whatever the function's description
//! says, and then has to be equal; texts are compared standardised, but not those two levels down.

use rocstar_record::message::{Arguments, ToolCall};
use serde_json::{Map, Value};

use super::python::{Class, class, equal, standardized, with_standard_text};
use super::refusal::{CallRefusal, Refusal};
use super::schema::{FunctionDoc, Kind};
use super::{Answer, BfclGold};

/// Whether the calls are those of the answers, in any order where they are parallel.
pub(super) fn all(gold: &BfclGold, calls: &[ToolCall]) -> Result<(), Refusal> {
    let expected = gold.answers.len();
    if calls.len() != expected {
        let calls = calls.iter().map(|call| call.name.clone()).collect();
        return Err(Refusal::Count { expected, calls });
    }
    let docs: Vec<Option<&FunctionDoc>> =
        gold.answers.iter().map(|answer| gold.doc_of(answer)).collect();
    let name = |index: usize| match docs[index] {
        Some(doc) => doc.name_in(gold.calls_in),
        None => gold.answers[index].function.clone(),
    };
    let fits = |answer: usize, index: usize| {
        one(docs[answer], &name(answer), &gold.answers[answer], &calls[index])
    };
    if !gold.category.is_parallel() {
        let refused = |refusal| Refusal::Call { function: name(0), refusal };
        return fits(0, 0).map_err(refused);
    }
    assign(expected, fits).map_err(|(answer, tried)| {
        let tried = tried.into_iter().map(|(index, refusal)| (index + 1, refusal)).collect();
        Refusal::Unanswered { answer: answer + 1, function: name(answer), tried }
    })
}

/// Calls that don't fit an answer, by their index, and why.
type Tried = Vec<(usize, CallRefusal)>;

/// Gives each answer a call of its own, by augmenting paths. The first answer for which there is
/// none, and the calls that no other answer has.
fn assign(
    count: usize,
    fits: impl Fn(usize, usize) -> Result<(), CallRefusal>,
) -> Result<(), (usize, Tried)> {
    let fitting: Vec<Vec<bool>> = (0..count)
        .map(|answer| (0..count).map(|call| fits(answer, call).is_ok()).collect())
        .collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; count];
    for answer in 0..count {
        if !augment(answer, &fitting, &mut taken_by, &mut vec![false; count]) {
            let free = (0..count).filter(|call| taken_by[*call].is_none());
            let tried = free.filter_map(|call| Some((call, fits(answer, call).err()?))).collect();
            return Err((answer, tried));
        }
    }
    Ok(())
}

fn augment(
    answer: usize,
    fitting: &[Vec<bool>],
    taken_by: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for call in 0..taken_by.len() {
        if !fitting[answer][call] || std::mem::replace(&mut seen[call], true) {
            continue;
        }
        let is_free = match taken_by[call] {
            None => true,
            Some(other) => augment(other, fitting, taken_by, seen),
        };
        if is_free {
            taken_by[call] = Some(answer);
            return true;
        }
    }
    false
}

/// Whether a call is the one of `answer`.
fn one(
    doc: Option<&FunctionDoc>,
    name: &str,
    answer: &Answer,
    call: &ToolCall,
) -> Result<(), CallRefusal> {
    if call.name != name {
        return Err(CallRefusal::Function { expected: name.to_owned(), got: call.name.clone() });
    }
    let Arguments::Object(arguments) = &call.arguments else {
        return Err(CallRefusal::Arguments { got: call.arguments.to_text() });
    };
    let required = doc.map_or(&[][..], |doc| &doc.required);
    for parameter in required {
        // One that the answer doesn't know can't be given rightly.
        if !arguments.contains_key(parameter)
            && let Some(alternatives) = answer.alternatives(parameter)
        {
            let expected = alternatives.to_vec();
            return Err(CallRefusal::Missing { parameter: parameter.clone(), expected });
        }
    }
    for (parameter, value) in arguments {
        let Some(alternatives) = answer.alternatives(parameter) else {
            return Err(CallRefusal::Unexpected {
                parameter: parameter.clone(),
                got: Box::new(value.clone()),
            });
        };
        let kind = doc.and_then(|doc| doc.kind_of(parameter));
        Argument { parameter, value, alternatives }.check(kind)?;
    }
    for (parameter, alternatives) in &answer.parameters {
        if !arguments.contains_key(parameter) && !is_optional(alternatives) {
            let expected = alternatives.clone();
            return Err(CallRefusal::Missing { parameter: parameter.clone(), expected });
        }
    }
    Ok(())
}

fn is_optional(alternatives: &[Value]) -> bool {
    alternatives.iter().any(|value| value == "")
}

/// The class of the first alternative that is a value: what the answer's own type is.
fn class_of_answer(alternatives: &[Value]) -> Option<Class> {
    alternatives.iter().find(|value| *value != "").map(class)
}

/// An argument with the values that are right.
struct Argument<'a> {
    parameter: &'a str,
    value: &'a Value,
    alternatives: &'a [Value],
}

impl Argument<'_> {
    fn check(&self, kind: Option<Kind>) -> Result<(), CallRefusal> {
        let Some(kind) = kind else { return self.equals_one() };
        let found = match class(self.value) {
            Class::Int if kind.class == Class::Float => Class::Float,
            found => found,
        };
        let own = class_of_answer(self.alternatives);
        if found != kind.class {
            // The answer's own class stands in for the described one, and the value has to be equal.
            return if own == Some(found) { self.equals_one() } else { Err(self.of_type(kind)) };
        }
        if kind.element.is_some_and(|element| !self.elements_are(element)) {
            return Err(self.of_type(kind));
        }
        if own.is_some_and(|own| own != kind.class) {
            return self.equals_one();
        }
        match self.value {
            Value::Object(value) => self.object_fits(value),
            Value::Array(value) if kind.element == Some(Class::Dict) => self.objects_fit(value),
            Value::Array(_) => self.list_fits(),
            Value::String(value) => self.text_fits(value),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.equals_one(),
        }
    }

    /// Whether every element of the list is of this class, or of that of an alternative's elements.
    fn elements_are(&self, element: Class) -> bool {
        let Value::Array(values) = self.value else { return false };
        self.alternatives.iter().any(|alternative| match alternative {
            Value::Array(items) => values.iter().all(|value| {
                let found = class(value);
                found == element || class_of_answer(items) == Some(found)
            }),
            _ => true,
        })
    }

    fn equals_one(&self) -> Result<(), CallRefusal> {
        let is_one = self.alternatives.iter().any(|alternative| equal(alternative, self.value));
        if is_one { Ok(()) } else { Err(self.wrong()) }
    }

    fn text_fits(&self, value: &str) -> Result<(), CallRefusal> {
        let value = standardized(value);
        let texts = self.alternatives.iter().filter_map(Value::as_str);
        if texts.into_iter().any(|text| standardized(text) == value) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn list_fits(&self) -> Result<(), CallRefusal> {
        let standard = |value: &Value| match value {
            Value::Array(items) => {
                Some(Value::Array(items.iter().map(with_standard_text).collect()))
            }
            // To be left out, or the empty list.
            Value::String(text) if text.is_empty() => Some(Value::Array(Vec::new())),
            _ => None,
        };
        let value = standard(self.value);
        let mut lists = self.alternatives.iter().filter_map(standard);
        if value.is_some_and(|value| lists.any(|list| equal(&list, &value))) {
            Ok(())
        } else {
            Err(self.wrong())
        }
    }

    fn object_fits(&self, value: &Map<String, Value>) -> Result<(), CallRefusal> {
        let mut last = Err(self.wrong());
        for alternative in self.alternatives.iter().filter_map(Value::as_object) {
            last = object_is(self.parameter, value, alternative);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn objects_fit(&self, values: &[Value]) -> Result<(), CallRefusal> {
        let mut last = Err(self.wrong());
        for alternative in self.alternatives {
            let objects = match alternative {
                Value::Array(objects) => objects.as_slice(),
                Value::String(text) if text.is_empty() => &[],
                _ => continue,
            };
            last = self.objects_are(values, objects);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// One by one, in order.
    fn objects_are(&self, values: &[Value], objects: &[Value]) -> Result<(), CallRefusal> {
        if values.len() != objects.len() {
            let parameter = self.parameter.to_owned();
            let (expected, got) = (objects.len(), values.len());
            return Err(CallRefusal::Length { parameter, expected, got });
        }
        for (index, (value, object)) in values.iter().zip(objects).enumerate() {
            let path = format!("{}[{index}]", self.parameter);
            match (value, object) {
                (Value::Object(value), Value::Object(object)) => object_is(&path, value, object)?,
                _ => return Err(wrong(&path, std::slice::from_ref(object), value)),
            }
        }
        Ok(())
    }

    fn wrong(&self) -> CallRefusal {
        wrong(self.parameter, self.alternatives, self.value)
    }

    fn of_type(&self, kind: Kind) -> CallRefusal {
        let got_type = class(self.value).name();
        CallRefusal::Type {
            parameter: self.parameter.to_owned(),
            expected: kind.to_string(),
            got_type,
            got: Box::new(self.value.clone()),
        }
    }
}

fn wrong(parameter: &str, alternatives: &[Value], value: &Value) -> CallRefusal {
    CallRefusal::Value {
        parameter: parameter.to_owned(),
        expected: alternatives.to_vec(),
        got: Box::new(value.clone()),
    }
}

/// Whether an object has the right keys with right values. An answer's keys hold lists of
/// alternatives.
fn object_is(
    parameter: &str,
    value: &Map<String, Value>,
    answer: &Map<String, Value>,
) -> Result<(), CallRefusal> {
    let alternatives = |value: &Value| match value {
        Value::Array(alternatives) => alternatives.clone(),
        single => vec![single.clone()],
    };
    for (key, value) in value {
        let parameter = format!("{parameter}.{key}");
        let Some(expected) = answer.get(key).map(alternatives) else {
            return Err(CallRefusal::UnexpectedKey { parameter, got: Box::new(value.clone()) });
        };
        let standard = with_standard_text(value);
        if !expected.iter().any(|one| equal(&with_standard_text(one), &standard)) {
            return Err(wrong(&parameter, &expected, value));
        }
    }
    for (key, expected) in answer {
        let expected = alternatives(expected);
        if !value.contains_key(key) && !expected.iter().any(|value| value == "") {
            return Err(CallRefusal::MissingKey {
                parameter: format!("{parameter}.{key}"),
                expected,
            });
        }
    }
    Ok(())
}

impl Answer {
    /// Values that are right for a parameter; `None` where the answer doesn't know it.
    pub(super) fn alternatives(&self, parameter: &str) -> Option<&[Value]> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(name, _)| name == parameter).map(|(_, values)| values.as_slice())
    }
}

impl BfclGold {
    /// The description of an answer's function. The only function is the one, whatever it is called.
    fn doc_of(&self, answer: &Answer) -> Option<&FunctionDoc> {
        if self.category.has_one_function() {
            return self.functions.first();
        }
        self.functions.iter().find(|doc| doc.name == answer.function)
    }
}
