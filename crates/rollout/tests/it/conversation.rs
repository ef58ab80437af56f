//! A conversation: replies that call the tool, what is heard of them, and what is left of failures.

use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use rocstar_record::episode::{Finish, ToolOutcome};
use rocstar_rollout::{
    Ask, BoxStream, Capacity, Conversation as _, ConversationError, Generator, GeneratorError,
    Heard, Piece, RolloutOptions, TokenConversation, ToolMode,
};

use crate::support::{END, Scripted, TableTool, answer, call, options, policy};

/// A generator that keeps the prompts that it was asked with.
#[derive(Debug)]
struct Prompts {
    inner: Scripted,
    seen: Mutex<Vec<Vec<u32>>>,
}

impl Prompts {
    fn of(inner: Scripted) -> Arc<Self> {
        Arc::new(Self { inner, seen: Mutex::default() })
    }
}

impl Generator for Prompts {
    fn generate(
        &self,
        ask: Ask,
    ) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
        self.seen.lock().unwrap().push(ask.prompt.clone());
        self.inner.generate(ask)
    }

    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }
}

fn conversation(generator: Arc<dyn Generator>, tool: &TableTool) -> TokenConversation {
    let instructions = Some("Be brief.".to_owned());
    TokenConversation::new(policy(), generator, Some(tool), options(), (instructions, 7)).unwrap()
}

/// What was heard, a line each; neighbouring text in one.
fn written(lines: &mut Vec<String>, heard: &Heard<'_>) {
    match heard {
        Heard::Text(text) => match lines.last_mut() {
            Some(line) if line.starts_with("text ") => line.push_str(text),
            _ if text.is_empty() => {}
            _ => lines.push(format!("text {text}")),
        },
        Heard::Again => lines.push("again".to_owned()),
        Heard::Called(call) => lines.push(format!("called {}", call.name)),
        Heard::Answered(_, answer) => lines.push(format!("answered {}", answer.text)),
        Heard::NotRun(call) => lines.push(format!("not run: {:?}", call.outcome)),
    }
}

async fn say(
    conversation: &mut TokenConversation,
    message: &str,
) -> (Vec<String>, Result<rocstar_rollout::Reply, ConversationError>) {
    let mut lines = Vec::new();
    let reply = conversation.say(message, &mut |heard| written(&mut lines, &heard)).await;
    (lines, reply)
}

#[tokio::test]
async fn a_reply_is_heard_part_by_part_and_the_next_one_knows_it() {
    let script = |draw: rocstar_record::draw::Key| match (draw.step, draw.turn) {
        (0, 0) => format!("let me see{}{}{END}", call("a"), call("b")),
        (0, _) => answer("1"),
        _ => answer("2"),
    };
    let generator = Prompts::of(Scripted::new(script));
    let mut conversation = conversation(generator.clone(), &TableTool::working().sequential());

    let (heard, reply) = say(&mut conversation, "first").await;
    let reply = reply.unwrap();
    let expected = [
        "text let me see",
        "called python_code_with_standard_io",
        "answered ran a",
        "called python_code_with_standard_io",
        "answered ran b",
        "text so</reason><answer>\\boxed{1}</answer>",
    ];
    assert_eq!(heard, expected);
    assert_eq!((reply.finish, reply.calls.len(), reply.texts.len()), (Finish::Done, 2, 2));
    assert_eq!(reply.calls[1].shown, "ran b");

    let (_, reply) = say(&mut conversation, "second").await;
    assert_eq!(reply.unwrap().texts, ["so</reason><answer>\\boxed{2}</answer>"]);
    let prompts = generator.seen.lock().unwrap();
    assert_eq!(prompts.len(), 3);
    for pair in prompts.windows(2) {
        assert!(pair[1].starts_with(&pair[0]), "a prompt extends the one before");
    }
}

#[tokio::test]
async fn what_can_t_be_run_is_told_apart() {
    let script = |draw: rocstar_record::draw::Key| match draw.turn {
        0 => format!("<tool_call>\n{{\"name\": \n</tool_call>{END}"),
        _ => answer("1"),
    };
    let generator = Arc::new(Scripted::new(script));
    let mut conversation = conversation(generator, &TableTool::working());
    let (heard, reply) = say(&mut conversation, "first").await;
    assert!(heard[0].starts_with("not run: Malformed"), "{heard:?}");
    assert!(matches!(reply.unwrap().calls[0].outcome, ToolOutcome::Malformed { .. }));
}

#[tokio::test]
async fn a_failure_leaves_the_conversation_as_it_was() {
    let failure = GeneratorError::Failed { cause: "a cut line".to_owned() };
    let mut failing = Scripted::new(|_| answer("1"));
    failing.failures = vec![failure];
    let generator = Prompts::of(failing);
    let mut conversation = conversation(generator.clone(), &TableTool::working());
    let (_, reply) = say(&mut conversation, "first").await;
    assert!(matches!(reply, Err(ConversationError::Generator(_))), "{reply:?}");
    let (_, reply) = say(&mut conversation, "first").await;
    assert_eq!(reply.unwrap().finish, Finish::Done);
    let prompts = generator.seen.lock().unwrap();
    assert_eq!(prompts[0], prompts[1]);
}

#[tokio::test]
async fn a_conversation_that_fills_the_context_says_so() {
    let mut scripted = Scripted::new(|_| answer("1"));
    scripted.capacity.longest_tokens = 40;
    let options = RolloutOptions { tool: ToolMode::None, ..options() };
    let generator = Arc::new(scripted);
    let mut conversation =
        TokenConversation::new(policy(), generator, None, options, (None, 7)).unwrap();
    let (_, reply) = say(&mut conversation, &"long ".repeat(20)).await;
    assert!(matches!(reply, Err(ConversationError::Full { .. })), "{reply:?}");
}
