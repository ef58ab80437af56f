//! What learns: a model, or adapters on it, with its gradient and its optimiser.
//!
//! Invariant: saved and read again, a learner goes on to the bit. Whether all weights are trained or
//! adapters, nobody outside can tell, except by what a checkpoint's folder holds.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use rocstar_nn::files::{self, StoreAs};
use rocstar_nn::lora::{Adapters, Lora};
use rocstar_nn::optimizer::{AdamW, AdamWOptions, clip_scale, global_norm};
use rocstar_nn::parameters::{LayerSlot, Parameters};
use rocstar_nn::schedule::{Decay, Schedule};
use rocstar_nn::step::{self, CrossEntropy, Gradient, LogProbs, Model, NO_TARGET, Objective};
use rocstar_nn::step::{Policy, Recompute, StepOptions, Workspace};
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{Checkpoint, optimizer_file};
use crate::error::{Error, on_file};
use crate::examples::hexadecimal;
use crate::packing::Batch;
use crate::recipe::{LoraOptions, LoraTarget, OptimizerOptions, ScheduleKind};

/// How a stage learns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) optimizer: &'a OptimizerOptions,
    /// Adapters instead of all weights.
    pub(crate) lora: Option<&'a LoraOptions>,
    /// Compute each layer's forward pass again in the backward pass.
    pub(crate) recompute: bool,
    /// Divides the logits before the softmax.
    pub(crate) temperature: f32,
}

/// Seconds that learning takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_token: f64,
    pub(crate) per_step: f64,
}

/// What learns.
#[derive(Debug)]
pub(crate) struct Learner {
    model: Model,
    trained: Trained,
    optimizer: AdamW,
    clip_norm: f64,
    options: StepOptions,
    workspace: Workspace,
}

/// What the optimiser changes, with its gradient.
#[derive(Debug)]
enum Trained {
    Everything { gradient: Parameters },
    Adapters { adapters: Adapters, gradient: Adapters },
}

impl Learner {
    /// A learner at its beginning.
    ///
    /// # Errors
    /// The recipe's adapters don't fit the model.
    pub(crate) fn new(model: Model, manner: Manner<'_>, seed: u64) -> Result<Self, Error> {
        let options = adamw_options(manner.optimizer);
        let (trained, optimizer) = match manner.lora {
            None => {
                let layout = model.parameters.layout();
                let gradient = Parameters::zeros(layout.clone());
                (Trained::Everything { gradient }, AdamW::for_parameters(layout, options))
            }
            Some(lora) => {
                let adapters = Adapters::random(&model.config, lora_of(lora), seed)?;
                let gradient = adapters.zeros_like();
                let optimizer = AdamW::for_adapters(&adapters, options);
                (Trained::Adapters { adapters, gradient }, optimizer)
            }
        };
        let recompute = if manner.recompute { Recompute::Layers } else { Recompute::None };
        Ok(Self {
            model,
            trained,
            optimizer,
            clip_norm: manner.optimizer.clip_norm,
            options: StepOptions { recompute, temperature: manner.temperature },
            workspace: Workspace::default(),
        })
    }

    /// Adds the gradient of `batch` to that of the step; `denominator` is the number of tokens to
    /// learn in the whole step. Gives the batch's part of the step's loss.
    ///
    /// # Errors
    /// The batch doesn't fit the model.
    pub(crate) fn accumulate(&mut self, batch: &Batch, denominator: f64) -> Result<f64, Error> {
        let mut objective = CrossEntropy::new(denominator);
        self.learn(batch, &mut objective)?;
        Ok(objective.loss())
    }

    /// Adds the gradient of an objective over `batch` to that of the step.
    ///
    /// # Errors
    /// The batch doesn't fit the model.
    pub(crate) fn learn(
        &mut self,
        batch: &Batch,
        objective: &mut dyn Objective,
    ) -> Result<(), Error> {
        let (policy, gradient) = match &mut self.trained {
            Trained::Everything { gradient } => {
                (Policy::new(&self.model), Gradient::Full(gradient))
            }
            Trained::Adapters { adapters, gradient } => {
                (Policy::adapted(&self.model, adapters), Gradient::Adapters(gradient))
            }
        };
        step::forward_backward(
            policy,
            batch.packed(),
            self.options,
            objective,
            gradient,
            &mut self.workspace,
        )?;
        Ok(())
    }

    /// Length of the step's gradient.
    pub(crate) fn gradient_norm(&self) -> f64 {
        match &self.trained {
            Trained::Everything { gradient } => global_norm(gradient.values()),
            Trained::Adapters { gradient, .. } => global_norm(gradient.values()),
        }
    }

