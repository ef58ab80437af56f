//! AdamW (Loshchilov and Hutter 2019), in one sweep over the weights.
//!
//! Invariant: a step depends on the weights, the gradient and the state alone, to the bit and for
//! any number of threads. The state can be written and read back without losing a bit.

use std::io::{Read, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::kernels;
use crate::lora::Adapters;
use crate::parameters::Layout;

/// Values that one task handles.
const CHUNK_VALUES: usize = 1 << 16;

/// AdamW's numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWOptions {
    /// Decay of the mean of gradients, β₁.
    pub beta1: f64,
    /// Decay of the mean of squares, β₂.
    pub beta2: f64,
    /// ε, added to the root.
    pub epsilon: f64,
    /// Decay of matrices, times the learning rate; norms and biases never decay.
    pub weight_decay: f64,
}

impl Default for AdamWOptions {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

/// The optimiser with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    options: AdamWOptions,
    /// Cuts the buffer into parts that decay and parts that don't.
    segments: Vec<Segment>,
    steps: u64,
    mean: Vec<f32>,
    square: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    range: Range<usize>,
    decays: bool,
}

/// A state that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The stream failed.
    #[error("the optimiser's state could not be read or written")]
    Io(#[from] std::io::Error),
    /// The stream is something else.
    #[error("this is not an optimiser's state of version 1")]
    Magic,
    /// The state of another model.
    #[error("the optimiser's state has {found} values, the model has {expected}")]
    Length {
        /// Values in the stream.
        found: u64,
        /// Values of this optimiser.
        expected: u64,
    },
    /// Bytes changed since they were written.
    #[error("the optimiser's state is damaged: its checksum is wrong")]
    Checksum,
}

impl AdamW {
    /// For all weights of a model.
    pub fn for_parameters(layout: &Layout, options: AdamWOptions) -> Self {
        let tensors = layout.tensors().iter();
        Self::new(tensors.map(|tensor| (tensor.range.clone(), tensor.is_matrix())), options)
    }

    /// For adapters, all of which are matrices.
    pub fn for_adapters(adapters: &Adapters, options: AdamWOptions) -> Self {
        Self::new(std::iter::once((0..adapters.values().len(), true)), options)
    }

    fn new(tensors: impl Iterator<Item = (Range<usize>, bool)>, options: AdamWOptions) -> Self {
        let mut segments: Vec<Segment> = Vec::new();
        for (range, decays) in tensors {
            match segments.last_mut() {
                Some(last) if last.decays == decays => last.range.end = range.end,
                _ => segments.push(Segment { range, decays }),
            }
        }
        let length = segments.last().map_or(0, |last| last.range.end);
        let (mean, square) = (vec![0.0; length], vec![0.0; length]);
        Self { options, segments, steps: 0, mean, square }
    }

    /// Steps taken.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Goes on with the moments of another optimiser of the same values, as if its steps had been
    /// this one's.
    ///
    /// # Errors
    /// The other one has another number of values; nothing changes then.
    pub fn take_moments(&mut self, from: Self) -> Result<(), StateError> {
        if from.mean.len() != self.mean.len() {
            let (found, expected) = (from.mean.len() as u64, self.mean.len() as u64);
            return Err(StateError::Length { found, expected });
        }
        (self.steps, self.mean, self.square) = (from.steps, from.mean, from.square);
        Ok(())
    }

    /// Takes a step against `gradient · gradient_scale` and leaves the gradient zero, ready for the
    /// next batch: the sweep has it in cache anyway.
    ///
    /// # Panics
    /// Where the slices are not of this optimiser's length.
    pub fn step(
        &mut self,
        values: &mut [f32],
        gradient: &mut [f32],
        learning_rate: f64,
        gradient_scale: f64,
    ) {
        assert_eq!(values.len(), self.mean.len(), "weights of the optimiser");
        assert_eq!(gradient.len(), self.mean.len(), "gradient of the optimiser");
        self.steps += 1;
        let update = self.update(learning_rate, gradient_scale);
        let mut tasks = Vec::new();
        let mut rest = (values, gradient, self.mean.as_mut_slice(), self.square.as_mut_slice());
        for segment in &self.segments {
            let mut left = segment.range.len();
            while left > 0 {
                let size = left.min(CHUNK_VALUES);
                let (values, more_values) = rest.0.split_at_mut(size);
                let (gradient, more_gradient) = rest.1.split_at_mut(size);
                let (mean, more_mean) = rest.2.split_at_mut(size);
                let (square, more_square) = rest.3.split_at_mut(size);
                rest = (more_values, more_gradient, more_mean, more_square);
                tasks.push((segment.decays, values, gradient, mean, square));
                left -= size;
            }
        }
        tasks.into_par_iter().for_each(|(decays, values, gradient, mean, square)| {
            let keep = if decays { update.keep } else { 1.0 };
            kernels::adam(kernels::AdamUpdate { keep, ..update }, values, gradient, mean, square);
        });
    }

