//! One pass through the model: the steps in order, and which thread does what of each.
//!
//! Invariant: within a step, units write disjoint places; what a step reads was written by steps
//! before it. [`team`] keeps the order of steps.
#![expect(unsafe_code, reason = "threads write disjoint rows and tiles of shared buffers")]

use std::ops::Range;

use super::attention::Attention;
use super::pointwise::{Heads, Norm};
use super::product::{Finish, Product};
use super::tile::MOST_ROWS;
use super::{Isa, PANEL, team};
use crate::config::ModelConfig;
use crate::decode::cache::{BlockShape, Line};
use crate::decode::matrix::PackedMatrix;
use crate::decode::plan::Plan;
use crate::decode::rotation;
use crate::decode::weights::{DecodeWeights, LayerWeights, padded};

/// Rows of a unit of work that goes row by row.
const ROWS_OF_A_UNIT: usize = 8;

/// Most rows of a unit of a product: few enough to stay in the cache while panels go by.
const PRODUCT_ROWS: usize = 6 * MOST_ROWS;

/// Multiply-adds that are worth a unit of a product.
const UNIT_OPERATIONS: usize = 1 << 20;

/// Multiply-adds of a pass that are worth a further thread.
const THREAD_OPERATIONS: usize = 1 << 20;

/// A buffer of rows, each padded to whole lanes.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    lines: Vec<Line>,
    stride: usize,
}

impl Rows {
    fn resize(&mut self, rows: usize, width: usize) -> View {
        // One line more than needed: rows at a power of two apart would share sets of the cache.
        self.stride = padded(width) + Line::VALUES;
        let lines = rows * self.stride / Line::VALUES;
        if self.lines.len() < lines {
            self.lines.resize(lines, bytemuck::Zeroable::zeroed());
        }
        View { values: bytemuck::cast_slice_mut(&mut self.lines).as_mut_ptr(), stride: self.stride }
    }
}

/// Rows that threads share.
#[derive(Clone, Copy)]
struct View {
    values: *mut f32,
    stride: usize,
}

impl View {
    /// # Safety
    /// The buffer has the row.
    unsafe fn row(self, row: usize) -> *mut f32 {
        // SAFETY: by the function's contract.
        unsafe { self.values.add(row * self.stride) }
    }
}

/// Working memory of passes, kept between them.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    residual: Rows,
    kept: Rows,
    normed: Rows,
    query_key_value: Rows,
    attended: Rows,
    gated: Rows,
    rotations: Rows,
}

/// What a step does. Layers are numbered.
#[derive(Debug, Clone, Copy)]
enum Step {
    Embed,
    AttentionNorm(usize),
    QueryKeyValue(usize),
    Heads(usize),
    Attend(usize),
    /// Leaves the rows whose logits nobody wants behind.
    Keep,
    Output(usize),
    FeedForwardNorm(usize),
    GateUp(usize),
    Down(usize),
    FinalNorm,
    Head,
}

/// One pass.
pub(crate) struct Pass<'a> {
    isa: Isa,
    threads: usize,
    config: &'a ModelConfig,
    weights: &'a DecodeWeights,
    plan: &'a Plan<'a>,
    frequencies: &'a [f64],
    shape: &'a BlockShape,
    pool: *mut f32,
    logits: *mut f32,
    residual: View,
    kept: View,
    normed: View,
    query_key_value: View,
    attended: View,
    gated: View,
    rotations: View,
}

// SAFETY: the pointers are to buffers that the pass borrows for its whole life (`Pass::run` takes
// them by unique reference), and units write disjoint places of them.
unsafe impl Sync for Pass<'_> {}

/// What a pass reads and writes.
pub(crate) struct Inputs<'a> {
    pub(crate) isa: Isa,
    pub(crate) config: &'a ModelConfig,
    pub(crate) weights: &'a DecodeWeights,
    pub(crate) plan: &'a Plan<'a>,
    /// Radians a position, for each pair of a head.
    pub(crate) frequencies: &'a [f64],
    pub(crate) shape: &'a BlockShape,
    pub(crate) pool: &'a mut [Line],
    /// As many rows of `vocabulary_size` as the plan wants.
    pub(crate) logits: &'a mut [f32],
    pub(crate) buffers: &'a mut Buffers,
}

