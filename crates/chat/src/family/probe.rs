//! The conversations by which a family is told from another.

use rocstar_record::message::{Arguments, Message, Role, ToolCall, ToolSpec};
use serde_json::{Map, json};

use super::{Family, Style};
use crate::error::Error;

impl Family {
    /// Whether the family's turns are the template's, on everything that the family can write.
    pub(super) fn check_probes(&self) -> Result<(), Error> {
        let text = |role, content| Message::text(role, content);
        let chat = [
            text(Role::System, "S0"),
            text(Role::User, "U1"),
            text(Role::Assistant, "A1"),
            text(Role::User, "U2"),
            text(Role::Assistant, "A2"),
        ];
        for length in 1..=chat.len() {
            if length > 1 {
                self.conversation(&chat[..length], &[])?;
                self.conversation(&chat[1..length], &[])?;
            }
        }
        match self.style {
            Style::SmolLm2 => return Ok(()),
            Style::Qwen25 => {}
            Style::RStar2 | Style::Qwen3 | Style::Qwen3Kept => {
                let thinking = Message {
                    reasoning_content: Some("R1".to_owned()),
                    ..text(Role::Assistant, "A1")
                };
                let with_thinking =
                    [text(Role::User, "U1"), thinking, text(Role::User, "U2"), chat[4].clone()];
                self.conversation(&with_thinking[..2], &[])?;
                self.conversation(&with_thinking, &[])?;
            }
        }
        let tools = [tool("f"), tool("g")];
        let two_calls = Message { tool_calls: vec![call("f"), call("g")], ..chat[2].clone() };
        let one_call = Message { tool_calls: vec![call("f")], ..text(Role::Assistant, "") };
        let with_tools = [
            chat[0].clone(),
            chat[1].clone(),
            two_calls,
            text(Role::Tool, "T1"),
            text(Role::Tool, "T2"),
            one_call,
            text(Role::Tool, "T3"),
            chat[4].clone(),
        ];
        for length in [2, 3, 5, 6, 7, 8] {
            self.conversation(&with_tools[..length], &tools)?;
            self.conversation(&with_tools[1..length], &tools)?;
        }
        Ok(())
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: Some("D".to_owned()),
        parameters: Some(json!({"type": "object", "properties": {"x": {"type": "string"}}})),
    }
}

fn call(name: &str) -> ToolCall {
    let mut arguments = Map::new();
    arguments.insert("x".to_owned(), json!("é\n"));
    arguments.insert("y".to_owned(), json!([1, 2.5, null, true]));
    ToolCall { id: None, name: name.to_owned(), arguments: Arguments::Object(arguments) }
}
