//! Projections: weights that lie side by side as one product, and the adapters on them.
//!
//! Invariant: query, key and value are one product, and so are gate and up; an adapter adds to its
//! own columns of the output. With adapters the weights themselves have no gradient.

use std::ops::Range;

use crate::gemm::{Matrix, MatrixMut, Output, Threads, multiply};
use crate::lora::{AdapterPair, Adapters};
use crate::parameters::{LayerSlot, Layout, Slot};
use crate::step::{Gradient, Policy};

/// Weights of a layer that share their input, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    layer: usize,
    slots: &'static [LayerSlot],
    /// Where they lie in the buffer.
    range: Range<usize>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// `slots` are matrices and neighbours in the layout.
    pub(crate) fn new(layout: &Layout, layer: usize, slots: &'static [LayerSlot]) -> Self {
        let mut linear = Self { layer, slots, range: 0..0, inputs: 0, outputs: 0 };
        for (index, slot) in slots.iter().enumerate() {
            if let Some(tensor) = layout.find(Slot::Layer(layer, *slot)) {
                let start = if index == 0 { tensor.range.start } else { linear.range.start };
                linear.range = start..tensor.range.end;
                linear.inputs = tensor.shape[1];
                linear.outputs += tensor.shape[0];
            }
        }
        linear
    }

    /// `output (+)= input · Wᵀ`: `[rows, inputs]` to `[rows, outputs]`.
    pub(crate) fn forward(
        &self,
        policy: Policy<'_>,
        input: &[f32],
        output: &mut [f32],
        mode: Output,
    ) {
        let rows = input.len() / self.inputs;
        multiply(
            MatrixMut::new(output, rows, self.outputs),
            mode,
            Matrix::new(input, rows, self.inputs),
            self.weight(policy).transposed(),
            1.0,
            Threads::Pool,
        );
        let Some(adapters) = policy.adapters else { return };
        for (pair, offset) in self.pairs(policy, adapters) {
            let reduced = reduce(adapters, pair, input);
            let rank = adapters.lora().rank;
            let up = Matrix::new(&adapters.values()[pair.up.clone()], pair.outputs, rank);
            multiply(
                MatrixMut::strided(&mut output[offset..], rows, pair.outputs, self.outputs),
                Output::Add,
                Matrix::new(&reduced, rows, rank),
                up.transposed(),
                adapters.lora().scale(),
                Threads::Pool,
            );
        }
    }

    /// `d_input = d_output · W`.
    pub(crate) fn backward_input(&self, policy: Policy<'_>, d_output: &[f32], d_input: &mut [f32]) {
        let rows = d_output.len() / self.outputs;
        multiply(
            MatrixMut::new(d_input, rows, self.inputs),
            Output::Replace,
            Matrix::new(d_output, rows, self.outputs),
            self.weight(policy),
            1.0,
            Threads::Pool,
        );
        let Some(adapters) = policy.adapters else { return };
        for (pair, offset) in self.pairs(policy, adapters) {
            let d_reduced = self.reduce_backward(adapters, pair, offset, d_output);
            let rank = adapters.lora().rank;
            multiply(
                MatrixMut::new(d_input, rows, self.inputs),
                Output::Add,
                Matrix::new(&d_reduced, rows, rank),
                Matrix::new(&adapters.values()[pair.down.clone()], rank, self.inputs),
                1.0,
                Threads::Pool,
            );
        }
    }

    /// Adds `d_outputᵀ · input` to the weights' gradient, or the like to the adapters'.
    pub(crate) fn backward_weight(
        &self,
        policy: Policy<'_>,
        input: &[f32],
        d_output: &[f32],
        gradient: &mut Gradient<'_>,
    ) {
        let rows = input.len() / self.inputs;
        match gradient {
            Gradient::Full(gradient) => multiply(
                MatrixMut::new(
                    &mut gradient.values_mut()[self.range.clone()],
                    self.outputs,
                    self.inputs,
                ),
                Output::Add,
                Matrix::new(d_output, rows, self.outputs).transposed(),
                Matrix::new(input, rows, self.inputs),
                1.0,
                Threads::Pool,
            ),
            Gradient::Adapters(gradient) => {
                let Some(adapters) = policy.adapters else { return };
                for (pair, offset) in self.pairs(policy, adapters) {
                    self.backward_pair(adapters, (pair, offset), input, d_output, gradient);
                }
            }
        }
    }

    fn backward_pair(
        &self,
        adapters: &Adapters,
        (pair, offset): (&AdapterPair, usize),
        input: &[f32],
        d_output: &[f32],
        gradient: &mut Adapters,
    ) {
        let rows = input.len() / self.inputs;
        let rank = adapters.lora().rank;
        let reduced = reduce(adapters, pair, input);
        let d_part = Matrix::strided(&d_output[offset..], rows, pair.outputs, self.outputs);
        multiply(
            MatrixMut::new(&mut gradient.values_mut()[pair.up.clone()], pair.outputs, rank),
            Output::Add,
            d_part.transposed(),
            Matrix::new(&reduced, rows, rank),
            adapters.lora().scale(),
            Threads::Pool,
        );
        let d_reduced = self.reduce_backward(adapters, pair, offset, d_output);
        multiply(
            MatrixMut::new(&mut gradient.values_mut()[pair.down.clone()], rank, self.inputs),
            Output::Add,
            Matrix::new(&d_reduced, rows, rank).transposed(),
            Matrix::new(input, rows, self.inputs),
            1.0,
            Threads::Pool,
        );
    }

    /// Change with `A · x`: `scale · d_output · B`, `[rows, rank]`.
    fn reduce_backward(
        &self,
        adapters: &Adapters,
        pair: &AdapterPair,
        offset: usize,
        d_output: &[f32],
    ) -> Vec<f32> {
        let rows = d_output.len() / self.outputs;
        let rank = adapters.lora().rank;
        let mut d_reduced = vec![0.0; rows * rank];
        multiply(
            MatrixMut::new(&mut d_reduced, rows, rank),
            Output::Replace,
            Matrix::strided(&d_output[offset..], rows, pair.outputs, self.outputs),
            Matrix::new(&adapters.values()[pair.up.clone()], pair.outputs, rank),
            adapters.lora().scale(),
            Threads::Pool,
        );
        d_reduced
    }

    fn weight<'a>(&self, policy: Policy<'a>) -> Matrix<'a> {
        let values = &policy.model.parameters.values()[self.range.clone()];
        Matrix::new(values, self.outputs, self.inputs)
    }

    /// The adapters on these weights, each with its first column in the output.
    fn pairs<'a>(
        &self,
        policy: Policy<'_>,
        adapters: &'a Adapters,
    ) -> impl Iterator<Item = (&'a AdapterPair, usize)> {
        let layout = policy.model.parameters.layout();
        let (layer, first, inputs) = (self.layer, self.range.start, self.inputs);
        self.slots.iter().filter_map(move |slot| {
            let pair = adapters.find(layer, *slot)?;
            let tensor = layout.find(Slot::Layer(layer, *slot))?;
            Some((pair, (tensor.range.start - first) / inputs))
        })
    }
}

/// `A · x` for each row, `[rows, rank]`.
fn reduce(adapters: &Adapters, pair: &AdapterPair, input: &[f32]) -> Vec<f32> {
    let (rows, rank) = (input.len() / pair.inputs, adapters.lora().rank);
    let mut reduced = vec![0.0; rows * rank];
    let down = Matrix::new(&adapters.values()[pair.down.clone()], rank, pair.inputs);
    multiply(
        MatrixMut::new(&mut reduced, rows, rank),
        Output::Replace,
        Matrix::new(input, rows, pair.inputs),
        down.transposed(),
        1.0,
        Threads::Pool,
    );
    reduced
}
