//! p_format: the answer is missing, or given more often than once (equation 5).

use crate::Facts;

/// 1 without an answer tag; else the answers beyond the first, over the turns, at most 1.
pub(super) fn penalty(facts: &Facts) -> f64 {
    let Some(repeated) = facts.answer_tags.checked_sub(1) else { return 1.0 };
    // A rollout has a turn; should a caller say otherwise, the penalty stays finite.
    (f64::from(repeated) / f64::from(facts.turns.max(1))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_answers_beyond_the_first() {
        let facts = |answer_tags, turns| Facts {
            sample: 0,
            right: true,
            tool_calls: 1,
            failed_tool_calls: 0,
            answer_tags,
            turns,
        };
        let cases = [(0, 3, 1.0), (1, 1, 0.0), (1, 5, 0.0), (2, 2, 0.5), (3, 1, 1.0), (9, 2, 1.0)];
        for (tags, turns, expected) in cases {
            assert_eq!(penalty(&facts(tags, turns)), expected, "{tags} tags in {turns} turns");
        }
    }
}