/// Runs all rows of a plan through the model.
pub(crate) fn run(inputs: Inputs<'_>) {
    let Inputs { isa, config, weights, plan, frequencies, shape, pool, logits, buffers } = inputs;
    let rows = plan.rows.len();
    let query_key_value = config.query_size() + 2 * config.key_value_size();
    let operations = rows * config.layers * config.hidden_size * (config.feed_forward_size * 3);
    let pass = Pass {
        isa,
        threads: rayon::current_num_threads().min(operations / THREAD_OPERATIONS + 1),
        config,
        weights,
        plan,
        frequencies,
        shape,
        pool: bytemuck::cast_slice_mut(pool).as_mut_ptr(),
        logits: logits.as_mut_ptr(),
        residual: buffers.residual.resize(rows, config.hidden_size),
        kept: buffers.kept.resize(plan.wanted.len(), config.hidden_size),
        normed: buffers.normed.resize(rows, config.hidden_size),
        query_key_value: buffers.query_key_value.resize(rows, query_key_value),
        attended: buffers.attended.resize(rows, config.query_size()),
        gated: buffers.gated.resize(rows, config.feed_forward_size),
        rotations: buffers.rotations.resize(rows, config.head_size),
    };
    let steps = pass.steps();
    let units: Vec<usize> = steps.iter().map(|step| pass.units(*step)).collect();
    // SAFETY: `team` runs each unit once, and steps in order.
    team::run(&units, pass.threads, &|step, unit| unsafe { pass.execute(steps[step], unit) });
}

