//! `rocstar eval rescore`: saved attempts, scored again without a model.

use std::path::PathBuf;

use clap::Args;
use rocstar_eval::protocol::JudgeIdentity;
use rocstar_eval::score::Judge;
use rocstar_eval::store::{Store, StoreError};
use rocstar_eval::suite;

use super::judge::{EndpointJudge, JudgeOptions};
use super::{PriceOptions, options, show};
use crate::data::DataFolder;
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::service;
use crate::terminal::Terminal;

/// Score the attempts of an evaluation again, without a model
///
/// For a scorer that was changed, or for prices that were not known. The attempts stay as they are;
/// scores and result are written anew. The suite's data must be what it was.
#[derive(Debug, Args)]
pub(super) struct Rescore {
    /// Folder of the evaluation
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print the result as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataFolder,
    #[command(flatten)]
    prices: PriceOptions,
    #[command(flatten)]
    judge: JudgeOptions,
}

impl Rescore {
    pub(super) fn run(&self, terminal: Terminal) -> anyhow::Result<Finish> {
        let mut store = Store::open(&self.folder).map_err(|error| match error {
            StoreError::NoEvaluation(_) => anyhow::Error::new(WrongUse(error.to_string())),
            error => error.into(),
        })?;
        let protocol = store.saved().protocol.clone();
        let name = &protocol.suite.name;
        let suite = suite::load(name, &self.data.places()?, &protocol.settings.load_options());
        let suite = suite.map_err(|error| options::advise(&error))?;
        if suite.sha256() != protocol.suite.sha256 {
            return Err(WrongUse::error(format!(
                "the data of `{name}` is not what the attempts were made on: its SHA-256 is {}, and \
                 was {}",
                suite.sha256(),
                protocol.suite.sha256
            )))
            .hint("give the folder of that data with `--data-dir`");
        }
        let runtime = service::runtime()?;
        let judge = runtime.block_on(self.judge.connect(protocol.settings.arena_hard))?;
        check_judge(protocol.judge.as_ref(), judge.as_ref())?;
        let judge = judge.as_ref().map(|judge| judge as &dyn Judge);
        let prices = self.prices.prices();
        runtime.block_on(rocstar_eval::run::rescore(&mut store, &suite, judge, prices))?;
        if let Some(result) = &store.saved().result {
            show::result(result, self.json, terminal)?;
        }
        Ok(Finish::Good)
    }
}

/// Scores of two judges never stand under one name.
fn check_judge(was: Option<&JudgeIdentity>, judge: Option<&EndpointJudge>) -> anyhow::Result<()> {
    let (Some(was), now) = (was, judge.map(EndpointJudge::identity)) else { return Ok(()) };
    let said = |judge: &JudgeIdentity| {
        format!("`{}` at {} with the prompts `{}`", judge.model, judge.url, judge.prompts)
    };
    let Some(now) = now else {
        return Err(WrongUse::error(format!("the answers were judged by {}", said(was))))
            .hint("name that judge with `--judge URL`");
    };
    if now == *was {
        return Ok(());
    }
    Err(WrongUse::error(format!("the answers were judged by {}, not by {}", said(was), said(&now))))
        .hint("give the same judge; another one needs an evaluation of its own")
}
