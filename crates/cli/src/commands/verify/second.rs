//! Math-Verify's opinion of pairs that were left undecided, asked in a sandbox of this process.
//!
//! Invariant: the sandbox starts only where there is something to ask, and a package that is missing
//! is told before anything is asked.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use rocstar_rollout::{MathVerify, Opinion};
use rocstar_sandbox::Sandbox;
use rocstar_verify::{Options, Report, Verdict};
use tokio::runtime::Runtime;

use crate::failure::HintExt as _;
use crate::service;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// A pair without text around it, and how it is to be compared.
#[derive(Debug)]
pub(super) struct Question {
    gold: String,
    answer: String,
    options: Options,
}

/// What there is to ask about a pair: nothing unless it is undecided.
pub(super) fn question(report: &Report, options: &Options) -> Option<Question> {
    matches!(report.verdict, Verdict::Undecided { .. }).then(|| Question {
        gold: report.gold.text.clone(),
        answer: report.answer.text.clone(),
        options: options.clone(),
    })
}

/// The verdict on an undecided pair after an opinion.
pub(super) const fn verdict(opinion: &Opinion) -> &'static str {
    match opinion {
        Opinion::Right => "right",
        Opinion::Wrong => "wrong",
        Opinion::Undecided { .. } | Opinion::Failed { .. } => "undecided",
    }
}

/// Math-Verify, ready to be asked.
pub(super) struct Second {
    math_verify: MathVerify,
    // Last: what it runs is dropped before.
    runtime: Runtime,
}

impl Second {
    /// Starts a sandbox, and asks something whose answer is known.
    ///
    /// # Errors
    /// The sandbox does not start, or Math-Verify does not work in it.
    pub(super) fn start(options: &SandboxOptions, terminal: Terminal) -> anyhow::Result<Self> {
        let runtime = service::runtime()?;
        let (sandbox, _) = service::start_for_run(&runtime, options, terminal)?;
        let math_verify = MathVerify::new(sandbox as Arc<dyn Sandbox>);
        runtime.block_on(math_verify.check()).map_err(anyhow::Error::from).hint(
            "`rocstar sandbox setup` builds an environment that has the package; one that was \
             built before needs `rocstar sandbox setup` once more",
        )?;
        Ok(Self { math_verify, runtime })
    }

    /// Asks about each, as many at once as there are cores; opinions come in their order.
    ///
    /// # Errors
    /// The number of cores isn't known.
    pub(super) fn ask(&self, questions: Vec<Question>) -> anyhow::Result<Vec<Opinion>> {
        let at_once = std::thread::available_parallelism()?.get();
        let asked = stream::iter(questions).map(|Question { gold, answer, options }| async move {
            self.math_verify.ask(&gold, &answer, &options).await
        });
        Ok(self.runtime.block_on(asked.buffered(at_once).collect()))
    }
}
