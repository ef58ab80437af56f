//! `rocstar chat`: talk with a model, and see its tool calls as they happen.

mod lines;
mod screen;

use std::io::{IsTerminal as _, Read as _};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_record::episode::Call;
use rocstar_rollout::remote::{ChatOptions, RemoteConversation};
use rocstar_rollout::{
    Conversation, Heard, Policy, PythonTool, Reply, RolloutOptions, TokenConversation, Tool,
    ToolMode,
};
use rocstar_sandbox::Sandbox;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::inference::RunningOptions;
use crate::service;
use crate::settings::SandboxOptions;
use crate::speaker::{EndpointChoice, Speaker};
use crate::target::{Target, Which};
use crate::terminal::Terminal;
use lines::{Input, Lines};
use screen::Screen;

/// Talk with a model, and see its tool calls as they happen
///
/// The model's text goes to standard output as it comes; calls, their results and what they cost to
/// standard error. Without a terminal, or with `--once`, one message is answered.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// A model (folder, `.gguf` file or fetched name), a run (folder or name), or a server's address
    #[arg(value_name = "MODEL|RUN|ENDPOINT")]
    target: String,
    /// Ask this, print the reply, and leave
    #[arg(long, value_name = "TEXT")]
    once: Option<String>,
    /// Print each reply as one line of JSON, with its calls
    #[arg(long)]
    json: bool,
    /// Instructions that come before the first message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Of a run, the checkpoint of this step [default: the last]
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    #[command(flatten)]
    replies: ReplyOptions,
    #[command(flatten)]
    endpoint: EndpointChoice,
    #[command(flatten)]
    running: RunningOptions,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// How replies are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Replies")]
struct ReplyOptions {
    /// The Python tool: with variables that stay, each call for itself, or none
    #[arg(long, value_enum, default_value_t = ToolName::Session)]
    tool: ToolName,
    /// 0 takes the likeliest token, 1 draws from the model's own distribution
    #[arg(long, value_name = "T", default_value_t = 0.6)]
    temperature: f64,
    /// Only the likeliest tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Most tokens of a reply, tools' answers included
    #[arg(long, value_name = "N", default_value_t = 8192)]
    response_tokens: usize,
    /// Most turns of a reply: the model writes, the tool answers
    #[arg(long, value_name = "N", default_value_t = 30)]
    max_turns: usize,
    /// Most wall time of one tool call, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    tool_wall_ms: u64,
    /// Names the random draws: the same seed gives the same replies [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// [`ToolMode`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolName {
    Session,
    Stateless,
    None,
}

/// A reply, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    message: &'a str,
    reply: &'a str,
    texts: &'a [String],
    calls: &'a [Call],
    finish: rocstar_record::episode::Finish,
    prompt_tokens: Option<usize>,
    policy_tokens: Option<usize>,
    seconds: f64,
    seed: u64,
}

impl ReplyOptions {
    fn options(&self) -> RolloutOptions {
        RolloutOptions {
            samples: 1,
            response_tokens: self.response_tokens,
            max_turns: self.max_turns,
            temperature: self.temperature,
            top_p: self.top_p,
            tool: match self.tool {
                ToolName::Session => ToolMode::Session,
                ToolName::Stateless => ToolMode::Stateless,
                ToolName::None => ToolMode::None,
            },
            tool_wall_ms: self.tool_wall_ms,
            ..RolloutOptions::default()
        }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| {
            // 53 bits: every JSON reader keeps them.
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_nanos() as u64) & ((1 << 53) - 1)
        })
    }
}

impl Chat {
    /// Runs the command.
    ///
    /// # Errors
    /// There is nobody to talk with, or the code environment does not start.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let options = self.replies.options();
        let problems = options.validate();
        if !problems.is_empty() {
            return Err(WrongUse::error(problems.join("; ")));
        }
        let target = Target::find(&self.target, self.step.map_or(Which::Latest, Which::Step))?;
        // Before the loading: whoever forgot the message should not wait for it.
        let message = self.message()?;
        let runtime = service::runtime()?;
        let speaker = self.speaker(&target, &runtime, terminal)?;
        let tool = self.tool(&options, &runtime, terminal)?;
        let (instructions, seed) = (self.system, self.replies.seed());
        let begin =
            || conversation(&speaker, tool.as_ref(), &options, (instructions.clone(), seed));
        let mut talk =
            Talk { conversation: begin()?, runtime: &runtime, terminal, json: self.json, seed };
        match message {
            Some(message) => talk.once(&message),
            None => talk.at_length(&begin),
        }
    }

    /// The one message, where there is to be one.
    fn message(&self) -> anyhow::Result<Option<String>> {
        let message = match &self.once {
            Some(message) => message.clone(),
            None if std::io::stdin().is_terminal() => return Ok(None),
            None => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("can't read standard input")?;
                text
            }
        };
        if message.trim().is_empty() {
            return Err(WrongUse::error("the message is empty"));
        }
        Ok(Some(message))
    }

    fn speaker(
        &self,
        target: &Target,
        runtime: &Runtime,
        terminal: Terminal,
    ) -> anyhow::Result<Speaker> {
        match target {
            Target::Model(path) => Speaker::local(self.running.load(path, terminal)?),
            Target::Endpoint(url) => {
                let urls = std::slice::from_ref(url);
                let endpoints = runtime.block_on(self.endpoint.connect(urls))?;
                Speaker::remote(endpoints, &self.endpoint, &self.running)
            }
        }
    }

    fn tool(
        &self,
        options: &RolloutOptions,
        runtime: &Runtime,
        terminal: Terminal,
    ) -> anyhow::Result<Option<Arc<dyn Tool>>> {
        if options.tool == ToolMode::None {
            return Ok(None);
        }
        let (sandbox, _) = service::start_for_run(runtime, &self.sandbox, terminal)?;
        let sandbox: Arc<dyn Sandbox> = sandbox;
        let tool = PythonTool::new(sandbox, options);
        Ok(tool.map(|tool| Arc::new(tool) as Arc<dyn Tool>))
    }
}

