//! Loops over rows of numbers, compiled for several instruction sets and chosen at run time: one
//! binary is fast on every machine, with no flags.
//!
//! Invariant: each kernel is plain Rust; `vectorized!` compiles its body once for the baseline and
//! once for each instruction set, where the compiler vectorises it. So the safe reference of every
//! kernel is its own body, and a test compares all that this machine can run. Sums keep
//! [`LANES`] partial sums, so that they vectorise; results of one machine are the same to the bit.
#![expect(
    unsafe_code,
    reason = "a function compiled for an instruction set is called after a check"
)]

mod adam;
mod head;
#[cfg(test)]
mod levels;
mod norm;
mod rotate;
mod softmax;
mod sums;
mod swiglu;

pub(crate) use adam::{AdamUpdate, adam, sum_of_squares};
pub(crate) use head::{LogSoftmax, RowGradient, log_softmax, log_softmax_backward};
pub(crate) use norm::{NormBackward, rms_norm, rms_norm_backward};
pub(crate) use rotate::rotate;
pub(crate) use softmax::{OnlineSoftmax, Window, normalise, online_softmax, softmax_backward};
pub(crate) use sums::{add, add_columns, dot_rows};
pub(crate) use swiglu::{swiglu, swiglu_backward};

use std::sync::OnceLock;

/// Partial sums of a reduction: two registers of AVX-512, four of AVX2, eight of NEON.
const LANES: usize = 32;

/// Instruction sets that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// AVX-512 with its byte, word and vector-length extensions.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the architecture has (NEON on aarch64).
    Baseline,
}

/// The best one of this machine.
fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = levels::FORCED.get() {
        return level;
    }
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Baseline
    })
}

/// The baseline has a fused multiply-add: without one, `mul_add` would be a call of a function.
const BASELINE_FMA: bool = cfg!(target_arch = "aarch64");

/// Compiles a function for every [`Level`] and calls the best. Its body may use the constant `FMA`
/// and functions generic over it.
macro_rules! vectorized {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $output:ty)?
        $body:block
    ) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $kind),*) $(-> $output)? {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters, reason = "not every kernel multiplies")]
            fn body<const FMA: bool>($($argument: $kind),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($argument: $kind),*) $(-> $output)? {
                body::<true>($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $kind),*) $(-> $output)? {
                body::<true>($($argument),*)
            }

            match $crate::kernels::level() {
                // SAFETY: the level says that this machine has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Level::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: the level says that this machine has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Level::Avx2 => unsafe { avx2($($argument),*) },
                $crate::kernels::Level::Baseline => {
                    body::<{ $crate::kernels::BASELINE_FMA }>($($argument),*)
                }
            }
        }
    };
}
pub(crate) use vectorized;

/// `a · b + c`, fused where the instruction set does that.
#[inline(always)]
pub(crate) fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Smallest argument of [`exp`] with a normal result; below it the result is 0.
const EXP_MIN: f32 = -87.336_54;
/// Largest argument of [`exp`]; above it the result stays.
const EXP_MAX: f32 = 88.376_25;

/// eˣ to about one unit in the last place, without a branch: the compiler vectorises it. 0 below
/// [`EXP_MIN`], `e^EXP_MAX` (2.4e38) above [`EXP_MAX`], NaN for NaN.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; eʳ is its Taylor series up to r⁷, whose rest is below 1e-8.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    /// 1.5 · 2²³: a sum with it has its integer part in the lowest bits.
    const SHIFT: f32 = 12_582_912.0;
    /// ln 2 with so few bits (it is 355 / 512) that n times it is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;
    let clamped = x.clamp(EXP_MIN, EXP_MAX);
    let shifted = multiply_add::<FMA>(clamped, std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = multiply_add::<FMA>(n, -LN_2_HIGH, clamped);
    let r = multiply_add::<FMA>(n, -LN_2_LOW, r);
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = multiply_add::<FMA>(sum, r, coefficient);
    }
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127) << 23;
    if x < EXP_MIN { 0.0 } else { sum * f32::from_bits(exponent) }
}

/// Sum of `term(index)` over `0..length`, in [`LANES`] partial sums.
#[inline(always)]
pub(crate) fn sum_lanes<const FMA: bool>(
    length: usize,
    accumulate: impl Fn(usize, f32) -> f32,
) -> f32 {
    let mut sums = [0.0; LANES];
    let whole = length / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = accumulate(start + lane, *sum);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    (whole..length).fold(sums[0], |sum, index| accumulate(index, sum))
}

/// Dot product of two rows of the same length.
#[inline(always)]
pub(crate) fn dot<const FMA: bool>(left: &[f32], right: &[f32]) -> f32 {
    let right = &right[..left.len()];
    sum_lanes::<FMA>(left.len(), |at, sum| multiply_add::<FMA>(left[at], right[at], sum))
}

/// Largest value; NaNs are passed over, and an empty row gives -∞.
#[inline(always)]
pub(crate) fn maximum(values: &[f32]) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (best, value) in best.iter_mut().zip(chunk) {
            *best = if *value > *best { *value } else { *best };
        }
    }
    let best = best.iter().chain(rest);
    best.fold(f32::NEG_INFINITY, |best, value| if *value > best { *value } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    vectorized! {
        fn exp_row(values: &mut [f32]) {
            for value in values {
                *value = exp::<FMA>(*value);
            }
        }
    }

    fn reference(value: f32) -> f32 {
        f64::from(value).exp() as f32
    }

    #[test]
    fn exp_is_right_to_two_units_in_the_last_place() {
        let arguments: Vec<f32> =
            (0..200_000).map(|at| EXP_MIN + at as f32 * (EXP_MAX - EXP_MIN) / 200_000.0).collect();
        let mut values = arguments.clone();
        exp_row(&mut values);
        for (argument, value) in arguments.iter().zip(values) {
            for value in [value, exp::<false>(*argument), exp::<true>(*argument)] {
                let units = value.to_bits().abs_diff(reference(*argument).to_bits());
                assert!(units <= 2, "exp({argument}) = {value}, {units} units off");
            }
        }
    }

    #[test]
    fn exp_at_its_ends() {
        let mut values = [f32::NEG_INFINITY, -1000.0, 0.0, 1000.0, f32::NAN];
        exp_row(&mut values);
        assert_eq!(values[..3], [0.0, 0.0, 1.0]);
        assert!(values[3].is_finite() && values[3] > 2e38);
        assert!(values[4].is_nan());
    }

    #[test]
    fn reductions_of_every_length() {
        for length in 0..100 {
            let values: Vec<f32> = (0..length).map(|at| (at as f32 * 0.37).sin()).collect();
            let expected: f64 = values.iter().map(|value| f64::from(value * value)).sum();
            assert!((f64::from(dot::<true>(&values, &values)) - expected).abs() < 1e-4);
            let expected = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(maximum(&values), expected);
        }
    }
}
