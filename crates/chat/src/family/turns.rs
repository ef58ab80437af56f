//! One turn as each family writes it, cut into segments by who wrote them.

use rocstar_record::message::{Message, Role};

use super::{Family, Style, USER, system_messages};
use crate::{calls::CallFormat, error::Error, transcript::Provenance};

/// The token that begins every turn of ChatML.
pub(crate) const START_OF_TURN: &str = "<|im_start|>";
/// The token that ends every turn of ChatML.
pub(crate) const END_OF_TURN: &str = "<|im_end|>";
const ASSISTANT: &str = "<|im_start|>assistant\n";
const REASON: (&str, &str) = ("<reason>", "</reason>");
const NO_THINKING: &str = "<think>\n\n</think>\n\n";
const TOOL_RESPONSE: (&str, &str) = ("<tool_response>", "</tool_response>");

/// Text with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) provenance: Provenance,
    pub(crate) text: String,
}

/// A turn, or the group of tool messages that shares one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Of anyone but the assistant, ended.
    Given(Vec<Segment>),
    /// Of the assistant.
    Assistant {
        /// What is written for it.
        opening: String,
        /// What it wrote itself; the end of the turn follows.
        body: String,
        /// Index of the message.
        message: usize,
        /// Whether a later turn makes the template forget part of the body.
        is_forgotten: bool,
    },
}

impl Turn {
    /// The turn's whole text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Given(segments) => segments.iter().map(|segment| segment.text.as_str()).collect(),
            Self::Assistant { opening, body, .. } => format!("{opening}{body}{END_OF_TURN}\n"),
        }
    }
}

/// What an assistant's message depends on beside itself.
struct Place {
    index: usize,
    is_last: bool,
    /// Whether a user asks again after it.
    is_before_last_question: bool,
}

impl Family {
    /// The turns behind the opening.
    pub(super) fn turns(&self, messages: &[Message]) -> Result<Vec<Turn>, Error> {
        let last_question = last_question(messages);
        let mut turns = Vec::new();
        let mut index = system_messages(messages);
        while let Some(message) = messages.get(index) {
            match message.role {
                Role::System | Role::User => {
                    turns.push(Turn::Given(self.given_turn(message)));
                    index += 1;
                }
                Role::Assistant => {
                    let place = Place {
                        index,
                        is_last: index + 1 == messages.len(),
                        is_before_last_question: index <= last_question,
                    };
                    turns.push(self.assistant_turn(message, &place)?);
                    index += 1;
                }
                Role::Tool => {
                    let rest = &messages[index..];
                    let others = rest.iter().position(|message| message.role != Role::Tool);
                    let group = &rest[..others.unwrap_or(rest.len())];
                    turns.push(Turn::Given(self.tool_turn(group)));
                    index += group.len();
                }
            }
        }
        Ok(turns)
    }

    /// The turn of a user, or of a system message that isn't the first.
    pub(crate) fn given_turn(&self, message: &Message) -> Vec<Segment> {
        let (opening, provenance) = match message.role {
            Role::User => (self.user_opening.clone(), Provenance::User),
            role => (format!("<|im_start|>{}\n", name(role)), Provenance::System),
        };
        turn(opening, vec![Segment { provenance, text: message.content.clone() }])
    }

