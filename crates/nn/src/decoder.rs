//! The decoder: a layer forward, a layer backward, and the passes over all of them.
//!
//! With x the residual stream, a layer is
//!
//! ```text
//! x ← x + output(attention(rotate(query, key, value of norm(x))))
//! x ← x + down(silu(gate(norm(x))) · up(norm(x)))
//! ```
//!
//! Invariant: the backward pass of a layer needs only what [`Saved`] holds, which is the same to the
//! bit whether it was kept or computed a second time.

use rayon::prelude::*;

use crate::attention::{self, Backward, HeadGradients, HeadShape, HeadWeights, Heads};
use crate::feed_forward;
use crate::gemm::Output;
use crate::head::{self, HeadBuffers, HeadInput};
use crate::kernels::{self, NormBackward};
use crate::linear::Linear;
use crate::norm;
use crate::parameters::{LayerSlot, Slot};
use crate::rope::Rotation;
use crate::step::{Gradient, LogProbs, Objective, Packed, Policy, Recompute, StepOptions};

const PROJECTED: &[LayerSlot] = &[LayerSlot::Query, LayerSlot::Key, LayerSlot::Value];
const BIASES: [LayerSlot; 3] = [LayerSlot::QueryBias, LayerSlot::KeyBias, LayerSlot::ValueBias];

/// Values that one task of a copy handles.
const COPY_VALUES: usize = 1 << 15;

/// What a layer's forward pass leaves for its backward pass, beside its input.
#[derive(Debug, Default)]
struct Saved {
    /// Projections before bias, norm of heads and rotation; only where heads are normalised.
    projected: Vec<f32>,
    heads: Heads,
    /// `[tokens, query_width]`.
    attended: Vec<f32>,
    /// `[key_heads, tokens, group]`.
    log_sums: Vec<f32>,
    /// x between the two halves, `[tokens, hidden]`.
    middle: Vec<f32>,
    /// `[tokens, gate | up]`.
    gate_up: Vec<f32>,
}

/// The large buffers of all passes, kept from step to step.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Input of each layer, and the output of the last, `[tokens, hidden]`.
    residuals: Vec<Vec<f32>>,
    saved: Vec<Saved>,
    scratch: Scratch,
    head: HeadBuffers,
    rotation: Option<Rotation>,
    positions: Vec<usize>,
}

/// Buffers that live within a layer.
#[derive(Debug, Default)]
struct Scratch {
    /// `[tokens, hidden]`.
    normed: Vec<f32>,
    /// `[tokens, queries | keys | values]`.
    projected: Vec<f32>,
    /// `[tokens, feed_forward]`.
    gated: Vec<f32>,
    /// `[key_heads, tokens, group, width]`.
    attended: Vec<f32>,
    /// `[tokens, query_width]`.
    d_attended: Vec<f32>,
    /// `[key_heads, tokens, group]`.
    means: Vec<f32>,
    change: Heads,
    /// Change with the residual stream, `[tokens, hidden]`.
    d_residual: Vec<f32>,
}

impl Workspace {
    /// Empty; it grows with the first step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for a pack, with all layers' residuals kept or two that alternate.
    fn prepare(&mut self, policy: Policy<'_>, packed: Packed<'_>, residuals: usize, saved: usize) {
        let config = &policy.model.config;
        let tokens = packed.tokens.len();
        self.positions.clear();
        for pair in packed.starts.windows(2) {
            self.positions.extend(0..pair[1] - pair[0]);
        }
        let longest = self.positions.iter().max().map_or(0, |last| last + 1);
        match &mut self.rotation {
            Some(rotation) => rotation.fit(config.rope, config.head_size, longest),
            None => self.rotation = Some(Rotation::new(config.rope, config.head_size, longest)),
        }
        if self.residuals.len() < residuals {
            self.residuals.resize_with(residuals, Vec::new);
        }
        for residual in &mut self.residuals[..residuals] {
            residual.resize(tokens * config.hidden_size, 0.0);
        }
        if self.saved.len() < saved {
            self.saved.resize_with(saved, Saved::default);
        }
        let shape = HeadShape::new(config);
        for saved in &mut self.saved[..saved] {
            if config.architecture.has_query_key_norm() {
                saved.projected.resize(tokens * shape.projected_width(), 0.0);
            }
            saved.heads.resize(shape, tokens);
            saved.attended.resize(tokens * shape.query_width(), 0.0);
            saved.log_sums.resize(tokens * config.heads, 0.0);
            saved.middle.resize(tokens * config.hidden_size, 0.0);
            saved.gate_up.resize(tokens * 2 * config.feed_forward_size, 0.0);
        }
        let scratch = &mut self.scratch;
        scratch.normed.resize(tokens * config.hidden_size, 0.0);
        scratch.projected.resize(tokens * shape.projected_width(), 0.0);
        scratch.gated.resize(tokens * config.feed_forward_size, 0.0);
        scratch.attended.resize(tokens * shape.query_width(), 0.0);
    }

