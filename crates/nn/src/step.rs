//! The interface of training: packed sequences and an objective in, a gradient out.
//!
//! Invariant: sequences of a pack don't see each other, and what a step computes doesn't depend on
//! how sequences are packed or spread over calls (to rounding); for the same pack and number of
//! threads it is the same to the bit, with and without recomputation.
//!
//! Threads are those of the rayon pool in which a function is called.

use crate::config::ModelConfig;
use crate::decoder;
use crate::head;
use crate::lora::{AdapterPair, Adapters};
use crate::parameters::{Layout, Parameters, Slot};

pub use crate::decoder::Workspace;

/// A position that has no target.
pub const NO_TARGET: u32 = u32::MAX;

/// Sequences of any lengths, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// Tokens of all sequences.
    pub tokens: &'a [u32],
    /// Where each sequence starts, and at the end the number of tokens.
    pub starts: &'a [usize],
    /// For each position the token that should follow, or [`NO_TARGET`].
    pub targets: &'a [u32],
}

/// What is minimised, as a function of the log-probability of each target and of the entropy at
/// its position.
pub trait Objective {
    /// Is called with chunks of the positions that have a target, in order, and writes how the loss
    /// changes with each value. `d_log_probs` and `d_entropies` (nats) are zero before.
    fn rows(
        &mut self,
        positions: &[usize],
        log_probs: &[f32],
        entropies: &[f32],
        d_log_probs: &mut [f32],
        d_entropies: &mut [f32],
    );
}

/// Negative log-likelihood: the sum of `-weight · log_prob` over all targets, over `denominator`.
///
/// The denominator is the whole batch's, the same for every micro-batch, so that the loss doesn't
/// depend on how the batch was split.
#[derive(Debug, Clone)]
pub struct CrossEntropy<'a> {
    weights: Option<&'a [f32]>,
    denominator: f64,
    sum: f64,
}

impl<'a> CrossEntropy<'a> {
    /// Every target weighs one. `denominator` is the number of targets in the whole batch.
    pub const fn new(denominator: f64) -> Self {
        Self { weights: None, denominator, sum: 0.0 }
    }

    /// A weight for each position of the pack; `denominator` is the sum over the whole batch.
    pub const fn weighted(weights: &'a [f32], denominator: f64) -> Self {
        Self { weights: Some(weights), denominator, sum: 0.0 }
    }

    /// This pack's part of the loss, in nats.
    pub fn loss(&self) -> f64 {
        self.sum / self.denominator
    }
}

impl Objective for CrossEntropy<'_> {
    fn rows(
        &mut self,
        positions: &[usize],
        log_probs: &[f32],
        _entropies: &[f32],
        d_log_probs: &mut [f32],
        _d_entropies: &mut [f32],
    ) {
        for ((position, log_prob), change) in positions.iter().zip(log_probs).zip(d_log_probs) {
            let weight = match self.weights {
                Some(weights) => f64::from(weights.get(*position).copied().unwrap_or(0.0)),
                None => 1.0,
            };
            self.sum -= weight * f64::from(*log_prob);
            *change = (-weight / self.denominator) as f32;
        }
    }
}

/// What is kept from the forward pass for the backward one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recompute {
    /// Everything that the backward pass needs.
    #[default]
    None,
    /// The input of each layer; the rest is computed a second time. A third more arithmetic, memory
    /// nearly independent of the number of layers.
    Layers,
}

/// How a step is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOptions {
    /// What is kept.
    pub recompute: Recompute,
    /// Logits are divided by it before the softmax; positive.
    pub temperature: f32,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { recompute: Recompute::None, temperature: 1.0 }
    }
}

/// A shape and its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Shape.
    pub config: ModelConfig,
    /// Weights, in the layout of `config`.
    pub parameters: Parameters,
}

/// A model, and the adapters that change it.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// The model.
    pub model: &'a Model,
    /// Its adapters, where it has some.
    pub adapters: Option<&'a Adapters>,
}

