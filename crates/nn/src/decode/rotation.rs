//! Cosines and sines of a position, from the frequencies that training uses.

/// Cosines, then sines, of all pairs at `position`.
pub(crate) fn rotate(frequencies: &[f64], position: usize, into: &mut [f32]) {
    let (cosines, sines) = into.split_at_mut(frequencies.len());
    for ((frequency, cosine), sine) in frequencies.iter().zip(cosines).zip(sines) {
        let angle = position as f64 * frequency;
        (*cosine, *sine) = (angle.cos() as f32, angle.sin() as f32);
    }
}
