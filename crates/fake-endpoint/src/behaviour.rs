//! How a server behaves, as data.

use std::time::Duration;

use crate::context::Context;
use crate::fault::Faults;
use crate::script::{Reply, Script, TokenScript};

/// What a server seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Speaks messages only.
    Chat,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

/// How fast tokens come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All at once.
    AtOnce,
    /// Each piece by itself, as fast as it goes.
    OneByOne,
    /// Each after so long.
    Every(Duration),
}

/// What a server tells of its cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metrics {
    /// Nothing.
    None,
    /// The share of it that is used.
    Used(f64),
    /// This page.
    Page(&'static str),
    /// The route is there, and nothing ever comes from it.
    Silent,
}

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// What it seems to be.
    pub flavour: Flavour,
    /// Name of its model.
    pub model: String,
    /// Answers questions in messages.
    pub script: Script,
    /// Answers questions in tokens.
    pub token_script: TokenScript,
    /// What goes wrong.
    pub faults: Faults,
    /// How fast tokens come.
    pub pace: Pace,
    /// Answers that are made at once; more wait.
    pub most_running: usize,
    /// What it tells of its cache.
    pub metrics: Metrics,
    /// Whether it counts tokens in its answers.
    pub tells_usage: bool,
    /// Requests must carry this key.
    pub key: Option<String>,
    /// Whether it has a list of its models.
    pub lists_models: bool,
    /// How long a sequence may be.
    pub context: Context,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            flavour: Flavour::Chat,
            model: "fake".to_owned(),
            script: Script::new(|question| {
                Reply::text(format!("You said: {}", question.last_text()))
            }),
            token_script: TokenScript::new(|question| question.prompt.clone()),
            faults: Faults::none(),
            pace: Pace::AtOnce,
            most_running: 4096,
            metrics: Metrics::None,
            tells_usage: true,
            key: None,
            lists_models: true,
            context: Context::endless(),
        }
    }
}
