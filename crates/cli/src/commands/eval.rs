//! `rocstar eval`: how good is a model?
//!
//! Invariants: what can be wrong with suites, settings and folders is told before the first attempt,
//! and what can be known without model and server before one is loaded or asked; however an evaluation ends, what was made is kept, and the command that goes on
//! with it is printed.

mod identity;
mod judge;
mod options;
mod player;
mod rescore;
mod show;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use rocstar_eval::metrics::Prices;
use rocstar_eval::protocol::{Protocol, SCHEMA_VERSION, Settings, SuiteIdentity};
use rocstar_eval::report::{EvalResult, Status};
use rocstar_eval::run::{Ended, Parts};
use rocstar_eval::score::Judge;
use rocstar_eval::store::{Store, StoreError};
use rocstar_eval::suite::{self, Known, Suite};
use rocstar_rollout::Player;
use rocstar_sandbox::LocalSandbox;
use tokio::runtime::Runtime;

use self::judge::{EndpointJudge, JudgeOptions};
use self::options::ProtocolOptions;
use self::player::{Open, Source};
use self::show::Show;
use super::data::list::List;
use super::train::command_line;
use super::train::stop::Stop;
use crate::data::DataFolder;
use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::inference::RunningOptions;
use crate::service;
use crate::settings::SandboxOptions;
use crate::speaker::EndpointChoice;
use crate::target::{Target, Which};
use crate::terminal::{Terminal, plain};

/// Where evaluations lie unless something else is asked for.
const FOLDER: &str = "evals";

/// Measure a model on suites of problems
///
/// Every attempt is saved as it ends, with the protocol that it was made under; the result is
/// `result.json` and `result.md` in the evaluation's folder. Ctrl-C keeps what was done, and
/// `--resume` runs only what is missing.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Eval {
    #[command(subcommand)]
    command: Option<EvalCommand>,
    #[command(flatten)]
    new: Box<NewEval>,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    Rescore(rescore::Rescore),
}

/// An evaluation that is to be made.
#[derive(Debug, Args)]
struct NewEval {
    /// A model (folder, `.gguf` file or name), a run (folder or name), or the addresses of servers
    /// that serve the same model
    #[arg(value_name = "MODEL|RUN|ENDPOINT", required_unless_present = "list")]
    targets: Vec<String>,
    /// Suite, or a `.jsonl` file with `problem` and `answer`; may be given more than once
    #[arg(long = "suite", value_name = "NAME|FILE", required_unless_present = "list")]
    suites: Vec<String>,
    /// Show the suites, and whether their data is here
    #[arg(long)]
    list: bool,
    /// Folder of the evaluation, or of several suites' evaluations [default: `evals/…`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the evaluation in the folder: make only what is missing
    #[arg(long)]
    resume: bool,
    /// Print each result as a line of JSON
    #[arg(long)]
    json: bool,
    /// Of a run, the checkpoint of this step [default: the last]
    #[arg(long, value_name = "N", conflicts_with = "best")]
    step: Option<u64>,
    /// Of a run, the checkpoint with the best evaluation
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    protocol: ProtocolOptions,
    #[command(flatten)]
    data: DataFolder,
    #[command(flatten)]
    prices: PriceOptions,
    #[command(flatten)]
    judge: JudgeOptions,
    #[command(flatten)]
    endpoint: EndpointChoice,
    #[command(flatten)]
    running: RunningOptions,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// Everything that evaluations share.
struct Ready {
    source: Open,
    sandbox: Option<Arc<LocalSandbox>>,
    judge: Option<EndpointJudge>,
    runtime: Runtime,
    stop: Stop,
}

/// A suite whose evaluation can begin.
struct Begun<'s> {
    suite: &'s Suite,
    settings: &'s Settings,
    player: Box<dyn Player>,
    store: Store,
    path: PathBuf,
}

/// What tokens cost.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Cost")]
struct PriceOptions {
    /// Price of a million tokens that the model reads
    #[arg(long, value_name = "P", requires = "price_output")]
    price_input: Option<f64>,
    /// Price of a million tokens that it writes
    #[arg(long, value_name = "P", requires = "price_input")]
    price_output: Option<f64>,
}

impl PriceOptions {
    fn prices(self) -> Option<Prices> {
        let (input_per_million, output_per_million) = (self.price_input?, self.price_output?);
        Some(Prices { input_per_million, output_per_million })
    }
}

