//! What a pass costs in arithmetic: so that a speed can be compared with what a machine can do.
//!
//! A floating-point operation is an addition or a multiplication; what is computed a second time
//! (scores, layers) doesn't count, so that a cheaper way to the same result looks better.

use crate::config::ModelConfig;

/// Operations of the products of a forward pass over sequences of these lengths, with logits of
/// `logit_rows` positions.
pub fn forward_operations(config: &ModelConfig, lengths: &[usize], logit_rows: usize) -> f64 {
    let hidden = config.hidden_size as f64;
    let query = config.query_size() as f64;
    let projected = query + 2.0 * config.key_value_size() as f64;
    let feed_forward = config.feed_forward_size as f64;
    let weights = hidden * (projected + query + 3.0 * feed_forward);
    let tokens: usize = lengths.iter().sum();
    let pairs: f64 = lengths.iter().map(|length| (length * (length + 1) / 2) as f64).sum();
    let layer = 2.0 * weights * tokens as f64 + 4.0 * query * pairs;
    let head = 2.0 * hidden * config.vocabulary_size as f64 * logit_rows as f64;
    layer * config.layers as f64 + head
}

/// Operations of a training step: the backward pass has two products for each of the forward's.
pub fn step_operations(config: &ModelConfig, lengths: &[usize], targets: usize) -> f64 {
    3.0 * forward_operations(config, lengths, targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_six_operations_for_each_weight_and_token() {
        let config = ModelConfig::smol();
        let matrices = 134_515_008.0 - (2 * 30 + 1) as f64 * 576.0;
        let pairs = 512.0 * 513.0 / 2.0;
        let expected = 6.0 * matrices * 512.0 + 12.0 * 576.0 * pairs * 30.0;
        let found = step_operations(&config, &[512], 512);
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }
}
