//! Functions in the prompt, and calls in the text of the answer: `[f(a=1), g(b="x")]`.
//!
//! What is around the list is taken off as the published reader does it: white space, back quotes of
//! a block without a language, and brackets that are missing are added. The list itself is read by
//! the parser of pythonic calls that serving and training use; arguments are literals with names.

use rocstar_chat::calls::{CallFormat, Event};
use rocstar_record::message::{Message, Role, ToolCall};
use serde_json::Value;

use super::Unreadable;
use super::schema::FunctionDoc;

/// The question with the functions in its system message.
pub(super) fn with_functions(messages: Vec<Message>, functions: &[FunctionDoc]) -> Vec<Message> {
    let docs: Vec<Value> = functions.iter().map(FunctionDoc::as_data).collect();
    let mut system = format!(
        "You answer by calling functions. Below the user's question you find none of their code, \
         only what they do and which parameters they take.\n\n\
         - Call every function that the question needs, as often as it needs it, with the values that \
         the question gives.\n\
         - If no function can answer the question, or a value that a function requires is not given, \
         say so in a sentence and call nothing.\n\
         - Calls are the whole reply, in one list, with the name of each argument and its value as a \
         Python literal: [first_function(parameter=1, other=\"text\"), second_function()]\n\n\
         The functions, as JSON:\n{}",
        Value::Array(docs)
    );
    let mut messages = messages;
    match messages.first_mut() {
        Some(first) if first.role == Role::System => {
            system += "\n\n";
            system += &first.content;
            first.content = system;
        }
        _ => messages.insert(0, Message::text(Role::System, system)),
    }
    messages
}

/// The calls in a text that should be nothing else.
///
/// # Errors
/// It is not, or a call can't be read.
pub(super) fn calls(text: &str) -> Result<Vec<ToolCall>, Unreadable> {
    let text = text.trim_matches(['`', '\n', ' ']);
    let open = if text.starts_with('[') { "" } else { "[" };
    let close = if text.ends_with(']') { "" } else { "]" };
    let list = format!("{open}{text}{close}");
    if list[1..list.len() - 1].trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut calls = Vec::new();
    for event in CallFormat::Pythonic.parse_all(&list) {
        match event {
            Event::Call(parsed) => calls.push(parsed.call),
            Event::Failed(failure) => return Err(Unreadable { problem: failure.to_string() }),
            Event::Text(rest) if rest.trim().is_empty() => {}
            Event::Text(_) => {
                let problem = "the text is no list of calls like [f(a=1), g()]".to_owned();
                return Err(Unreadable { problem });
            }
        }
    }
    Ok(calls)
}
