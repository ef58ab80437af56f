//! Which of a token's two log-probabilities a server's one figure is.
//!
//! Invariant: a figure is never passed off as another. The one that isn't known is NaN, which no
//! episode's check lets through, so nothing can be trained on it by mistake.

use rocstar_engine::Sampling;

use super::options::{EndpointKind, ServerLogProbs};

/// Which log-probabilities of sampled tokens are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogProbsKnown {
    /// Both.
    Both,
    /// Those under the distribution that tokens are drawn from.
    Sampling,
    /// Those at temperature 1, without cuts.
    Model,
    /// Neither: the server's figure is something between.
    Neither,
}

impl LogProbsKnown {
    /// What a server tells of tokens that are drawn so.
    pub(super) fn of(kind: EndpointKind, told: ServerLogProbs, sampling: &Sampling) -> Self {
        let Sampling { temperature, top_k, top_p, min_p } = *sampling;
        // A token that is taken for sure has the log-probability 0: nothing needs to be told of it.
        let is_greedy = temperature == 0.0;
        let has_cuts = top_k.is_some() || top_p < 1.0 || min_p > 0.0;
        let is_plain = temperature == 1.0 || is_greedy;
        let (sampling, model) = match (kind, told) {
            (EndpointKind::Rocstar, _) => (true, true),
            (EndpointKind::Sglang, ServerLogProbs::Usual) => (is_greedy || !has_cuts, is_plain),
            (_, ServerLogProbs::Usual | ServerLogProbs::Raw) => {
                (is_greedy || (is_plain && !has_cuts), true)
            }
            (_, ServerLogProbs::Processed) => (true, !is_greedy && is_plain && !has_cuts),
        };
        match (sampling, model) {
            (true, true) => Self::Both,
            (true, false) => Self::Sampling,
            (false, true) => Self::Model,
            (false, false) => Self::Neither,
        }
    }

    /// The two from the server's one: under the sampling distribution, and the model's own.
    pub(super) fn both(self, figure: f32, sampling: &Sampling) -> (f32, f32) {
        let drawn = if sampling.temperature == 0.0 { 0.0 } else { figure };
        match self {
            Self::Both => (drawn, figure),
            Self::Sampling => (drawn, f32::NAN),
            Self::Model => (f32::NAN, figure),
            Self::Neither => (f32::NAN, f32::NAN),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_known_follows_from_the_server_and_the_transform() {
        use EndpointKind::{Rocstar, Sglang, Vllm};
        use LogProbsKnown::{Both, Model, Neither, Sampling as Drawn};
        use ServerLogProbs::{Processed, Raw, Usual};
        let sampling = |temperature, top_p| Sampling { temperature, top_p, ..Sampling::default() };
        let plain = sampling(1.0, 1.0);
        let (warm, cut) = (sampling(0.6, 1.0), sampling(1.0, 0.9));
        let (both, greedy) = (sampling(0.6, 0.9), sampling(0.0, 1.0));
        let table = [
            (Rocstar, Usual, [Both; 5]),
            (Vllm, Usual, [Both, Model, Model, Model, Both]),
            (Vllm, Processed, [Both, Drawn, Drawn, Drawn, Drawn]),
            (Sglang, Usual, [Both, Drawn, Model, Neither, Both]),
            (Sglang, Raw, [Both, Model, Model, Model, Both]),
        ];
        for (kind, told, expected) in table {
            let known = [plain, warm, cut, both, greedy]
                .map(|sampling| LogProbsKnown::of(kind, told, &sampling));
            assert_eq!(known, expected, "{kind:?} {told:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_no_number() {
        let warm = Sampling { temperature: 0.6, ..Sampling::default() };
        assert!(LogProbsKnown::Model.both(-1.0, &warm).0.is_nan());
        assert!(LogProbsKnown::Sampling.both(-1.0, &warm).1.is_nan());
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(LogProbsKnown::Both.both(-1.0, &greedy), (0.0, -1.0));
    }
}
