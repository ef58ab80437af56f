//! [`Lanes`] in four registers of NEON.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::aarch64::*;

use super::lanes::Lanes;
use super::tile::own_tile;

#[derive(Clone, Copy)]
pub(super) struct Neon([float32x4_t; 4]);

impl Neon {
    #[inline(always)]
    fn zip(
        self,
        other: Self,
        operation: unsafe fn(float32x4_t, float32x4_t) -> float32x4_t,
    ) -> Self {
        let mut lanes = self;
        for (lane, other) in lanes.0.iter_mut().zip(other.0) {
            // SAFETY: NEON is part of every aarch64 processor that Rust's std supports.
            *lane = unsafe { operation(*lane, other) };
        }
        lanes
    }
}

// SAFETY of all methods: NEON is part of every aarch64 processor that Rust's std supports, and
// pointers are valid by the contract of `Lanes`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Lanes for Neon {
    const ROWS: usize = 6;
    const GROUPS: usize = 1;
    const PANELS: [usize; 2] = [1, 1];

    own_tile!("neon");

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self([vdupq_n_f32(value); 4]) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe {
            Self([
                vld1q_f32(from),
                vld1q_f32(from.add(4)),
                vld1q_f32(from.add(8)),
                vld1q_f32(from.add(12)),
            ])
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for (index, lane) in self.0.into_iter().enumerate() {
            unsafe { vst1q_f32(to.add(4 * index), lane) };
        }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        let mut lanes = term;
        for index in 0..4 {
            lanes.0[index] = unsafe { vfmaq_f32(term.0[index], self.0[index], factor.0[index]) };
        }
        lanes
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, vaddq_f32)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, vmulq_f32)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, vdivq_f32)
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, vmaxq_f32)
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, vminq_f32)
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        Self(self.0.map(|lane| unsafe { vrndnq_f32(lane) }))
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        Self(self.0.map(|lane| unsafe {
            let exponent = vaddq_s32(vcvtq_s32_f32(lane), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
        }))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16, half: usize) -> Self {
        let mut lanes = unsafe { Self::splat(0.0) };
        for (index, lane) in lanes.0.iter_mut().enumerate() {
            *lane = unsafe {
                let words = vld1q_u32(from.add(8 * index).cast());
                vreinterpretq_f32_u32(if half == 0 {
                    vshlq_n_u32::<16>(words)
                } else {
                    vandq_u32(words, vdupq_n_u32(0xffff_0000))
                })
            };
        }
        lanes
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        unsafe {
            let bytes = vld1q_s8(from);
            let low = vmovl_s8(vget_low_s8(bytes));
            let high = vmovl_s8(vget_high_s8(bytes));
            Self([
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))),
            ])
        }
    }
}
