//! What a run's recipe says, as far as it must be known to look at the run.
//!
//! Invariant: a recipe of another version, or a broken one, costs only what can't be read of it.

use rocstar_grpo::loss::{LossConfig, Ratio};
use rocstar_grpo::{AdvantageConfig, RocConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A run's recipe.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Recipe {
    /// Seed of all draws.
    pub seed: u64,
    /// Stages, in order.
    pub stages: Vec<Stage>,
    /// What could not be read.
    pub notices: Vec<String>,
}

/// A stage of a recipe.
#[derive(Debug, Clone, Serialize)]
pub struct Stage {
    /// `sft` or `rl`.
    pub kind: String,
    /// Steps that it takes, where it says so.
    pub steps: Option<u64>,
    /// How rollouts are chosen; `None` where the settings are others than are known.
    pub selection: Option<RocConfig>,
    /// What a rollout's reward is compared with; `None` as above.
    pub advantage: Option<AdvantageConfig>,
    /// Between what ratios a token is learned from, ends among them; `None` where the loss does not clip
    /// by each token's ratio to what was sampled, so that what is written down doesn't tell.
    pub clip: Option<(f64, f64)>,
    /// Rollouts of each task.
    pub samples: Option<u64>,
}

impl Recipe {
    /// From the text of `config.toml`.
    pub fn read(text: &str) -> Self {
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                let notices = vec![format!("config.toml can't be read: {error}")];
                return Self { notices, ..Self::default() };
            }
        };
        let mut notices = Vec::new();
        let stages = table.get("stage").and_then(Value::as_array);
        let stages = stages.into_iter().flatten().filter_map(Value::as_table);
        let stages = stages.enumerate().map(|(index, it)| stage(index, it, &mut notices)).collect();
        let seed = table.get("seed").and_then(Value::as_integer).unwrap_or(0);
        Self { seed: seed.cast_unsigned(), stages, notices }
    }

    /// Steps of all stages, where each says its own.
    pub fn steps(&self) -> Option<u64> {
        let steps: Option<Vec<u64>> = self.stages.iter().map(|stage| stage.steps).collect();
        steps.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(0, u64::saturating_add))
    }
}

fn stage(index: usize, table: &Table, notices: &mut Vec<String>) -> Stage {
    let whole = |value: Option<&Value>| value?.as_integer().and_then(|it| u64::try_from(it).ok());
    let part = |name: &str| table.get(name).and_then(Value::as_table);
    let old = table.get("old_log_probs").map(|old| old.as_str() == Some("sampled"));
    let mut told = |name: &str, error: String| {
        notices.push(format!("config.toml: stage {index}: `{name}`: {}", error.trim()));
    };
    Stage {
        kind: table.get("kind").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
        steps: whole(table.get("steps")),
        selection: settings(table, "selection", &mut told),
        advantage: settings(table, "advantage", &mut told),
        clip: settings(table, "loss", &mut told).filter(|_| old.unwrap_or(true)).and_then(clip),
        samples: part("rollout").and_then(|rollout| whole(rollout.get("samples"))),
    }
}

/// The ends of what is learned from, where the loss clips each token's ratio by them and by nothing else.
fn clip(loss: LossConfig) -> Option<(f64, f64)> {
    let is_plain = loss.ratio == Ratio::Token && loss.dual_clip.is_none();
    is_plain.then_some((1.0 - loss.clip_low, 1.0 + loss.clip_high))
}

/// The settings called `name`, the default ones where there are none; `None` where they are others than
/// are known.
fn settings<T: DeserializeOwned + Default>(
    table: &Table,
    name: &str,
    told: &mut impl FnMut(&str, String),
) -> Option<T> {
    let Some(value) = table.get(name) else { return Some(T::default()) };
    let read = value.clone().try_into();
    read.map_err(|error: toml::de::Error| told(name, error.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_read_and_the_rest_told() {
        let recipe = Recipe::read(
            "seed = 7\n[[stage]]\nkind = \"rl\"\nsteps = 60\n[stage.selection]\nkeep = 8\n\
             [stage.loss]\nclip_high = 0.3\n[stage.advantage]\nnovel = 1\n",
        );
        assert_eq!((recipe.seed, recipe.steps()), (7, Some(60)));
        let stage = &recipe.stages[0];
        let keep = stage.selection.as_ref().map(|selection| selection.keep);
        assert_eq!((keep, stage.clip), (Some(8), Some((0.8, 1.3))));
        assert_eq!(stage.advantage, None, "not the usual ones: others");
        assert_eq!(recipe.notices.len(), 1, "{:?}", recipe.notices);
        assert_eq!(Recipe::read("seed = [").notices.len(), 1);
        assert_eq!(Recipe::read("").steps(), None);
    }

    /// What a page would compute of log-probabilities is only the loss's ratio where the loss is plain.
    #[test]
    fn a_clip_is_told_only_where_the_loss_clips_so() {
        let clip = |stage: &str| {
            Recipe::read(&format!("[[stage]]\nkind = \"rl\"\n{stage}")).stages[0].clip
        };
        assert_eq!(clip(""), Some((0.8, 1.28)));
        assert_eq!(clip("[stage.loss]\nclip_high = 1\n"), Some((0.8, 2.0)));
        assert_eq!(clip("old_log_probs = \"sampled\"\n"), Some((0.8, 1.28)));
        for other in [
            "old_log_probs = \"recomputed\"\n",
            "[stage.loss]\nratio = \"sequence\"\n",
            "[stage.loss]\nratio = \"clipped_weight\"\n",
            "[stage.loss]\ndual_clip = 3.0\n",
            "[stage.loss]\nclip_low = \"none\"\n",
        ] {
            assert_eq!(clip(other), None, "{other}");
        }
    }
}
