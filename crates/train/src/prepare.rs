//! From a recipe and a tokenizer to what each stage will do: sequences, steps, needs. No weights yet.
//!
//! Invariant: what can be wrong with data, recipe and model together is found here, before weights
//! are loaded, a directory is made or anything is trained.

use rocstar_chat::{Family, Tokenizer, Transcript};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::lora::Adapters;
use rocstar_nn::parameters::Layout;

use crate::data::{self, Conversation};
use crate::error::Error;
use crate::examples::{Example, Examples, Limits};
use crate::learner::lora_of;
use crate::packing::{self, Length, StepPlan, StepSize};
use crate::plan::{Needs, StagePlan};
use crate::recipe::{Recipe, SftStage, Stage};

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

/// A run that can begin.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) recipe: Recipe,
    pub(crate) outline: Outline,
    pub(crate) stages: Vec<PreparedStage>,
}

/// A stage of supervised fine-tuning that can begin.
#[derive(Debug)]
pub(crate) struct PreparedStage {
    pub(crate) options: SftStage,
    pub(crate) examples: Examples,
    pub(crate) evaluation: Option<Examples>,
    pub(crate) steps: Vec<StepPlan>,
    pub(crate) fingerprint: String,
    pub(crate) plan: StagePlan,
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
            let Stage::Sft(options) = stage;
            stages.push(prepare_stage(options, index, recipe.seed, &outline)?);
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
}

fn prepare_stage(
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
    let plan = stage_plan(options, stage, outline, &examples, evaluation.as_ref(), &steps)?;
    let options = options.clone();
    Ok(PreparedStage { options, examples, evaluation, steps, fingerprint, plan })
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
    let conversations = data::read(&options.data.paths, &options.data, options.data.limit)?;
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

fn stage_plan(
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
    let parameters = Layout::new(config).len() as u64;
    let trained_parameters = match &options.lora {
        None => parameters,
        Some(lora) => Adapters::zeros(config, lora_of(lora))?.values().len() as u64,
    };
    let needs = Needs {
        parameters,
        trained_parameters,
        adapters: options.lora.is_some(),
        micro_batch_tokens,
        recompute: options.recompute,
    };
    let mean_length = examples.counts().tokens as f64 / examples.all().len() as f64;
    Ok(StagePlan {
        stage,
        kind: "sft",
        data: examples.counts().clone(),
        evaluation: evaluation.map(|evaluation| evaluation.counts().clone()),
        steps: steps.len() as u64,
        done_steps: 0,
        tokens,
        micro_batch_tokens,
        parameters,
        trained_parameters,
        operations: needs.operations(config, tokens, mean_length),
        memory_bytes: needs.memory_bytes(config),
        activation_bytes: needs.activation_bytes(config),
        checkpoint_bytes: needs.checkpoint_bytes(),
    })
}
