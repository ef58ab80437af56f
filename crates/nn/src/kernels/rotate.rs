//! Rotation of heads by their position.

use super::vectorized;

vectorized! {
    /// Rotates all heads of one token and scales them: with halves `(a, b)` of a head,
    /// `(a·cos - b·sin, b·cos + a·sin) · scale`. With negated sines it is the inverse, and so the
    /// backward pass. `cosines` and `sines` have half a head's length.
    pub(crate) fn rotate(
        heads: &mut [f32],
        cosines: &[f32],
        sines: &[f32],
        direction: f32,
        scale: f32,
    ) {
        let half = cosines.len();
        let sines = &sines[..half];
        for head in heads.chunks_exact_mut(2 * half) {
            let (first, second) = head.split_at_mut(half);
            let second = &mut second[..half];
            for at in 0..half {
                let (cosine, sine) = (cosines[at] * scale, sines[at] * scale * direction);
                let (a, b) = (first[at], second[at]);
                first[at] = a * cosine - b * sine;
                second[at] = b * cosine + a * sine;
            }
        }
    }
}
