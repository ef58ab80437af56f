//! A step of GRPO on the *tiny* shape: 32 rollouts (4 tasks of 8) of at most 64 new tokens, short
//! prompts, no tool, and an update that learns from all of them.
//!
//! Weights are random and answers are right by chance. An answer that was cut off is never right, so
//! the weights are such that many answers end by themselves: then nearly every group has right and
//! wrong rollouts, and all of them are learnt from. What is measured is a whole step of
//! `rocstar train`, its episodes written down. The learning rate is so low that the policy stays what
//! it is, and every step has the same work.
//!
//! ```sh
//! cargo bench -p rocstar-train --bench grpo_step
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use rocstar_chat::Family;
use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::{Parameters, Slot};
use rocstar_nn::step::Model;
use rocstar_record::episode::{Verdict, VerdictKind};
use rocstar_rollout::{Task, Verifier, VerifierError, practice};
use rocstar_train::recipe::Recipe;
use rocstar_train::rl::metrics::RlStepMetrics;
use rocstar_train::{Event, Observer, Outline, Prepared, Start, World};
use serde_json::Value;

/// Steps that come before those that are measured.
const WARM_UP_STEPS: usize = 3;

/// How much larger the weights of the token that ends a turn are.
const END_WEIGHT: f32 = 5.0;

const RECIPE: &str = "checkpoint.every_steps = 0\n[[stage]]\nkind = \"rl\"\nsteps = 23\n\
    tasks_per_step = 4\ntokens_per_micro_batch = 4096\ndata.paths = [\"TASKS\"]\n\
    selection.mode = \"off\"\nselection.keep = 8\noptimizer.learning_rate = 1e-6\n\
    [stage.rollout]\nsamples = 8\nresponse_tokens = 64\ntool = \"none\"\n\
    [stage.engine]\nkv_bytes = 67108864\n";

/// Right or wrong, by the text.
#[derive(Debug)]
struct Coin;

impl Verifier for Coin {
    fn verify(
        &self,
        _task: &Task,
        text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let sum = text.bytes().map(usize::from).sum::<usize>();
        let kind = if sum.is_multiple_of(2) { VerdictKind::Right } else { VerdictKind::Wrong };
        let explanation = "by chance".to_owned();
        let verdict = Verdict { kind, answer: None, explanation, second_opinion: None };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

/// Keeps the steps.
#[derive(Debug, Default)]
struct Steps(Vec<RlStepMetrics>);

impl Observer for Steps {
    fn event(&mut self, event: &Event) {
        if let Event::RlStep(step) = event {
            self.0.push(RlStepMetrics::clone(step));
        }
    }

    fn wants_stop(&mut self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut steps = Steps::default();
    train(folder.path(), &mut steps)?;
    let measured = &steps.0[WARM_UP_STEPS.min(steps.0.len())..];
    let mut seconds: Vec<f64> = measured.iter().map(|step| step.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let mean = |of: fn(&RlStepMetrics) -> f64| {
        measured.iter().map(of).sum::<f64>() / measured.len().max(1) as f64
    };
    let share = |of: fn(&RlStepMetrics) -> f64| 100.0 * mean(of) / mean(|step| step.seconds);
    let mut text = String::new();
    writeln!(
        text,
        "{} steps of 32 rollouts: {:.3} s a step (median), {:.3} s (best), {:.3} s (worst)",
        measured.len(),
        seconds.get(seconds.len() / 2).copied().unwrap_or_default(),
        seconds.first().copied().unwrap_or_default(),
        seconds.last().copied().unwrap_or_default(),
    )?;
    writeln!(
        text,
        "{:.1} % generating, {:.1} % updating, {:.1} % weights into the engine, {:.1} % other",
        share(|step| step.seconds_generating),
        share(|step| step.seconds_updating),
        share(|step| step.seconds_weights),
        share(|step| step.seconds_verifying + step.seconds_other),
    )?;
    writeln!(
        text,
        "a step: {:.0} tokens sampled, {:.0} tokens learnt from, {:.1} of 4 groups used",
        mean(|step| step.policy_tokens as f64),
        mean(|step| step.tokens as f64),
        mean(|step| step.groups_used as f64),
    )?;
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn train(folder: &Path, steps: &mut Steps) -> Result<(), Box<dyn Error>> {
    let tasks = folder.join("tasks.jsonl");
    let rows: Vec<String> = (0..64)
        .map(|number| format!("{{\"problem\": \"{number} + 7?\", \"answer\": \"{}\"}}", number + 7))
        .collect();
    std::fs::write(&tasks, rows.join("\n"))?;
    let mut recipe = Recipe::from_toml(&RECIPE.replace("TASKS", &tasks.display().to_string()))?;
    recipe.threads = std::thread::available_parallelism()?.get();
    recipe.run.name = "bench".to_owned();
    recipe.run.folder = folder.join("runs");
    recipe.model.path = Some("tiny".into());
    let tokenizer = practice::tokenizer()?;
    let config =
        ModelConfig { vocabulary_size: tokenizer.vocabulary_size(), ..ModelConfig::tiny() };
    let family = Family::chatml()?;
    let mut parameters = Parameters::random(&config, 1);
    let end =
        tokenizer.token_id(family.end_of_turn()).ok_or("the tokenizer has no end of a turn")?;
    let hidden = config.hidden_size;
    let embedding = parameters.slot_mut(Slot::Embedding).chunks_mut(hidden).nth(end as usize);
    embedding.ok_or("the model has no end of a turn")?.iter_mut().for_each(|it| *it *= END_WEIGHT);
    let model = Model { config: config.clone(), parameters };
    let outline = Outline { name: None, config, tokenizer, family };
    let prepared = Prepared::new(recipe, outline)?;
    let start = Start::new(prepared.recipe())?;
    let world = World { verifier: Arc::new(Coin), ..World::new(Value::Null) };
    rocstar_train::run(&prepared, start, || Ok(model), &world, steps)?;
    Ok(())
}
