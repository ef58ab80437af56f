//! Whether a template only ever appends.
//!
//! Multi-turn training needs each turn's prompt to extend the last one. Some templates rewrite what
//! they rendered before (Qwen3 drops the thinking of earlier turns, for example). The check renders
//! a conversation at each of its turns, and compares each text with the next.

use rocstar_record::message::{Message, Role, ToolSpec};

use super::{RenderOptions, Template};
use crate::{difference::Difference, error::Error};

impl Template {
    /// Checks that the rendering of a conversation only grows: after each message, and with each
    /// assistant's opening. Tool messages that follow each other are one step, since templates put
    /// them into one turn.
    ///
    /// # Errors
    /// [`Error::NotAppendOnly`] with the first message that changes earlier text; otherwise as
    /// [`Self::render`].
    pub fn check_append_only(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        options: &RenderOptions,
    ) -> Result<(), Error> {
        let plain = RenderOptions { add_generation_prompt: false, ..options.clone() };
        let opening = RenderOptions { add_generation_prompt: true, ..options.clone() };
        let mut previous: Option<String> = None;
        for length in steps(messages) {
            let next = self.render(&messages[..length], tools, &plain)?;
            if let Some(previous) = &previous {
                is_prefix(previous, &next, length - 1)?;
            }
            if messages.get(length).is_some_and(|message| message.role == Role::Assistant) {
                let prompt = self.render(&messages[..length], tools, &opening)?;
                is_prefix(&next, &prompt, length - 1)?;
                let answered = self.render(&messages[..=length], tools, &plain)?;
                is_prefix(&prompt, &answered, length)?;
            }
            previous = Some(next);
        }
        Ok(())
    }
}

/// Lengths of the conversation after each step, from the first message of a user on.
fn steps(messages: &[Message]) -> impl Iterator<Item = usize> {
    let first_user = messages.iter().position(|message| message.role == Role::User);
    let start = first_user.unwrap_or(messages.len());
    (start + 1..=messages.len()).filter(|&length| {
        let is_tool = |message: Option<&Message>| message.is_some_and(|m| m.role == Role::Tool);
        !(is_tool(messages.get(length - 1)) && is_tool(messages.get(length)))
    })
}

fn is_prefix(before: &str, after: &str, message: usize) -> Result<(), Error> {
    if after.starts_with(before) {
        return Ok(());
    }
    let end = before.len().min(after.len());
    let end = (0..=end).rev().find(|&end| after.is_char_boundary(end)).unwrap_or(0);
    let difference = Difference::between(before, &after[..end]);
    Err(Error::NotAppendOnly { message, difference })
}
