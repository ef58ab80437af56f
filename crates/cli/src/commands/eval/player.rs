//! Who makes the attempts: a model in this process, or servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_eval::protocol::{ModelIdentity, ModelPlace, Settings};
use rocstar_eval::suite::Prompt;
use rocstar_rollout::remote::{ChatOptions, ChatPlayer, EndpointKind};
use rocstar_rollout::{Player, Policy, PythonTool, TokenPlayer, Tool, ToolMode};
use rocstar_sandbox::{LocalSandbox, Sandbox};
use tokio::runtime::Runtime;

use super::identity;
use crate::failure::{HintExt as _, WrongUse};
use crate::inference::RunningOptions;
use crate::speaker::{EndpointChoice, Speaker};
use crate::target::Target;
use crate::terminal::Terminal;

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
    speaker: Speaker,
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
    let template = running.template_identity()?;
    let identity = ModelIdentity { name: name.to_owned(), place, template, call_format: None };
    Ok(Open { identity, speaker: Speaker::local(loaded)? })
}

async fn open_endpoints(
    urls: &[String],
    choice: &EndpointChoice,
    running: &RunningOptions,
) -> anyhow::Result<Open> {
    let endpoints = choice.connect(urls).await?;
    let facts = endpoints.facts();
    let first = facts.first();
    let model = first.map_or_else(String::new, |facts| facts.model.clone());
    let server = first.map_or(EndpointKind::Chat, |facts| facts.kind);
    let has_tokens = choice.tokenizer.is_some();
    let call_format = first.and_then(|facts| facts.own_call_format.clone());
    let place = ModelPlace::Endpoint {
        urls: urls.to_vec(),
        model: model.clone(),
        server: server.name().to_owned(),
        are_tokens_exact: has_tokens,
        tool_calls: if call_format.is_some() { "ours" } else { "server" }.to_owned(),
        tool_answer_chars: choice.tool_answer_chars,
        settings: first.map(|facts| facts.settings.clone()).unwrap_or_default(),
    };
    let template = if has_tokens { running.template_identity()? } else { None };
    let identity = ModelIdentity { name: model, place, template, call_format };
    let speaker = Speaker::remote(endpoints, choice, running)?;
    Ok(Open { identity, speaker })
}

impl Open {
    /// Who answers.
    pub(super) const fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// The wording that fits the model, where its chat template says already how to answer.
    pub(super) fn prompt(&self) -> Option<Prompt> {
        match &self.speaker {
            Speaker::Tokens { policy, .. } if policy.family.name() == "rstar2" => {
                Some(Prompt::Plain)
            }
            Speaker::Tokens { .. } | Speaker::Messages { .. } => None,
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
        match &self.speaker {
            Speaker::Tokens { policy, generator } => {
                let (policy, generator) = (Policy::clone(policy), Arc::clone(generator));
                let maker = (settings.seed, self.identity.name.clone());
                let player = TokenPlayer::new(policy, generator, tool, options, maker);
                let player = player.map_err(anyhow::Error::from).hint(
                    "`--no-tool` asks without the tool; `--template chatml` gives the model a \
                     template with tools",
                );
                Ok(Box::new(player?))
            }
            Speaker::Messages { endpoints, tool_answer_chars } => {
                let (seed, tool_answer_chars) = (settings.seed, *tool_answer_chars);
                let chat = ChatOptions { seed, tool_answer_chars };
                Ok(Box::new(ChatPlayer::new(Arc::clone(endpoints), tool, options, chat)?))
            }
        }
    }
}
