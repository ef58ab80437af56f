//! Reinforcement learning: it learns, goes on exactly where it was stopped, also while episodes ran,
//! and tells the truth about what it did.

use pretty_assertions::assert_eq;
use rocstar_train::{Error, Event, Outcome, Start};
use serde_json::Value;

use crate::support::{Place, Recorder, weights};

/// A short fine-tuning, so that the policy ends its turns, then rollouts without a tool.
const STAGES: &str = "checkpoint.every_steps = 2\ncheckpoint.keep_last = 20\n[[stage]]\n\
    kind = \"sft\"\nsteps = 16\nsequences_per_step = 12\nsequence_tokens = 128\n\
    data.paths = [\"DATA\"]\noptimizer.learning_rate = 1e-2\noptimizer.warm_up_steps = 2\n\
    [[stage]]\nkind = \"rl\"\nsteps = 5\ntasks_per_step = 3\n\
    tokens_per_micro_batch = 256\ndata.paths = [\"TASKS\"]\n\
    selection.keep = 4\nevaluation.held_out_tasks = 3\nevaluation.every_steps = 2\n\
    optimizer.learning_rate = 3e-3\noptimizer.warm_up_steps = 1\n\
    [stage.rollout]\nsamples = 8\nresponse_tokens = 24\ntool = \"none\"\n\
    [stage.engine]\nkv_bytes = 2000000\nmost_running = 16\nstep_tokens = 64\n";

fn with(more: &str) -> String {
    STAGES.replace("evaluation.held_out_tasks", &format!("{more}\nevaluation.held_out_tasks"))
}

/// Runs a recipe through, and again, asked to stop at the given questions; both must be the same.
fn same_with_stops(stages: &str, questions: &[u64]) {
    let mut whole = Place::new(stages);
    assert_eq!(whole.train(false, u64::MAX).unwrap(), Outcome::Finished);
    for at in questions {
        let mut parts = Place::new(stages);
        assert_eq!(parts.train_until(false, *at).unwrap(), Outcome::Stopped, "question {at}");
        assert_eq!(parts.train(true, u64::MAX).unwrap(), Outcome::Finished);
        assert_eq!(parts.metrics(), whole.metrics(), "question {at}");
        assert_eq!(parts.groups(), whole.groups(), "question {at}");
        assert!(parts.last_checkpoint() == whole.last_checkpoint(), "question {at}: weights");
    }
}

/// A step of fine-tuning asks once, a step of rollouts twice at least: while episodes run, and after.
#[test]
fn a_run_that_is_stopped_anywhere_goes_on_as_if_it_was_not() {
    same_with_stops(STAGES, &[3, 16, 17, 18, 19, 20, 23]);
}

#[test]
fn so_do_refilled_groups_several_updates_and_a_kept_optimizer() {
    let more = "refill_tasks_per_step = 2\nupdates_per_step = 2\nkeep_optimizer = true\n\
        old_log_probs = \"recomputed\"\nloss.kl_weight = 0.01\nloss.entropy_weight = 0.001";
    same_with_stops(&with(more), &[16, 18, 21]);
}

#[test]
fn so_does_a_stage_that_leaves_out_solved_tasks() {
    same_with_stops(&with("filter = { samples = 2 }"), &[16, 17, 19]);
}

