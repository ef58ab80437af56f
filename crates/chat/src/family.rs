//! Families of ChatML templates whose turns can be appended one after another.
//!
//! What is hidden: how each family writes a turn. A family is a model's own template together with a
//! way to write single turns, and the two are compared: [`Family::detect`] accepts a way of writing
//! only where it gives the template's text for a set of conversations, and every transcript that is
//! begun from messages is compared with the template again. So nothing here is believed from a
//! model's name. The opening of a conversation (system text, tools, defaults) is always the
//! template's.

mod probe;
mod turns;

use rocstar_record::message::{Message, Role, ToolSpec};

pub(crate) use self::turns::{END_OF_TURN, START_OF_TURN, Segment, Turn};
use crate::{
    calls::CallFormat,
    error::Error,
    template::{RenderOptions, Template},
};

/// How a family writes turns behind the opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Reasoning is begun for the assistant; tools answer in a user's turn.
    RStar2,
    /// Thinking in `<think>`, dropped from turns before the last question.
    Qwen3,
    /// As [`Style::Qwen3`], with the thinking of every turn: what trainers make of it to append.
    Qwen3Kept,
    /// Tools answer in a user's turn, `<tool_call>` with JSON.
    Qwen25,
    /// A turn is its role and its text, whatever the role.
    SmolLm2,
}

impl Style {
    /// The simplest last: its difference is the one to tell where none fits.
    const ALL: [Self; 5] =
        [Self::RStar2, Self::Qwen3, Self::Qwen3Kept, Self::Qwen25, Self::SmolLm2];
}

/// A ChatML template with a way to append turns.
#[derive(Debug, Clone)]
pub struct Family {
    template: Template,
    options: RenderOptions,
    style: Style,
    /// What the template writes before a user's text.
    user_opening: String,
    /// The generation prompt.
    assistant_opening: String,
}

/// Stands for a user's text where the template's own text around it is wanted.
const PROBE: &str = "\u{F8FF}";
pub(crate) const USER: &str = "<|im_start|>user\n";

impl Family {
    /// Finds the family of a template by what it renders.
    ///
    /// # Errors
    /// [`Error::UnknownFamily`] where no known way of writing turns gives the template's text; then
    /// [`Template::encode`] is left, which can't append.
    pub fn detect(template: &Template) -> Result<Self, Error> {
        Self::detect_with(template, &RenderOptions::default())
    }

    /// As [`Self::detect`] with variables for the template, such as `enable_thinking`, which stay in
    /// force; `add_generation_prompt` has no effect.
    ///
    /// # Errors
    /// As [`Self::detect`].
    pub fn detect_with(template: &Template, options: &RenderOptions) -> Result<Self, Error> {
        let mut last = None;
        for style in Style::ALL {
            let found = Self::new(template.clone(), options.clone(), style)
                .and_then(|family| family.check_probes().map(|()| family));
            match found {
                Ok(family) => return Ok(family),
                Err(error) => last = Some(error),
            }
        }
        let file = template.file().to_owned();
        Err(match last {
            Some(error @ Error::UnknownFamily { .. }) => error,
            other => Error::UnknownFamily { file, source: other.map(Box::new) },
        })
    }

    /// The family of [`Template::rstar2`].
    ///
    /// # Errors
    /// As [`Template::rstar2`].
    pub fn rstar2() -> Result<Self, Error> {
        Self::new(Template::rstar2()?, RenderOptions::default(), Style::RStar2)
    }

    /// The family of [`Template::chatml`].
    ///
    /// # Errors
    /// As [`Template::chatml`].
    pub fn chatml() -> Result<Self, Error> {
        Self::new(Template::chatml()?, RenderOptions::default(), Style::Qwen25)
    }

    fn new(template: Template, options: RenderOptions, style: Style) -> Result<Self, Error> {
        let options = RenderOptions { add_generation_prompt: false, ..options };
        let question = [Message::text(Role::User, PROBE)];
        let closed = template.render(&question, &[], &options)?;
        let with_prompt = RenderOptions { add_generation_prompt: true, ..options.clone() };
        let open = template.render(&question, &[], &with_prompt)?;
        let file = template.file().to_owned();
        let turn = closed.rfind(USER).map(|at| &closed[at..]);
        let user_opening = turn.and_then(|turn| Some(turn.split_once(PROBE)?.0.to_owned()));
        let assistant_opening = open.strip_prefix(&closed).map(str::to_owned);
        let (Some(user_opening), Some(assistant_opening)) = (user_opening, assistant_opening)
        else {
            return Err(Error::UnknownFamily { file, source: None });
        };
        Ok(Self { template, options, style, user_opening, assistant_opening })
    }

    /// The family's name: `rstar2`, `qwen3`, `qwen3-kept` (thinking is never dropped), `qwen2.5` or
    /// `smollm2`, by the way of writing turns.
    pub fn name(&self) -> &'static str {
        match self.style {
            Style::RStar2 => "rstar2",
            Style::Qwen3 => "qwen3",
            Style::Qwen3Kept => "qwen3-kept",
            Style::Qwen25 => "qwen2.5",
            Style::SmolLm2 => "smollm2",
        }
    }

    /// The template, to render whole conversations.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// What the template is rendered with.
    pub fn options(&self) -> &RenderOptions {
        &self.options
    }

    /// The format of the family's tool calls; `None` where the template knows no tools. A tool for
    /// such a model is best described in a message of the system, or with [`Family::chatml`].
    pub fn call_format(&self) -> Option<CallFormat> {
        match self.style {
            Style::RStar2 | Style::Qwen3 | Style::Qwen3Kept | Style::Qwen25 => {
                Some(CallFormat::Hermes)
            }
            Style::SmolLm2 => None,
        }
    }

    /// The text that begins the assistant's turn, the forced opener included.
    pub fn assistant_opening(&self) -> &str {
        &self.assistant_opening
    }

    /// The text of the token that ends every turn.
    pub fn end_of_turn(&self) -> &'static str {
        END_OF_TURN
    }

    /// The opening of a conversation: what the template writes before the first turn that is no
    /// system message at the start.
    fn head(&self, messages: &[Message], tools: &[ToolSpec]) -> Result<String, Error> {
        if !tools.is_empty() && self.call_format().is_none() {
            return Err(Error::ToolsUnsupported { family: self.name() });
        }
        let mut first: Vec<_> = messages[..system_messages(messages)].to_vec();
        first.push(Message::text(Role::User, PROBE));
        let mut text = self.template.render(&first, tools, &self.options)?;
        text.truncate(text.rfind(&self.user_opening).unwrap_or(0));
        Ok(text)
    }

    /// The segments of a conversation in order. Messages and tools must be shielded.
    ///
    /// # Errors
    /// Where the family can't write it, or where the template writes it in another way.
    pub(crate) fn conversation(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<(String, Vec<Turn>), Error> {
        let head = self.head(messages, tools)?;
        let turns = self.turns(messages)?;
        if !messages.is_empty() {
            let written = turns.iter().fold(head.clone(), |text, turn| text + &turn.text());
            let whole = self.template.render(messages, tools, &self.options)?;
            if written != whole {
                let difference = crate::difference::Difference::between(&whole, &written);
                return Err(Error::FamilyDiffers { family: self.name(), difference });
            }
        }
        Ok((head, turns))
    }
}

/// How many messages at the start belong to the opening.
fn system_messages(messages: &[Message]) -> usize {
    usize::from(messages.first().is_some_and(|message| message.role == Role::System))
}
