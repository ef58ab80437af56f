//! [`Lanes`] in one register of AVX-512.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use super::lanes::Lanes;
use super::tile::own_tile;

#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

// SAFETY of all methods: the caller has checked for AVX-512F, and pointers are valid by the
// contract of `Lanes`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Lanes for Avx512 {
    // Of 32 registers: 24 chains, two of weights, the rest for inputs on their way. With 14 rows the
    // compiler spills chains to the stack.
    const ROWS: usize = 12;
    const GROUPS: usize = 2;
    const PANELS: [usize; 2] = [4, 2];

    own_tile!("avx512f,avx2,fma");

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self(_mm512_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, term.0)) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        unsafe { Self(_mm512_div_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { Self(_mm512_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        unsafe { Self(_mm512_min_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        unsafe { Self(_mm512_roundscale_ps::<0>(self.0)) }
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent)))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16, half: usize) -> Self {
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            let bits = if half == 0 {
                _mm512_slli_epi32::<16>(words)
            } else {
                _mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()))
            };
            Self(_mm512_castsi512_ps(bits))
        }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        unsafe {
            let bytes = _mm_loadu_si128(from.cast());
            Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)))
        }
    }
}
