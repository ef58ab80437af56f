//! The hot loops of decoding, once for each instruction set, chosen at run time.
//!
//! Hides which instructions run. The loops are generic over [`lanes::Lanes`] and inlined into
//! functions that the compiler may use the instruction set in; [`Isa`] is the only way to them.
#![expect(unsafe_code, reason = "calls of functions with a target feature")]

pub(crate) mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod pass;
pub(crate) mod pointwise;
mod portable;
pub(crate) mod product;
mod team;
#[cfg(test)]
mod tests;
mod tile;

use std::ops::Range;

pub(crate) use self::lanes::PANEL;

use self::attention::{Attention, Task};
use self::pointwise::{Heads, Norm};
use self::product::Product;
use super::cache::BlockId;

/// An instruction set that this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl Isa {
    /// All that this processor has, the best first.
    pub(crate) fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if fused && is_x86_feature_detected!("avx512f") {
                all.push(Self::Avx512);
            }
            if fused {
                all.push(Self::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self::Neon);
        all.push(Self::Portable);
        all
    }
}

/// The functions of one instruction set.
macro_rules! instances {
    ($module:ident, $lanes:ty $(, $feature:literal)?) => {
        mod $module {
            use super::*;
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn product(
                product: &Product<'_>,
                rows: Range<usize>,
                panels: Range<usize>,
            ) {
                // SAFETY: by the caller's contract, and the feature is enabled here.
                unsafe { super::product::product::<$lanes>(product, rows, panels) }
            }
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn attend(attention: &Attention, task: &Task, blocks: &[BlockId]) {
                // SAFETY: as above.
                unsafe { super::attention::attend::<$lanes>(attention, task, blocks) }
            }
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn norm(norm: Norm<'_>, input: *const f32, output: *mut f32) {
                // SAFETY: as above.
                unsafe { super::pointwise::norm::<$lanes>(norm, input, output) }
            }
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn heads(heads: Heads<'_>) {
                // SAFETY: as above.
                unsafe { super::pointwise::heads(heads) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instances!(for_avx512, avx512::Avx512, "avx512f,avx2,fma");
#[cfg(target_arch = "x86_64")]
instances!(for_avx2, avx2::Avx2, "avx2,fma");
#[cfg(target_arch = "aarch64")]
instances!(for_neon, neon::Neon, "neon");
instances!(for_portable, portable::Portable);

macro_rules! dispatch {
    ($isa:expr, $name:ident($($argument:expr),*)) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => for_avx512::$name($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => for_avx2::$name($($argument),*),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => for_neon::$name($($argument),*),
            Isa::Portable => for_portable::$name($($argument),*),
        }
    };
}

impl Isa {
    /// The part of `product` that `rows` and `panels` are.
    ///
    /// # Safety
    /// See [`product::product`]. An `Isa` from [`Isa::available`] is one that the processor has.
    pub(crate) unsafe fn product(
        self,
        product: &Product<'_>,
        rows: Range<usize>,
        panels: Range<usize>,
    ) {
        // SAFETY: by the caller's contract.
        unsafe { dispatch!(self, product(product, rows, panels)) }
    }

    /// Attention of `task` over `blocks`.
    ///
    /// # Safety
    /// See [`attention::attend`].
    pub(crate) unsafe fn attend(self, attention: &Attention, task: &Task, blocks: &[BlockId]) {
        // SAFETY: by the caller's contract.
        unsafe { dispatch!(self, attend(attention, task, blocks)) }
    }

    /// RMSNorm of a row.
    ///
    /// # Safety
    /// See [`pointwise::norm`].
    pub(crate) unsafe fn norm(self, norm: Norm<'_>, input: *const f32, output: *mut f32) {
        // SAFETY: by the caller's contract.
        unsafe { dispatch!(self, norm(norm, input, output)) }
    }

    /// A row of queries, keys and values.
    ///
    /// # Safety
    /// See [`pointwise::heads`].
    pub(crate) unsafe fn heads(self, heads: Heads<'_>) {
        // SAFETY: by the caller's contract.
        unsafe { dispatch!(self, heads(heads)) }
    }
}
