//! A conversation with a person through a server that speaks messages.

use std::sync::Arc;

use futures::future::BoxFuture;
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::message::{Message, Role, ToolSpec};

use super::dialogue::{Dialogue, Failure, Missed, Opening, Rules};
use super::endpoints::Endpoints;
use super::player::ChatOptions;
use crate::conversation::{Conversation, ConversationError, Heard, Reply};
use crate::player::PlayError;
use crate::settings::RolloutOptions;
use crate::tool::{Tool, ToolInstance};

/// A conversation in messages, with any server.
#[derive(Debug)]
pub struct RemoteConversation {
    rules: Rules,
    tool: Option<Box<dyn ToolInstance>>,
    /// As the server is to get them.
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    draw: Key,
}

impl RemoteConversation {
    /// Begins, with instructions that stand before the first message.
    ///
    /// # Errors
    /// As [`super::ChatPlayer::new`].
    pub fn new(
        endpoints: Arc<Endpoints>,
        tool: Option<Arc<dyn Tool>>,
        options: RolloutOptions,
        chat: ChatOptions,
        instructions: Option<String>,
    ) -> Result<Self, PlayError> {
        let draw = Key::new(chat.seed, Purpose::Sampling);
        let instance = tool.as_ref().map(|tool| tool.open(draw));
        let rules = Rules::new(endpoints, tool, options, chat)?;
        let first = instructions.map(|text| Message::text(Role::System, text));
        let (messages, tools) = rules.open(first.as_slice(), &[]);
        Ok(Self { rules, tool: instance, messages, tools, draw })
    }

    async fn reply(
        &mut self,
        message: &str,
        hear: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Reply, ConversationError> {
        let mut messages = self.messages.clone();
        messages.push(Message::text(Role::User, message));
        let opening = Opening {
            messages,
            tools: self.tools.clone(),
            functions: &[],
            tool: self.tool.as_deref(),
            draw: self.draw,
        };
        let mut dialogue = Dialogue::new(&self.rules, opening);
        let finish = dialogue.run(hear).await.map_err(ConversationError::from)?;
        if dialogue.turns.is_empty() {
            let said = dialogue.refusal.map_or_else(String::new, |refusal| format!(": {refusal}"));
            let cause =
                format!("the conversation fills the model's context; begin a new one{said}");
            return Err(ConversationError::Failed { cause });
        }
        let tokens = dialogue.tokens();
        let runs = dialogue.turns.iter().flat_map(|turn| &turn.calls);
        let reply = Reply {
            calls: runs.filter_map(|call| call.run.clone()).collect(),
            texts: dialogue.turns.iter().map(|turn| turn.text.clone()).collect(),
            finish,
            prompt_tokens: tokens.prompt_tokens,
            policy_tokens: tokens.policy_tokens,
            timing: dialogue.timing.clone(),
        };
        self.messages = dialogue.into_messages();
        self.draw.step += 1;
        Ok(reply)
    }
}

impl Conversation for RemoteConversation {
    fn say<'reply>(
        &'reply mut self,
        message: &'reply str,
        hear: &'reply mut (dyn FnMut(Heard<'_>) + Send),
    ) -> BoxFuture<'reply, Result<Reply, ConversationError>> {
        Box::pin(self.reply(message, hear))
    }
}

impl From<Failure> for ConversationError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::StateLost(error) => Self::Tool(error),
            Failure::Missed(Missed::All(error)) => Self::Remote(error),
            Failure::Missed(Missed::This { cause }) => Self::Failed { cause },
        }
    }
}
