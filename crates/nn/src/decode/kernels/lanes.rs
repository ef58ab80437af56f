//! Sixteen f32 at once, whatever the processor's registers hold.
//!
//! Hides the instruction set: the kernels are written once over [`Lanes`], and each implementation
//! is a handful of intrinsics. Invariant: every operation acts on each lane alone (but for `sum` and
//! `largest`, whose order is fixed), so results don't depend on what other lanes hold.
//!
//! All methods are unsafe for one reason: the processor must have the implementation's instructions.
#![expect(unsafe_code, reason = "vector instructions and raw loads")]

use super::tile::{Left, Sums};

/// Columns of a panel of weights: two groups of lanes.
pub(crate) const PANEL: usize = 32;

/// Sixteen f32.
///
/// # Safety
/// Methods may run only where the processor has the instructions of the implementation; pointers
/// must be valid for sixteen elements (`load_bf16`: for thirty-two).
pub(super) trait Lanes: Copy {
    /// Most rows of a tile, as the registers allow with one `GROUPS`.
    const ROWS: usize;
    /// Groups of lanes in a tile with `ROWS` rows: 1 or 2.
    const GROUPS: usize;
    /// Most panels at once, for one row and for up to three rows.
    const PANELS: [usize; 2];

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self * factor + term`, rounded once (portable: twice).
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    /// To the nearest integer.
    unsafe fn round(self) -> Self;
    /// 2 to the power of an integral value between -126 and 127.
    unsafe fn power_of_two(self) -> Self;
    /// Half `half` of a row of a panel of bf16: the low (0) or high (1) halves of sixteen words.
    unsafe fn load_bf16(from: *const u16, half: usize) -> Self;
    unsafe fn load_i8(from: *const i8) -> Self;

    /// [`super::tile::tile`] as a function of its own, see [`super::tile::own_tile`].
    unsafe fn tile<W: Weight, const R: usize, const P: usize, const LOW: usize, const HIGH: usize>(
        left: Left,
        panels: [*const W::Element; P],
        sums: Sums,
    );

    /// Sum of the lanes: halves are added until one is left.
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut lanes = [0.0f32; 16];
        // SAFETY: the array holds sixteen values; instructions by the trait's contract.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut width = 8;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    }

    /// The largest lane.
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        let mut lanes = [0.0f32; 16];
        // SAFETY: as in `sum`.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut width = 8;
        while width > 0 {
            for lane in 0..width {
                let other = lanes[lane + width];
                lanes[lane] = if other > lanes[lane] { other } else { lanes[lane] };
            }
            width /= 2;
        }
        lanes[0]
    }

    /// e to the power of each lane, within two units in the last place; lanes are clamped to
    /// -87 and 88. Exactly 1 at 0. Cody and Waite's reduction, then a polynomial of degree 6.
    #[inline(always)]
    unsafe fn exp(self) -> Self {
        // SAFETY: by the trait's contract.
        unsafe {
            let clamped = self.max(Self::splat(-87.0)).min(Self::splat(88.0));
            let whole = clamped.mul(Self::splat(std::f32::consts::LOG2_E)).round();
            // ln 2 in two parts, the first with few enough bits for an exact product.
            let rest = whole.mul_add(Self::splat(-0.693_359_4), clamped);
            let rest = whole.mul_add(Self::splat(2.121_944_4e-4), rest);
            let mut series = Self::splat(1.0 / 5040.0);
            for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
                series = series.mul_add(rest, Self::splat(coefficient));
            }
            series.mul(whole.power_of_two())
        }
    }
}

/// How a weight of a panel is stored.
///
/// # Safety
/// As [`Lanes`].
pub(super) trait Weight {
    type Element: Copy;
    /// Half `half` (0 or 1) of the panel's row at `row`.
    unsafe fn load<L: Lanes>(row: *const Self::Element, half: usize) -> L;
}

pub(super) struct F32;
pub(super) struct Bf16;
pub(super) struct Int8;

impl Weight for F32 {
    type Element = f32;
    #[inline(always)]
    unsafe fn load<L: Lanes>(row: *const f32, half: usize) -> L {
        // SAFETY: a row of a panel has 32 elements, `half` is 0 or 1.
        unsafe { L::load(row.add(16 * half)) }
    }
}

impl Weight for Bf16 {
    type Element = u16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(row: *const u16, half: usize) -> L {
        // SAFETY: a row of a panel has 32 elements.
        unsafe { L::load_bf16(row, half) }
    }
}

impl Weight for Int8 {
    type Element = i8;
    #[inline(always)]
    unsafe fn load<L: Lanes>(row: *const i8, half: usize) -> L {
        // SAFETY: a row of a panel has 32 elements, `half` is 0 or 1.
        unsafe { L::load_i8(row.add(16 * half)) }
    }
}