    /// Makes room for the backward pass.
    fn prepare_backward(&mut self, policy: Policy<'_>, tokens: usize) {
        let config = &policy.model.config;
        let shape = HeadShape::new(config);
        let scratch = &mut self.scratch;
        scratch.d_attended.resize(tokens * shape.query_width(), 0.0);
        scratch.means.resize(tokens * config.heads, 0.0);
        scratch.change.resize(shape, tokens);
        scratch.d_residual.resize(tokens * config.hidden_size, 0.0);
    }
}

/// One layer of a policy, over one pack.
struct Layer<'a> {
    policy: Policy<'a>,
    index: usize,
    starts: &'a [usize],
    weights: HeadWeights<'a>,
    shape: HeadShape,
    projection: Linear,
    output: Linear,
    gate_up: Linear,
    down: Linear,
}

impl<'a> Layer<'a> {
    fn new(
        policy: Policy<'a>,
        index: usize,
        starts: &'a [usize],
        rotation: &'a Rotation,
        positions: &'a [usize],
    ) -> Self {
        let parameters = &policy.model.parameters;
        let config = &policy.model.config;
        let layout = parameters.layout();
        let weight = |slot| parameters.slot(Slot::Layer(index, slot));
        let weights = HeadWeights {
            bias: &parameters.values()[bias_range(policy, index)],
            query_norm: weight(LayerSlot::QueryNorm),
            key_norm: weight(LayerSlot::KeyNorm),
            epsilon: config.norm_epsilon,
            rotation,
            positions,
        };
        Self {
            policy,
            index,
            starts,
            weights,
            shape: HeadShape::new(config),
            projection: Linear::new(layout, index, PROJECTED),
            output: Linear::new(layout, index, &[LayerSlot::Output]),
            gate_up: Linear::new(layout, index, &[LayerSlot::Gate, LayerSlot::Up]),
            down: Linear::new(layout, index, &[LayerSlot::Down]),
        }
    }