    /// Changes the weights by the step's gradient, whose length is `norm`, and begins the next.
    pub(crate) fn apply(&mut self, learning_rate: f64, norm: f64) {
        let scale = if self.clip_norm > 0.0 { clip_scale(norm, self.clip_norm) } else { 1.0 };
        let (values, gradient) = match &mut self.trained {
            Trained::Everything { gradient } => {
                (self.model.parameters.values_mut(), gradient.values_mut())
            }
            Trained::Adapters { adapters, gradient } => {
                (adapters.values_mut(), gradient.values_mut())
            }
        };
        self.optimizer.step(values, gradient, learning_rate, scale);
    }

    /// The loss of `batch` summed over its tokens to learn, without learning.
    ///
    /// # Errors
    /// The batch doesn't fit the model.
    pub(crate) fn loss_sum(&mut self, batch: &Batch) -> Result<f64, Error> {
        let found = self.log_probs(batch)?;
        let pairs = found.log_probs.iter().zip(batch.packed().targets);
        let targets = pairs.filter(|(_, target)| **target != NO_TARGET);
        Ok(-targets.map(|(log_prob, _)| f64::from(*log_prob)).sum::<f64>())
    }

    /// Log-probabilities and entropies of the tokens to learn, under the present weights.
    ///
    /// # Errors
    /// The batch doesn't fit the model.
    pub(crate) fn log_probs(&mut self, batch: &Batch) -> Result<LogProbs, Error> {
        let policy = match &self.trained {
            Trained::Everything { .. } => Policy::new(&self.model),
            Trained::Adapters { adapters, .. } => Policy::adapted(&self.model, adapters),
        };
        let temperature = self.options.temperature;
        Ok(step::log_probs(policy, batch.packed(), temperature, &mut self.workspace)?)
    }

    /// Log-probabilities of the tokens to learn under another model's weights.
    ///
    /// # Errors
    /// The batch doesn't fit that model.
    pub(crate) fn log_probs_of(&mut self, model: &Model, batch: &Batch) -> Result<LogProbs, Error> {
        let temperature = self.options.temperature;
        let policy = Policy::new(model);
        Ok(step::log_probs(policy, batch.packed(), temperature, &mut self.workspace)?)
    }

    /// The weights to generate with: adapters are part of them.
    pub(crate) fn weights(&self) -> Cow<'_, Parameters> {
        match &self.trained {
            Trained::Everything { .. } => Cow::Borrowed(&self.model.parameters),
            Trained::Adapters { adapters, .. } => {
                let mut merged = self.model.parameters.clone();
                adapters.merge(&mut merged);
                Cow::Owned(merged)
            }
        }
    }

    /// What a token and a step take, from learning `batch` twice; the weights stay.
    ///
    /// # Errors
    /// The batch doesn't fit the model.
    pub(crate) fn measure(&mut self, batch: &Batch) -> Result<Pace, Error> {
        // The first time fills the memory that the second uses again.
        self.accumulate(batch, 1.0)?;
        let begun = Instant::now();
        self.accumulate(batch, 1.0)?;
        let per_token = begun.elapsed().as_secs_f64() / batch.packed().tokens.len() as f64;
        let begun = Instant::now();
        let norm = self.gradient_norm();
        self.apply(0.0, norm);
        Ok(Pace { per_token, per_step: begun.elapsed().as_secs_f64() })
    }

    /// Writes weights (or adapters) and the optimiser's state into the folder of a checkpoint.
    /// `base_model` is what adapters say that they belong to.
    ///
    /// # Errors
    /// Something can't be written.
    pub(crate) fn save(&self, folder: &Path, base_model: Option<&str>) -> Result<(), Error> {
        match &self.trained {
            Trained::Everything { .. } => files::save(
                folder,
                &self.model.config,
                &self.model.parameters,
                StoreAs::F32,
                files::DEFAULT_SHARD_BYTES,
            )?,
            Trained::Adapters { adapters, .. } => {
                let config = &self.model.config;
                files::adapters::save(folder, config, adapters, base_model)?;
            }
        }
        let path = optimizer_file(folder);
        let file = File::create(&path).map_err(on_file("write", &path))?;
        let mut writer = BufWriter::new(file);
        self.optimizer.write_state(&mut writer).map_err(state_error(&path))?;
        writer.flush().map_err(on_file("write", &path))
    }

    /// Goes back to a checkpoint. The weights are expected to be its own already, adapters are read.
    ///
    /// # Errors
    /// Something can't be read, or belongs to another model.
    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        if let Trained::Adapters { adapters, .. } = &mut self.trained {
            let found = files::adapters::load(&checkpoint.path, &self.model.config)?;
            if found.pairs() != adapters.pairs() {
                let path = checkpoint.path.clone();
                let problem = "its adapters are for other matrices or of another rank".to_owned();
                return Err(Error::Checkpoint { path, problem });
            }
            adapters.values_mut().copy_from_slice(found.values());
        }
        read_moments(&mut self.optimizer, checkpoint)
    }

    /// SHA-256 of the weights that adapters belong to; `None` where there are no adapters.
    pub(crate) fn base_fingerprint(&self) -> Option<String> {
        match &self.trained {
            Trained::Everything { .. } => None,
            Trained::Adapters { .. } => Some(fingerprint(&self.model.parameters)),
        }
    }

    /// Goes on with moments of a learner of the same weights, where there are some.
    ///
    /// # Errors
    /// They are of other weights.
    pub(crate) fn with_moments(mut self, moments: Option<AdamW>) -> Result<Self, Error> {
        if let Some(moments) = moments {
            self.optimizer
                .take_moments(moments)
                .map_err(|source| Error::Moments(Box::new(source)))?;
        }
        Ok(self)
    }

    /// A copy of the model that is learnt; adapters are part of its weights.
    pub(crate) fn merged(&self) -> Model {
        Model { config: self.model.config.clone(), parameters: self.weights().into_owned() }
    }

    /// Gives the model back, adapters being part of its weights then, and the moments of what was
    /// trained where that is all weights.
    pub(crate) fn into_trained(self) -> (Model, Option<AdamW>) {
        let mut model = self.model;
        match &self.trained {
            Trained::Everything { .. } => (model, Some(self.optimizer)),
            Trained::Adapters { adapters, .. } => {
                adapters.merge(&mut model.parameters);
                (model, None)
            }
        }
    }
}