impl Eval {
    /// Runs the command.
    ///
    /// # Errors
    /// No such model or suite, data that can't be read, settings that can't work, or a folder that
    /// holds something else.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        match self.command {
            Some(EvalCommand::Rescore(command)) => command.run(terminal),
            None if self.new.list => {
                let (folder, json) = (self.new.data, self.new.json);
                List { folder, json }.run(terminal)
            }
            None => self.new.run(terminal),
        }
    }
}

impl NewEval {
    fn run(&self, terminal: Terminal) -> anyhow::Result<Finish> {
        let suites = self.load_suites(None)?;
        let source = self.source()?;
        if let Source::Model(_, name) = &source {
            self.check_folders(name, &suites)?;
        }
        self.judge.require(&suites)?;
        let runtime = service::runtime()?;
        let judge = runtime.block_on(self.judge.connect(self.protocol.arena_hard()))?;
        if let Some((judge, published)) =
            judge.as_ref().and_then(|it| Some((it, it.published_other()?)))
        {
            terminal.note(format_args!(
                "judge:     `{}`; published figures were judged by `{published}`",
                judge.identity().model
            ));
        }
        let source = source.open(&self.running, &self.endpoint, (&runtime, terminal))?;
        // What the model's own template says already, a prompt need not say again.
        let suites = match source.prompt() {
            Some(_) if !self.protocol.has_prompt() => self.load_suites(source.prompt().as_ref())?,
            _ => suites,
        };
        let sandbox = if suites.iter().any(|(_, settings)| settings.has_tool()) {
            Some(service::start_for_run(&runtime, &self.sandbox, terminal)?.0)
        } else {
            None
        };
        let ready = Ready { source, sandbox, judge, runtime, stop: Stop::new()? };
        let begun = self.begin(&suites, &ready)?;
        let mut all_complete = true;
        for one in begun {
            if ready.stop.is_asked() {
                if all_complete {
                    terminal.note(format_args!("go on with: {}", resume_command()));
                }
                return Ok(Finish::Bad);
            }
            all_complete &= self.measure(one, &ready, terminal)?;
        }
        Ok(Finish::from_good(all_complete))
    }

