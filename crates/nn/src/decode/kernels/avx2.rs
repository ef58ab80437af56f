//! [`Lanes`] in two registers of AVX2 with fused multiply-add.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use super::lanes::Lanes;
use super::tile::own_tile;

#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

// SAFETY of all methods: the caller has checked for AVX2 and FMA, and pointers are valid by the
// contract of `Lanes`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Lanes for Avx2 {
    const ROWS: usize = 6;
    const GROUPS: usize = 1;
    const PANELS: [usize; 2] = [2, 1];

    own_tile!("avx2,fma");

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        unsafe {
            Self(
                _mm256_fmadd_ps(self.0, factor.0, term.0),
                _mm256_fmadd_ps(self.1, factor.1, term.1),
            )
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        unsafe { Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        unsafe { Self(_mm256_div_ps(self.0, other.0), _mm256_div_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        unsafe { Self(_mm256_min_ps(self.0, other.0), _mm256_min_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        unsafe { Self(_mm256_round_ps::<8>(self.0), _mm256_round_ps::<8>(self.1)) }
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let first = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), bias);
            let second = _mm256_add_epi32(_mm256_cvtps_epi32(self.1), bias);
            Self(
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(first)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(second)),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16, half: usize) -> Self {
        unsafe {
            let first = _mm256_loadu_si256(from.cast());
            let second = _mm256_loadu_si256(from.add(16).cast());
            let (first, second) = if half == 0 {
                (_mm256_slli_epi32::<16>(first), _mm256_slli_epi32::<16>(second))
            } else {
                let mask = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
                (_mm256_and_si256(first, mask), _mm256_and_si256(second, mask))
            };
            Self(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second))
        }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        unsafe {
            let first = _mm_loadl_epi64(from.cast());
            let second = _mm_loadl_epi64(from.add(8).cast());
            Self(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(first)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(second)),
            )
        }
    }
}