impl<'a> Pass<'a> {
    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Embed];
        let last = self.config.layers.saturating_sub(1);
        for layer in 0..self.config.layers {
            steps.extend([
                Step::AttentionNorm(layer),
                Step::QueryKeyValue(layer),
                Step::Heads(layer),
            ]);
            if layer == last && self.plan.wanted.is_empty() {
                return steps;
            }
            steps.push(Step::Attend(layer));
            if layer == last && self.plan.narrows() {
                steps.push(Step::Keep);
            }
            steps.extend([
                Step::Output(layer),
                Step::FeedForwardNorm(layer),
                Step::GateUp(layer),
                Step::Down(layer),
            ]);
        }
        steps.extend([Step::FinalNorm, Step::Head]);
        steps
    }

    /// The layer's rows after attention: the last layer goes on with those that are wanted.
    fn narrowed(&self, layer: usize) -> bool {
        layer + 1 == self.config.layers && self.plan.narrows()
    }

    /// Residual stream after the attention of `layer`, and its rows.
    fn stream(&self, layer: usize) -> (View, usize) {
        if self.narrowed(layer) {
            (self.kept, self.plan.wanted.len())
        } else {
            (self.residual, self.plan.rows.len())
        }
    }

    fn last_stream(&self) -> (View, usize) {
        self.stream(self.config.layers.saturating_sub(1))
    }

    fn units(&self, step: Step) -> usize {
        match step {
            Step::Embed | Step::AttentionNorm(_) | Step::Heads(_) => {
                self.plan.rows.len().div_ceil(ROWS_OF_A_UNIT)
            }
            Step::Attend(layer) if self.narrowed(layer) => self.plan.wanted_tasks.len(),
            Step::Attend(_) => self.plan.tasks.len(),
            Step::Keep => self.plan.wanted.len().div_ceil(ROWS_OF_A_UNIT),
            Step::FeedForwardNorm(layer) => self.stream(layer).1.div_ceil(ROWS_OF_A_UNIT),
            Step::FinalNorm => self.last_stream().1.div_ceil(ROWS_OF_A_UNIT),
            Step::QueryKeyValue(_)
            | Step::Output(_)
            | Step::GateUp(_)
            | Step::Down(_)
            | Step::Head => {
                let (product, rows) = self.product(step);
                let (row_parts, panel_parts) = self.cut(product.matrix, rows);
                row_parts * panel_parts
            }
        }
    }

    /// Into how many parts a product's rows and panels are cut.
    fn cut(&self, matrix: &PackedMatrix, rows: usize) -> (usize, usize) {
        let row_parts = rows.div_ceil(PRODUCT_ROWS);
        let one_panel = rows.div_ceil(row_parts.max(1)) * matrix.inputs * PANEL;
        let together = UNIT_OPERATIONS.div_ceil(one_panel.max(1));
        let fair = matrix.count.div_ceil(self.threads);
        // One row goes four panels at a time.
        let together =
            if rows <= 3 { together.min(fair).next_multiple_of(4) } else { together.min(fair) };
        (row_parts, matrix.count.div_ceil(together.max(1)))
    }

    /// # Safety
    /// Each unit of a step runs once, after all units of the steps before.
    unsafe fn execute(&self, step: Step, unit: usize) {
        // SAFETY: rows of a unit are rows of the buffers, and no other unit's.
        unsafe {
            match step {
                Step::Embed => self.embed(self.unit_rows(unit, self.plan.rows.len())),
                Step::AttentionNorm(layer) => {
                    let stream = (self.residual, self.plan.rows.len());
                    self.norm(stream, &self.weights.layers[layer].attention_norm, unit);
                }
                Step::Heads(layer) => {
                    self.heads(layer, self.unit_rows(unit, self.plan.rows.len()));
                }
                Step::Attend(layer) => self.attend(layer, unit),
                Step::Keep => self.keep(self.unit_rows(unit, self.plan.wanted.len())),
                Step::FeedForwardNorm(layer) => {
                    let weight = &self.weights.layers[layer].feed_forward_norm;
                    self.norm(self.stream(layer), weight, unit);
                }
                Step::FinalNorm => self.norm(self.last_stream(), &self.weights.final_norm, unit),
                Step::QueryKeyValue(_)
                | Step::Output(_)
                | Step::GateUp(_)
                | Step::Down(_)
                | Step::Head => {
                    let (product, rows) = self.product(step);
                    let (row_parts, panel_parts) = self.cut(product.matrix, rows);
                    let (row, panel) = (unit % row_parts, unit / row_parts);
                    let rows = part(rows, row_parts, row, 1);
                    let group = if rows.len() <= 3 { 4 } else { 1 };
                    let panels = part(product.matrix.count, panel_parts, panel, group);
                    self.isa.product(&product, rows, panels);
                }
            }
        }
    }

    fn unit_rows(&self, unit: usize, rows: usize) -> Range<usize> {
        unit * ROWS_OF_A_UNIT..((unit + 1) * ROWS_OF_A_UNIT).min(rows)
    }

    /// The product of a step, and its rows.
    fn product(&self, step: Step) -> (Product<'a>, usize) {
        let hidden = self.config.hidden_size;
        let all = self.plan.rows.len();
        let layer = |index: usize| -> &'a LayerWeights { &self.weights.layers[index] };
        match step {
            Step::QueryKeyValue(index) => {
                let columns = self.config.query_size() + 2 * self.config.key_value_size();
                let matrix = &layer(index).query_key_value;
                let product =
                    from_to(self.normed, matrix, Finish::Store, self.query_key_value, columns);
                (Product { bias: &layer(index).bias, ..product }, all)
            }
            Step::Output(index) => {
                let (stream, rows) = self.stream(index);
                let matrix = &layer(index).output;
                (from_to(self.attended, matrix, Finish::Add, stream, hidden), rows)
            }
            Step::GateUp(index) => {
                let columns = self.config.feed_forward_size;
                let matrix = &layer(index).gate_up;
                let product = from_to(self.normed, matrix, Finish::Gate, self.gated, columns);
                (product, self.stream(index).1)
            }
            Step::Down(index) => {
                let (stream, rows) = self.stream(index);
                let matrix = &layer(index).down;
                (from_to(self.gated, matrix, Finish::Add, stream, hidden), rows)
            }
            Step::Embed
            | Step::AttentionNorm(_)
            | Step::Heads(_)
            | Step::Attend(_)
            | Step::Keep
            | Step::FeedForwardNorm(_)
            | Step::FinalNorm
            | Step::Head => {
                let columns = self.config.vocabulary_size;
                let logits = View { values: self.logits, stride: columns };
                let head = &self.weights.head;
                (from_to(self.normed, head, Finish::Store, logits, columns), self.plan.wanted.len())
            }
        }
    }

    /// # Safety
    /// No other thread touches `rows`.
    unsafe fn embed(&self, rows: Range<usize>) {
        for row in rows {
            // SAFETY: by the function's contract; rows hold a token's embedding and rotation.
            unsafe {
                let token = &self.plan.rows[row];
                let (hidden, head) = (self.config.hidden_size, self.config.head_size);
                let stream = std::slice::from_raw_parts_mut(self.residual.row(row), hidden);
                self.weights.embed(token.token, stream);
                let angles = std::slice::from_raw_parts_mut(self.rotations.row(row), head);
                rotation::rotate(self.frequencies, token.position, angles);
            }
        }
    }

    /// # Safety
    /// No other thread touches the rows of `unit`.
    unsafe fn norm(&self, (stream, rows): (View, usize), weight: &[f32], unit: usize) {
        let length = self.config.hidden_size;
        let norm = Norm { weight, length, epsilon: self.config.norm_epsilon };
        for row in self.unit_rows(unit, rows) {
            // SAFETY: by the function's contract; beyond `length` rows are zero, as nothing but
            // products writes to them, and those only at columns that there are.
            unsafe { self.isa.norm(norm, stream.row(row), self.normed.row(row)) };
        }
    }

    /// # Safety
    /// No other thread touches `rows` or their places in the pool.
    unsafe fn heads(&self, layer: usize, rows: Range<usize>) {
        let weights = &self.weights.layers[layer];
        for row in rows {
            let token = &self.plan.rows[row];
            // SAFETY: the plan has checked that the pool has the block, and that no other row
            // writes to this place.
            unsafe {
                let start = token.block.0 as usize * self.shape.block_len();
                let head_size = self.config.head_size;
                self.isa.heads(Heads {
                    row: self.query_key_value.row(row),
                    heads: self.config.heads,
                    key_value_heads: self.config.key_value_heads,
                    head_size,
                    rotation: std::slice::from_raw_parts(self.rotations.row(row), head_size),
                    query_norm: &weights.query_norm,
                    key_norm: &weights.key_norm,
                    epsilon: self.config.norm_epsilon,
                    block: self.pool.add(start + layer * self.shape.layer_len()),
                    head_len: self.shape.head_len(),
                    key_len: self.shape.key_len(),
                    offset: token.offset,
                });
            }
        }
    }

    /// # Safety
    /// No other thread touches the task's part of the output.
    unsafe fn attend(&self, layer: usize, unit: usize) {
        let narrowed = self.narrowed(layer);
        let task = if narrowed { &self.plan.wanted_tasks[unit] } else { &self.plan.tasks[unit] };
        // SAFETY: the plan has checked that the pool has the blocks; keys and values up to the
        // task's rows were written by earlier passes and the step before.
        unsafe {
            let attention = Attention {
                queries: self.query_key_value.values,
                query_stride: self.query_key_value.stride,
                output: self.attended.values,
                output_stride: self.attended.stride,
                head_size: self.config.head_size,
                pool: self.pool.add(layer * self.shape.layer_len()),
                block_len: self.shape.block_len(),
                head_len: self.shape.head_len(),
                key_len: self.shape.key_len(),
            };
            self.isa.attend(&attention, task, self.plan.segments[task.segment].blocks);
        }
    }

    /// # Safety
    /// No other thread touches the kept `rows`.
    unsafe fn keep(&self, rows: Range<usize>) {
        for row in rows {
            // SAFETY: wanted rows are rows of the plan.
            unsafe {
                let from = self.residual.row(self.plan.wanted[row]);
                let to = self.kept.row(row);
                std::ptr::copy_nonoverlapping(from, to, padded(self.config.hidden_size));
            }
        }
    }
}

fn from_to<'a>(
    from: View,
    matrix: &'a PackedMatrix,
    finish: Finish,
    to: View,
    columns: usize,
) -> Product<'a> {
    Product {
        input: from.values,
        input_stride: from.stride,
        matrix,
        bias: &[],
        finish,
        output: to.values,
        output_stride: to.stride,
        columns,
    }
}

/// Part `index` of `parts` nearly equal ones of `0..length`, cut at multiples of `group`.
fn part(length: usize, parts: usize, index: usize, group: usize) -> Range<usize> {
    let groups = length.div_ceil(group);
    let at = |index: usize| (groups * index / parts * group).min(length);
    at(index)..at(index + 1)
}