    fn slot(&self, slot: LayerSlot) -> &'a [f32] {
        self.policy.model.parameters.slot(Slot::Layer(self.index, slot))
    }

    /// Both halves up to gate and up: all that [`Saved`] holds. `input` is x, `[tokens, hidden]`.
    fn forward(&self, input: &[f32], saved: &mut Saved, scratch: &mut Scratch) {
        let epsilon = self.weights.epsilon;
        let normalises_heads = !self.weights.query_norm.is_empty();
        let normed = &mut scratch.normed;
        norm::forward(input, self.slot(LayerSlot::AttentionNorm), epsilon, normed);
        let projected =
            if normalises_heads { &mut saved.projected } else { &mut scratch.projected };
        self.projection.forward(self.policy, normed, projected, Output::Replace);
        attention::split(self.shape, self.weights, projected, &mut saved.heads);
        let (attended, log_sums) = (&mut scratch.attended, &mut saved.log_sums);
        attention::forward(self.shape, self.starts, &saved.heads, attended, log_sums);
        attention::merge(self.shape, attended, &mut saved.attended);
        copy(input, &mut saved.middle);
        self.output.forward(self.policy, &saved.attended, &mut saved.middle, Output::Add);
        norm::forward(&saved.middle, self.slot(LayerSlot::FeedForwardNorm), epsilon, normed);
        self.gate_up.forward(self.policy, normed, &mut saved.gate_up, Output::Replace);
    }

    /// The rest of the layer: x of the next one.
    fn finish(&self, saved: &Saved, scratch: &mut Scratch, output: &mut [f32]) {
        let width = self.policy.model.config.feed_forward_size;
        feed_forward::forward(&saved.gate_up, width, &mut scratch.gated);
        copy(&saved.middle, output);
        self.down.forward(self.policy, &scratch.gated, output, Output::Add);
    }

    /// From the change with the layer's output, in `scratch.d_residual`, to that with its input.
    /// What was saved is used up.
    fn backward(
        &self,
        input: &[f32],
        saved: &mut Saved,
        scratch: &mut Scratch,
        gradient: &mut Gradient<'_>,
    ) {
        self.backward_feed_forward(saved, scratch, gradient);
        self.backward_attention(input, saved, scratch, gradient);
    }

    fn backward_feed_forward(
        &self,
        saved: &mut Saved,
        scratch: &mut Scratch,
        gradient: &mut Gradient<'_>,
    ) {
        let width = self.policy.model.config.feed_forward_size;
        let Scratch { normed, gated, d_residual, .. } = scratch;
        self.down.backward_input(self.policy, d_residual, gated);
        feed_forward::backward(&mut saved.gate_up, width, gated);
        self.down.backward_weight(self.policy, gated, d_residual, gradient);
        self.gate_up.backward_input(self.policy, &saved.gate_up, normed);
        norm::backward(NormBackward {
            input: &saved.middle,
            weight: self.slot(LayerSlot::FeedForwardNorm),
            epsilon: self.weights.epsilon,
            d_output: normed,
            d_input: d_residual,
            d_weight: self.gradient_of(LayerSlot::FeedForwardNorm, gradient),
        });
        self.gate_up.backward_weight(self.policy, normed, &saved.gate_up, gradient);
    }

    fn backward_attention(
        &self,
        input: &[f32],
        saved: &Saved,
        scratch: &mut Scratch,
        gradient: &mut Gradient<'_>,
    ) {
        let Scratch { normed, projected, attended, d_attended, means, change, d_residual, .. } =
            scratch;
        self.output.backward_input(self.policy, d_residual, d_attended);
        self.output.backward_weight(self.policy, &saved.attended, d_residual, gradient);
        attention::split_backward(self.shape, &saved.attended, d_attended, attended, means);
        let backward = Backward {
            heads: &saved.heads,
            log_sums: &saved.log_sums,
            d_attended: attended,
            means,
        };
        attention::backward(self.shape, self.starts, backward, change);
        self.join(saved, change, projected, gradient);
        self.projection.backward_input(self.policy, projected, normed);
        norm::backward(NormBackward {
            input,
            weight: self.slot(LayerSlot::AttentionNorm),
            epsilon: self.weights.epsilon,
            d_output: normed,
            d_input: d_residual,
            d_weight: self.gradient_of(LayerSlot::AttentionNorm, gradient),
        });
        self.projection.backward_weight(self.policy, normed, projected, gradient);
    }

    fn join(
        &self,
        saved: &Saved,
        change: &Heads,
        d_projected: &mut [f32],
        gradient: &mut Gradient<'_>,
    ) {
        // The three lie in one buffer: small ones are gathered apart and added.
        let bias_range = bias_range(self.policy, self.index);
        let full = matches!(gradient, Gradient::Full(_));
        let size = |length: usize| if full { length } else { 0 };
        let mut bias = vec![0.0; size(bias_range.len())];
        let mut query_norm = vec![0.0; size(self.weights.query_norm.len())];
        let mut key_norm = vec![0.0; size(self.weights.key_norm.len())];
        let gradients =
            HeadGradients { bias: &mut bias, query_norm: &mut query_norm, key_norm: &mut key_norm };
        let projected = &saved.projected;
        attention::join_backward(
            self.shape,
            self.weights,
            projected,
            change,
            d_projected,
            gradients,
        );
        kernels::add(self.gradient_of(LayerSlot::QueryNorm, gradient), &query_norm);
        kernels::add(self.gradient_of(LayerSlot::KeyNorm, gradient), &key_norm);
        if let Gradient::Full(gradient) = gradient {
            kernels::add(&mut gradient.values_mut()[bias_range], &bias);
        }
    }

    /// Where the gradient of a norm is added; empty where the base is frozen.
    fn gradient_of<'g>(&self, slot: LayerSlot, gradient: &'g mut Gradient<'_>) -> &'g mut [f32] {
        match gradient {
            Gradient::Full(gradient) => gradient.slot_mut(Slot::Layer(self.index, slot)),
            Gradient::Adapters(_) => &mut [],
        }
    }
}

/// Where the biases of query, key and value lie; empty where there are none.
fn bias_range(policy: Policy<'_>, layer: usize) -> std::ops::Range<usize> {
    let layout = policy.model.parameters.layout();
    let [first, _, last] = BIASES.map(|slot| layout.find(Slot::Layer(layer, slot)));
    first.zip(last).map_or(0..0, |(first, last)| first.range.start..last.range.end)
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(COPY_VALUES)
        .zip(from.par_chunks(COPY_VALUES))
        .for_each(|(to, from)| to.copy_from_slice(from));
}

