//! How a server is told of tools, how calls come back, and how answers go out: by fields of its
//! interface, or all as text that we write and read.

use std::collections::BTreeSet;

use rocstar_chat::calls::{CallFormat, Event};
use rocstar_record::message::{Arguments, Message, Role, ToolCall, ToolSpec};
use serde_json::{Value, json};

use super::ask::{ChatEnd, ChatReply};

/// Who writes and reads calls.
#[derive(Debug, Clone)]
pub(super) enum Dialect {
    /// The server.
    Server,
    /// We do, in this format.
    Ours(CallFormat),
}

/// What the model wrote in a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Written {
    /// Its text, calls apart.
    pub(super) text: String,
    pub(super) calls: Vec<Found>,
}

/// Something that is or looks like a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// As it was read; `None` where it could not be.
    pub(super) call: Option<ToolCall>,
    /// What is wrong with it, in words for the model.
    pub(super) problem: Option<String>,
}

impl Dialect {
    /// The conversation so far and the tools, as the server is to get them.
    pub(super) fn open(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> (Vec<Message>, Vec<ToolSpec>) {
        let mut messages = messages.to_vec();
        match self {
            Self::Server => (messages, tools.to_vec()),
            Self::Ours(_) if tools.is_empty() => (messages, Vec::new()),
            Self::Ours(format) => {
                let described = describe(format, tools);
                match messages.first_mut() {
                    Some(first) if first.role == Role::System => {
                        first.content = format!("{}\n\n{described}", first.content);
                    }
                    _ => messages.insert(0, Message::text(Role::System, described)),
                }
                (messages, Vec::new())
            }
        }
    }

    /// What the model wrote. Nothing is a call where there are no `tools`.
    pub(super) fn read(&self, reply: &ChatReply, has_tools: bool) -> Written {
        match self {
            Self::Server => Written { text: reply.text.clone(), calls: found_by_server(reply) },
            Self::Ours(_) if !has_tools => Written { text: reply.text.clone(), calls: Vec::new() },
            Self::Ours(format) => {
                let mut written = Written::default();
                let mut parser = format.parser();
                let certain = parser.push(&reply.text);
                // What a limit cut in two is no call.
                let is_cut = !matches!(reply.end, ChatEnd::Stop | ChatEnd::Calls);
                let last = parser.finish().into_iter();
                let last = last.filter(|event| !is_cut || matches!(event, Event::Text(_)));
                for event in certain.into_iter().chain(last) {
                    written.add(event);
                }
                written
            }
        }
    }

    /// The turn as it goes back to the server.
    pub(super) fn turn(
        &self,
        reply: ChatReply,
        written: &Written,
        return_reasoning: bool,
    ) -> Message {
        let reasoning_content = reply.reasoning.filter(|_| return_reasoning);
        let message = Message { reasoning_content, ..Message::text(Role::Assistant, reply.text) };
        match self {
            Self::Ours(_) => message,
            Self::Server => {
                let tool_calls = written.calls.iter().filter_map(|found| found.call.clone());
                Message { tool_calls: tool_calls.collect(), ..message }
            }
        }
    }

    /// The answers to a turn's calls as they go to the server.
    pub(super) fn answers(&self, calls: &[Found], shown: &[String]) -> Vec<Message> {
        match self {
            Self::Server => {
                let answers = calls.iter().zip(shown);
                answers
                    .map(|(found, text)| {
                        let call = found.call.as_ref();
                        Message {
                            tool_call_id: call.and_then(|call| call.id.clone()),
                            name: call.map(|call| call.name.clone()),
                            ..Message::text(Role::Tool, text.clone())
                        }
                    })
                    .collect()
            }
            Self::Ours(_) => {
                let answer = |text: &String| format!("<tool_response>\n{text}\n</tool_response>");
                let all: Vec<String> = shown.iter().map(answer).collect();
                vec![Message::text(Role::User, all.join("\n"))]
            }
        }
    }
}

impl Written {
    fn add(&mut self, event: Event) {
        match event {
            Event::Text(text) => self.text += &text,
            Event::Call(parsed) => {
                self.calls.push(Found { call: Some(parsed.call), problem: None })
            }
            Event::Failed(failure) => {
                self.calls.push(Found { call: None, problem: Some(failure.to_string()) });
            }
        }
    }
}

/// Calls with an identity each: answers name it.
fn found_by_server(reply: &ChatReply) -> Vec<Found> {
    let mut seen = BTreeSet::new();
    let calls = reply.calls.iter().enumerate().map(|(index, call)| {
        let mut call = call.clone();
        let is_new = call.id.as_ref().is_some_and(|id| !id.is_empty() && seen.insert(id.clone()));
        if !is_new {
            call.id = Some(format!("call_{index}"));
        }
        let problem = problem(&call);
        Found { call: Some(call), problem }
    });
    let malformed = reply.malformed.iter();
    let malformed = malformed.map(|problem| Found { call: None, problem: Some(problem.clone()) });
    calls.chain(malformed).collect()
}

fn problem(call: &ToolCall) -> Option<String> {
    let name = &call.name;
    if name.is_empty() {
        return Some("Tool call failed: the name of the tool is missing.".to_owned());
    }
    let Arguments::Text(text) = &call.arguments else { return None };
    let problem = match serde_json::from_str::<Value>(text) {
        Ok(_) => "they are no JSON object".to_owned(),
        Err(error) => format!("they are no JSON: {error}"),
    };
    Some(format!("Tool call failed: the arguments of `{name}` can't be read, {problem}."))
}

/// What the model is told of tools, in the words of this format.
fn describe(format: &CallFormat, tools: &[ToolSpec]) -> String {
    let line = |tool: &ToolSpec| {
        let ToolSpec { name, description, parameters } = tool;
        json!({"name": name, "description": description, "parameters": parameters}).to_string()
    };
    let lines: Vec<String> = tools.iter().map(line).collect();
    let example = example(format, tools);
    format!(
        "You can call these functions, described as JSON, one a line:\n\n{}\n\nTo call a function, \
         write exactly in this form:\n\n{example}\n\nThe results come in the next message, each \
         between <tool_response> and </tool_response>. Answer without a call once you need none.",
        lines.join("\n")
    )
}

/// A call of the first tool that the format can write.
fn example(format: &CallFormat, tools: &[ToolSpec]) -> String {
    let call = |tool: &ToolSpec| {
        let fields = tool.parameters.as_ref().and_then(|schema| schema.get("properties"));
        let fields = fields.and_then(Value::as_object);
        let name = fields.and_then(|fields| fields.keys().next());
        let map = name.map(|name| (name.clone(), json!("..."))).into_iter().collect();
        let arguments = Arguments::Object(map);
        format.render(&ToolCall { id: None, name: tool.name.clone(), arguments }).ok()
    };
    tools.iter().find_map(call).unwrap_or_default()
}

/// A text of at most about `most` characters: what is longer loses its middle, with a mark. Also
/// says how many characters were cut.
pub(super) fn cut(text: &str, most: usize) -> (String, usize) {
    let chars = text.chars().count();
    if chars <= most {
        return (text.to_owned(), 0);
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (most.div_ceil(2), most / 2);
    let cut = chars - most;
    let shown = format!(
        "{}\n[... {cut} characters cut ...]\n{}",
        &text[..at(head)],
        &text[at(chars - tail)..]
    );
    (shown, cut)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn tool() -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {"code": {"type": "string"}}});
        ToolSpec { name: "run".to_owned(), description: None, parameters: Some(parameters) }
    }

    #[test]
    fn the_middle_of_a_long_text_is_cut() {
        assert_eq!(cut("äbcdé", 5), ("äbcdé".to_owned(), 0));
        assert_eq!(cut("äbcdé", 3), ("äb\n[... 2 characters cut ...]\né".to_owned(), 2));
    }

    #[test]
    fn our_dialect_is_text_alone() {
        let dialect = Dialect::Ours(CallFormat::Hermes);
        let question = Message::text(Role::User, "?");
        let (messages, tools) = dialect.open(std::slice::from_ref(&question), &[tool()]);
        assert_eq!((messages.len(), tools.len()), (2, 0));
        let example =
            "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"code\": \"...\"}}\n</tool_call>";
        assert!(messages[0].content.contains(example), "{}", messages[0].content);

        let text = "so <tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"1\"}}</tool_call>\
                    <tool_call>{]</tool_call>";
        let reply = ChatReply { text: text.to_owned(), ..ChatReply::default() };
        let written = dialect.read(&reply, true);
        assert_eq!((written.text.as_str(), written.calls.len()), ("so ", 2));
        assert!(written.calls[0].problem.is_none() && written.calls[1].call.is_none());
        assert_eq!(dialect.read(&reply, false).calls, []);
        let turn = dialect.turn(reply, &written, false);
        assert_eq!((turn.content.as_str(), turn.tool_calls.len()), (text, 0));
        let answers = dialect.answers(&written.calls, &["1".to_owned(), "no".to_owned()]);
        let expected =
            "<tool_response>\n1\n</tool_response>\n<tool_response>\nno\n</tool_response>";
        assert_eq!(answers, [Message::text(Role::User, expected)]);
    }

    #[test]
    fn a_call_that_a_limit_cut_is_none() {
        let dialect = Dialect::Ours(CallFormat::Hermes);
        let text = "a <tool_call>{\"name\": \"run\"".to_owned();
        let reply = ChatReply { text, end: ChatEnd::Length, ..ChatReply::default() };
        assert_eq!(dialect.read(&reply, true).calls, []);
    }

    #[test]
    fn calls_of_a_server_are_told_apart_and_checked() {
        let call = |id: Option<&str>, arguments: &str| ToolCall {
            id: id.map(str::to_owned),
            name: "run".to_owned(),
            arguments: Arguments::from_text(arguments),
        };
        let calls = vec![call(Some("a"), "{}"), call(Some("a"), "[1]"), call(None, "{\"x\"")];
        let malformed = vec!["no".to_owned()];
        let reply = ChatReply { calls, malformed, ..ChatReply::default() };
        let written = Dialect::Server.read(&reply, true);
        let ids: Vec<_> =
            written.calls.iter().flat_map(|it| it.call.clone()).map(|it| it.id).collect();
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(ids, [id("a"), id("call_1"), id("call_2")]);
        let problems: Vec<_> = written.calls.iter().map(|it| it.problem.as_deref()).collect();
        assert_eq!(problems[0], None);
        assert!(problems[1].is_some_and(|text| text.contains("no JSON object")));
        assert!(problems[2].is_some_and(|text| text.contains("EOF")));
        assert_eq!(problems[3], Some("no"));
    }
}
