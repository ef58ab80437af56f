//! Whether the parts of an episode, and of a group, fit each other.

use std::collections::BTreeSet;

use super::{Episode, Evaluated, Group, GroupVerdict, Kept, Lost, SCHEMA_VERSION, Turn, total};

/// Parts of an episode that don't fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// The writer's schema is newer than this reader.
    NewerSchema {
        /// The writer's.
        found: u32,
    },
    /// Lengths of spans and tokens differ.
    Spans {
        /// Tokens that the spans cover.
        covered: usize,
        /// Tokens that are there.
        tokens: usize,
    },
    /// There is not one log-probability for each token of the policy.
    LogProbs {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Log-probabilities under the sampling transform.
        sampled: usize,
        /// Log-probabilities at temperature 1.
        model: usize,
    },
    /// There is not one log-probability under the trained weights for each token of the policy.
    TrainedLogProbs {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Log-probabilities.
        trained: usize,
    },
    /// Versions of the weights cover another number of tokens.
    WeightVersions {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Tokens that the versions cover.
        covered: usize,
    },
    /// Turns hold another number of tokens of the policy, or lie beyond the tokens.
    Turns {
        /// Tokens of the policy.
        policy_tokens: usize,
        /// Tokens that the turns hold.
        covered: usize,
    },
    /// A group has an episode of another task or step.
    OtherGroup {
        /// The episode's sample.
        sample: u32,
    },
    /// A rollout is in a group twice.
    SampleTwice {
        /// Its number.
        sample: u32,
    },
    /// A group is not learned from, and keeps episodes; or the other way round.
    GroupVerdict {
        /// Episodes that it keeps.
        kept: usize,
    },
    /// A value is no finite number, which JSON can't hold: what is written could not be read.
    NotFinite {
        /// Where it stands.
        field: &'static str,
    },
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NewerSchema { found } => write!(
                formatter,
                "`schema` is {found}, newer than {SCHEMA_VERSION}: read it with a newer rocstar"
            ),
            Self::Spans { covered, tokens } => {
                write!(formatter, "`spans` cover {covered} tokens, `tokens` has {tokens}")
            }
            Self::LogProbs { policy_tokens, sampled, model } => write!(
                formatter,
                "{policy_tokens} tokens of the policy have {sampled} `log_probs` and {model} \
                 `model_log_probs`"
            ),
            Self::TrainedLogProbs { policy_tokens, trained } => write!(
                formatter,
                "{policy_tokens} tokens of the policy have {trained} `trained_log_probs`"
            ),
            Self::WeightVersions { policy_tokens, covered } => write!(
                formatter,
                "{policy_tokens} tokens of the policy, `weight_versions` cover {covered}"
            ),
            Self::Turns { policy_tokens, covered } => write!(
                formatter,
                "{policy_tokens} tokens of the policy, `turns` hold {covered} or lie beyond the \
                 tokens"
            ),
            Self::OtherGroup { sample } => {
                write!(formatter, "sample {sample} is of another task or step than its group")
            }
            Self::SampleTwice { sample } => {
                write!(formatter, "sample {sample} is there twice")
            }
            Self::GroupVerdict { kept } => {
                write!(formatter, "{kept} episodes are kept, and `verdict` says otherwise")
            }
            Self::NotFinite { field } => {
                write!(formatter, "`{field}` has a value that is no finite number")
            }
        }
    }
}

impl std::error::Error for Misfit {}

impl Group {
    /// Whether its episodes' parts fit, it is complete in itself, and what is written can be read
    /// again.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.schema > SCHEMA_VERSION {
            return Err(Misfit::NewerSchema { found: self.schema });
        }
        let kept = self.kept.len();
        if (self.verdict == GroupVerdict::Used) != (kept > 0) {
            return Err(Misfit::GroupVerdict { kept });
        }
        check_samples(self.episodes().map(|(episode, _)| episode), &self.lost)?;
        if self.kept.iter().any(|kept| !kept.advantage.is_finite()) {
            return Err(Misfit::NotFinite { field: "advantage" });
        }
        for Kept { episode, trained_log_probs, .. } in &self.kept {
            let (policy_tokens, trained) = (episode.policy_tokens(), trained_log_probs.len());
            if trained != 0 && trained != policy_tokens {
                return Err(Misfit::TrainedLogProbs { policy_tokens, trained });
            }
            if !trained_log_probs.iter().all(|value| value.is_finite()) {
                return Err(Misfit::NotFinite { field: "trained_log_probs" });
            }
        }
        for (episode, penalties) in self.episodes() {
            if episode.task != self.task || episode.step != self.step {
                return Err(Misfit::OtherGroup { sample: episode.sample });
            }
            if !(penalties.tool_errors.is_finite() && penalties.answer_format.is_finite()) {
                return Err(Misfit::NotFinite { field: "penalties" });
            }
            episode.check()?;
        }
        Ok(())
    }
}

impl Evaluated {
    /// Whether its episodes' parts fit, and it is complete in itself.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.schema > SCHEMA_VERSION {
            return Err(Misfit::NewerSchema { found: self.schema });
        }
        check_samples(self.episodes.iter(), &self.lost)?;
        for episode in &self.episodes {
            if episode.task != self.task {
                return Err(Misfit::OtherGroup { sample: episode.sample });
            }
            episode.check()?;
        }
        Ok(())
    }
}

/// Every rollout is there once.
fn check_samples<'a>(
    episodes: impl Iterator<Item = &'a Episode>,
    lost: &[Lost],
) -> Result<(), Misfit> {
    let mut samples = BTreeSet::new();
    let all = episodes.map(|episode| episode.sample).chain(lost.iter().map(|lost| lost.sample));
    for sample in all {
        if !samples.insert(sample) {
            return Err(Misfit::SampleTwice { sample });
        }
    }
    Ok(())
}

impl Episode {
    /// Whether the parts fit each other.
    ///
    /// # Errors
    /// The first part that does not.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.schema > SCHEMA_VERSION {
            return Err(Misfit::NewerSchema { found: self.schema });
        }
        let covered = total(self.spans.iter().map(|span| span.tokens));
        if covered != self.tokens.len() {
            return Err(Misfit::Spans { covered, tokens: self.tokens.len() });
        }
        let policy_tokens = self.policy_tokens();
        let (sampled, model) = (self.log_probs.len(), self.model_log_probs.len());
        if sampled != policy_tokens || model != policy_tokens {
            return Err(Misfit::LogProbs { policy_tokens, sampled, model });
        }
        let covered = total(self.weight_versions.iter().map(|(_, tokens)| *tokens));
        if covered != policy_tokens {
            return Err(Misfit::WeightVersions { policy_tokens, covered });
        }
        let covered = total(self.turns.iter().map(|turn| turn.policy_tokens));
        let end = |turn: &Turn| turn.start_token.saturating_add(turn.policy_tokens);
        if covered != policy_tokens || self.turns.iter().any(|turn| end(turn) > self.tokens.len()) {
            return Err(Misfit::Turns { policy_tokens, covered });
        }
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let fields = [
            ("log_probs", finite(&self.log_probs)),
            ("model_log_probs", finite(&self.model_log_probs)),
            ("reward", self.reward.is_finite()),
        ];
        match fields.into_iter().find(|(_, is_finite)| !is_finite) {
            Some((field, _)) => Err(Misfit::NotFinite { field }),
            None => Ok(()),
        }
    }
}
