//! The head: final norm, logits, log-softmax and their backward pass, a chunk of rows at a time.
//!
//! Invariant: logits of only [`chunk_rows`] rows exist at any time, and only of rows that have a
//! target: never tokens × vocabulary, except for [`logits`], which is asked for them all.

use rayon::prelude::*;

use crate::gemm::{Matrix, MatrixMut, Output, Threads, multiply};
use crate::kernels::{self, LogSoftmax, NormBackward, RowGradient};
use crate::norm;
use crate::parameters::{Parameters, Slot};
use crate::step::{LogProbs, Model, NO_TARGET, Objective};

/// Logits of a chunk: 128 MiB.
const CHUNK_VALUES: usize = 1 << 25;

/// Rows of a chunk: many, since the gradient of the whole embedding is read and written for each.
fn chunk_rows(vocabulary_size: usize) -> usize {
    (CHUNK_VALUES / vocabulary_size).clamp(64, 512)
}

/// Buffers, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct HeadBuffers {
    input: Vec<f32>,
    normed: Vec<f32>,
    logits: Vec<f32>,
    d_input: Vec<f32>,
}

impl HeadBuffers {
    fn resize(&mut self, rows: usize, hidden_size: usize, vocabulary_size: usize) {
        for buffer in [&mut self.input, &mut self.normed, &mut self.d_input] {
            buffer.resize(rows * hidden_size, 0.0);
        }
        self.logits.resize(rows * vocabulary_size, 0.0);
    }
}

const fn head_slot(model: &Model) -> Slot {
    if model.config.tied_embeddings { Slot::Embedding } else { Slot::Head }
}

fn head_weight(model: &Model) -> Matrix<'_> {
    let values = model.parameters.slot(head_slot(model));
    Matrix::new(values, model.config.vocabulary_size, model.config.hidden_size)
}

/// What the head reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadInput<'a> {
    pub(crate) model: &'a Model,
    /// Output of the last layer, `[tokens, hidden]`.
    pub(crate) hidden: &'a [f32],
    pub(crate) targets: &'a [u32],
    pub(crate) temperature: f32,
}

impl HeadInput<'_> {
    /// Positions that have a target.
    fn positions(&self) -> Vec<usize> {
        let targets = self.targets.iter().enumerate();
        targets.filter(|(_, target)| **target != NO_TARGET).map(|(at, _)| at).collect()
    }

    fn target(&self, position: usize) -> usize {
        self.targets[position] as usize
    }

    /// Logits of these positions into `buffers`, and what they amount to.
    fn forward(&self, positions: &[usize], buffers: &mut HeadBuffers) -> Vec<LogSoftmax> {
        let config = &self.model.config;
        let (hidden_size, vocabulary_size) = (config.hidden_size, config.vocabulary_size);
        buffers.resize(positions.len(), hidden_size, vocabulary_size);
        let rows = buffers.input.par_chunks_exact_mut(hidden_size).zip(positions);
        rows.for_each(|(row, position)| {
            row.copy_from_slice(&self.hidden[position * hidden_size..][..hidden_size]);
        });
        let weight = self.model.parameters.slot(Slot::FinalNorm);
        norm::forward(&buffers.input, weight, config.norm_epsilon, &mut buffers.normed);
        multiply(
            MatrixMut::new(&mut buffers.logits, positions.len(), vocabulary_size),
            Output::Replace,
            Matrix::new(&buffers.normed, positions.len(), hidden_size),
            head_weight(self.model).transposed(),
            1.0,
            Threads::Pool,
        );
        let inverse = 1.0 / self.temperature;
        let rows = buffers.logits.par_chunks_exact(vocabulary_size);
        rows.map(|logits| kernels::log_softmax(logits, inverse)).collect()
    }

    fn log_prob(&self, buffers: &HeadBuffers, row: usize, position: usize, of: LogSoftmax) -> f32 {
        let at = row * self.model.config.vocabulary_size + self.target(position);
        buffers.logits[at] / self.temperature - of.log_sum
    }

    /// Replaces logits by the change with them.
    fn change_logits(&self, chunk: &Chunk<'_>, logits: &mut [f32]) {
        let inverse_temperature = 1.0 / self.temperature;
        let rows = logits.par_chunks_exact_mut(self.model.config.vocabulary_size).enumerate();
        rows.for_each(|(row, logits)| {
            let change = RowGradient {
                target: self.target(chunk.positions[row]),
                d_log_prob: chunk.d_log_probs[row],
                d_entropy: chunk.d_entropies[row],
                inverse_temperature,
            };
            kernels::log_softmax_backward(logits, chunk.softmax[row], change);
        });
    }
}