/// Begins a conversation.
fn conversation(
    speaker: &Speaker,
    tool: Option<&Arc<dyn Tool>>,
    options: &RolloutOptions,
    (instructions, seed): (Option<String>, u64),
) -> anyhow::Result<Box<dyn Conversation>> {
    let options = options.clone();
    match speaker {
        Speaker::Tokens { policy, generator } => {
            let (policy, generator) = (Policy::clone(policy), Arc::clone(generator));
            let begin = (instructions, seed);
            let tool = tool.map(|tool| &**tool);
            let begun = TokenConversation::new(policy, generator, tool, options, begin);
            let begun = begun.map_err(anyhow::Error::from);
            Ok(Box::new(begun.hint("`--tool none` talks without the tool")?))
        }
        Speaker::Messages { endpoints, tool_answer_chars } => {
            let (endpoints, tool) = (Arc::clone(endpoints), tool.cloned());
            let chat = ChatOptions { seed, tool_answer_chars: *tool_answer_chars };
            Ok(Box::new(RemoteConversation::new(endpoints, tool, options, chat, instructions)?))
        }
    }
}

/// A conversation with a person or a script.
struct Talk<'run> {
    conversation: Box<dyn Conversation>,
    runtime: &'run Runtime,
    terminal: Terminal,
    json: bool,
    seed: u64,
}

impl Talk<'_> {
    /// Answers one message.
    fn once(&mut self, message: &str) -> anyhow::Result<Finish> {
        let was_answered = self.answer(message)?;
        Ok(Finish::from_good(was_answered))
    }

    /// Answers until the person leaves.
    fn at_length(
        &mut self,
        begin: &dyn Fn() -> anyhow::Result<Box<dyn Conversation>>,
    ) -> anyhow::Result<Finish> {
        let mut lines = Lines::open()?;
        self.terminal.note(lines::HELP);
        loop {
            match lines.next()? {
                Input::Message(message) => {
                    // A failure ends the reply, not the conversation.
                    if let Err(error) = self.answer(&message) {
                        crate::failure::show(&error);
                    }
                }
                Input::New => {
                    self.conversation = begin()?;
                    self.terminal.note("a new conversation");
                }
                Input::Help => self.terminal.note(lines::HELP),
                Input::Unknown(command) => {
                    self.terminal.note(format_args!("there is no `{command}`; see /help"));
                }
                Input::Leave => return Ok(Finish::Good),
            }
        }
    }

    /// One reply; whether it came to its end.
    fn answer(&mut self, message: &str) -> anyhow::Result<bool> {
        let began = Instant::now();
        let mut screen = Screen::new(self.terminal, self.json);
        let conversation = &mut self.conversation;
        let mut hear = |heard: Heard<'_>| screen.hear(&heard);
        let reply = self.runtime.block_on(async {
            tokio::select! {
                reply = conversation.say(message, &mut hear) => Some(reply),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        screen.finish()?;
        let Some(reply) = reply else {
            self.terminal.note("stopped: the message and what came of it are forgotten");
            return Ok(false);
        };
        let reply = reply?;
        if self.json {
            self.terminal.json_line(&self.shown(message, &reply, began.elapsed().as_secs_f64()))?;
        } else {
            screen::note_end(self.terminal, &reply, self.seed);
        }
        Ok(true)
    }

    fn shown<'a>(&self, message: &'a str, reply: &'a Reply, seconds: f64) -> Shown<'a> {
        Shown {
            message,
            reply: reply.texts.last().map_or("", String::as_str),
            texts: &reply.texts,
            calls: &reply.calls,
            finish: reply.finish,
            prompt_tokens: reply.prompt_tokens,
            policy_tokens: reply.policy_tokens,
            seconds,
            seed: self.seed,
        }
    }
}