    /// The step's numbers, bias corrections folded in.
    fn update(&self, learning_rate: f64, gradient_scale: f64) -> kernels::AdamUpdate {
        let AdamWOptions { beta1, beta2, epsilon, weight_decay } = self.options;
        let steps = self.steps as f64;
        kernels::AdamUpdate {
            keep: (1.0 - learning_rate * weight_decay) as f32,
            gradient_scale: gradient_scale as f32,
            beta1: beta1 as f32,
            one_minus_beta1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            rate: (learning_rate / (1.0 - beta1.powf(steps))) as f32,
            root_scale: (1.0 / (1.0 - beta2.powf(steps)).sqrt()) as f32,
            epsilon: epsilon as f32,
        }
    }
}

/// Length of the gradient as one vector; the same for any number of threads.
pub fn global_norm(gradient: &[f32]) -> f64 {
    let sums: Vec<f64> = gradient.par_chunks(CHUNK_VALUES).map(kernels::sum_of_squares).collect();
    sums.iter().sum::<f64>().sqrt()
}

/// The scale that shortens a gradient of this norm to at most `max_norm`, as PyTorch's
/// `clip_grad_norm_` computes it; NaN and infinity are passed on, never hidden.
pub fn clip_scale(norm: f64, max_norm: f64) -> f64 {
    let scale = max_norm / (norm + 1e-6);
    if scale > 1.0 { 1.0 } else { scale }
}

const MAGIC: &[u8; 16] = b"rocstar adamw v1";

impl AdamW {
    /// Writes steps and moments: magic, steps and length (u64), both moments (f32), checksum (u64),
    /// all little-endian. The options belong to the run's recipe and are not written.
    ///
    /// # Errors
    /// Where the stream fails.
    pub fn write_state(&self, output: &mut dyn Write) -> Result<(), StateError> {
        output.write_all(MAGIC)?;
        output.write_all(&self.steps.to_le_bytes())?;
        output.write_all(&(self.mean.len() as u64).to_le_bytes())?;
        let mut checksum = Checksum::new(self.steps);
        let mut bytes = Vec::with_capacity(4 * CHUNK_VALUES);
        for chunk in self.mean.chunks(CHUNK_VALUES).chain(self.square.chunks(CHUNK_VALUES)) {
            bytes.clear();
            for value in chunk {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            checksum.add(chunk);
            output.write_all(&bytes)?;
        }
        output.write_all(&checksum.0.to_le_bytes())?;
        Ok(())
    }

    /// Reads what [`AdamW::write_state`] wrote.
    ///
    /// # Errors
    /// Where the stream fails or ends early, is something else, belongs to another model, or was
    /// changed; this optimiser must not be used further then.
    pub fn read_state(&mut self, input: &mut dyn Read) -> Result<(), StateError> {
        let mut magic = [0; 16];
        input.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(StateError::Magic);
        }
        let steps = read_u64(input)?;
        let (found, expected) = (read_u64(input)?, self.mean.len() as u64);
        if found != expected {
            return Err(StateError::Length { found, expected });
        }
        let mut checksum = Checksum::new(steps);
        let mut bytes = vec![0; 4 * CHUNK_VALUES];
        let (mean, square) = (&mut self.mean, &mut self.square);
        for chunk in mean.chunks_mut(CHUNK_VALUES).chain(square.chunks_mut(CHUNK_VALUES)) {
            let bytes = &mut bytes[..4 * chunk.len()];
            input.read_exact(bytes)?;
            for (value, bytes) in chunk.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
            checksum.add(chunk);
        }
        if read_u64(input)? != checksum.0 {
            return Err(StateError::Checksum);
        }
        self.steps = steps;
        Ok(())
    }
}

fn read_u64(input: &mut dyn Read) -> Result<u64, std::io::Error> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Guards against damage, not against malice: each value is mixed into 64 bits.
struct Checksum(u64);

impl Checksum {
    const fn new(steps: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ steps)
    }

    fn add(&mut self, values: &[f32]) {
        for value in values {
            let mixed = (self.0 ^ u64::from(value.to_bits())).wrapping_mul(0xff51_afd7_ed55_8ccd);
            self.0 = mixed ^ (mixed >> 32);
        }
    }
}
