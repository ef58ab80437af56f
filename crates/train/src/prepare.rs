//! From a recipe and a tokenizer to what each stage will do: sequences, steps, needs. No weights yet.
//!
//! Invariant: what can be wrong with data, recipe and model together is found here, before weights
//! are loaded, a directory is made or anything is trained.

mod rl;

use std::sync::Arc;

use rocstar_chat::{Family, Tokenizer, Transcript};
use rocstar_nn::config::ModelConfig;
use rocstar_record::message::ToolSpec;
use rocstar_rollout::{Policy, PythonTool, Task, ToolMode};

use crate::data::{self, Conversation};
use crate::error::Error;
use crate::examples::{Example, Examples, Limits};
use crate::packing::{self, Length, StepPlan, StepSize};
use crate::plan::{Needs, StagePlan};
use crate::recipe::{LoraOptions, Recipe, RlStage, SftStage, Stage};

/// A model without its weights.
#[derive(Debug, Clone)]
pub struct Outline {
    /// Where it came from, a path or a name: what adapters say that they belong to.
    pub name: Option<String>,
    /// Its shape.
    pub config: ModelConfig,
    /// Its tokens.
    pub tokenizer: Tokenizer,
    /// How messages become text.
    pub family: Family,
}

impl Outline {
    /// How messages become tokens when episodes are made.
    pub(crate) fn policy(&self) -> Policy {
        Policy { tokenizer: self.tokenizer.clone(), family: self.family.clone() }
    }
}

/// A run that can begin.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) recipe: Recipe,
    pub(crate) outline: Outline,
    pub(crate) stages: Vec<PreparedStage>,
}

/// A stage that can begin.
#[derive(Debug)]
pub(crate) struct PreparedStage {
    pub(crate) fingerprint: String,
    pub(crate) plan: StagePlan,
    pub(crate) work: Work,
}

/// What a stage does.
#[derive(Debug)]
pub(crate) enum Work {
    Sft(Box<SftWork>),
    Rl(Box<RlWork>),
}

impl Work {
    /// It goes on with the optimiser's moments of the stage before.
    pub(crate) const fn keeps_optimizer(&self) -> bool {
        match self {
            Self::Sft(work) => work.options.keep_optimizer,
            Self::Rl(work) => work.options.keep_optimizer,
        }
    }

    /// Tools that the model is told of, where they are the same in all its conversations.
    pub(crate) fn tools(&self) -> Vec<ToolSpec> {
        match self {
            Self::Sft(work) if work.options.practice.is_some() => tools_of(ToolMode::Stateless),
            Self::Sft(_) => Vec::new(),
            Self::Rl(work) => tools_of(work.options.rollout.tool),
        }
    }
}

/// What a policy is told of its tool.
fn tools_of(mode: ToolMode) -> Vec<ToolSpec> {
    match mode {
        ToolMode::None => Vec::new(),
        ToolMode::Stateless => vec![PythonTool::description(false)],
        ToolMode::Session => vec![PythonTool::description(true)],
    }
}

/// Conversations to learn, step by step.
#[derive(Debug)]
pub(crate) struct SftWork {
    pub(crate) options: SftStage,
    pub(crate) examples: Examples,
    pub(crate) evaluation: Option<Examples>,
    pub(crate) steps: Vec<StepPlan>,
}

/// Tasks to roll out.
#[derive(Debug)]
pub(crate) struct RlWork {
    pub(crate) options: RlStage,
    pub(crate) tasks: Vec<Arc<Task>>,
    pub(crate) evaluation: Vec<Arc<Task>>,
}

impl Prepared {
    /// Reads the data of every stage and plans its steps.
    ///
    /// # Errors
    /// The recipe can't work, a row of the data can't be learnt from, or tokenizer, recipe and
    /// model don't fit together.
    pub fn new(recipe: Recipe, outline: Outline) -> Result<Self, Error> {
        let problems = recipe.validate();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let (tokenizer, embedding) =
            (outline.tokenizer.vocabulary_size(), outline.config.vocabulary_size);
        if tokenizer > embedding {
            return Err(Error::Vocabulary { tokenizer, embedding });
        }
        let mut stages = Vec::new();
        for (index, stage) in recipe.stage.iter().enumerate() {
            stages.push(match stage {
                Stage::Sft(options) => sft_stage(options, index, recipe.seed, &outline)?,
                Stage::Rl(options) => rl::stage(options, index, recipe.seed, &outline)?,
            });
        }
        Ok(Self { recipe, outline, stages })
    }

    /// The recipe.
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The model without its weights.
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// What each stage will do and need.
    pub fn plans(&self) -> impl Iterator<Item = &StagePlan> {
        self.stages.iter().map(|stage| &stage.plan)
    }

    /// Most memory that a stage needs.
    pub fn memory_bytes(&self) -> u64 {
        self.plans().map(|plan| plan.memory_bytes).max().unwrap_or(0)
    }

    /// Tasks of every stage of reinforcement learning, those that are measured included.
    pub fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.stages.iter().flat_map(|stage| {
            let (learnt, measured): (&[_], &[_]) = match &stage.work {
                Work::Sft(_) => (&[], &[]),
                Work::Rl(work) => (&work.tasks, &work.evaluation),
            };
            learnt.iter().chain(measured)
        })
    }

    /// Whether a stage runs programs: those that the model writes, or a second verifier.
    pub fn needs_sandbox(&self) -> bool {
        self.stages.iter().any(|stage| match &stage.work {
            Work::Sft(_) => false,
            Work::Rl(work) => {
                let options = &work.options;
                options.rollout.tool != ToolMode::None || options.verifier.needs_sandbox()
            }
        })
    }
}

