//! What learns: a model, or adapters on it, with its gradient and its optimiser.
//!
//! Invariant: saved and read again, a learner goes on to the bit. Whether all weights are trained or
//! adapters, nobody outside can tell, except by what a checkpoint's folder holds.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use rocstar_nn::files::{self, StoreAs};
use rocstar_nn::lora::{Adapters, Lora};
use rocstar_nn::optimizer::{AdamW, AdamWOptions, clip_scale, global_norm};
use rocstar_nn::parameters::{LayerSlot, Parameters};
use rocstar_nn::step::{self, CrossEntropy, Gradient, Model, Policy, Recompute, StepOptions};
use rocstar_nn::step::{NO_TARGET, Workspace};
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{Checkpoint, optimizer_file};
use crate::error::{Error, on_file};
use crate::examples::hexadecimal;
use crate::packing::Batch;
use crate::recipe::{LoraOptions, LoraTarget, OptimizerOptions, SftStage};

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
    pub(crate) fn new(model: Model, stage: &SftStage, seed: u64) -> Result<Self, Error> {
        let options = adamw_options(&stage.optimizer);
        let (trained, optimizer) = match &stage.lora {
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
        let recompute = if stage.recompute { Recompute::Layers } else { Recompute::None };
        Ok(Self {
            model,
            trained,
            optimizer,
            clip_norm: stage.optimizer.clip_norm,
            options: StepOptions { recompute, ..StepOptions::default() },
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
            &mut objective,
            gradient,
            &mut self.workspace,
        )?;
        Ok(objective.loss())
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
        let packed = batch.packed();
        let policy = match &self.trained {
            Trained::Everything { .. } => Policy::new(&self.model),
            Trained::Adapters { adapters, .. } => Policy::adapted(&self.model, adapters),
        };
        let found = step::log_probs(policy, packed, 1.0, &mut self.workspace)?;
        let pairs = found.log_probs.iter().zip(packed.targets);
        let targets = pairs.filter(|(_, target)| **target != NO_TARGET);
        Ok(-targets.map(|(log_prob, _)| f64::from(*log_prob)).sum::<f64>())
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
        let path = checkpoint.optimizer();
        let file = File::open(&path).map_err(on_file("read", &path))?;
        self.optimizer.read_state(&mut BufReader::new(file)).map_err(state_error(&path))
    }

    /// SHA-256 of the weights that adapters belong to; `None` where there are no adapters.
    pub(crate) fn base_fingerprint(&self) -> Option<String> {
        match &self.trained {
            Trained::Everything { .. } => None,
            Trained::Adapters { .. } => Some(fingerprint(&self.model.parameters)),
        }
    }

    /// Gives the model back; adapters become part of its weights.
    pub(crate) fn into_model(self) -> Model {
        let mut model = self.model;
        if let Trained::Adapters { adapters, .. } = &self.trained {
            adapters.merge(&mut model.parameters);
        }
        model
    }
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
