//! The kernels of every instruction set that this processor has, against plain loops.
//!
//! Products are compared bit for bit: the order of each sum is promised.

use proptest::prelude::*;

use super::attention::{Attention, Task};
use super::pointwise::Norm;
use super::product::{Finish, Product};
use super::{Isa, PANEL};
use crate::decode::cache::{BLOCK_TOKENS, BlockId};
use crate::decode::matrix::PackedMatrix;
use crate::decode::weights::Storage;

fn noise(seed: u64, length: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..length).map(|_| next()).collect()
}

/// One output: the chain that every kernel promises.
fn chain(isa: Isa, input: &[f32], weights: &[f32]) -> f32 {
    let fused = isa != Isa::Portable;
    input.iter().zip(weights).fold(0.0, |sum, (input, weight)| {
        if fused { input.mul_add(*weight, sum) } else { input * weight + sum }
    })
}

/// A matrix's rows as the storage keeps them, and the factor that follows the sum.
fn stored(matrix: &[f32], inputs: usize, storage: Storage) -> (Vec<f32>, Vec<f32>) {
    let scale = |row: &[f32]| row.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 127.0;
    let rows = matrix.chunks(inputs);
    let kept = rows.clone().flat_map(|row| {
        row.iter().map(move |value| match storage {
            Storage::F32 => *value,
            Storage::Bf16 => half::bf16::from_f32(*value).to_f32(),
            Storage::Int8 => (value / scale(row)).round(),
        })
    });
    let scales = rows.map(|row| if storage == Storage::Int8 { scale(row) } else { 1.0 });
    (kept.collect(), scales.collect())
}