fn sft_stage(
    options: &SftStage,
    stage: usize,
    seed: u64,
    outline: &Outline,
) -> Result<PreparedStage, Error> {
    let (sequence_tokens, context_tokens) =
        (options.sequence_tokens, outline.config.context_tokens);
    if sequence_tokens > context_tokens {
        return Err(Error::Context { stage, sequence_tokens, context_tokens });
    }
    let (examples, evaluation) = examples(options, stage, seed, outline)?;
    let lengths = examples.lengths();
    let length = Length { epochs: options.epochs, steps: options.steps };
    let steps = packing::steps(&lengths, step_size(options), length, seed, stage);
    let mut fingerprint = examples.fingerprint();
    if let Some(evaluation) = &evaluation {
        fingerprint = format!("{fingerprint}-{}", evaluation.fingerprint());
    }
    let plan = sft_plan(options, stage, outline, &examples, evaluation.as_ref(), &steps)?;
    let work = SftWork { options: options.clone(), examples, evaluation, steps };
    Ok(PreparedStage { fingerprint, plan, work: Work::Sft(Box::new(work)) })
}

/// The sequences to learn, and those to measure.
fn examples(
    options: &SftStage,
    stage: usize,
    seed: u64,
    outline: &Outline,
) -> Result<(Examples, Option<Examples>), Error> {
    let limits = Limits {
        sequence_tokens: options.sequence_tokens,
        longer: options.longer_sequences,
        duplicates: options.data.duplicates,
    };
    let set = |conversations: &[Conversation], purpose| {
        Examples::new(conversations, limits, purpose, |one| render(one, outline))
    };
    let conversations = match &options.practice {
        Some(practice) => data::practice(practice),
        None => data::read(&options.data.paths, &options.data, options.data.limit)?,
    };
    let learnt = set(&conversations, "learn from")?;
    let evaluation = &options.evaluation;
    if evaluation.held_out_share > 0.0 {
        let (learnt, mut held) = learnt.hold_out(evaluation.held_out_share, seed, stage)?;
        held.truncate(evaluation.limit.unwrap_or(usize::MAX));
        return Ok((learnt, Some(held)));
    }
    if evaluation.paths.is_empty() {
        return Ok((learnt, None));
    }
    let conversations = data::read(&evaluation.paths, &options.data, evaluation.limit)?;
    let measured = set(&conversations, "evaluate on")?;
    Ok((learnt, Some(measured)))
}

fn render(conversation: &Conversation, outline: &Outline) -> Result<Example, Error> {
    let Conversation { messages, tools, place } = conversation;
    let transcript =
        Transcript::from_messages(&outline.tokenizer, &outline.family, messages, tools)
            .map_err(|source| Error::Render { place: place.clone(), source: Box::new(source) })?;
    Ok(Example { tokens: transcript.tokens().to_vec(), learnt: transcript.loss_mask() })
}

/// The recipe was validated: one of the two is there.
fn step_size(options: &SftStage) -> StepSize {
    match (options.sequences_per_step, options.tokens_per_step) {
        (Some(sequences), _) => StepSize::Sequences(sequences),
        (None, tokens) => StepSize::Tokens(tokens.unwrap_or(options.tokens_per_micro_batch)),
    }
}

fn sft_plan(
    options: &SftStage,
    stage: usize,
    outline: &Outline,
    examples: &Examples,
    evaluation: Option<&Examples>,
    steps: &[StepPlan],
) -> Result<StagePlan, Error> {
    let lengths = examples.lengths();
    let (mut tokens, mut micro_batch_tokens) = (0, 0);
    for step in steps {
        let groups =
            packing::micro_batches(&lengths, &step.sequences, options.tokens_per_micro_batch);
        for group in groups {
            let group_tokens: usize = group.iter().map(|index| lengths[*index]).sum();
            tokens += group_tokens as u64;
            micro_batch_tokens = micro_batch_tokens.max(group_tokens);
        }
    }
    let config = &outline.config;
    let needs = needs(options.lora.as_ref(), options.recompute, outline, micro_batch_tokens)?;
    let mean_length = examples.counts().tokens as f64 / examples.all().len() as f64;
    Ok(StagePlan {
        stage,
        kind: "sft",
        data: Some(examples.counts().clone()),
        evaluation: evaluation.map(|evaluation| evaluation.counts().clone()),
        rollouts: None,
        steps: steps.len() as u64,
        done_steps: 0,
        tokens,
        micro_batch_tokens,
        parameters: needs.parameters,
        trained_parameters: needs.trained_parameters,
        operations: needs.operations(config, tokens, mean_length),
        memory_bytes: needs.memory_bytes(config),
        activation_bytes: needs.activation_bytes(config),
        checkpoint_bytes: needs.checkpoint_bytes(),
    })
}

/// What decides the memory of training.
fn needs(
    lora: Option<&LoraOptions>,
    recompute: bool,
    outline: &Outline,
    micro_batch_tokens: usize,
) -> Result<Needs, Error> {
    Needs::new(&outline.config, lora, recompute, micro_batch_tokens)
}
