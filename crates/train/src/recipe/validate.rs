//! Whether the values of a recipe can work, all problems told at once.

use rocstar_rollout::RolloutOptions;

use super::{DataOptions, EvaluationOptions, LoraOptions, OldLogProbs, OptimizerOptions};
use super::{PracticeOptions, Recipe, RlStage, SftStage, Stage};

impl Recipe {
    /// Every problem of the recipe, each naming its key; none if it can work.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Problems::default();
        let name = self.run.name.as_str();
        problems.unless(!name.is_empty(), "`run.name` is missing: it names the run's folder");
        problems.unless(
            name.is_empty() || is_file_name(name),
            format!("`run.name` must be a folder's name without `/`, is {name:?}"),
        );
        self.validate_model(&mut problems);
        problems.unless(self.checkpoint.keep_last > 0, "`checkpoint.keep_last` must be at least 1");
        problems.unless(!self.stage.is_empty(), "there is no `[[stage]]`");
        for (index, stage) in self.stage.iter().enumerate() {
            problems.prefix = format!("stage.{index}.");
            let keeps_optimizer = match stage {
                Stage::Sft(stage) => {
                    stage.validate(&mut problems);
                    stage.keep_optimizer
                }
                Stage::Rl(stage) => {
                    stage.validate(&mut problems);
                    stage.keep_optimizer
                }
            };
            problems.unless(
                !keeps_optimizer || (index > 0 && stage.lora().is_none()),
                "`keep_optimizer` is for a stage after another one, without adapters",
            );
            problems.unless(
                stage.lora().is_none() || self.stage.len() == 1,
                "`lora` is only for a recipe of one stage: adapters need weights that stay",
            );
        }
        problems.all
    }

    fn validate_model(&self, problems: &mut Problems) {
        let model = &self.model;
        match (&model.path, model.shape) {
            (None, None) => {
                problems.add("`model.path` is missing (or `model.shape`, for a new one)")
            }
            (Some(_), Some(_)) => problems.add("`model.path` and `model.shape` exclude each other"),
            (None, Some(_)) => problems.unless(
                model.tokenizer.is_some(),
                "`model.tokenizer` is missing: a new model needs one from elsewhere",
            ),
            (Some(_), None) => {}
        }
    }
}

/// Problems found so far, each told with the place of its key.
#[derive(Default)]
struct Problems {
    prefix: String,
    all: Vec<String>,
}

impl Problems {
    /// The first `` ` `` of `problem` opens a key's path; the prefix goes there.
    fn add(&mut self, problem: impl AsRef<str>) {
        let problem = problem.as_ref().replacen('`', &format!("`{}", self.prefix), 1);
        self.all.push(problem);
    }

    fn unless(&mut self, good: bool, problem: impl AsRef<str>) {
        if !good {
            self.add(problem);
        }
    }
}

impl SftStage {
    fn validate(&self, problems: &mut Problems) {
        problems.unless(
            self.epochs.is_some() || self.steps.is_some(),
            "`epochs` is missing (or `steps`)",
        );
        problems.unless(self.epochs != Some(0), "`epochs` must be at least 1");
        problems.unless(self.steps != Some(0), "`steps` must be at least 1");
        match (self.sequences_per_step, self.tokens_per_step) {
            (None, None) => problems.add("`sequences_per_step` is missing (or `tokens_per_step`)"),
            (Some(_), Some(_)) => {
                problems.add("`sequences_per_step` and `tokens_per_step` exclude each other");
            }
            (Some(0), None) => problems.add("`sequences_per_step` must be at least 1"),
            (None, Some(tokens)) => problems.unless(
                tokens >= self.sequence_tokens,
                format!("`tokens_per_step` ({tokens}) must hold a sequence of `sequence_tokens`"),
            ),
            _ => {}
        }
        problems.unless(self.sequence_tokens >= 2, "`sequence_tokens` must be at least 2");
        problems.unless(
            self.tokens_per_micro_batch >= self.sequence_tokens,
            format!(
                "`tokens_per_micro_batch` ({}) must hold a sequence of `sequence_tokens` ({})",
                self.tokens_per_micro_batch, self.sequence_tokens
            ),
        );
        match &self.practice {
            None => self.data.validate(problems),
            Some(practice) => {
                practice.validate(problems);
                let has_data = !self.data.paths.is_empty();
                problems.unless(!has_data, "`data.paths` and `practice` exclude each other");
            }
        }
        self.evaluation.validate(problems);
        self.optimizer.validate(problems);
        if let Some(lora) = &self.lora {
            lora.validate(problems);
        }
    }
}

