//! Descriptions of functions: the types that arguments are checked by, and the schema that the model
//! is shown.
//!
//! The data's types are Python's; a model is shown JSON schema. Invariant: nothing else of a
//! description is changed.

use std::fmt;

use rocstar_record::message::ToolSpec;
use serde_json::{Map, Value};

use super::CallsIn;
use super::python::Class;

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDoc {
    /// Its name; may have dots.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Parameters that must be given.
    pub required: Vec<String>,
    /// Its parameters as the data describes them: `type`, `properties`, `required`.
    parameters: Map<String, Value>,
    kinds: Vec<(String, Kind)>,
}

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// Of a list: what its elements must be.
    pub(super) element: Option<Class>,
    /// The data's word for it.
    name: &'static str,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            None => formatter.write_str(self.name),
            Some(element) => write!(formatter, "{} of {}", self.name, element.name()),
        }
    }
}

/// The data's types, the class that a value of each has, and JSON schema's word for it.
const TYPES: [(&str, Class, &str); 8] = [
    ("string", Class::Str, "string"),
    ("integer", Class::Int, "integer"),
    ("float", Class::Float, "number"),
    ("boolean", Class::Bool, "boolean"),
    ("array", Class::List, "array"),
    ("tuple", Class::List, "array"),
    ("dict", Class::Dict, "object"),
    // The published checker takes a text for it.
    ("any", Class::Str, "string"),
];

fn known(name: &str) -> Option<(&'static str, Class, &'static str)> {
    TYPES.into_iter().find(|(known, ..)| *known == name)
}

impl FunctionDoc {
    /// Reads a function of the data.
    ///
    /// # Errors
    /// The field that is wrong, and what is wrong with it.
    pub(super) fn read(value: &Value) -> Result<Self, (String, String)> {
        let fault = |field: &str, problem: &str| (field.to_owned(), problem.to_owned());
        let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").ok_or_else(|| fault("name", "must be a text"))?;
        let parameters = value.get("parameters").and_then(Value::as_object);
        let parameters =
            parameters.ok_or_else(|| fault("parameters", "must be an object"))?.clone();
        let properties = parameters.get("properties").and_then(Value::as_object);
        let properties =
            properties.ok_or_else(|| fault("parameters.properties", "must be an object"))?;
        let mut kinds = Vec::with_capacity(properties.len());
        for (parameter, description) in properties {
            let at = format!("parameters.properties.{parameter}");
            let kind = Kind::read(description)
                .map_err(|(field, problem)| (format!("{at}.{field}"), problem))?;
            kinds.push((parameter.clone(), kind));
        }
        let required = match parameters.get("required") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => serde_json::from_value(list.clone())
                .map_err(|_| fault("parameters.required", "must be a list of texts"))?,
        };
        let description = text("description").unwrap_or_default();
        Ok(Self { name, description, required, parameters, kinds })
    }

    /// The name that the model is to call it by.
    pub fn name_in(&self, calls_in: CallsIn) -> String {
        match calls_in {
            CallsIn::Tools => self.name.replace('.', "_"),
            CallsIn::Text => self.name.clone(),
        }
    }

    /// It as a tool that the model is offered.
    pub fn spec(&self) -> ToolSpec {
        let mut parameters = self.parameters.clone();
        parameters.insert("type".to_owned(), "object".into());
        if let Some(Value::Object(properties)) = parameters.get_mut("properties") {
            properties.values_mut().for_each(to_json_schema);
        }
        ToolSpec {
            name: self.name_in(CallsIn::Tools),
            description: Some(self.description.clone()),
            parameters: Some(Value::Object(parameters)),
        }
    }

    /// It as the data describes it, for a prompt.
    pub(super) fn as_data(&self) -> Value {
        serde_json::json!({
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        })
    }

    pub(super) fn kind_of(&self, parameter: &str) -> Option<Kind> {
        self.kinds.iter().find(|(name, _)| name == parameter).map(|(_, kind)| *kind)
    }
}

impl Kind {
    fn read(description: &Value) -> Result<Self, (&'static str, String)> {
        let read = |value: Option<&Value>, field| {
            let name = value.and_then(Value::as_str);
            name.and_then(known).ok_or_else(|| {
                let names: Vec<&str> = TYPES.iter().map(|(name, ..)| *name).collect();
                (field, format!("must be one of {}", names.join(", ")))
            })
        };
        let (name, class, _) = read(description.get("type"), "type")?;
        let element = match (class, description.get("items")) {
            (Class::List, Some(items)) => Some(read(items.get("type"), "items.type")?.1),
            _ => None,
        };
        Ok(Self { class, element, name })
    }
}

/// Puts JSON schema's types for the data's, here and inside.
fn to_json_schema(description: &mut Value) {
    let Value::Object(description) = description else { return };
    let name = description.get("type").and_then(Value::as_str);
    let is_float = name == Some("float");
    let schema = name.and_then(known).map_or("string", |(_, _, schema)| schema);
    description.insert("type".to_owned(), schema.into());
    if is_float {
        description.entry("format").or_insert_with(|| "float".into());
    }
    if let Some(Value::Object(properties)) = description.get_mut("properties") {
        properties.values_mut().for_each(to_json_schema);
    }
    if let Some(items) = description.get_mut("items") {
        to_json_schema(items);
    }
}
