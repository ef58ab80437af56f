//! `rocstar replay`: episodes of a run or of a file, made again from what is written down of them.
//!
//! Invariant: the policy writes what it wrote, and everything behind it is done anew by the same code
//! that training uses: calls are read and run, answers are verified, rollouts are chosen. What comes
//! out otherwise is told.

mod compare;
mod report;
mod reselect;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use rocstar_dash::curves::Curves;
use rocstar_record::episode::{Episode, Group};
use rocstar_record::log::Records;
use rocstar_record::run::Reader;
use rocstar_rollout::{At, MathVerifier, Policy, PythonTool, RecordedGenerator, RolloutOptions};
use rocstar_rollout::{Rollouts, Task, Tool};
use rocstar_sandbox::Sandbox;
use rocstar_train::Prepared;
use rocstar_train::recipe::{Recipe, RlStage, Stage};
use tokio::runtime::Runtime;

use self::report::Report;
use super::rollout::stage::StageOptions;
use super::train::{launch, outlook};
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::service;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// Make episodes again from what is written down, and compare
///
/// Runs every tool call of the recorded episodes again, verifies every answer again and chooses among
/// the rollouts again, and lists what comes out otherwise. With `--selection` it also shows what other
/// settings would have chosen. Needs the tasks and the tokenizer, not the weights. Exit status 1 if
/// something differs that chance or a limit of time doesn't explain.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A run's directory, or a file that `rocstar rollout` wrote
    #[arg(value_name = "RUN|FILE")]
    run: PathBuf,
    /// Of a file: the recipe that was rolled out; and below, what else was said of it
    #[arg(long = "recipe", value_name = "RECIPE")]
    recipes: Vec<PathBuf>,
    #[command(flatten)]
    rolled_out: StageOptions,
    /// Step whose episodes are made again, or `all`
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = parse_steps)]
    step: Steps,
    /// A setting of the selection to try on the same rollouts, such as `mode=off` or `epsilon=0.5`
    #[arg(long, value_name = "KEY=VALUE")]
    selection: Vec<String>,
    /// Print differences and figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// Groups of a file that are made again together: bounds memory.
const GROUPS_TOGETHER: usize = 64;

/// Which steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    All,
    One(u64),
}

fn parse_steps(text: &str) -> Result<Steps, String> {
    match text {
        "all" => Ok(Steps::All),
        _ => text.parse().map(Steps::One).map_err(|_| "write a step's number, or `all`".to_owned()),
    }
}

/// Where a step stands in its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    stage: usize,
    /// Number of its first task within the stage.
    first_task: u64,
}

impl Replay {
    /// Runs the command.
    ///
    /// # Errors
    /// The episodes or their tasks can't be read, or the code environment does not start.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let report = if self.run.is_file() {
            self.file(terminal)?
        } else {
            if !self.recipes.is_empty() || self.rolled_out.is_given() {
                return Err(WrongUse::error(format!("{} is no file", self.run.display())))
                    .hint("a run's recipe stands in the run: give none");
            }
            self.directory(terminal)?
        };
        report.show(self.json, terminal)?;
        Ok(Finish::from_good(report.is_good()))
    }

    fn directory(&self, terminal: Terminal) -> anyhow::Result<Report> {
        let reader = Reader::open(&self.run)?;
        let steps = self.steps(&reader)?;
        let mut curves = Curves::default();
        curves.read_on(&reader)?;
        let recipe = Recipe::from_toml(&reader.config()?)
            .with_context(|| format!("can't use {}", self.run.join("config.toml").display()))?;
        let (prepared, _) = launch::prepare(recipe, terminal).hint(
            "replaying needs the run's tokenizer and tasks; give paths as they were from where \
                   it was started",
        )?;
        let runtime = service::runtime()?;
        let mut sandbox: Option<Arc<dyn Sandbox>> = None;
        if prepared.needs_sandbox() {
            let (started, effective) = service::start_for_run(&runtime, &self.sandbox, terminal)?;
            outlook::note_other_python(&reader, &effective, terminal)?;
            sandbox = Some(started);
        }
        let player = Player::new(&prepared, sandbox, &runtime);
        let mut report = Report::new(&self.run);
        let bar = terminal.bar("steps made again", steps.len() as u64);
        for step in steps {
            let (stage, first_task) = curves.place(step).with_context(|| {
                format!("metrics.jsonl doesn't tell which tasks were those of step {step}")
            })?;
            let place = Place { stage, first_task };
            let groups: Vec<Group> = reader.groups(step)?.collect::<Result<_, _>>()?;
            self.again(&player, (step, place), &groups, &mut report)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(report)
    }

    fn file(&self, terminal: Terminal) -> anyhow::Result<Report> {
        if self.recipes.is_empty() {
            return Err(WrongUse::error("a file of episodes says nothing of its tasks"))
                .hint("give the recipe that was rolled out: `--recipe FILE`");
        }
        let mut records = Records::<Group>::open(&self.run)
            .with_context(|| format!("can't read {}", self.run.display()))?
            .peekable();
        let first = records.peek().and_then(|first| first.as_ref().ok());
        let samples = first.map(|group| group.episodes().count() + group.lost.len());
        let (recipe, stage) = self.rolled_out.resolve(&self.recipes, samples)?;
        let (prepared, _) = launch::prepare(recipe, terminal)?;
        let runtime = service::runtime()?;
        let mut sandbox: Option<Arc<dyn Sandbox>> = None;
        if prepared.needs_sandbox() {
            sandbox = Some(service::start_for_run(&runtime, &self.sandbox, terminal)?.0);
        }
        let player = Player::new(&prepared, sandbox, &runtime);
        let mut report = Report::new(&self.run);
        let mut place = Place { stage, first_task: 0 };
        loop {
            let part = records.by_ref().take(GROUPS_TOGETHER);
            let groups: Vec<Group> = part.collect::<Result<_, _>>()?;
            let Some(step) = groups.first().map(|group| group.step) else { return Ok(report) };
            for group in &groups {
                group.check().with_context(|| format!("task `{}`", group.task.0))?;
            }
            self.again(&player, (step, place), &groups, &mut report)?;
            place.first_task += groups.len() as u64;
        }
    }

    /// Makes groups again that were made together.
    fn again(
        &self,
        player: &Player<'_>,
        (step, place): (u64, Place),
        groups: &[Group],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let options = stage(player.prepared, place.stage)?;
        let made = player.play(options, groups)?;
        report.add_episodes(step, compare::groups(step, groups, &made), groups);
        let other = reselect::with(&options.selection, &self.selection)?;
        let seed = player.prepared.recipe().seed;
        let choice = reselect::Choice { seed, step, first_task: place.first_task, options };
        report.add_choice(&choice, groups, other.as_ref())
    }

    fn steps(&self, reader: &Reader) -> anyhow::Result<Vec<u64>> {
        let all = reader.episode_steps()?;
        match self.step {
            Steps::All if all.is_empty() => {
                Err(WrongUse::error(format!("{} has no episodes yet", self.run.display())))
            }
            Steps::All => Ok(all),
            Steps::One(step) if all.contains(&step) => Ok(vec![step]),
            Steps::One(step) => {
                let error = WrongUse::error(format!("the run has no episodes of step {step}"));
                Err(match (all.first(), all.last()) {
                    (Some(first), Some(last)) => {
                        error.hint(format!("it has those of steps {first} to {last}"))
                    }
                    _ => error,
                })
            }
        }
    }
}