fn metrics_of(place: &Place, kind: &str) -> Vec<Value> {
    let all = place.metrics();
    all.into_iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn it_learns_what_is_rewarded_and_every_rollout_is_accounted_for() {
    let mut place = Place::new(&STAGES.replace("steps = 5", "steps = 25"));
    assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let evaluations = metrics_of(&place, "rl_evaluation");
    let accuracy = |line: &Value| line["accuracy"].as_f64().unwrap();
    let (first, last) = (&evaluations[0], evaluations.last().unwrap());
    assert!(accuracy(last) >= accuracy(first), "{first} {last}");
    let steps = metrics_of(&place, "rl_step");
    let mean = |lines: &[Value]| lines.iter().map(accuracy).sum::<f64>() / lines.len() as f64;
    let (early, late) = (mean(&steps[..5]), mean(&steps[20..]));
    assert!(late > early + 0.2, "from {early} to {late}");
    for (step, groups) in place.groups() {
        for group in groups {
            group.check().unwrap();
            assert_eq!(group.kept.len() + group.dropped.len() + group.lost.len(), 8, "step {step}");
            let sum: f64 = group.kept.iter().map(|kept| kept.advantage).sum();
            assert!(sum.abs() < 1e-9, "{sum}");
        }
    }
}

/// With a learning rate of 0 nothing moves: trainer and sampler agree, no ratio is clipped, and the
/// weights are those that the stage began with.
#[test]
fn a_learning_rate_of_zero_changes_nothing() {
    let mut place = Place::new(&STAGES.replace("learning_rate = 3e-3", "learning_rate = 0.0"));
    assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let steps = metrics_of(&place, "rl_step");
    let with_update: Vec<_> = steps.iter().filter(|line| line["updates"] == 1).collect();
    assert!(!with_update.is_empty());
    for line in with_update {
        let value = |name: &str| line[name].as_f64().unwrap();
        assert!(value("mismatch_kl") < 1e-9 && value("mismatch_max_ratio") < 1.001, "{line}");
        assert_eq!((value("clip_high_share"), value("clip_low_share")), (0.0, 0.0));
        // Advantages of each group sum to 0, but its rollouts differ in length.
        assert!(value("gradient_norm") > 0.0);
    }
    let bytes = |step: &str| {
        let path = place.run_folder().join("checkpoints").join(step).join("model.safetensors");
        std::fs::read(path).unwrap()
    };
    assert!(bytes("step_000016") == bytes("step_000021"), "the weights moved");
}

/// The largest difference, over a run, between what a token's log-probability was when it was sampled
/// and when it was learned from, in the first update of each step and in later ones.
fn largest_moves(stages: &str, groups_per_update: usize) -> (f32, f32) {
    let mut place = Place::new(stages);
    assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let (mut first, mut later) = (0.0_f32, 0.0_f32);
    for (step, groups) in place.groups() {
        let used = groups.iter().filter(|group| !group.kept.is_empty());
        for (number, group) in used.enumerate() {
            for kept in &group.kept {
                let (then, now) = (&kept.episode.log_probs, &kept.trained_log_probs);
                assert_eq!(then.len(), now.len(), "step {step}, sample {}", kept.episode.sample);
                let moved = then.iter().zip(now).map(|(then, now)| (then - now).abs());
                let moved = moved.fold(0.0, f32::max);
                let place = if number < groups_per_update { &mut first } else { &mut later };
                *place = place.max(moved);
            }
        }
    }
    (first, later)
}

/// A step's first update learns with the weights that sampled, so there the ratio is 1; the updates
/// after it learn with changed ones.
#[test]
fn each_token_that_was_learned_from_has_its_log_probability_then_and_now() {
    let (first, _) = largest_moves(STAGES, usize::MAX);
    assert!(first < 1e-3, "{first}");
    let stages = with("updates_per_step = 3").replace("tasks_per_step = 3", "tasks_per_step = 9");
    // The first group that is used is in the first update, whatever their number.
    let (first, later) = largest_moves(&stages, 1);
    assert!(first < 1e-3 && later > 1e-3, "{first} {later}");
}

#[test]
fn the_split_into_micro_batches_changes_only_the_last_bits() {
    let step = |tokens: &str| {
        let stages = STAGES.replace("tokens_per_micro_batch = 256", tokens);
        let mut place = Place::new(&stages.replace("steps = 5", "steps = 1"));
        place.train(false, u64::MAX).unwrap();
        metrics_of(&place, "rl_step").remove(0)
    };
    let (small, large) =
        (step("tokens_per_micro_batch = 64"), step("tokens_per_micro_batch = 4096"));
    for name in ["loss", "gradient_norm", "entropy_mean"] {
        let (small, large) = (small[name].as_f64().unwrap(), large[name].as_f64().unwrap());
        assert!((small - large).abs() <= 1e-4 * large.abs().max(1e-3), "{name}: {small} {large}");
    }
}

#[test]
fn every_ratio_trains() {
    for ratio in ["token", "sequence", "clipped_weight"] {
        let more = format!("loss.ratio = \"{ratio}\"\nloss.importance_cap = 2.0");
        let mut place = Place::new(&with(&more).replace("steps = 5", "steps = 2"));
        assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished, "{ratio}");
    }
}

#[test]
fn adapters_are_trained_and_sampled_from() {
    let rl = &STAGES[STAGES.find("[[stage]]\nkind = \"rl\"").unwrap()..];
    let stages = format!("{}[stage.lora]\nrank = 2\n", rl.replace("steps = 5", "steps = 2"));
    let mut place = Place::new(&stages);
    assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let adapters = place.run_folder().join("checkpoints/latest/adapter_model.safetensors");
    assert!(adapters.exists());
}

#[test]
fn settings_that_do_not_fit_each_other_are_refused_before_anything_starts() {
    let more = "old_log_probs = \"sampled\"\nrollout.top_p = 0.9\nkeep_optimizer = true";
    let stages = with(more).replace("keep = 4", "keep = 9");
    let mut place = Place::new(
        "[[stage]]\nkind = \"sft\"\nsteps = 1\nsequences_per_step = 1\n\
        data.paths = [\"DATA\"]",
    );
    let error = toml::from_str::<Value>(&stages).unwrap_err().to_string();
    assert!(error.contains("rollout"), "a table can't be given twice: {error}");
    place.recipe = rocstar_train::recipe::Recipe::from_toml(
        &stages
            .replace("rollout.top_p = 0.9\n", "")
            .replace("samples = 8", "samples = 8\ntop_p = 0.9"),
    )
    .unwrap();
    let problems = place.recipe.validate();
    let told = |text: &str| problems.iter().any(|problem| problem.contains(text));
    assert!(told("`stage.1.selection.keep` (9) must not be more than"), "{problems:?}");
    assert!(told("`stage.1.old_log_probs` must be \"recomputed\""), "{problems:?}");
}

#[test]
fn a_sandbox_that_is_needed_and_not_there_is_told_first() {
    let place = Place::new(&STAGES.replace("tool = \"none\"", "tool = \"stateless\""));
    let start = Start::new(&place.recipe).unwrap();
    let model = weights(None, &place.recipe);
    let mut observer = Recorder::default();
    let error = place.go_on_before(start, model, &mut observer).unwrap_err();
    assert!(matches!(error, Error::NoSandbox | Error::Rollout(_)), "{error}");
    assert!(!observer.events.iter().any(|event| matches!(event, Event::Step(_))));
}

#[test]
fn the_board_is_written_beside_the_metrics() {
    let mut place = Place::new(&STAGES.replace("steps = 5", "steps = 2"));
    assert_eq!(place.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let board = place.run_folder().join("tb");
    assert_eq!(std::fs::read_dir(board).unwrap().count(), 1);
}