    /// Begins the evaluations of all suites, or none of them: what is wrong with a folder or a
    /// setting shows before the first attempt.
    fn begin<'s>(
        &self,
        suites: &'s [(Suite, Settings)],
        ready: &Ready,
    ) -> anyhow::Result<Vec<Begun<'s>>> {
        self.check_folders(&ready.source.identity().name, suites)?;
        let players: anyhow::Result<Vec<Box<dyn Player>>> = suites
            .iter()
            .map(|(_, settings)| ready.source.player(settings, ready.sandbox.clone()))
            .collect();
        let begin = |((suite, settings), player): (&'s (Suite, Settings), _)| {
            let protocol = self.protocol_of(suite, settings, ready);
            let path = self.folder(&protocol.model.name, &suite.name);
            let store = self.store(&path, &protocol)?;
            Ok(Begun { suite, settings, player, store, path })
        };
        suites.iter().zip(players?).map(begin).collect()
    }

    fn protocol_of(&self, suite: &Suite, settings: &Settings, ready: &Ready) -> Protocol {
        let judge = ready.judge.as_ref().filter(|_| suite.scorer == suite::Scorer::Judge);
        Protocol {
            schema: SCHEMA_VERSION,
            rocstar: env!("CARGO_PKG_VERSION").to_owned(),
            model: ready.source.identity().clone(),
            suite: SuiteIdentity::new(suite, self.protocol.limit()),
            judge: judge.map(EndpointJudge::identity),
            settings: settings.clone(),
        }
    }

    /// One suite; whether every attempt is there.
    fn measure(&self, begun: Begun<'_>, ready: &Ready, terminal: Terminal) -> anyhow::Result<bool> {
        let Begun { suite, settings, player, store, path } = begun;
        terminal.note(format_args!("protocol:  {}", settings.summary()));
        let parts = Parts {
            suite,
            player: player.as_ref(),
            judge: ready.judge.as_ref().map(|judge| judge as &dyn Judge),
            prices: self.prices.prices(),
        };
        let show = Show::new(suite, terminal);
        let progress = |progress| show.progress(&progress);
        let stopped = show::until_asked(&ready.stop);
        let run = rocstar_eval::run::run(store, parts, &progress, stopped);
        let (ended, store) = ready.runtime.block_on(run);
        show.finish();
        let result = store.and_then(|store| store.saved().result.clone());
        self.conclude(ended, result, &path, terminal)
    }

    /// The suites with the settings that each is asked under.
    fn load_suites(
        &self,
        prompt: Option<&suite::Prompt>,
    ) -> anyhow::Result<Vec<(Suite, Settings)>> {
        let places = self.data.places()?;
        let mut suites = Vec::with_capacity(self.suites.len());
        for name in &self.suites {
            let known = Known::of(name);
            let scorer = known.map_or(suite::Scorer::Math, |known| known.scorer);
            let mut settings = self.protocol.settings(scorer, known)?;
            if let Some(prompt) = prompt
                && matches!(scorer, suite::Scorer::Math | suite::Scorer::Choice)
            {
                settings.prompt = prompt.clone();
            }
            let suite = suite::load(name, &places, &settings.load_options());
            let suite = suite.map_err(|error| options::advise(&error))?;
            // What the suite made of it: not every suite is worded by a prompt.
            settings.prompt = suite.prompt.clone();
            suites.push((suite, settings));
        }
        Ok(suites)
    }

    /// Who is asked, before anything is loaded.
    fn source(&self) -> anyhow::Result<Source> {
        let which = match (self.step, self.best) {
            (Some(step), _) => Which::Step(step),
            (None, true) => Which::Best,
            (None, false) => Which::Latest,
        };
        let targets: anyhow::Result<Vec<Target>> =
            self.targets.iter().map(|text| Target::find(text, which)).collect();
        Source::new(targets?, &self.targets)
    }

    /// The folders can be begun or gone on with, and are as many as the suites.
    fn check_folders(&self, model: &str, suites: &[(Suite, Settings)]) -> anyhow::Result<()> {
        let mut all = BTreeSet::new();
        for (suite, _) in suites {
            let path = self.folder(model, &suite.name);
            if !self.resume && Store::is_at(&path) {
                return Err(refused(StoreError::Exists(path)));
            }
            if let Some(twice) = all.replace(path) {
                let problem = format!("two suites would lie in {}", twice.display());
                return Err(WrongUse::error(problem)).hint("measure them one after another");
            }
        }
        Ok(())
    }

    /// The evaluation's folder, begun or gone on with.
    fn store(&self, path: &Path, protocol: &Protocol) -> anyhow::Result<Store> {
        let store = if self.resume && Store::is_at(path) {
            Store::resume(path, protocol)
        } else {
            Store::create(path, protocol)
        };
        store.map_err(refused)
    }

    fn folder(&self, model: &str, suite: &str) -> PathBuf {
        let suite = folder_name(suite);
        match &self.out {
            Some(out) if self.suites.len() == 1 => out.clone(),
            Some(out) => out.join(suite),
            None => {
                let model = folder_name(model);
                Path::new(FOLDER).join(format!("{model}-{suite}"))
            }
        }
    }

    /// Shows the result; whether it is complete.
    fn conclude(
        &self,
        ended: Result<Ended, rocstar_eval::run::RunError>,
        result: Option<EvalResult>,
        path: &Path,
        terminal: Terminal,
    ) -> anyhow::Result<bool> {
        let mut complete = false;
        if let Some(result) = result {
            show::result(&result, self.json, terminal)?;
            complete = result.status == Status::Complete;
            for (cause, count) in &result.failures {
                terminal.note(format_args!("{count} × failed: {}", plain(cause)));
            }
            if !complete {
                terminal.note(format_args!("partial: {} attempts are missing", result.missing));
            }
            terminal.note(format_args!("result:    {}", path.join("result.md").display()));
        }
        match ended {
            Ok(_) if complete => Ok(true),
            Ok(_) => {
                terminal.note(format_args!("go on with: {}", resume_command()));
                Ok(false)
            }
            Err(error) => Err(error.into()).map_err(|error: anyhow::Error| {
                error.hint(format!("what was done is kept; go on with: {}", resume_command()))
            }),
        }
    }
}

/// A folder that can't be used, with what to do.
fn refused(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::Exists(_) => {
            "go on with it by `--resume`, or choose another folder with `--out DIR`"
        }
        StoreError::ProtocolChanged { .. } => {
            "give the settings as they were, or begin another evaluation with `--out DIR`; \
             more samples or problems are no change"
        }
        _ => return error.into(),
    };
    anyhow::Error::new(WrongUse(error.to_string())).hint(hint)
}

/// The command that goes on with this evaluation.
fn resume_command() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = ["rocstar".to_owned()].into_iter().chain(words).collect();
    if !words.iter().any(|word| word == "--resume") {
        words.push("--resume".to_owned());
    }
    command_line(&words)
}

/// A name as a folder's.
fn folder_name(name: &str) -> String {
    let last = Path::new(name).file_stem().filter(|_| name.ends_with(".jsonl"));
    let name = last.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
    };
    name.chars().map(plain).collect::<String>().trim_matches(['-', '.']).to_owned()
}
