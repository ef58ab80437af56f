//! A conversation as data: what chat data sets hold, what templates render, what servers exchange.
//!
//! Invariant: reading a message and writing it again loses nothing that a template or a tool may
//! look at. Tool arguments keep their order and their exact JSON value; a message's text is never
//! trimmed. The JSON form is the one that OpenAI's API and Hugging Face data sets share.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions for the whole conversation. Read also from `developer`.
    #[serde(alias = "developer")]
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The answer to a tool call. Read also from `function` and `ipython`.
    #[serde(alias = "function", alias = "ipython")]
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; empty where the message is tool calls only.
    #[serde(default, deserialize_with = "content::deserialize")]
    pub content: String,
    /// Thinking that some templates render apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls that the assistant makes, in order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "calls::deserialize"
    )]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool's answer: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The speaker's name; for a tool's answer, the tool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message of text only.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }
}

/// A call of a tool, parsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "wire::AnyCall", into = "wire::OpenAiCall")]
pub struct ToolCall {
    /// Identity of the call, where the conversation has one.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments, in the order in which they were written.
    pub arguments: Arguments,
}

/// Arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// A JSON object, as every tool expects.
    Object(Map<String, Value>),
    /// Text that is no JSON object, kept as it came. Data sets and clients may hold such calls.
    Text(String),
}

impl Arguments {
    /// From text that should be a JSON object.
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).map_or_else(|_| Self::Text(text.to_owned()), Self::Object)
    }

    /// As one JSON text, the form of OpenAI's API.
    pub fn to_text(&self) -> String {
        match self {
            Self::Object(map) => Value::Object(map.clone()).to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "wire::AnyTool", into = "wire::OpenAiTool")]
pub struct ToolSpec {
    /// Name to call it by.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON schema of the arguments; `None` where the tool takes none.
    pub parameters: Option<Value>,
}

/// `content` may be text, null, absent, or OpenAI's list of parts, of which the text is kept.
mod content {
    use serde::{Deserialize, Deserializer, de::Error as _};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`content` must be a text, null or a list of parts")]
    enum Any {
        Text(String),
        Parts(Vec<Part>),
    }

    #[derive(Deserialize)]
    struct Part {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        text: Option<String>,
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        match Option::<Any>::deserialize(from)? {
            None => Ok(String::new()),
            Some(Any::Text(text)) => Ok(text),
            Some(Any::Parts(parts)) => {
                let mut all = String::new();
                for part in parts {
                    match (part.kind.as_str(), part.text) {
                        ("text" | "input_text" | "output_text", Some(text)) => all += &text,
                        (kind, _) => {
                            return Err(D::Error::custom(format!(
                                "content of type `{kind}` is not supported, only text"
                            )));
                        }
                    }
                }
                Ok(all)
            }
        }
    }
}

/// `tool_calls` may be null.
mod calls {
    use serde::{Deserialize, Deserializer};

    use super::ToolCall;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<ToolCall>, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or_default())
    }
}

/// The JSON forms: OpenAI's nested one is written; the flat one of many data sets is read too.
mod wire {
    use serde::{Deserialize, Serialize};
    use serde_json::{Map, Value};

