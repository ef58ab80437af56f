//! From a recipe to a run that has ended, for every command that trains.
//!
//! Invariant: what can be refused is refused before a directory is made: recipe, data, room, the code
//! environment and the weights. A directory that was made for a run that came to nothing is removed,
//! so that the same name can be used again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_nn::step::Model;
use rocstar_record::sink::Prometheus;
use rocstar_sandbox::Sandbox;
use rocstar_train::recipe::Recipe;
use rocstar_train::{Error, Observer, Outcome, Prepared, Start, World};
use serde_json::{Value, json};

use super::metrics::MetricsOptions;
use super::model::{self, Weights};
use super::{advise, outlook, recipe};
use crate::host::Facts;
use crate::service;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// How a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As a new run.
    New,
    /// From a checkpoint: the last, or that of a step.
    Resume(Option<u64>),
}

/// How a run is gone about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'a> {
    /// How it begins.
    pub(crate) begin: Begin,
    /// The code environment.
    pub(crate) sandbox: &'a SandboxOptions,
    /// Where its latest metrics are served, if anywhere.
    pub(crate) metrics: Option<&'a MetricsOptions>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its directory.
    pub(crate) path: PathBuf,
    /// What it was made of.
    pub(crate) prepared: Prepared,
    /// How it ended.
    pub(crate) outcome: Result<Outcome, Error>,
}

/// Runs a recipe to its end, or until it is asked to stop.
///
/// # Errors
/// It can't begin. What went wrong later is in [`Ended::outcome`].
pub(crate) fn run(
    mut recipe: Recipe,
    way: Way<'_>,
    observer: &mut dyn Observer,
    terminal: Terminal,
) -> anyhow::Result<Ended> {
    let runtime = service::runtime()?;
    let served = way.metrics.map(|options| options.bind(&runtime)).transpose()?.flatten();
    let resumed = match way.begin {
        Begin::Resume(step) => Some(Start::resume(&mut recipe, step).map_err(advise)?),
        Begin::New => {
            refuse_existing(&recipe)?;
            None
        }
    };
    recipe::choose_threads(&mut recipe);
    let (prepared, weights) = prepare(recipe, terminal)?;
    prepared.plans().flat_map(outlook::lines).for_each(|line| terminal.note(line));
    outlook::check_room(&prepared)?;
    let mut environment = environment(prepared.recipe());
    let mut started = None;
    if prepared.needs_sandbox() {
        let (sandbox, effective) = service::start_for_run(&runtime, way.sandbox, terminal)?;
        environment["sandbox"] = serde_json::to_value(&effective)?;
        let sandbox: Arc<dyn Sandbox> = sandbox;
        started = Some(sandbox);
    }
    let prometheus = served.map(|listening| {
        let prometheus = Prometheus::new(&prepared.recipe().run.name);
        listening.serve(&runtime, prometheus.clone(), terminal);
        prometheus
    });
    let world = World { sandbox: started, prometheus, ..World::new(environment) };
    let (path, outcome) = match resumed {
        Some(start) => {
            let path = start.path().to_owned();
            let load = weights.loader(start.checkpoint(), prepared.recipe());
            (path, rocstar_train::run(&prepared, start, load, &world, observer))
        }
        None => {
            let model = load(&weights, prepared.recipe().seed, terminal)?;
            outlook::tell_time(&prepared, &model, terminal)?;
            begin_new(&prepared, model, &world, observer)?
        }
    };
    Ok(Ended { path, prepared, outcome })
}

fn begin_new(
    prepared: &Prepared,
    model: Model,
    world: &World,
    observer: &mut dyn Observer,
) -> anyhow::Result<(PathBuf, Result<Outcome, Error>)> {
    let was_there = rocstar_train::directory_of(prepared.recipe()).exists();
    let start = Start::new(prepared.recipe()).map_err(advise)?;
    let path = start.path().to_owned();
    let outcome = rocstar_train::run(prepared, start, || Ok(model), world, observer);
    if outcome.is_err() && !was_there && is_empty(&path) {
        // Should this fail, the directory still is one that a run can go on in.
        let _ = std::fs::remove_dir_all(&path);
    }
    Ok((path, outcome))
}

/// Whether nothing of a run was written down but that it began.
fn is_empty(path: &Path) -> bool {
    let has_lines = std::fs::metadata(path.join("metrics.jsonl")).is_ok_and(|file| file.len() > 0);
    let has_entries = |name: &str| {
        std::fs::read_dir(path.join(name)).is_ok_and(|mut entries| entries.next().is_some())
    };
    !(has_lines || ["checkpoints", "episodes", "eval"].into_iter().any(has_entries))
}

/// Reads recipe and data and puts them together.
///
/// # Errors
/// They can't be read or used.
pub(crate) fn prepare(recipe: Recipe, terminal: Terminal) -> anyhow::Result<(Prepared, Weights)> {
    recipe::refuse_invalid(&recipe)?;
    let spinner = terminal.spinner("reading the data");
    let prepared = model::outline(&recipe).and_then(|(outline, weights)| {
        Ok((Prepared::new(recipe, outline).map_err(advise)?, weights))
    });
    spinner.finish_and_clear();
    prepared
}

/// Reads the weights.
///
/// # Errors
/// They can't be read.
pub(crate) fn load(weights: &Weights, seed: u64, terminal: Terminal) -> anyhow::Result<Model> {
    let spinner = terminal.spinner("reading the weights");
    let model = weights.clone().load(seed).map_err(advise);
    spinner.finish_and_clear();
    model
}

fn refuse_existing(recipe: &Recipe) -> anyhow::Result<()> {
    let path = rocstar_train::directory_of(recipe);
    if path.join("config.toml").exists() {
        return Err(advise(Error::RunExists(path)));
    }
    Ok(())
}

/// Where and with what the run was started, for `env.json`.
fn environment(recipe: &Recipe) -> Value {
    json!({
        "rocstar": env!("CARGO_PKG_VERSION"),
        "command": std::env::args().collect::<Vec<_>>(),
        "folder": std::env::current_dir().ok(),
        "git": git_revision(),
        "seed": recipe.seed,
        "threads": recipe.threads,
        "architecture": std::env::consts::ARCH,
        "host": Facts::collect(),
    })
}

/// The revision of the repository that the command is run in, if it is one.
fn git_revision() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