impl PracticeOptions {
    fn validate(&self, problems: &mut Problems) {
        problems.unless(self.count > 0, "`practice.count` must be at least 1");
    }
}

impl RlStage {
    fn validate(&self, problems: &mut Problems) {
        for (key, value) in [
            ("steps", self.steps),
            ("tasks_per_step", self.tasks_per_step as u64),
            ("updates_per_step", self.updates_per_step as u64),
            ("tokens_per_micro_batch", self.tokens_per_micro_batch as u64),
            ("evaluation.samples", self.evaluation.samples as u64),
            ("engine.most_running", self.engine.most_running as u64),
            ("filter.samples", self.filter.as_ref().map_or(1, |filter| filter.samples as u64)),
        ] {
            problems.unless(value > 0, format!("`{key}` must be at least 1"));
        }
        let practice = self.practice.as_ref();
        problems.unless(
            self.data.paths.is_empty() == practice.is_some(),
            "`data.paths` is missing (or `practice`; they exclude each other)",
        );
        practice.into_iter().for_each(|practice| practice.validate(problems));
        problems.unless(
            self.evaluation.data.paths.is_empty() || self.evaluation.held_out_tasks == 0,
            "`evaluation.data.paths` and `evaluation.held_out_tasks` exclude each other",
        );
        problems.unless(
            self.evaluation.data.paths.is_empty() || practice.is_none(),
            "`evaluation.data.paths` and `practice` exclude each other; `held_out_tasks` makes some up",
        );
        self.validate_rollout(problems);
        self.optimizer.validate(problems);
        self.lora.iter().for_each(|lora| lora.validate(problems));
    }

    /// The settings of rollout, selection and loss, and whether they fit each other.
    fn validate_rollout(&self, problems: &mut Problems) {
        let outer = problems.prefix.clone();
        let mut within = |table: &str, told: Vec<String>| {
            problems.prefix = format!("{outer}{table}");
            told.iter().for_each(|problem| problems.add(problem));
        };
        within("rollout.", self.rollout.validate());
        let told = |error: Option<String>| error.into_iter().collect::<Vec<_>>();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        within("selection.", told(self.selection.validate().err().map(|error| text(&error))));
        within("advantage.", told(self.advantage.validate().err().map(|error| text(&error))));
        within("loss.", told(self.loss.validate().err().map(|error| text(&error))));
        problems.prefix = outer;
        problems.unless(
            self.selection.keep <= self.rollout.samples,
            format!(
                "`selection.keep` ({}) must not be more than `rollout.samples` ({})",
                self.selection.keep, self.rollout.samples
            ),
        );
        problems.unless(
            self.rollout.temperature > 0.0,
            "`rollout.temperature` must be above 0: the loss needs the distribution that was sampled from",
        );
        let RolloutOptions { top_p, top_k, min_p, .. } = &self.rollout;
        let cuts = *top_p < 1.0 || *top_k > 0 || *min_p > 0.0;
        problems.unless(
            !cuts || self.old_log_probs == OldLogProbs::Recomputed,
            "`old_log_probs` must be \"recomputed\" where `top_p`, `top_k` or `min_p` cut the \
             distribution",
        );
        let temperature = self.evaluation.temperature;
        problems.unless(
            temperature.is_finite() && temperature >= 0.0,
            format!("`evaluation.temperature` must be at least 0, is {temperature}"),
        );
    }
}

