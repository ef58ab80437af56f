//! Who answers, ready to: a model in this process or servers, spoken to in tokens where they can be
//! had and else in messages.
//!
//! Invariant: evaluation and chat speak to a model in the same words.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rocstar_chat::{Family, Template, Tokenizer};
use rocstar_rollout::remote::{
    ChatOptions, EndpointOptions, Endpoints, RemoteGenerator, ToolCalls,
};
use rocstar_rollout::{Generator, LocalGenerator, Policy};

use crate::failure::{HintExt as _, WrongUse};
use crate::inference::{Loaded, RunningOptions};
use crate::layers::{Layered, Layers};

/// How servers are spoken to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Endpoint")]
pub(crate) struct EndpointChoice {
    /// File with all settings of the servers (TOML); what is given here beside wins
    #[arg(long, value_name = "FILE")]
    endpoint_options: Option<PathBuf>,
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
    pub(crate) tool_answer_chars: usize,
    /// Folder or `.gguf` file of the tokenizer of the served model: token ids then go out and come
    /// back, where the servers can (rocstar, vLLM, SGLang)
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
}

impl Layered for EndpointOptions {
    const EXAMPLE: &'static str = "tries=3";
}

impl EndpointChoice {
    /// What holds for each server: the file, and over it the options.
    ///
    /// # Errors
    /// The file can't be read, has an unknown key or a value of a wrong type, or names an address.
    fn options(&self) -> anyhow::Result<EndpointOptions> {
        let mut layers = Layers::default();
        if let Some(path) = &self.endpoint_options {
            layers.add_file::<EndpointOptions>(path)?;
            if layers.value(&["url"]).is_some() {
                let problem = format!("`url` stands in {}", path.display());
                return Err(WrongUse::error(problem))
                    .hint("addresses are given on the command line; the file holds for each");
            }
        }
        let file: EndpointOptions = layers.resolve()?;
        Ok(EndpointOptions {
            model: self.endpoint_model.clone().unwrap_or(file.model),
            api_key_env: self.api_key_env.clone().unwrap_or(file.api_key_env),
            tool_calls: match self.own_tool_calls {
                Some(_) => ToolCalls::Ours,
                None => file.tool_calls,
            },
            call_format: self.own_tool_calls.clone().unwrap_or(file.call_format),
            max_concurrent: self.max_concurrent.unwrap_or(file.max_concurrent),
            requests_per_minute: self.requests_per_minute.unwrap_or(file.requests_per_minute),
            request_ms: self.request_ms.unwrap_or(file.request_ms),
            ..file
        })
    }

    /// Gets to know the servers.
    ///
    /// # Errors
    /// The settings, or a server that can't be reached.
    pub(crate) async fn connect(&self, urls: &[String]) -> anyhow::Result<Arc<Endpoints>> {
        let each = self.options()?;
        let options = urls.iter().map(|url| EndpointOptions { url: url.clone(), ..each.clone() });
        Ok(Arc::new(Endpoints::connect(options.collect()).await?))
    }
}

/// Who answers.
#[derive(Debug)]
pub(crate) enum Speaker {
    /// Tokens go out and come back.
    Tokens { policy: Box<Policy>, generator: Arc<dyn Generator> },
    /// Messages do; answers of tools are cut to so many characters.
    Messages { endpoints: Arc<Endpoints>, tool_answer_chars: usize },
}

impl Speaker {
    /// A model in this process.
    ///
    /// # Errors
    /// It has no chat template, or one that can't be written turn by turn.
    pub(crate) fn local(loaded: Loaded) -> anyhow::Result<Self> {
        let Loaded { engine, tokenizer, template, calls } = loaded;
        if calls.is_some() {
            return Err(WrongUse::error("`--call-format` is of no use here"))
                .hint("how calls are written follows from the chat template");
        }
        let policy = Box::new(policy(tokenizer, template)?);
        Ok(Self::Tokens { policy, generator: Arc::new(LocalGenerator::new(engine)) })
    }

    /// Servers: in tokens where their tokenizer is given.
    ///
    /// # Errors
    /// The tokenizer can't be used, or the servers hide their tokens.
    pub(crate) fn remote(
        endpoints: Arc<Endpoints>,
        choice: &EndpointChoice,
        running: &RunningOptions,
    ) -> anyhow::Result<Self> {
        let Some(path) = &choice.tokenizer else {
            let tool_answer_chars = choice.tool_answer_chars;
            return Ok(Self::Messages { endpoints, tool_answer_chars });
        };
        let (tokenizer, template) = running.words(path)?;
        let generator = Arc::new(RemoteGenerator::new(endpoints)?);
        Ok(Self::Tokens { policy: Box::new(policy(tokenizer, template)?), generator })
    }
}

/// # Errors
/// The model has no chat template, or one that can't be written turn by turn.
fn policy(tokenizer: Tokenizer, template: Option<Template>) -> anyhow::Result<Policy> {
    let template = template
        .ok_or_else(|| WrongUse::error("the model has no chat template"))
        .hint("give one: `--template chatml`, `--template rstar2` or a Jinja file")?;
    let family = Family::detect(&template)
        .map_err(anyhow::Error::from)
        .hint("`--template chatml` or `--template rstar2` speaks to it in another way")?;
    Ok(Policy { tokenizer, family })
}
