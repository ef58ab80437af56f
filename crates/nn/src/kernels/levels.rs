//! Every kernel on every instruction set of this machine, against the baseline: the same Rust,
//! compiled without vectors wider than every processor has.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

thread_local! {
    /// What [`level`] gives on this thread.
    pub(super) static FORCED: Cell<Option<Level>> = const { Cell::new(None) };
}

/// What this machine can run; the best one runs all that are below it.
fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Baseline];
    #[cfg(target_arch = "x86_64")]
    match level() {
        Level::Avx512 => levels.extend([Level::Avx2, Level::Avx512]),
        Level::Avx2 => levels.push(Level::Avx2),
        Level::Baseline => {}
    }
    levels
}

/// Runs a kernel on each level and compares what it leaves in its buffers.
fn compare(buffers: &[Vec<f32>], run: impl Fn(&mut [Vec<f32>])) -> Result<(), TestCaseError> {
    let levels = levels();
    let results = levels.into_iter().map(|level| {
        FORCED.set(Some(level));
        let mut buffers = buffers.to_vec();
        run(&mut buffers);
        FORCED.set(None);
        (level, buffers)
    });
    let results: Vec<_> = results.collect();
    let (_, expected) = &results[0];
    for (level, found) in &results {
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let error = (found - expected).abs() / (1.0 + expected.abs());
            // Sums of up to 150 products of size 18 that cancel: each order rounds differently.
            prop_assert!(error < 5e-4 || found == expected, "{level:?} {found} {expected}");
        }
    }
    Ok(())
}

fn numbers(length: usize, seed: u32, size: f32) -> Vec<f32> {
    (0..length).map(|at| size * ((at as u32 ^ seed) as f32 * 0.71).sin()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn norms(rows in 1..5_usize, width in 1..150_usize, seed in 0..1000_u32) {
        let size = rows * width;
        let buffers =
            [numbers(size, seed, 1.0), numbers(size, seed + 7, 1.0), vec![0.5; size], vec![0.0; width]];
        let weight = numbers(width, seed + 9, 1.0);
        compare(&buffers, |all| {
            let [input, d_output, d_input, d_weight] = all else { return };
            rms_norm_backward(NormBackward {
                input, weight: &weight, epsilon: 1e-2, d_output, d_input, d_weight,
            });
        })?;
        compare(&buffers, |all| {
            let [input, output, ..] = all else { return };
            rms_norm(input, &weight, 1e-2, output);
        })?;
    }

    #[test]
    fn gates_rotations_and_sums(rows in 1..5_usize, width in 1..150_usize, seed in 0..1000_u32) {
        let size = rows * width;
        let buffers = [numbers(2 * size, seed, 9.0), numbers(size, seed + 7, 2.0)];
        compare(&buffers, |all| {
            let [gate_up, output] = all else { return };
            swiglu(gate_up, width, output);
        })?;
        compare(&buffers, |all| {
            let [gate_up, d_output] = all else { return };
            swiglu_backward(gate_up, width, d_output);
        })?;
        let (cosines, sines) = (numbers(width, seed, 1.0), numbers(width, seed + 1, 1.0));
        compare(&buffers, |all| rotate(&mut all[0], &cosines, &sines, -1.0, 0.3))?;
        compare(&buffers, |all| {
            let [left, right] = all else { return };
            let (first, second) = left.split_at_mut(size);
            dot_rows(right, second, width, &mut first[..rows]);
            add_columns(right, &mut second[..width]);
            add(second, right);
        })?;
    }

    #[test]
    fn softmax_over_blocks(
        positions in 1..6_usize,
        (group, columns) in (1..4_usize, 1..90_usize),
        (first, width) in (1..90_usize, 1..20_usize),
        seed in 0..1000_u32,
    ) {
        let rows = positions * group;
        let window = Window { columns, first, group };
        let buffers = [
            numbers(rows * columns, seed, 6.0),
            numbers(rows, seed, 4.0),
            vec![1.5; rows],
            numbers(rows * width, seed + 3, 1.0),
        ];
        compare(&buffers, |all| {
            let [scores, maxima, sums, attended] = all else { return };
            online_softmax(scores, window, OnlineSoftmax { maxima, sums, attended, width });
            normalise(attended, width, maxima, sums);
        })?;
        let log_sums = vec![8.0; rows];
        let changes = numbers(rows * columns, seed + 5, 1.0);
        let buffers = [numbers(rows * columns, seed, 6.0), changes];
        compare(&buffers, |all| {
            let [scores, changes] = all else { return };
            softmax_backward(scores, window, &log_sums, &numbers(rows, seed, 0.5), changes);
        })?;
    }

    #[test]
    fn heads_and_optimiser(length in 1..300_usize, seed in 0..1000_u32) {
        let buffers = [numbers(length, seed, 5.0), vec![0.0; 2]];
        for d_entropy in [0.0, 0.4] {
            compare(&buffers, |all| {
                let [logits, results] = all else { return };
                let row = log_softmax(logits, 1.3);
                results.copy_from_slice(&[row.log_sum, row.entropy]);
                let target = seed as usize % length;
                let inverse_temperature = 1.3;
                let change = RowGradient { target, d_log_prob: -0.7, d_entropy, inverse_temperature };
                log_softmax_backward(logits, row, change);
            })?;
        }
        let update = AdamUpdate {
            keep: 0.99,
            gradient_scale: 0.5,
            beta1: 0.9,
            one_minus_beta1: 0.1,
            beta2: 0.95,
            one_minus_beta2: 0.05,
            rate: 0.01,
            root_scale: 1.2,
            epsilon: 1e-3,
        };
        let numbers = |shift| numbers(length, seed + shift, 1.0);
        let square = numbers(3).iter().map(|value| value * value).collect();
        compare(&[numbers(0), numbers(1), numbers(2), square, vec![0.0]], |all| {
            let [values, gradient, mean, square, sum] = all else { return };
            sum[0] = sum_of_squares(gradient) as f32;
            adam(update, values, gradient, mean, square);
        })?;
    }
}
