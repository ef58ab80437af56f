//! The model that judges answers, behind an endpoint.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use futures::future::BoxFuture;
use rocstar_engine::Sampling;
use rocstar_eval::arena_hard::{JudgePrompts, JudgeSettings, judge_settings};
use rocstar_eval::protocol::{JudgeIdentity, Settings};
use rocstar_eval::score::Judge;
use rocstar_eval::suite::{ArenaHardVersion, Scorer, Suite};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::message::Message;
use rocstar_rollout::remote::{ChatAsk, EndpointOptions, Endpoints};

use crate::failure::{HintExt as _, WrongUse};
use crate::sums;

/// Who judges.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Judge")]
pub(super) struct JudgeOptions {
    /// Address of the server whose model judges answers, for `arena-hard`
    #[arg(long, value_name = "URL")]
    judge: Option<String>,
    /// Model to ask it for [default: the only one that it serves]
    #[arg(long, value_name = "NAME", requires = "judge")]
    judge_model: Option<String>,
    /// Environment variable that holds its key
    #[arg(long, value_name = "VARIABLE", requires = "judge")]
    judge_key_env: Option<String>,
    /// File with the judge's prompts, as JSON [default: ours]
    #[arg(long, value_name = "FILE", requires = "judge")]
    judge_prompts: Option<PathBuf>,
}

/// A judge that was reached.
#[derive(Debug)]
pub(super) struct EndpointJudge {
    endpoints: Arc<Endpoints>,
    prompts: JudgePrompts,
    identity: JudgeIdentity,
    settings: JudgeSettings,
}

impl JudgeOptions {
    /// # Errors
    /// A suite needs a judge and none is set.
    pub(super) fn require(&self, suites: &[(Suite, Settings)]) -> anyhow::Result<()> {
        let judged = suites.iter().find(|(suite, _)| suite.scorer == Scorer::Judge);
        match judged {
            Some((suite, _)) if self.judge.is_none() => {
                Err(WrongUse::error(format!("`{}` is scored by a judging model", suite.name)))
                    .hint("name its server with `--judge URL`")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Gets to know the judge, where there is one.
    ///
    /// # Errors
    /// It can't be reached, or its prompts can't be read.
    pub(super) async fn connect(
        &self,
        version: ArenaHardVersion,
    ) -> anyhow::Result<Option<EndpointJudge>> {
        let Some(url) = &self.judge else { return Ok(None) };
        let options = EndpointOptions {
            model: self.judge_model.clone().unwrap_or_default(),
            api_key_env: self.judge_key_env.clone().unwrap_or_default(),
            ..EndpointOptions::at(url)
        };
        let (prompts, prompts_name) = match &self.judge_prompts {
            None => (JudgePrompts::default(), "rocstar".to_owned()),
            Some(path) => {
                let read = || format!("can't read the judge's prompts {}", path.display());
                let text = std::fs::read_to_string(path).with_context(read)?;
                (JudgePrompts::from_json(&text).with_context(read)?, sums::of_text(&text))
            }
        };
        let endpoints = Arc::new(Endpoints::connect(vec![options]).await?);
        let model = endpoints.facts().into_iter().next().map(|facts| facts.model);
        let identity = JudgeIdentity {
            url: url.clone(),
            model: model.unwrap_or_default(),
            prompts: prompts_name,
        };
        Ok(Some(EndpointJudge { endpoints, prompts, identity, settings: judge_settings(version) }))
    }
}

impl EndpointJudge {
    /// The model that published figures were judged by, where this is another.
    pub(super) fn published_other(&self) -> Option<&'static str> {
        let published = self.settings.model;
        // Servers name a model with its maker or its date as they like.
        (!self.identity.model.contains(published)).then_some(published)
    }

    /// What protocols say of it.
    pub(super) fn identity(&self) -> JudgeIdentity {
        self.identity.clone()
    }
}

impl Judge for EndpointJudge {
    fn ask<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Result<String, String>> {
        let ask = ChatAsk {
            messages: messages.to_vec(),
            tools: Vec::new(),
            max_tokens: Some(self.settings.max_tokens),
            sampling: Sampling {
                temperature: self.settings.temperature as f32,
                ..Sampling::default()
            },
            draw: Key::new(0, Purpose::Evaluation),
        };
        Box::pin(async move {
            let reply = self.endpoints.ask(&ask, &mut |_| {}).await;
            reply.map(|reply| reply.text).map_err(|error| error.to_string())
        })
    }

    fn prompts(&self) -> Cow<'_, JudgePrompts> {
        Cow::Borrowed(&self.prompts)
    }
}