/// Rows of a chunk and how the loss changes with them.
struct Chunk<'a> {
    positions: &'a [usize],
    softmax: Vec<LogSoftmax>,
    d_log_probs: Vec<f32>,
    d_entropies: Vec<f32>,
}

impl<'a> Chunk<'a> {
    fn new(
        input: HeadInput<'_>,
        positions: &'a [usize],
        objective: &mut dyn Objective,
        buffers: &mut HeadBuffers,
    ) -> Self {
        let softmax = input.forward(positions, buffers);
        let log_prob = |row: usize| input.log_prob(buffers, row, positions[row], softmax[row]);
        let log_probs: Vec<f32> = (0..positions.len()).map(log_prob).collect();
        let entropies: Vec<f32> = softmax.iter().map(|row| row.entropy).collect();
        let mut d_log_probs = vec![0.0; positions.len()];
        let mut d_entropies = vec![0.0; positions.len()];
        objective.rows(positions, &log_probs, &entropies, &mut d_log_probs, &mut d_entropies);
        Self { positions, softmax, d_log_probs, d_entropies }
    }
}

/// Calls the objective for all rows with a target, writes the change with `hidden` to `d_hidden`,
/// and adds that with the head and the final norm to `gradient`, where they are not frozen.
pub(crate) fn forward_backward(
    input: HeadInput<'_>,
    objective: &mut dyn Objective,
    mut gradient: Option<&mut Parameters>,
    d_hidden: &mut [f32],
    buffers: &mut HeadBuffers,
) {
    let config = &input.model.config;
    let (hidden_size, vocabulary_size) = (config.hidden_size, config.vocabulary_size);
    d_hidden.par_chunks_mut(1 << 16).for_each(|chunk| chunk.fill(0.0));
    let positions = input.positions();
    for positions in positions.chunks(chunk_rows(vocabulary_size)) {
        let rows = positions.len();
        let chunk = Chunk::new(input, positions, objective, buffers);
        input.change_logits(&chunk, &mut buffers.logits);
        let d_logits = Matrix::new(&buffers.logits, rows, vocabulary_size);
        if let Some(gradient) = gradient.as_deref_mut() {
            multiply(
                MatrixMut::new(
                    gradient.slot_mut(head_slot(input.model)),
                    vocabulary_size,
                    hidden_size,
                ),
                Output::Add,
                d_logits.transposed(),
                Matrix::new(&buffers.normed, rows, hidden_size),
                1.0,
                Threads::Pool,
            );
        }
        let d_normed = MatrixMut::new(&mut buffers.normed, rows, hidden_size);
        let weight = head_weight(input.model);
        multiply(d_normed, Output::Replace, d_logits, weight, 1.0, Threads::Pool);
        buffers.d_input.fill(0.0);
        norm::backward(NormBackward {
            input: &buffers.input,
            weight: input.model.parameters.slot(Slot::FinalNorm),
            epsilon: config.norm_epsilon,
            d_output: &mut buffers.normed,
            d_input: &mut buffers.d_input,
            d_weight: gradient.as_deref_mut().map_or(&mut [], |all| all.slot_mut(Slot::FinalNorm)),
        });
        for (row, position) in buffers.d_input.chunks_exact(hidden_size).zip(positions) {
            d_hidden[position * hidden_size..][..hidden_size].copy_from_slice(row);
        }
    }
}

/// Log-probabilities and entropies of all rows with a target.
pub(crate) fn log_probs(input: HeadInput<'_>, buffers: &mut HeadBuffers) -> LogProbs {
    let tokens = input.targets.len();
    let mut output = LogProbs { log_probs: vec![0.0; tokens], entropies: vec![0.0; tokens] };
    let positions = input.positions();
    for positions in positions.chunks(chunk_rows(input.model.config.vocabulary_size)) {
        let softmax = input.forward(positions, buffers);
        for (row, (position, softmax)) in positions.iter().zip(softmax).enumerate() {
            output.log_probs[*position] = input.log_prob(buffers, row, *position, softmax);
            output.entropies[*position] = softmax.entropy;
        }
    }
    output
}

/// All logits, `[tokens, vocabulary]`, of the last layer's output.
pub(crate) fn logits(model: &Model, hidden: &[f32]) -> Vec<f32> {
    let config = &model.config;
    let rows = hidden.len() / config.hidden_size;
    let mut normed = vec![0.0; hidden.len()];
    let weight = model.parameters.slot(Slot::FinalNorm);
    norm::forward(hidden, weight, config.norm_epsilon, &mut normed);
    let mut logits = vec![0.0; rows * config.vocabulary_size];
    multiply(
        MatrixMut::new(&mut logits, rows, config.vocabulary_size),
        Output::Replace,
        Matrix::new(&normed, rows, config.hidden_size),
        head_weight(model).transposed(),
        1.0,
        Threads::Pool,
    );
    logits
}
