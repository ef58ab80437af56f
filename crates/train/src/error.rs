//! What can stop a training run.

use std::io;
use std::path::{Path, PathBuf};

pub use rocstar_rollout::rows::Place;
use rocstar_rollout::rows::RowsError;

use crate::recipe::{Difference, RecipeError};

/// What can stop a training run. Every variant is our failure or a wrong input, never something
/// that the model did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder can't be used.
    #[error("can't {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The recipe's text.
    #[error("recipe: {0}")]
    Recipe(Box<RecipeError>),
    /// The recipe's values.
    #[error("the recipe can't work: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// A data file.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A row that isn't a conversation to learn from.
    #[error("{place}: {field}: {problem}")]
    Row {
        /// Where.
        place: Place,
        /// Which field, such as `messages[2].content`.
        field: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Nothing to learn from.
    #[error("there is nothing to {purpose}: {reason}")]
    NoExamples {
        /// `learn from`, or `evaluate on`.
        purpose: &'static str,
        /// What became of the rows.
        reason: String,
    },
    /// Tokenizer and model don't belong together.
    #[error(
        "the tokenizer has {tokenizer} tokens and the model's embedding only {embedding} rows: \
         they don't belong together"
    )]
    Vocabulary {
        /// Highest token id plus one.
        tokenizer: usize,
        /// Rows of the embedding.
        embedding: usize,
    },
    /// Sequences longer than the model's context.
    #[error(
        "`stage.{stage}.sequence_tokens` is {sequence_tokens}, the model's context only \
         {context_tokens}"
    )]
    Context {
        /// Which stage.
        stage: usize,
        /// The recipe's longest sequence.
        sequence_tokens: usize,
        /// The model's.
        context_tokens: usize,
    },
    /// The run is there already.
    #[error("the run {} exists already", .0.display())]
    RunExists(PathBuf),
    /// There is no run to go on with.
    #[error("{} is no run: it has no `config.toml`", .0.display())]
    NoRun(PathBuf),
    /// Another process works on the run.
    #[error("another process{} works on the run {}", owner.map(|pid| format!(" ({pid})")).unwrap_or_default(), path.display())]
    Locked {
        /// The run.
        path: PathBuf,
        /// The process, where it could be told.
        owner: Option<u32>,
    },
    /// No checkpoint to go on from.
    #[error("the run {} has no checkpoint{}", path.display(), step.map(|step| format!(" of step {step}")).unwrap_or_default())]
    NoCheckpoint {
        /// The run.
        path: PathBuf,
        /// The step that was asked for.
        step: Option<u64>,
    },
    /// A checkpoint that is not what was written.
    #[error("the checkpoint {} is damaged: {problem}", path.display())]
    Checkpoint {
        /// The checkpoint, or a file of it.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The recipe is not the one that the run began with.
    #[error(
        "the run {} began with another recipe: {}",
        path.display(),
        differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    RecipeChanged {
        /// The run.
        path: PathBuf,
        /// What differs, the run's value first.
        differences: Vec<Difference>,
    },
    /// The data is not what the run began with.
    #[error("the data of stage {stage} is not the data that the run began with: {what}")]
    DataChanged {
        /// Which stage.
        stage: usize,
        /// What differs.
        what: String,
    },
    /// The run's metrics don't reach as far as its checkpoint.
    #[error(
        "{}: {found_bytes} bytes, and the checkpoint was saved at {expected_bytes}: the file was \
         changed",
        path.display()
    )]
    MetricsChanged {
        /// The file.
        path: PathBuf,
        /// Its length.
        found_bytes: u64,
        /// Its length when the checkpoint was saved.
        expected_bytes: u64,
    },
    /// A stage that rolls nothing out.
    #[error("stage {stage} is none of reinforcement learning")]
    NoRollouts {
        /// Which stage.
        stage: usize,
    },
    /// A stage's tasks were all held out.
    #[error("stage {stage} has no tasks to learn from: {held_out} are held out for its evaluation")]
    NoTasks {
        /// Which stage.
        stage: usize,
        /// Tasks of the evaluation.
        held_out: usize,
    },
    /// The policy solves every task before the stage.
    #[error(
        "stage {stage}: the policy solves all {tasks} tasks already, so nothing is left to learn from"
    )]
    AllSolved {
        /// Which stage.
        stage: usize,
        /// How many tasks.
        tasks: usize,
    },
    /// A prompt that leaves no room for a response.
    #[error(
        "task `{task}`: its prompt has {prompt_tokens} tokens, and the model's context is {context_tokens}"
    )]
    PromptTooLong {
        /// Which.
        task: String,
        /// Tokens of its prompt.
        prompt_tokens: usize,
        /// The model's.
        context_tokens: usize,
    },
    /// A task that JSON can't hold.
    #[error("a task can't be written as JSON: {0}")]
    Task(String),
    /// Nothing runs programs.
    #[error("the recipe's rollouts run programs, and there is no code environment for them")]
    NoSandbox,
    /// The second verifier that the recipe wants does not work here.
    #[error("`verifier.second_opinion`: {0}")]
    SecondOpinion(rocstar_rollout::VerifierError),
    /// The runtime that waits for rollouts.
    #[error("no async runtime: {0}")]
    Runtime(io::Error),
    /// The optimiser's moments of the stage before are of other weights.
    #[error("`keep_optimizer`: {0}")]
    Moments(Box<rocstar_nn::optimizer::StateError>),
    /// Tasks from files.
    #[error(transparent)]
    Tasks(Box<rocstar_rollout::data::DataError>),
    /// Rolling out.
    #[error(transparent)]
    Rollout(Box<rocstar_rollout::RolloutError>),
    /// The local engine.
    #[error("the engine: {0}")]
    Engine(Box<rocstar_engine::EngineError>),
    /// The local engine refused a request.
    #[error("the engine refuses: {0}")]
    Refused(Box<rocstar_engine::Refusal>),
    /// The settings of the selection don't fit a group.
    #[error(transparent)]
    Selection(#[from] rocstar_grpo::SelectionError),
    /// The run's directory holds, or would hold, what can't be read.
    #[error(transparent)]
    Run(Box<rocstar_record::run::Error>),
    /// The arithmetic broke down.
    #[error(
        "step {step}: {what} is {value}, not a finite number: the step was not applied, and \
         checkpoints before it are good"
    )]
    NotFinite {
        /// The step that can't be done.
        step: u64,
        /// `the loss`, or `the norm of the gradient`.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// No threads to compute on.
    #[error("can't start {threads} threads: {source}")]
    Threads {
        /// How many were wanted; 0 = one a core.
        threads: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },
    /// The weights that adapters belong to are others.
    #[error(
        "the checkpoint {} holds adapters of another model than the recipe's: its weights differ",
        path.display()
    )]
    BaseChanged {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A conversation that the template can't render.
    #[error("{place}: messages: {source}")]
    Render {
        /// Where.
        place: Place,
        /// Why not.
        source: Box<rocstar_chat::Error>,
    },
    /// Tokenizer and template.
    #[error(transparent)]
    Chat(Box<rocstar_chat::Error>),
    /// Files of weights.
    #[error(transparent)]
    Files(Box<rocstar_nn::files::Error>),
    /// Adapters.
    #[error(transparent)]
    Lora(#[from] rocstar_nn::lora::LoraError),
    /// A step of the arithmetic.
    #[error(transparent)]
    Step(#[from] rocstar_nn::step::StepError),
    /// The optimiser's state.
    #[error("{}: {source}", path.display())]
    OptimizerState {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<rocstar_nn::optimizer::StateError>,
    },
}

impl From<RecipeError> for Error {
    fn from(error: RecipeError) -> Self {
        Self::Recipe(Box::new(error))
    }
}

impl From<rocstar_record::run::Error> for Error {
    fn from(error: rocstar_record::run::Error) -> Self {
        use rocstar_record::run::Error as Run;
        match error {
            Run::File { action, path, source } => Self::File { action, path, source },
            Run::Exists(path) => Self::RunExists(path),
            Run::NoRun(path) => Self::NoRun(path),
            Run::Locked { path, owner } => Self::Locked { path, owner },
            Run::MetricsChanged { path, found_bytes, expected_bytes } => {
                Self::MetricsChanged { path, found_bytes, expected_bytes }
            }
            other => Self::Run(Box::new(other)),
        }
    }
}

impl From<rocstar_chat::Error> for Error {
    fn from(error: rocstar_chat::Error) -> Self {
        Self::Chat(Box::new(error))
    }
}

impl From<rocstar_nn::files::Error> for Error {
    fn from(error: rocstar_nn::files::Error) -> Self {
        Self::Files(Box::new(error))
    }
}

/// For `map_err`: names the file that an input or output error is about.
pub(crate) fn on_file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

impl From<rocstar_rollout::data::DataError> for Error {
    fn from(error: rocstar_rollout::data::DataError) -> Self {
        Self::Tasks(Box::new(error))
    }
}

impl From<rocstar_rollout::RolloutError> for Error {
    fn from(error: rocstar_rollout::RolloutError) -> Self {
        Self::Rollout(Box::new(error))
    }
}

impl From<rocstar_engine::EngineError> for Error {
    fn from(error: rocstar_engine::EngineError) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<rocstar_engine::Refusal> for Error {
    fn from(error: rocstar_engine::Refusal) -> Self {
        Self::Refused(Box::new(error))
    }
}