impl<'a> Policy<'a> {
    /// The model alone.
    pub const fn new(model: &'a Model) -> Self {
        Self { model, adapters: None }
    }

    /// The model with adapters.
    pub const fn adapted(model: &'a Model, adapters: &'a Adapters) -> Self {
        Self { model, adapters: Some(adapters) }
    }
}

/// Where a gradient is added; what has no gradient is frozen.
#[derive(Debug)]
pub enum Gradient<'a> {
    /// Every weight of the model, which has no adapters.
    Full(&'a mut Parameters),
    /// The adapters alone.
    Adapters(&'a mut Adapters),
}

/// Input that doesn't fit the model.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum StepError {
    /// A token or target past the vocabulary.
    #[error(
        "{what} {token} at position {position} is outside the vocabulary of {vocabulary_size}; \
         does the tokenizer fit the model?"
    )]
    TokenOutsideVocabulary {
        /// `token` or `target`.
        what: &'static str,
        /// Its value.
        token: u32,
        /// Its position in the pack.
        position: usize,
        /// Rows of the embedding.
        vocabulary_size: usize,
    },
    /// Lengths of the pack's parts differ.
    #[error("a pack of {tokens} tokens has {targets} targets; each position needs one")]
    Targets {
        /// Number of tokens.
        tokens: usize,
        /// Number of targets.
        targets: usize,
    },
    /// The starts don't cut the tokens into sequences.
    #[error(
        "starts of a pack must rise from 0 to its {tokens} tokens, each sequence at least one; \
         entry {index} breaks that"
    )]
    Starts {
        /// Number of tokens.
        tokens: usize,
        /// First wrong entry.
        index: usize,
    },
    /// A sequence longer than the context.
    #[error("sequence {sequence} has {tokens} tokens; the model's context holds {context_tokens}")]
    TooLong {
        /// Index of the sequence.
        sequence: usize,
        /// Its length.
        tokens: usize,
        /// The model's limit.
        context_tokens: usize,
    },
    /// A temperature that can't divide.
    #[error("temperature {temperature} must be a positive number")]
    Temperature {
        /// The value.
        temperature: f32,
    },
    /// Weights or gradient of another shape.
    #[error("{what} have {values} values; the model's shape has {expected}")]
    Shape {
        /// Whose shape is wrong.
        what: &'static str,
        /// Values that it has.
        values: usize,
        /// Values that it should have.
        expected: usize,
    },
    /// A gradient for the base together with adapters, or for adapters that aren't there.
    #[error(
        "the gradient doesn't fit the policy: adapters train alone, with the base frozen, and a \
         full gradient needs a policy without adapters"
    )]
    GradientOfAnotherPolicy,
}

/// Log-probability of each target, and the entropy at its position, in nats.
#[derive(Debug, Clone, PartialEq)]
pub struct LogProbs {
    /// For each position; zero where there is no target.
    pub log_probs: Vec<f32>,
    /// For each position; zero where there is no target.
    pub entropies: Vec<f32>,
}

/// Computes the objective's gradient and adds it to `gradient`.
///
/// # Errors
/// Where the pack doesn't fit the model, or the gradient doesn't fit the policy.
pub fn forward_backward(
    policy: Policy<'_>,
    packed: Packed<'_>,
    options: StepOptions,
    objective: &mut dyn Objective,
    gradient: Gradient<'_>,
    workspace: &mut Workspace,
) -> Result<(), StepError> {
    check_policy(policy)?;
    check_pack(&policy.model.config, packed, options.temperature)?;
    check_gradient(policy, &gradient)?;
    decoder::forward_backward(policy, packed, options, objective, gradient, workspace);
    Ok(())
}

/// Log-probabilities of the targets and entropies, without a gradient.
///
/// # Errors
/// Where the pack doesn't fit the model.
pub fn log_probs(
    policy: Policy<'_>,
    packed: Packed<'_>,
    temperature: f32,
    workspace: &mut Workspace,
) -> Result<LogProbs, StepError> {
    check_policy(policy)?;
    check_pack(&policy.model.config, packed, temperature)?;
    Ok(decoder::log_probs(policy, packed, temperature, workspace))
}

