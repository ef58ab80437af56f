//! The innermost loop: a tile of a product, its sums in registers.
//!
//! Invariant, on which row invariance stands: each output is one chain of multiply-adds over k in
//! ascending order, whatever the tile's shape. So shapes may be chosen for speed alone.
#![expect(unsafe_code, reason = "raw pointers in the hottest loop")]

use super::lanes::{Lanes, PANEL, Weight};

/// Most rows of a tile of any instruction set.
pub(crate) const MOST_ROWS: usize = 12;

/// The left side of a product: rows of f32.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) values: *const f32,
    /// From a row to the next.
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// Inputs, k.
    pub(super) inputs: usize,
}

/// Where a tile goes, `PANEL` columns a panel.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) values: *mut f32,
    pub(super) stride: usize,
    /// Chains go on from what is there, instead of zero.
    pub(super) go_on: bool,
}

/// `sums = left · panels` for `R` rows and the halves `LOW..HIGH` of `P` panels.
///
/// # Safety
/// `left` has `R` rows of `inputs` values, each panel `inputs` rows of 32, `sums` room for `R` rows
/// of `P` panels; the processor has the instructions of `L`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant indices unroll to registers")]
pub(super) unsafe fn tile<
    L: Lanes,
    W: Weight,
    const R: usize,
    const P: usize,
    const LOW: usize,
    const HIGH: usize,
>(
    left: Left,
    panels: [*const W::Element; P],
    sums: Sums,
) {
    // SAFETY: by the function's contract all offsets are within the buffers.
    unsafe {
        let mut chains = [[[L::splat(0.0); 2]; P]; R];
        if sums.go_on {
            for (row, chains) in chains.iter_mut().enumerate() {
                for (panel, chains) in chains.iter_mut().enumerate() {
                    for half in LOW..HIGH {
                        let from = sums.values.add(row * sums.stride + panel * PANEL + half * 16);
                        chains[half] = L::load(from);
                    }
                }
            }
        }
        for k in 0..left.inputs {
            let mut weights = [[L::splat(0.0); 2]; P];
            for panel in 0..P {
                for half in LOW..HIGH {
                    weights[panel][half] = W::load::<L>(panels[panel].add(k * PANEL), half);
                }
            }
            for (row, chains) in chains.iter_mut().enumerate() {
                let input = L::splat(*left.values.add(row * left.stride + k));
                for panel in 0..P {
                    for half in LOW..HIGH {
                        let chain = &mut chains[panel][half];
                        *chain = input.mul_add(weights[panel][half], *chain);
                    }
                }
            }
        }
        for (row, chains) in chains.iter().enumerate() {
            for (panel, chains) in chains.iter().enumerate() {
                for half in LOW..HIGH {
                    let to = sums.values.add(row * sums.stride + panel * PANEL + half * 16);
                    chains[half].store(to);
                }
            }
        }
    }
}

/// Defines [`Lanes::tile`], a function of its own for each shape: inlined into one large function,
/// tiles would lose their registers to each other.
macro_rules! own_tile {
    ($($feature:literal)?) => {
        #[inline(always)]
        unsafe fn tile<
            W: $crate::decode::kernels::lanes::Weight,
            const R: usize,
            const P: usize,
            const LOW: usize,
            const HIGH: usize,
        >(
            left: $crate::decode::kernels::tile::Left,
            panels: [*const W::Element; P],
            sums: $crate::decode::kernels::tile::Sums,
        ) {
            #[inline(never)]
            $(#[target_feature(enable = $feature)])?
            unsafe fn own<
                L: $crate::decode::kernels::lanes::Lanes,
                W: $crate::decode::kernels::lanes::Weight,
                const R: usize,
                const P: usize,
                const LOW: usize,
                const HIGH: usize,
            >(
                left: $crate::decode::kernels::tile::Left,
                panels: [*const W::Element; P],
                sums: $crate::decode::kernels::tile::Sums,
            ) {
                // SAFETY: by the caller's contract.
                unsafe {
                    $crate::decode::kernels::tile::tile::<L, W, R, P, LOW, HIGH>(left, panels, sums)
                }
            }
            // SAFETY: by the caller's contract.
            unsafe { own::<Self, W, R, P, LOW, HIGH>(left, panels, sums) }
        }
    };
}
pub(super) use own_tile;

/// One panel, `left.rows` rows, at most [`MOST_ROWS`] and `L::ROWS`.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[expect(clippy::collapsible_match, reason = "a guard would compile tiles that are never used")]
pub(super) unsafe fn one_panel<L: Lanes, W: Weight>(
    left: Left,
    panel: *const W::Element,
    sums: Sums,
) {
    // A `const` condition keeps tiles that an instruction set never uses from being compiled.
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match left.rows {
                $($rows => if const { $rows <= L::ROWS } {
                    if const { L::GROUPS == 2 || $rows <= 3 } {
                        // SAFETY: by the function's contract.
                        unsafe { L::tile::<W, $rows, 1, 0, 2>(left, [panel], sums) };
                    } else {
                        // SAFETY: by the function's contract.
                        unsafe {
                            L::tile::<W, $rows, 1, 0, 1>(left, [panel], sums);
                            L::tile::<W, $rows, 1, 1, 2>(left, [panel], sums);
                        }
                    }
                })*
                _ => {}
            }
        };
    }
    by_rows!(1 2 3 4 6 8 12);
}

/// Two panels and up to three rows: as many chains as keep the adders busy.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(super) unsafe fn two_panels<L: Lanes, W: Weight>(
    left: Left,
    panels: [*const W::Element; 2],
    sums: Sums,
) {
    if const { L::PANELS[1] >= 2 } {
        // SAFETY: by the function's contract.
        unsafe {
            match left.rows {
                1 => L::tile::<W, 1, 2, 0, 2>(left, panels, sums),
                2 => L::tile::<W, 2, 2, 0, 2>(left, panels, sums),
                3 => L::tile::<W, 3, 2, 0, 2>(left, panels, sums),
                _ => {}
            }
        }
    } else if const { L::PANELS[0] >= 2 } {
        // SAFETY: by the function's contract.
        unsafe { L::tile::<W, 1, 2, 0, 2>(left, panels, sums) }
    }
}

/// Four panels and one row.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(super) unsafe fn four_panels<L: Lanes, W: Weight>(
    left: Left,
    panels: [*const W::Element; 4],
    sums: Sums,
) {
    if const { L::PANELS[0] >= 4 } {
        // SAFETY: by the function's contract.
        unsafe { L::tile::<W, 1, 4, 0, 2>(left, panels, sums) }
    }
}

/// Heights of tiles that are compiled, the largest first. Few, as each is compiled for each
/// instruction set and storage.
const HEIGHTS: [usize; 7] = [12, 8, 6, 4, 3, 2, 1];

/// Cuts `rows` into tiles of heights that [`one_panel`] has, none above `most`.
pub(super) fn tiles(rows: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = rows - start;
        let fits = |height: &&usize| **height <= left.min(most);
        let height = match left {
            // One row alone would have too few chains to keep the adders busy.
            5 if most >= 3 => 3,
            16 if most >= 8 => 8,
            _ => *HEIGHTS.iter().find(fits)?,
        };
        start += height;
        Some(start - height..start)
    })
}
