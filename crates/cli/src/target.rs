//! What a person means by MODEL, RUN or ENDPOINT: one word, three kinds of things.
//!
//! Invariant: an address is never tried as a path, and a path that is there wins over a name; what
//! is nothing is refused with what would have been taken, before anything slow starts.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rocstar_train::checkpoint;

use crate::failure::{HintExt as _, WrongUse};
use crate::models;

/// Where runs lie when only their name is given.
const RUNS: &str = "runs";
const CHECKPOINTS: &str = "checkpoints";

/// What answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A model on this machine: a folder or a file.
    Model(PathBuf),
    /// A server's address.
    Endpoint(String),
}

/// Which checkpoint of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Which {
    /// The last one.
    #[default]
    Latest,
    /// The one with the best evaluation.
    Best,
    /// That of a step.
    Step(u64),
}

impl Target {
    /// Finds what `text` names.
    ///
    /// # Errors
    /// It is nothing, or a run without the checkpoint that is wanted.
    pub(crate) fn find(text: &str, which: Which) -> anyhow::Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            if which != Which::Latest {
                return Err(no_checkpoints(&format!("`{text}` is a server")));
            }
            return Ok(Self::Endpoint(text.trim_end_matches('/').to_owned()));
        }
        let here = Path::new(text);
        let path = if here.exists() { here.to_owned() } else { Path::new(RUNS).join(text) };
        if is_run(&path) {
            return checkpoint_of(&path, which).map(Self::Model);
        }
        if which != Which::Latest {
            return Err(no_checkpoints(&format!("no run at `{text}`")));
        }
        Ok(Self::Model(models::resolve_model(text)?))
    }
}

fn no_checkpoints(problem: &str) -> anyhow::Error {
    WrongUse::error(problem).hint("only runs have checkpoints to choose from")
}

fn is_run(path: &Path) -> bool {
    path.join(CHECKPOINTS).is_dir()
}

fn checkpoint_of(run: &Path, which: Which) -> anyhow::Result<PathBuf> {
    let all = checkpoint::list(&run.join(CHECKPOINTS))
        .with_context(|| format!("can't list the checkpoints of `{}`", run.display()))?;
    let found = match which {
        Which::Latest => all.last(),
        Which::Best => checkpoint::best(&all).and_then(|index| all.get(index)),
        Which::Step(step) => all.iter().find(|checkpoint| checkpoint.state.step == step),
    };
    if let Some(checkpoint) = found {
        return Ok(checkpoint.path.clone());
    }
    let names = all.iter().filter_map(|it| it.path.file_name()?.to_str()).collect::<Vec<_>>();
    let run = run.display();
    if names.is_empty() {
        return Err(WrongUse::error(format!("the run `{run}` has no checkpoint yet")));
    }
    let all = format!("it has {}", names.join(", "));
    Err(match which {
        Which::Best => WrongUse::error(format!("no checkpoint of the run `{run}` was evaluated"))
            .hint(format!("choose one by its step: {all}")),
        Which::Step(step) => {
            WrongUse::error(format!("the run `{run}` has no checkpoint of step {step}")).hint(all)
        }
        Which::Latest => WrongUse::error(format!("the run `{run}` has no last checkpoint")),
    })
}
