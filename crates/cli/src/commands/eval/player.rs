//! Who makes the attempts: a model in this process, or servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rocstar_chat::{Family, Tokenizer};
use rocstar_eval::protocol::{ModelIdentity, ModelPlace, Settings};
use rocstar_eval::suite::Prompt;
use rocstar_rollout::remote::{
    ChatOptions, ChatPlayer, EndpointKind, EndpointOptions, Endpoints, RemoteGenerator, ToolCalls,
};
use rocstar_rollout::{
    Generator, LocalGenerator, Player, Policy, PythonTool, TokenPlayer, Tool, ToolMode,
};
use rocstar_sandbox::{LocalSandbox, Sandbox};
use tokio::runtime::Runtime;

use super::identity;
use crate::failure::{HintExt as _, WrongUse};
use crate::inference::{Loaded, RunningOptions};
use crate::target::Target;
use crate::terminal::Terminal;

/// How servers are spoken to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Endpoint")]
pub(super) struct EndpointChoice {
    /// Model to ask servers for [default: the only one that they serve]
    #[arg(long, value_name = "NAME")]
    endpoint_model: Option<String>,
    /// Environment variable that holds the servers' key
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    /// Find tool calls in the model's text ourselves, written as `hermes`, `llama3_json`, `pythonic`
    /// or `fenced_code`; else the servers find them
    #[arg(long, value_name = "FORMAT")]
    own_tool_calls: Option<String>,
    /// Most requests at once to each server
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    /// Most requests a minute to each server
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<usize>,
    /// Longest time of one request, in milliseconds
    #[arg(long, value_name = "MS")]
    request_ms: Option<u64>,
    /// Longest answer of the tool where messages go out, in characters
    #[arg(long, value_name = "N", default_value_t = ChatOptions::default().tool_answer_chars)]
    tool_answer_chars: usize,
    /// Folder or `.gguf` file of the tokenizer of the served model: token ids then go out and come
    /// back, where the servers can (rocstar, vLLM, SGLang)
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
}

impl EndpointChoice {
    /// One server.
    pub(super) fn options(&self, url: &str) -> EndpointOptions {
        let usual = EndpointOptions::at(url);
        EndpointOptions {
            model: self.endpoint_model.clone().unwrap_or_default(),
            api_key_env: self.api_key_env.clone().unwrap_or_default(),
            tool_calls: match self.own_tool_calls {
                Some(_) => ToolCalls::Ours,
                None => ToolCalls::Server,
            },
            call_format: self.own_tool_calls.clone().unwrap_or_else(|| usual.call_format.clone()),
            max_concurrent: self.max_concurrent.unwrap_or(usual.max_concurrent),
            requests_per_minute: self.requests_per_minute.unwrap_or(usual.requests_per_minute),
            request_ms: self.request_ms.unwrap_or(usual.request_ms),
            ..usual
        }
    }
}

/// Who is asked.
#[derive(Debug)]
pub(super) enum Source {
    /// A model's files, and what it is called.
    Model(PathBuf, String),
    /// Addresses.
    Endpoints(Vec<String>),
}

/// Who is asked, ready to answer.
#[derive(Debug)]
pub(super) struct Open {
    identity: ModelIdentity,
    speaks: Speaks,
}

#[derive(Debug)]
enum Speaks {
    Tokens { policy: Box<Policy>, generator: Arc<dyn Generator> },
    Messages { endpoints: Arc<Endpoints>, tool_answer_chars: usize },
}

impl Source {
    /// # Errors
    /// A model and addresses together, or several models.
    pub(super) fn new(targets: Vec<Target>, given: &[String]) -> anyhow::Result<Self> {
        if let ([Target::Model(path)], [given]) = (targets.as_slice(), given) {
            return Ok(Self::Model(path.clone(), identity::model_name(given, path)));
        }
        let urls: Option<Vec<String>> = targets
            .into_iter()
            .map(|target| match target {
                Target::Endpoint(url) => Some(url),
                Target::Model(_) => None,
            })
            .collect();
        urls.map(Self::Endpoints)
            .ok_or_else(|| WrongUse::error("more than one model"))
            .hint("give one model, one run, or addresses of servers that serve the same model")
    }

    /// Loads the model, or gets to know the servers.
    ///
    /// # Errors
    /// The model's parts don't fit, it doesn't fit into memory, or a server can't be reached.
    pub(super) fn open(
        &self,
        running: &RunningOptions,
        endpoint: &EndpointChoice,
        (runtime, terminal): (&Runtime, Terminal),
    ) -> anyhow::Result<Open> {
        match self {
            Self::Model(path, name) => open_model(path, name, running, terminal),
            Self::Endpoints(urls) => runtime.block_on(open_endpoints(urls, endpoint, running)),
        }
    }
}