/// Rows of the embedding.
fn embed(policy: Policy<'_>, tokens: &[u32], output: &mut [f32]) {
    let hidden_size = policy.model.config.hidden_size;
    let embedding = policy.model.parameters.slot(Slot::Embedding);
    output.par_chunks_exact_mut(hidden_size).zip(tokens).for_each(|(row, token)| {
        row.copy_from_slice(&embedding[*token as usize * hidden_size..][..hidden_size]);
    });
}

/// Adds the change with each token's row; a task owns a part of the vocabulary.
fn embed_backward(policy: Policy<'_>, tokens: &[u32], d_rows: &[f32], gradient: &mut [f32]) {
    let hidden_size = policy.model.config.hidden_size;
    let rows = policy.model.config.vocabulary_size.div_ceil(16);
    let parts = gradient.par_chunks_mut(rows * hidden_size).enumerate();
    parts.for_each(|(part, gradient)| {
        let first = part * rows;
        for (token, d_row) in tokens.iter().zip(d_rows.chunks_exact(hidden_size)) {
            if let Some(row) = (*token as usize).checked_sub(first).filter(|row| *row < rows) {
                kernels::add(&mut gradient[row * hidden_size..][..hidden_size], d_row);
            }
        }
    });
}

/// Forward, objective, backward: see [`crate::step::forward_backward`].
pub(crate) fn forward_backward(
    policy: Policy<'_>,
    packed: Packed<'_>,
    options: StepOptions,
    objective: &mut dyn Objective,
    mut gradient: Gradient<'_>,
    workspace: &mut Workspace,
) {
    let layers = policy.model.config.layers;
    let kept = match options.recompute {
        Recompute::None => layers,
        Recompute::Layers => 1,
    };
    workspace.prepare(policy, packed, layers + 1, kept);
    workspace.prepare_backward(policy, packed.tokens.len());
    let Workspace { residuals, saved, scratch, head, rotation, positions } = workspace;
    let Some(rotation) = rotation else { return };
    let layer = |index| Layer::new(policy, index, packed.starts, rotation, positions);
    embed(policy, packed.tokens, &mut residuals[0]);
    for index in 0..layers {
        let (inputs, outputs) = residuals.split_at_mut(index + 1);
        let saved = &mut saved[index % kept];
        let layer = layer(index);
        layer.forward(&inputs[index], saved, scratch);
        layer.finish(saved, scratch, &mut outputs[0]);
    }
    let input = HeadInput {
        model: policy.model,
        hidden: &residuals[layers],
        targets: packed.targets,
        temperature: options.temperature,
    };
    let full = match &mut gradient {
        Gradient::Full(gradient) => Some(&mut **gradient),
        Gradient::Adapters(_) => None,
    };
    head::forward_backward(input, objective, full, &mut scratch.d_residual, head);
    for index in (0..layers).rev() {
        let saved = &mut saved[index % kept];
        let layer = layer(index);
        if options.recompute == Recompute::Layers {
            layer.forward(&residuals[index], saved, scratch);
        }
        layer.backward(&residuals[index], saved, scratch, &mut gradient);
    }
    if let Gradient::Full(gradient) = gradient {
        let gradient = gradient.slot_mut(Slot::Embedding);
        embed_backward(policy, packed.tokens, &scratch.d_residual, gradient);
    }
}

/// The last layer's output, `[tokens, hidden]`, before the final norm.
pub(crate) fn hidden<'w>(
    policy: Policy<'_>,
    packed: Packed<'_>,
    workspace: &'w mut Workspace,
) -> &'w [f32] {
    workspace.prepare(policy, packed, 2, 1);
    let Workspace { residuals, saved, scratch, rotation, positions, .. } = workspace;
    let (Some(rotation), [input, output, ..], [saved, ..]) =
        (rotation, residuals.as_mut_slice(), saved.as_mut_slice())
    else {
        return &[];
    };
    embed(policy, packed.tokens, input);
    for index in 0..policy.model.config.layers {
        let layer = Layer::new(policy, index, packed.starts, rotation, positions);
        layer.forward(input, saved, scratch);
        layer.finish(saved, scratch, output);
        std::mem::swap(input, output);
    }
    input
}

/// Forward alone: see [`crate::step::log_probs`].
pub(crate) fn log_probs(
    policy: Policy<'_>,
    packed: Packed<'_>,
    temperature: f32,
    workspace: &mut Workspace,
) -> LogProbs {
    let mut head = std::mem::take(&mut workspace.head);
    let hidden = hidden(policy, packed, workspace);
    let input = HeadInput { model: policy.model, hidden, targets: packed.targets, temperature };
    let output = head::log_probs(input, &mut head);
    workspace.head = head;
    output
}