/// Logits of every position, `[tokens, vocabulary]`: for tests and short inputs.
///
/// # Errors
/// Where the pack doesn't fit the model.
pub fn logits(
    policy: Policy<'_>,
    packed: Packed<'_>,
    workspace: &mut Workspace,
) -> Result<Vec<f32>, StepError> {
    check_policy(policy)?;
    check_pack(&policy.model.config, packed, 1.0)?;
    let hidden = decoder::hidden(policy, packed, workspace);
    Ok(head::logits(policy.model, hidden))
}

fn check_policy(policy: Policy<'_>) -> Result<(), StepError> {
    let model = policy.model;
    let layout = Layout::new(&model.config);
    if **model.parameters.layout() != layout {
        let (values, expected) = (model.parameters.values().len(), layout.len());
        return Err(StepError::Shape { what: "weights", values, expected });
    }
    if let Some(adapters) = policy.adapters {
        let fits = |pair: &AdapterPair| {
            let tensor = layout.find(Slot::Layer(pair.layer, pair.slot));
            tensor.is_some_and(|tensor| tensor.shape == [pair.outputs, pair.inputs])
        };
        let (values, expected) =
            (adapters.pairs().len(), model.config.layers * adapters.lora().targets.len());
        if values != expected || !adapters.pairs().iter().all(fits) {
            return Err(StepError::Shape { what: "adapters", values, expected });
        }
    }
    Ok(())
}

fn check_gradient(policy: Policy<'_>, gradient: &Gradient<'_>) -> Result<(), StepError> {
    let (values, expected) = match (gradient, policy.adapters) {
        (Gradient::Full(gradient), None) => {
            (gradient.values().len(), policy.model.parameters.values().len())
        }
        (Gradient::Adapters(gradient), Some(adapters)) => {
            (gradient.values().len(), adapters.values().len())
        }
        (Gradient::Full(_), Some(_)) | (Gradient::Adapters(_), None) => {
            return Err(StepError::GradientOfAnotherPolicy);
        }
    };
    if values == expected {
        Ok(())
    } else {
        Err(StepError::Shape { what: "gradients", values, expected })
    }
}

fn check_pack(config: &ModelConfig, packed: Packed<'_>, temperature: f32) -> Result<(), StepError> {
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(StepError::Temperature { temperature });
    }
    let tokens = packed.tokens.len();
    if packed.targets.len() != tokens {
        return Err(StepError::Targets { tokens, targets: packed.targets.len() });
    }
    check_starts(packed.starts, tokens, config.context_tokens)?;
    let vocabulary_size = config.vocabulary_size;
    let outside = |values: &[u32], what, except: Option<u32>| {
        let outside = |token: &u32| *token as usize >= vocabulary_size && Some(*token) != except;
        values.iter().position(outside).map_or(Ok(()), |position| {
            let token = values[position];
            Err(StepError::TokenOutsideVocabulary { what, token, position, vocabulary_size })
        })
    };
    outside(packed.tokens, "token", None)?;
    outside(packed.targets, "target", Some(NO_TARGET))
}

fn check_starts(starts: &[usize], tokens: usize, context_tokens: usize) -> Result<(), StepError> {
    if starts.first() != Some(&0) {
        return Err(StepError::Starts { tokens, index: 0 });
    }
    for (sequence, pair) in starts.windows(2).enumerate() {
        if pair[1] <= pair[0] || pair[1] > tokens {
            return Err(StepError::Starts { tokens, index: sequence + 1 });
        }
        if pair[1] - pair[0] > context_tokens {
            let tokens = pair[1] - pair[0];
            return Err(StepError::TooLong { sequence, tokens, context_tokens });
        }
    }
    if starts.last() == Some(&tokens) {
        Ok(())
    } else {
        Err(StepError::Starts { tokens, index: starts.len().saturating_sub(1) })
    }
}