    /// The turn in which tools answer.
    pub(crate) fn tool_turn(&self, group: &[Message]) -> Vec<Segment> {
        let answer = |message: &Message| Segment {
            provenance: Provenance::Tool,
            text: message.content.clone(),
        };
        if self.style == Style::SmolLm2 {
            let each = |message| turn("<|im_start|>tool\n".to_owned(), vec![answer(message)]);
            return group.iter().flat_map(each).collect();
        }
        let mut content = Vec::new();
        for (index, message) in group.iter().enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            content.push(template_segment(format!("{line}{}\n", TOOL_RESPONSE.0)));
            content.push(answer(message));
            content.push(template_segment(format!("\n{}", TOOL_RESPONSE.1)));
        }
        turn(USER.to_owned(), content)
    }

    fn assistant_turn(&self, message: &Message, place: &Place) -> Result<Turn, Error> {
        let calls = self.calls(message, place)?;
        let (opening, body) = match self.style {
            Style::SmolLm2 | Style::Qwen25 => {
                if reasoning(message).is_some() {
                    let message = place.index;
                    return Err(Error::ReasoningUnsupported { message, family: self.name() });
                }
                (ASSISTANT.to_owned(), join(&message.content, &calls))
            }
            Style::RStar2 => (format!("{ASSISTANT}{}", REASON.0), rstar2_body(message, &calls)),
            Style::Qwen3 | Style::Qwen3Kept => {
                return Ok(self.qwen3_turn(message, &calls, place));
            }
        };
        Ok(Turn::Assistant { opening, body, message: place.index, is_forgotten: false })
    }

    /// Thinking in front, where the template shows it; an empty one is written for the assistant.
    fn qwen3_turn(&self, message: &Message, calls: &str, place: &Place) -> Turn {
        let (thinking, content) = qwen3_parts(message);
        let forgets = self.style == Style::Qwen3 && place.is_before_last_question;
        let skips = self.style == Style::Qwen3 && thinking.is_empty() && !place.is_last;
        let mut opening = ASSISTANT.to_owned();
        let mut body = join(content, calls);
        if !forgets && !skips {
            let line_ends = content.len() - content.trim_start_matches('\n').len();
            body.drain(..line_ends);
            match thinking.trim_matches('\n') {
                "" => opening += NO_THINKING,
                thinking => body = format!("<think>\n{thinking}\n</think>\n\n{body}"),
            }
        }
        let is_forgotten = forgets && !thinking.is_empty();
        Turn::Assistant { opening, body, message: place.index, is_forgotten }
    }

    /// The calls of a message as text.
    fn calls(&self, message: &Message, place: &Place) -> Result<String, Error> {
        if message.tool_calls.is_empty() {
            return Ok(String::new());
        }
        let Some(format) = self.call_format() else {
            return Err(Error::ToolsUnsupported { family: self.name() });
        };
        let message_index = place.index;
        CallFormat::render_all(&format, &message.tool_calls)
            .map_err(|source| Error::Call { message: message_index, source })
    }
}

/// Opening, content and end of a turn.
fn turn(opening: String, content: Vec<Segment>) -> Vec<Segment> {
    let mut segments = vec![template_segment(opening)];
    segments.extend(content);
    segments.push(template_segment(format!("{END_OF_TURN}\n")));
    segments
}

fn template_segment(text: String) -> Segment {
    Segment { provenance: Provenance::Template, text }
}

fn reasoning(message: &Message) -> Option<&str> {
    message.reasoning_content.as_deref().filter(|text| !text.is_empty())
}

/// What follows the forced opener of rStar2. A text that begins with the opener doesn't repeat it.
fn rstar2_body(message: &Message, calls: &str) -> String {
    let content = &message.content;
    match reasoning(message) {
        Some(reasoning) => format!("{reasoning}{}{}", REASON.1, join(content, calls)),
        None => join(content.strip_prefix(REASON.0).unwrap_or(content), calls),
    }
}

/// Text and calls of an assistant's message: the calls on lines of their own.
fn join(content: &str, calls: &str) -> String {
    let line = if content.is_empty() || calls.is_empty() { "" } else { "\n" };
    format!("{content}{line}{calls}")
}

fn name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// The message after which Qwen3 keeps thinking: the last one of a user that isn't a tool's answer
/// in disguise, else the last of all.
fn last_question(messages: &[Message]) -> usize {
    let is_question = |message: &Message| {
        let (start, end) = TOOL_RESPONSE;
        let is_answer = message.content.starts_with(start) && message.content.ends_with(end);
        message.role == Role::User && !is_answer
    };
    messages.iter().rposition(is_question).unwrap_or_else(|| messages.len().saturating_sub(1))
}

/// Thinking and text of a message, as Qwen3's template finds them: the thinking may stand in the
/// text.
fn qwen3_parts(message: &Message) -> (&str, &str) {
    const END: &str = "</think>";
    if let Some(reasoning) = &message.reasoning_content {
        return (reasoning, &message.content);
    }
    let Some((before, _)) = message.content.split_once(END) else {
        return ("", &message.content);
    };
    let after = message.content.rsplit_once(END).map_or("", |(_, after)| after);
    let before = before.trim_end_matches('\n');
    let reasoning = before.rsplit_once("<think>").map_or(before, |(_, reasoning)| reasoning);
    (reasoning.trim_start_matches('\n'), after.trim_start_matches('\n'))
}