impl DataOptions {
    fn validate(&self, problems: &mut Problems) {
        problems.unless(!self.paths.is_empty(), "`data.paths` is missing");
        problems.unless(
            self.prompt_field.is_some() == self.completion_field.is_some(),
            "`data.prompt_field` and `data.completion_field` go together",
        );
        problems.unless(self.limit != Some(0), "`data.limit` must be at least 1");
    }
}

impl EvaluationOptions {
    fn validate(&self, problems: &mut Problems) {
        problems.unless(
            (0.0..1.0).contains(&self.held_out_share),
            format!(
                "`evaluation.held_out_share` must be from 0 to below 1, is {}",
                self.held_out_share
            ),
        );
        problems.unless(
            self.paths.is_empty() || self.held_out_share == 0.0,
            "`evaluation.paths` and `evaluation.held_out_share` exclude each other",
        );
        problems.unless(self.limit != Some(0), "`evaluation.limit` must be at least 1");
    }
}

impl OptimizerOptions {
    fn validate(&self, problems: &mut Problems) {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let not_negative = |value: f64| value >= 0.0 && value.is_finite();
        let share = |value: f64| (0.0..1.0).contains(&value);
        for (key, value, good, wanted) in [
            ("learning_rate", self.learning_rate, not_negative(self.learning_rate), "at least 0"),
            ("final_share", self.final_share, (0.0..=1.0).contains(&self.final_share), "0 to 1"),
            ("weight_decay", self.weight_decay, not_negative(self.weight_decay), "at least 0"),
            ("beta1", self.beta1, share(self.beta1), "from 0 to below 1"),
            ("beta2", self.beta2, share(self.beta2), "from 0 to below 1"),
            ("epsilon", self.epsilon, positive(self.epsilon), "above 0"),
            ("clip_norm", self.clip_norm, not_negative(self.clip_norm), "at least 0"),
        ] {
            problems.unless(good, format!("`optimizer.{key}` must be {wanted}, is {value}"));
        }
    }
}

impl LoraOptions {
    fn validate(&self, problems: &mut Problems) {
        problems.unless(self.rank > 0, "`lora.rank` must be at least 1");
        problems.unless(
            self.alpha > 0.0 && self.alpha.is_finite(),
            format!("`lora.alpha` must be above 0, is {}", self.alpha),
        );
        let mut targets = self.targets.clone();
        targets.sort_unstable();
        targets.dedup();
        problems.unless(!targets.is_empty(), "`lora.targets` is empty");
        problems.unless(targets.len() == self.targets.len(), "`lora.targets` names one twice");
    }
}

/// One ordinary part of a path.
fn is_file_name(name: &str) -> bool {
    let mut parts = std::path::Path::new(name).components();
    matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_with_their_keys() {
        let text = "run.name = \"a/b\"\ncheckpoint.keep_last = 0\nmodel.shape = \"tiny\"\n\
                    [[stage]]\nkind = \"sft\"\nsteps = 0\nsequences_per_step = 2\n\
                    tokens_per_micro_batch = 100\noptimizer.beta2 = 1.0\nlora.rank = 0\n";
        let problems = Recipe::from_toml(text).unwrap().validate();
        assert_eq!(
            problems,
            [
                "`run.name` must be a folder's name without `/`, is \"a/b\"",
                "`model.tokenizer` is missing: a new model needs one from elsewhere",
                "`checkpoint.keep_last` must be at least 1",
                "`stage.0.steps` must be at least 1",
                "`stage.0.tokens_per_micro_batch` (100) must hold a sequence of \
                 `sequence_tokens` (1024)",
                "`stage.0.data.paths` is missing",
                "`stage.0.optimizer.beta2` must be from 0 to below 1, is 1",
                "`stage.0.lora.rank` must be at least 1",
            ]
        );
    }
}
