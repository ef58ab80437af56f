//! p_err: tool calls that failed (equation 4).

use crate::Facts;

/// Penalty of a rollout without any tool call, so that using the tool pays.
const WITHOUT_CALLS: f64 = 0.5;

/// The share of failed calls among all calls; a half where there were none.
pub(super) fn penalty(facts: &Facts) -> f64 {
    if facts.tool_calls == 0 {
        return WITHOUT_CALLS;
    }
    let failed = facts.failed_tool_calls.min(facts.tool_calls);
    f64::from(failed) / f64::from(facts.tool_calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_share_of_failed_calls() {
        let facts = |tool_calls, failed_tool_calls| Facts {
            sample: 0,
            right: true,
            tool_calls,
            failed_tool_calls,
            answer_tags: 1,
            turns: 2,
        };
        let cases = [(0, 0, 0.5), (4, 0, 0.0), (4, 1, 0.25), (3, 3, 1.0)];
        for (calls, failed, expected) in cases {
            assert_eq!(penalty(&facts(calls, failed)), expected, "{failed} of {calls}");
        }
    }
}