/// The stage's settings.
fn stage(prepared: &Prepared, index: usize) -> anyhow::Result<&RlStage> {
    match prepared.recipe().stage.get(index) {
        Some(Stage::Rl(options)) => Ok(options),
        _ => anyhow::bail!("the recipe's stage {index} is none of reinforcement learning"),
    }
}

/// Makes recorded episodes again.
struct Player<'a> {
    prepared: &'a Prepared,
    tasks: HashMap<&'a str, &'a Arc<Task>>,
    sandbox: Option<Arc<dyn Sandbox>>,
    runtime: &'a Runtime,
}

impl<'a> Player<'a> {
    fn new(
        prepared: &'a Prepared,
        sandbox: Option<Arc<dyn Sandbox>>,
        runtime: &'a Runtime,
    ) -> Self {
        let tasks = prepared.tasks().map(|task| (task.id.0.as_str(), task)).collect();
        Self { prepared, tasks, sandbox, runtime }
    }

    /// The episodes of each group, made again, by sample.
    fn play(&self, options: &RlStage, groups: &[Group]) -> anyhow::Result<Vec<Vec<Episode>>> {
        let tasks: anyhow::Result<Vec<Arc<Task>>> =
            groups.iter().map(|group| self.task(group)).collect();
        let samples =
            groups.iter().flat_map(Group::episodes).map(|(one, _)| one.sample as usize + 1);
        let rollout = RolloutOptions {
            samples: samples.max().unwrap_or(1),
            most_running: 0,
            ..options.rollout.clone()
        };
        let recorded = (0..).zip(groups).flat_map(|(number, group)| {
            group.episodes().map(move |(episode, _)| (number, episode.clone()))
        });
        let outline = self.prepared.outline();
        let longest_tokens = options.engine.longest_tokens(&outline.config);
        let generator = Arc::new(RecordedGenerator::new(recorded, longest_tokens));
        let tool = self.sandbox.as_ref().and_then(|sandbox| {
            let tool = PythonTool::new(Arc::clone(sandbox), &rollout)?;
            Some(Arc::new(tool) as Arc<dyn Tool>)
        });
        let policy =
            Policy { tokenizer: outline.tokenizer.clone(), family: outline.family.clone() };
        let verifier = options.verifier.around(Arc::new(MathVerifier), self.sandbox.as_ref());
        let verifier = self.runtime.block_on(verifier)?;
        let rollouts = Rollouts::new(policy, generator, tool, verifier, rollout)?;
        let step = groups.first().map_or(0, |group| group.step);
        let at = At {
            seed: self.prepared.recipe().seed,
            step: u32::try_from(step).unwrap_or(u32::MAX),
            first_task: 0,
        };
        let made = self.runtime.block_on(rollouts.roll_out(at, &tasks?, &|_| {}))?;
        Ok(made.groups.into_iter().map(|group| group.episodes).collect())
    }

    /// The group's task, with the answer that was written down for it.
    fn task(&self, group: &Group) -> anyhow::Result<Arc<Task>> {
        let id = group.task.0.as_str();
        let task = self.tasks.get(id).with_context(|| {
            format!(
                "task `{id}` is not among the recipe's tasks: they are no longer those of the run"
            )
        })?;
        Ok(Arc::new(Task { answer: group.answer.clone(), ..Task::clone(task) }))
    }
}