proptest! {
    #[test]
    fn products_are_the_promised_chains(
        storage in prop::sample::select(vec![Storage::F32, Storage::Bf16, Storage::Int8]),
        rows in 1usize..40,
        inputs in 1usize..70,
        outputs in 1usize..200,
        cut in 0usize..8,
        seed in any::<u64>(),
    ) {
        let stride = inputs + 3;
        let input = noise(seed, rows * stride);
        let source = noise(seed ^ 1, outputs * inputs);
        let bias = noise(seed ^ 2, outputs.next_multiple_of(PANEL));
        let mut matrix = PackedMatrix::zeros(outputs, inputs, storage);
        matrix.fill(|index| source.get(index * inputs..(index + 1) * inputs));
        let (kept, scales) = stored(&source, inputs, storage);
        for isa in Isa::available() {
            let mut output = vec![0.0; rows * outputs];
            let product = Product {
                input: input.as_ptr(),
                input_stride: stride,
                matrix: &matrix,
                bias: &bias,
                finish: Finish::Store,
                output: output.as_mut_ptr(),
                output_stride: outputs,
                columns: outputs,
            };
            let cut = cut.min(matrix.count);
            // SAFETY: buffers have the sizes that the product names.
            unsafe {
                isa.product(&product, 0..rows, 0..cut);
                isa.product(&product, 0..rows, cut..matrix.count);
            }
            for row in 0..rows {
                for column in 0..outputs {
                    let weights = &kept[column * inputs..(column + 1) * inputs];
                    let sum = chain(isa, &input[row * stride..][..inputs], weights);
                    let expected = sum * scales[column] + bias[column];
                    prop_assert_eq!(output[row * outputs + column], expected, "{:?}", isa);
                }
            }
        }
    }

    #[test]
    fn gates_and_sums_follow_the_product(rows in 1usize..20, pairs in 1usize..50, seed in any::<u64>()) {
        let inputs = 24;
        let input = noise(seed, rows * inputs);
        let gates = noise(seed ^ 1, pairs * inputs);
        let ups = noise(seed ^ 2, pairs * inputs);
        let mut matrix = PackedMatrix::zeros(pairs.div_ceil(16) * PANEL, inputs, Storage::F32);
        matrix.fill(|index| {
            let source = if index % PANEL < 16 { &gates } else { &ups };
            let row = index / PANEL * 16 + index % 16;
            source.get(row * inputs..(row + 1) * inputs)
        });
        for (isa, finish) in Isa::available().into_iter().flat_map(|isa| [(isa, Finish::Gate), (isa, Finish::Add)]) {
            let columns = if finish == Finish::Gate { pairs } else { matrix.count * PANEL };
            let mut output = vec![0.5; rows * columns];
            let product = Product {
                input: input.as_ptr(),
                input_stride: inputs,
                matrix: &matrix,
                bias: &[],
                finish,
                output: output.as_mut_ptr(),
                output_stride: columns,
                columns,
            };
            // SAFETY: buffers have the sizes that the product names.
            unsafe { isa.product(&product, 0..rows, 0..matrix.count) };
            for row in 0..rows {
                let input = &input[row * inputs..(row + 1) * inputs];
                for pair in 0..pairs {
                    let gate = chain(isa, input, &gates[pair * inputs..(pair + 1) * inputs]);
                    let up = chain(isa, input, &ups[pair * inputs..(pair + 1) * inputs]);
                    if finish == Finish::Gate {
                        let expected = gate / (1.0 + (-gate).exp()) * up;
                        let got = output[row * columns + pair];
                        prop_assert!((got - expected).abs() < 1e-5, "{isa:?}: {got} {expected}");
                    } else {
                        let at = row * columns + pair / 16 * PANEL + pair % 16;
                        prop_assert_eq!(output[at], 0.5 + gate);
                        prop_assert_eq!(output[at + 16], 0.5 + up);
                    }
                }
            }
        }
    }

    #[test]
    fn a_norm_has_its_mean_square(length in 1usize..80, seed in any::<u64>()) {
        let padded = length.next_multiple_of(16);
        let mut input = noise(seed, length);
        input.resize(padded, 0.0);
        let mut weight = noise(seed ^ 1, length);
        weight.resize(padded, 0.0);
        let mean = input.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / length as f64;
        for isa in Isa::available() {
            let mut output = vec![0.0; padded];
            let norm = Norm { weight: &weight, length, epsilon: 1e-5 };
            // SAFETY: all three have the padded length.
            unsafe { isa.norm(norm, input.as_ptr(), output.as_mut_ptr()) };
            for index in 0..length {
                let factor = 1.0 / (mean + 1e-5).sqrt();
                let expected = f64::from(input[index]) * factor * f64::from(weight[index]);
                prop_assert!((f64::from(output[index]) - expected).abs() < 1e-5, "{isa:?}");
            }
        }
    }

    #[test]
    fn attention_is_a_softmax_over_what_lies_before(
        head_size in prop::sample::select(vec![2usize, 12, 64, 80]),
        heads in 1usize..5,
        rows in 1usize..4,
        position in 0usize..100,
        sharpness in 0.1f32..30.0,
        seed in any::<u64>(),
    ) {
        let rows = rows.min(super::attention::MOST_VECTORS / heads);
        let total = position + rows;
        let (keys, values) = (noise(seed, total * head_size), noise(seed ^ 1, total * head_size));
        let width = heads * head_size;
        let queries: Vec<f32> =
            noise(seed ^ 2, rows * width).into_iter().map(|query| query * sharpness).collect();
        let panels = head_size.div_ceil(PANEL);
        let key_len = head_size * BLOCK_TOKENS;
        let head_len = key_len + panels * PANEL * BLOCK_TOKENS;
        let count = total.div_ceil(BLOCK_TOKENS);
        // Blocks in reverse order; what no token has written is not a number.
        let blocks: Vec<BlockId> = (0..count).rev().map(|block| BlockId(block as u32)).collect();
        let mut pool = vec![f32::NAN; count * head_len];
        for token in 0..total {
            let start = blocks[token / BLOCK_TOKENS].0 as usize * head_len;
            let offset = token % BLOCK_TOKENS;
            for index in 0..head_size {
                pool[start + index * BLOCK_TOKENS + offset] = keys[token * head_size + index];
                let value = (index / PANEL * BLOCK_TOKENS + offset) * PANEL + index % PANEL;
                pool[start + key_len + value] = values[token * head_size + index];
            }
        }
        let task = Task {
            segment: 0, row: 0, output_row: 0, rows, position, head: 0, heads, key_value_head: 0,
        };
        for isa in Isa::available() {
            let mut output = vec![0.0; rows * width];
            let attention = Attention {
                queries: queries.as_ptr(),
                query_stride: width,
                output: output.as_mut_ptr(),
                output_stride: width,
                head_size,
                pool: pool.as_ptr(),
                block_len: head_len,
                head_len,
                key_len,
            };
            // SAFETY: the pool has the blocks, queries and output the rows.
            unsafe { isa.attend(&attention, &task, &blocks) };
            for vector in 0..rows * heads {
                let query = &queries[vector * head_size..(vector + 1) * head_size];
                let visible = position + vector / heads + 1;
                let expected = softmax_sum(query, &keys, &values, visible);
                for (index, expected) in expected.into_iter().enumerate() {
                    let got = f64::from(output[vector * head_size + index]);
                    prop_assert!((got - expected).abs() < 1e-4, "{isa:?}: {got} {expected}");
                }
            }
        }
    }
}

fn softmax_sum(query: &[f32], keys: &[f32], values: &[f32], visible: usize) -> Vec<f64> {
    let size = query.len();
    let score = |key: &[f32]| -> f64 {
        let dot: f64 = query.iter().zip(key).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
        dot / (size as f64).sqrt()
    };
    let scores: Vec<f64> = keys.chunks(size).take(visible).map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut sum = vec![0.0; size];
    for (weight, value) in weights.iter().zip(values.chunks(size)) {
        sum.iter_mut()
            .zip(value)
            .for_each(|(sum, value)| *sum += weight / total * f64::from(*value));
    }
    sum
}