    use super::{Arguments, ToolCall, ToolSpec};

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a tool call must have `function` with `name`, a text, and `arguments`, an \
                     object or its JSON as a text (or both without `function`)"
    )]
    pub(super) enum AnyCall {
        Nested {
            #[serde(default)]
            id: Option<String>,
            function: Function,
        },
        Flat {
            #[serde(default)]
            id: Option<String>,
            #[serde(flatten)]
            function: Function,
        },
    }

    #[derive(Deserialize)]
    pub(super) struct Function {
        name: String,
        #[serde(default)]
        arguments: AnyArguments,
    }

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`arguments` must be an object or its JSON as a text")]
    enum AnyArguments {
        Object(Map<String, Value>),
        Text(String),
        Null(()),
    }

    impl Default for AnyArguments {
        fn default() -> Self {
            Self::Object(Map::new())
        }
    }

    impl From<AnyCall> for ToolCall {
        fn from(any: AnyCall) -> Self {
            let (id, Function { name, arguments }) = match any {
                AnyCall::Nested { id, function } | AnyCall::Flat { id, function } => (id, function),
            };
            let arguments = match arguments {
                AnyArguments::Object(map) => Arguments::Object(map),
                AnyArguments::Text(text) => Arguments::from_text(&text),
                AnyArguments::Null(()) => Arguments::Object(Map::new()),
            };
            Self { id, name, arguments }
        }
    }

    #[derive(Serialize)]
    pub(super) struct OpenAiCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(rename = "type")]
        kind: &'static str,
        function: OpenAiFunction,
    }

    #[derive(Serialize)]
    struct OpenAiFunction {
        name: String,
        arguments: String,
    }

    impl From<ToolCall> for OpenAiCall {
        fn from(call: ToolCall) -> Self {
            let arguments = call.arguments.to_text();
            let function = OpenAiFunction { name: call.name, arguments };
            Self { id: call.id, kind: "function", function }
        }
    }

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a tool must have `function` with `name`, a text, and perhaps `description` \
                     and `parameters` (or these without `function`)"
    )]
    pub(super) enum AnyTool {
        Nested { function: Tool },
        Flat(Tool),
    }

    #[derive(Serialize, Deserialize)]
    pub(super) struct Tool {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameters: Option<Value>,
    }

    impl From<AnyTool> for ToolSpec {
        fn from(any: AnyTool) -> Self {
            let Tool { name, description, parameters } = match any {
                AnyTool::Nested { function } | AnyTool::Flat(function) => function,
            };
            Self { name, description, parameters }
        }
    }

    #[derive(Serialize)]
    pub(super) struct OpenAiTool {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Tool,
    }

    impl From<ToolSpec> for OpenAiTool {
        fn from(spec: ToolSpec) -> Self {
            let ToolSpec { name, description, parameters } = spec;
            Self { kind: "function", function: Tool { name, description, parameters } }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Message {
        serde_json::from_value(value).expect("a message")
    }

    #[test]
    fn a_call_is_read_in_each_form_and_written_in_one() {
        let arguments = json!({"z": 1, "a": [true, "x"]});
        let forms = [
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments.to_string()}}),
            json!({"id": "c1", "function": {"name": "f", "arguments": arguments}}),
            json!({"id": "c1", "name": "f", "arguments": arguments}),
        ];
        let written = forms[0].clone();
        for form in forms {
            let message = read(json!({"role": "assistant", "content": null, "tool_calls": [form]}));
            assert_eq!(serde_json::to_value(&message.tool_calls[0]).expect("JSON"), written);
        }
    }

    #[test]
    fn arguments_that_are_no_object_stay_as_they_are() {
        let call: ToolCall =
            serde_json::from_value(json!({"name": "f", "arguments": "{broken"})).expect("a call");
        assert_eq!(call.arguments, Arguments::Text("{broken".into()));
    }

    #[test]
    fn parts_of_text_are_joined_and_others_refused() {
        let message = read(
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]}),
        );
        assert_eq!(message.content, "a b");
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]});
        let error = serde_json::from_value::<Message>(image).expect_err("an image");
        assert_eq!(error.to_string(), "content of type `image_url` is not supported, only text");
    }

    #[test]
    fn what_is_wrong_with_a_call_or_a_content_is_told() {
        let error =
            |value| serde_json::from_value::<Message>(value).expect_err("wrong").to_string();
        let nameless =
            json!({"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]});
        assert!(error(nameless).starts_with("a tool call must have `function` with `name`"));
        let listed = json!({"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]});
        assert!(error(listed).contains("`arguments`, an object or its JSON as a text"));
        let number = json!({"role": "user", "content": 7});
        assert_eq!(error(number), "`content` must be a text, null or a list of parts");
    }

    #[test]
    fn a_tool_is_read_in_both_forms() {
        let tool = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
        let nested: ToolSpec =
            serde_json::from_value(json!({"type": "function", "function": tool})).expect("a tool");
        assert_eq!(nested, serde_json::from_value(tool).expect("a tool"));
    }
}
