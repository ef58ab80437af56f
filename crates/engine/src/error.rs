//! What can go wrong: an engine that can't start or take weights, and a request that is refused.
//!
//! Invariant: a [`Refusal`] is decided before anything is computed for the request, and names the
//! field and the bound. What happens to a request that was accepted is a
//! [`FinishReason`](crate::FinishReason), never an error here.

use rocstar_nn::decode::DecodeError;

use crate::generation::WeightVersion;
use crate::options::OptionProblem;

/// The engine can't start, or can't take new weights.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Options that can't be met, all of them.
    #[error("{}", list(.0))]
    Options(Vec<OptionProblem>),
    /// The arithmetic refuses the model.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Weights of another shape.
    #[error(
        "the weights have another shape than the engine's model: {weights} values, not {model}"
    )]
    OtherShape {
        /// Values in the weights.
        weights: usize,
        /// Values of the model that the engine runs.
        model: usize,
    },
    /// A weight that isn't a number.
    #[error(
        "weight `{tensor}` holds a value that is not finite; the file or the training step \
             that made it is broken"
    )]
    NotFinite {
        /// Hugging Face's name.
        tensor: String,
    },
    /// A version that doesn't follow the present one: its tokens couldn't be told apart.
    #[error("weights of version {offered} can't follow version {present}: versions must rise")]
    VersionNotNewer {
        /// What was to be loaded.
        offered: WeightVersion,
        /// What is loaded.
        present: WeightVersion,
    },
    /// The compute thread can't be started.
    #[error("can't start the compute thread")]
    Thread(#[source] std::io::Error),
    /// The threads of the arithmetic can't be started.
    #[error("can't start {threads} threads for the arithmetic")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// Why.
        #[source]
        source: rayon::ThreadPoolBuildError,
    },
    /// The compute thread has ended.
    #[error("the engine has stopped: {cause}")]
    Stopped {
        /// Why it ended.
        cause: String,
    },
}

fn list(problems: &[OptionProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a request was not accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Nothing to continue from.
    #[error("`prompt` is empty: a model continues at least one token")]
    PromptEmpty,
    /// A token that the model doesn't have.
    #[error("`prompt[{index}]` is token {token}, but the vocabulary has {vocabulary} tokens")]
    TokenOutside {
        /// Where in the prompt.
        index: usize,
        /// The token.
        token: u32,
        /// Tokens of the model.
        vocabulary: usize,
    },
    /// No room for one new token in the context.
    #[error(
        "`prompt` has {prompt_tokens} tokens; the context holds {context_tokens}, and a new \
             token needs room"
    )]
    PromptTooLong {
        /// Length of the prompt.
        prompt_tokens: usize,
        /// Longest sequence.
        context_tokens: usize,
    },
    /// No room for one new token in all of the key and value cache.
    #[error(
        "`prompt` has {prompt_tokens} tokens; the whole cache holds {cache_tokens}, and a new \
             token needs room: give the engine more cache"
    )]
    PromptOverCache {
        /// Length of the prompt.
        prompt_tokens: usize,
        /// What the cache holds.
        cache_tokens: usize,
    },
    /// A number outside its range.
    #[error("`{field}` is {value}, but must be {range}")]
    OutOfRange {
        /// Field of the request.
        field: &'static str,
        /// What it was.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// Stop strings need the text of tokens.
    #[error("`stop.strings` is given without `stop.text`, which turns tokens into bytes")]
    StopWithoutText,
    /// An empty string would match at once.
    #[error("`stop.strings[{index}]` is empty")]
    StopEmpty {
        /// Which one.
        index: usize,
    },
    /// There is no room for these requests beside those that run and wait.
    #[error("no room for {asked} more: {waiting} requests wait already; try again later")]
    QueueFull {
        /// How many were to begin together.
        asked: usize,
        /// How many wait.
        waiting: usize,
    },
    /// More requests in one group than ever run and wait.
    #[error(
        "{asked} requests at once, but at most {most} may run and wait: ask for fewer, or raise \
         `max_waiting`"
    )]
    TooManyTogether {
        /// How many were to begin together.
        asked: usize,
        /// How many may run and wait.
        most: usize,
    },
    /// The engine takes no more requests.
    #[error("the engine has stopped: {cause}")]
    Stopped {
        /// Why.
        cause: String,
    },
}