fn open_model(
    path: &Path,
    name: &str,
    running: &RunningOptions,
    terminal: Terminal,
) -> anyhow::Result<Open> {
    let bar = terminal.spinner("summing up the weights");
    let sha256 = identity::model_sha256(path);
    bar.finish_and_clear();
    let sha256 = sha256?;
    let loaded = running.load(path, terminal)?;
    let place = ModelPlace::Local {
        path: path.display().to_string(),
        sha256,
        storage: running.storage_name().to_owned(),
        context_tokens: loaded.engine.longest_tokens(),
    };
    let template = running.template_name().map(str::to_owned);
    let identity = ModelIdentity { name: name.to_owned(), place, template, call_format: None };
    let generator = Arc::new(LocalGenerator::new(loaded.engine.clone()));
    Ok(Open { identity, speaks: Speaks::Tokens { policy: Box::new(policy(loaded)?), generator } })
}

/// # Errors
/// The model has no chat template, or one that can't be written turn by turn.
fn policy(loaded: Loaded) -> anyhow::Result<Policy> {
    let Loaded { tokenizer, template, calls, .. } = loaded;
    if calls.is_some() {
        return Err(WrongUse::error("`--call-format` is of no use here"))
            .hint("how calls are written follows from the chat template");
    }
    policy_of(tokenizer, template)
}

fn policy_of(
    tokenizer: Tokenizer,
    template: Option<rocstar_chat::Template>,
) -> anyhow::Result<Policy> {
    let template = template
        .ok_or_else(|| WrongUse::error("the model has no chat template"))
        .hint("give one: `--template chatml`, `--template rstar2` or a Jinja file")?;
    let family = Family::detect(&template)
        .map_err(anyhow::Error::from)
        .hint("`--template chatml` or `--template rstar2` speaks to it in another way")?;
    Ok(Policy { tokenizer, family })
}

async fn open_endpoints(
    urls: &[String],
    choice: &EndpointChoice,
    running: &RunningOptions,
) -> anyhow::Result<Open> {
    let options: Vec<EndpointOptions> = urls.iter().map(|url| choice.options(url)).collect();
    let endpoints = Arc::new(Endpoints::connect(options).await?);
    let facts = endpoints.facts();
    let first = facts.first();
    let model = first.map_or_else(String::new, |facts| facts.model.clone());
    let server = first.map_or(EndpointKind::Chat, |facts| facts.kind);
    let has_tokens = choice.tokenizer.is_some();
    let place = ModelPlace::Endpoint {
        urls: urls.to_vec(),
        model: model.clone(),
        server: server.name().to_owned(),
        are_tokens_exact: has_tokens,
        tool_calls: if choice.own_tool_calls.is_some() { "ours" } else { "server" }.to_owned(),
        tool_answer_chars: choice.tool_answer_chars,
    };
    let template = running.template_name().filter(|_| has_tokens).map(str::to_owned);
    let call_format = choice.own_tool_calls.clone();
    let identity = ModelIdentity { name: model, place, template, call_format };
    let speaks = match &choice.tokenizer {
        None => Speaks::Messages { endpoints, tool_answer_chars: choice.tool_answer_chars },
        Some(path) => {
            let (tokenizer, template) = running.words(path)?;
            let generator: Arc<dyn Generator> = Arc::new(RemoteGenerator::new(endpoints)?);
            Speaks::Tokens { policy: Box::new(policy_of(tokenizer, template)?), generator }
        }
    };
    Ok(Open { identity, speaks })
}

impl Open {
    /// Who answers.
    pub(super) const fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// The wording that fits the model, where its chat template says already how to answer.
    pub(super) fn prompt(&self) -> Option<Prompt> {
        match &self.speaks {
            Speaks::Tokens { policy, .. } if policy.family.name() == "rstar2" => {
                Some(Prompt::Plain)
            }
            Speaks::Tokens { .. } | Speaks::Messages { .. } => None,
        }
    }

    /// Makes attempts under these settings.
    ///
    /// # Errors
    /// Settings that don't fit the model.
    pub(super) fn player(
        &self,
        settings: &Settings,
        sandbox: Option<Arc<LocalSandbox>>,
    ) -> anyhow::Result<Box<dyn Player>> {
        let options = settings.rollout();
        let tool = sandbox.filter(|_| options.tool != ToolMode::None).and_then(|sandbox| {
            let sandbox: Arc<dyn Sandbox> = sandbox;
            PythonTool::new(sandbox, &options).map(|tool| Arc::new(tool) as Arc<dyn Tool>)
        });
        match &self.speaks {
            Speaks::Tokens { policy, generator } => {
                let (policy, generator) = (Policy::clone(policy), Arc::clone(generator));
                let maker = (settings.seed, self.identity.name.clone());
                let player = TokenPlayer::new(policy, generator, tool, options, maker);
                let player = player.map_err(anyhow::Error::from).hint(
                    "`--no-tool` asks without the tool; `--template chatml` gives the model a \
                     template with tools",
                );
                Ok(Box::new(player?))
            }
            Speaks::Messages { endpoints, tool_answer_chars } => {
                let (seed, tool_answer_chars) = (settings.seed, *tool_answer_chars);
                let chat = ChatOptions { seed, tool_answer_chars };
                Ok(Box::new(ChatPlayer::new(Arc::clone(endpoints), tool, options, chat)?))
            }
        }
    }
}
