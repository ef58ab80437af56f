//! Sweeps over a row of logits with the widest vectors that the machine has.
//!
//! Invariant: results don't depend on which instructions the machine has: every sum is over the same
//! lanes in the same order, and products and sums are not fused. [`exp`] alone gives the same bits
//! as within a sweep.

use pulp::{Arch, Simd, WithSimd};

/// Values that share a maximum and a sum.
pub(super) const CHUNK: usize = 256;

const LANES: usize = 16;

/// e to the power of `x`, for `x` up to 0: within 3 units of the last place, 0 below -87.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const SMALLEST: f32 = -87.0;
    // Adding it leaves the rounded value in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts; the first has so few bits that its product with a whole number is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = if x > SMALLEST { x } else { SMALLEST };
    let shifted = bounded * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = (bounded - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut power = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power * rest + coefficient;
    }
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    if x > SMALLEST { power * f32::from_bits(exponent) } else { 0.0 }
}

/// The largest value of each chunk of `row`; false where a value is not finite.
pub(super) fn maxima(arch: Arch, row: &[f32], maxima: &mut Vec<f32>) -> bool {
    struct Sweep<'a>(&'a [f32], &'a mut Vec<f32>);
    impl WithSimd for Sweep<'_> {
        type Output = bool;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> bool {
            self.1.clear();
            let mut all_finite = true;
            for chunk in self.0.chunks(CHUNK) {
                let (maximum, zero) = chunk_maximum(chunk);
                self.1.push(maximum);
                all_finite &= zero == 0.0;
            }
            all_finite
        }
    }
    arch.dispatch(Sweep(row, maxima))
}

/// The largest value, and a zero, or no number where a value is not finite.
#[inline(always)]
fn chunk_maximum(chunk: &[f32]) -> (f32, f32) {
    let mut largest = [f32::NEG_INFINITY; LANES];
    let mut zeros = [0.0_f32; LANES];
    let mut groups = chunk.chunks_exact(LANES);
    for group in &mut groups {
        for lane in 0..LANES {
            let value = group[lane];
            largest[lane] = if value > largest[lane] { value } else { largest[lane] };
            zeros[lane] += value * 0.0;
        }
    }
    for (lane, value) in groups.remainder().iter().enumerate() {
        largest[lane] = if *value > largest[lane] { *value } else { largest[lane] };
        zeros[lane] += value * 0.0;
    }
    let larger = |left: f32, right: f32| if right > left { right } else { left };
    (largest.into_iter().fold(f32::NEG_INFINITY, larger), zeros.into_iter().sum())
}

/// The sum of exp((value - maximum) · inverse_temperature) of each chunk of `row`.
pub(super) fn sums(
    arch: Arch,
    row: &[f32],
    maximum: f32,
    inverse_temperature: f32,
    sums: &mut Vec<f32>,
) {
    struct Sweep<'a>(&'a [f32], f32, f32, &'a mut Vec<f32>);
    impl WithSimd for Sweep<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(row, maximum, inverse_temperature, sums) = self;
            sums.clear();
            for chunk in row.chunks(CHUNK) {
                sums.push(chunk_sum(chunk, maximum, inverse_temperature));
            }
        }
    }
    arch.dispatch(Sweep(row, maximum, inverse_temperature, sums));
}

#[inline(always)]
fn chunk_sum(chunk: &[f32], maximum: f32, inverse_temperature: f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let mut groups = chunk.chunks_exact(LANES);
    for group in &mut groups {
        for lane in 0..LANES {
            lanes[lane] += exp((group[lane] - maximum) * inverse_temperature);
        }
    }
    for (lane, value) in groups.remainder().iter().enumerate() {
        lanes[lane] += exp((value - maximum) * inverse_temperature);
    }
    lanes.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exp_is_exp(x in -86.9_f32..0.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) - exact).abs() <= exact * 3.0e-7);
        }

        #[test]
        fn sweeps_give_the_same_bits_on_every_machine(
            row in prop::collection::vec(-50.0_f32..50.0, 1..700),
            inverse_temperature in 0.1_f32..5.0,
        ) {
            let mut wide = (Vec::new(), Vec::new());
            prop_assert!(maxima(Arch::new(), &row, &mut wide.0));
            let maximum = wide.0.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert_eq!(maximum, row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            sums(Arch::new(), &row, maximum, inverse_temperature, &mut wide.1);
            for (chunk, (largest, sum)) in row.chunks(CHUNK).zip(wide.0.iter().zip(&wide.1)) {
                prop_assert_eq!(chunk_maximum(chunk).0, *largest);
                prop_assert_eq!(chunk_sum(chunk, maximum, inverse_temperature), *sum);
            }
        }

        #[test]
        fn what_is_not_finite_is_found(
            mut row in prop::collection::vec(-50.0_f32..50.0, 1..700),
            place: prop::sample::Index,
            bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
        ) {
            let place = place.index(row.len());
            row[place] = bad;
            prop_assert!(!maxima(Arch::new(), &row, &mut Vec::new()));
        }
    }

    #[test]
    fn the_ends_of_exp() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-87.5), 0.0);
        assert_eq!(exp(f32::MIN), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }
}