/// The optimiser's moments of a checkpoint of a model with these weights.
///
/// # Errors
/// They can't be read, or are of other weights.
pub(crate) fn moments(checkpoint: &Checkpoint, model: &Model) -> Result<AdamW, Error> {
    let mut moments = AdamW::for_parameters(model.parameters.layout(), AdamWOptions::default());
    read_moments(&mut moments, checkpoint)?;
    Ok(moments)
}

fn read_moments(moments: &mut AdamW, checkpoint: &Checkpoint) -> Result<(), Error> {
    let path = checkpoint.optimizer();
    let file = File::open(&path).map_err(on_file("read", &path))?;
    moments.read_state(&mut BufReader::new(file)).map_err(state_error(&path))
}

/// The course of the learning rate, as a factor, over `total_steps`.
pub(crate) fn schedule(options: &OptimizerOptions, total_steps: u64) -> Schedule {
    let decay = match options.schedule {
        ScheduleKind::Constant => Decay::Constant,
        ScheduleKind::Cosine => Decay::Cosine { total_steps, floor: options.final_share },
    };
    Schedule { warmup_steps: options.warm_up_steps, decay }
}

/// SHA-256 of a model's weights.
pub(crate) fn fingerprint(parameters: &Parameters) -> String {
    let mut hash = Sha256::new();
    for chunk in parameters.values().chunks(1 << 16) {
        hash.update(bytes_of(chunk));
    }
    hexadecimal(&hash.finalize())
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn state_error(path: &Path) -> impl FnOnce(rocstar_nn::optimizer::StateError) -> Error {
    let path = path.to_owned();
    move |source| Error::OptimizerState { path, source: Box::new(source) }
}

fn adamw_options(options: &OptimizerOptions) -> AdamWOptions {
    AdamWOptions {
        beta1: options.beta1,
        beta2: options.beta2,
        epsilon: options.epsilon,
        weight_decay: options.weight_decay,
    }
}

/// Adapters as the model has them.
pub(crate) fn lora_of(options: &LoraOptions) -> Lora {
    let slot = |target: &LoraTarget| match target {
        LoraTarget::QProj => LayerSlot::Query,
        LoraTarget::KProj => LayerSlot::Key,
        LoraTarget::VProj => LayerSlot::Value,
        LoraTarget::OProj => LayerSlot::Output,
        LoraTarget::GateProj => LayerSlot::Gate,
        LoraTarget::UpProj => LayerSlot::Up,
        LoraTarget::DownProj => LayerSlot::Down,
    };
    Lora {
        rank: options.rank,
        alpha: options.alpha as f32,
        targets: options.targets.iter().map(slot).collect(),
    }
}
