//! [`Lanes`] as an array, for processors without a file of their own. Not fused: a fused
//! multiply-add without the instruction is a call of a function.
#![expect(unsafe_code, reason = "raw loads")]

use super::lanes::Lanes;
use super::tile::own_tile;

#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 16]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }
}

// SAFETY of all methods: no special instructions; pointers are valid by the contract of `Lanes`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Lanes for Portable {
    const ROWS: usize = 3;
    const GROUPS: usize = 1;
    const PANELS: [usize; 2] = [1, 1];

    own_tile!();

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 16])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(from.cast::<[f32; 16]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; 16]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] * factor.0[lane] + term.0[lane]))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |one, other| one + other)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |one, other| one * other)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |one, other| one / other)
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |one, other| if one > other { one } else { other })
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, |one, other| if one < other { one } else { other })
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // Adding 1.5 · 2²³ leaves no bits for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        Self(self.0.map(|lane| (lane + SHIFT) - SHIFT))
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        Self(self.0.map(|lane| f32::from_bits(((lane as i32 + 127) << 23).cast_unsigned())))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16, half: usize) -> Self {
        let words = unsafe { from.cast::<[u32; 16]>().read_unaligned() };
        Self(
            words.map(|word| {
                f32::from_bits(if half == 0 { word << 16 } else { word & 0xffff_0000 })
            }),
        )
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        Self(unsafe { from.cast::<[i8; 16]>().read() }.map(f32::from))
    }
}
