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
            return Ok(Self::Endpoint(text.trim_end_matches('/').to_owned()));
        }
        let here = Path::new(text);
        let named = Path::new(RUNS).join(text);
        let run = [here, named.as_path()].into_iter().find(|path| is_run(path));
        match run {
            Some(path) => checkpoint_of(path, which).map(Self::Model),
            None if which != Which::Latest => Err(WrongUse::error(format!("no run at `{text}`")))
                .hint("only runs have checkpoints to choose from"),
            None => Ok(Self::Model(models::resolve_model(text)?)),
        }
    }
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
    let error = WrongUse::error(format!("the run `{}` has no such checkpoint", run.display()));
    Err(if names.is_empty() {
        error.hint("it has none yet")
    } else {
        error.hint(format!("it has {}", names.join(", ")))
    })
}
