//! A run that stopped and went on is the run that did not: metrics and checkpoints, byte for byte.

use std::fs;
use std::io::Write as _;

use pretty_assertions::assert_eq;
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::Model;
use rocstar_train::{Error, Outcome, Start};

use crate::support::{Place, outline};

const FULL: &str = "checkpoint.every_steps = 3\ncheckpoint.keep_last = 10\n[[stage]]\n\
    kind = \"sft\"\nepochs = 2\nsequences_per_step = 3\nsequence_tokens = 128\n\
    tokens_per_micro_batch = 160\ndata.paths = [\"DATA\"]\nevaluation.paths = [\"MORE\"]\n\
    evaluation.every_steps = 2\noptimizer.learning_rate = 1e-2\noptimizer.warm_up_steps = 2\n";

const ADAPTERS: &str = "checkpoint.every_steps = 2\n[[stage]]\nkind = \"sft\"\nsteps = 6\n\
    tokens_per_step = 200\nsequence_tokens = 128\nrecompute = true\n\
    evaluation.held_out_share = 0.2\ndata.paths = [\"DATA\"]\noptimizer.learning_rate = 1e-2\n\
    optimizer.warm_up_steps = 0\n[stage.lora]\nrank = 2\ntargets = [\"q_proj\", \"down_proj\"]\n";

const TWO_STAGES: &str = "checkpoint.every_steps = 2\n[[stage]]\nkind = \"sft\"\nsteps = 3\n\
    sequences_per_step = 4\nsequence_tokens = 128\ndata.paths = [\"DATA\"]\n[[stage]]\n\
    kind = \"sft\"\nsteps = 3\nsequences_per_step = 2\nsequence_tokens = 128\n\
    data.paths = [\"MORE\"]\nevaluation.paths = [\"DATA\"]\n";

/// Runs `stages` through, and again with stops; both must be the same.
fn same_with_stops(stages: &str, stops: &[u64]) {
    let mut whole = Place::new(stages);
    assert_eq!(whole.train(false, u64::MAX).unwrap(), Outcome::Finished);
    let mut parts = Place::new(stages);
    for (index, steps) in stops.iter().enumerate() {
        assert_eq!(parts.train(index > 0, *steps).unwrap(), Outcome::Stopped);
    }
    assert_eq!(parts.train(true, u64::MAX).unwrap(), Outcome::Finished);
    assert_eq!(parts.metrics(), whole.metrics());
    assert!(parts.last_checkpoint() == whole.last_checkpoint(), "weights or moments differ");
}

#[test]
fn all_weights() {
    same_with_stops(FULL, &[1, 2, 3]);
}

#[test]
fn adapters() {
    same_with_stops(ADAPTERS, &[1, 4]);
}

#[test]
fn stages() {
    same_with_stops(TWO_STAGES, &[1, 3]);
}

#[test]
fn a_run_that_was_killed_after_its_checkpoint_goes_on_from_it() {
    let mut whole = Place::new(FULL);
    whole.train(false, u64::MAX).unwrap();
    // As after a kill in step 6: checkpoints of steps 5 and later are gone, a torn one is there,
    // metrics reach further than the last checkpoint and end in a torn line.
    let mut killed = Place::new(FULL);
    killed.train(false, u64::MAX).unwrap();
    let checkpoints = killed.run_folder().join("checkpoints");
    for entry in fs::read_dir(&checkpoints).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name > "step_000004" && name.starts_with("step_") {
            fs::remove_dir_all(&path).unwrap();
        }
    }
    fs::create_dir_all(checkpoints.join("step_000006.partial/state")).unwrap();
    let metrics = killed.run_folder().join("metrics.jsonl");
    fs::OpenOptions::new().append(true).open(metrics).unwrap().write_all(b"{\"kin").unwrap();
    assert_eq!(killed.train(true, u64::MAX).unwrap(), Outcome::Finished);
    assert_eq!(killed.metrics(), whole.metrics());
    assert!(killed.last_checkpoint() == whole.last_checkpoint(), "weights or moments differ");
    assert!(!checkpoints.join("step_000006.partial").exists());
}

#[test]
fn without_a_checkpoint_it_goes_on_from_the_beginning() {
    let mut whole = Place::new(FULL);
    whole.train(false, u64::MAX).unwrap();
    let mut killed = Place::new(FULL);
    drop(Start::new(&killed.recipe).unwrap());
    fs::write(killed.run_folder().join("metrics.jsonl"), "{\"kind\":\"st").unwrap();
    assert_eq!(killed.train(true, u64::MAX).unwrap(), Outcome::Finished);
    assert_eq!(killed.metrics(), whole.metrics());
}

#[test]
fn an_earlier_step_can_be_gone_back_to() {
    let mut place = Place::new(FULL);
    place.train(false, u64::MAX).unwrap();
    let (metrics, checkpoint) = (place.metrics(), place.last_checkpoint());
    let start = Start::resume(&mut place.recipe, Some(3)).unwrap();
    assert_eq!(start.checkpoint().unwrap().state.step, 3);
    drop(start);
    assert!(matches!(
        Start::resume(&mut place.recipe, Some(5)),
        Err(Error::NoCheckpoint { step: Some(5), .. })
    ));
    place.resume_from(3);
    assert_eq!(place.metrics(), metrics);
    assert!(place.last_checkpoint() == checkpoint, "weights or moments differ");
}

/// Going back removes later checkpoints, so everything that may be refused must come first.
#[test]
fn a_way_back_that_is_refused_removes_nothing() {
    let mut place = Place::new(ADAPTERS);
    place.train(false, u64::MAX).unwrap();
    let (checkpoints, metrics) = (place.checkpoints(), place.metrics());
    assert!(checkpoints.contains(&"step_000006".to_owned()), "{checkpoints:?}");
    let start = Start::resume(&mut place.recipe, Some(4)).unwrap();
    let config = outline().config;
    let other = Model { parameters: Parameters::random(&config, 77), config };
    let error = place.go_on_with(start, other, u64::MAX).unwrap_err();
    assert!(matches!(error, Error::BaseChanged { .. }), "{error}");
    assert_eq!((place.checkpoints(), place.metrics()), (checkpoints, metrics));
}

/// A run whose recipe was lost is still a run: another must not begin in its place.
#[test]
fn checkpoints_without_a_recipe_are_not_begun_over() {
    let mut place = Place::new(FULL);
    place.train(false, u64::MAX).unwrap();
    let checkpoints = place.checkpoints();
    fs::remove_file(place.run_folder().join("config.toml")).unwrap();
    assert!(matches!(Start::new(&place.recipe), Err(Error::RunExists(_))));
    assert_eq!(place.checkpoints(), checkpoints);
}

#[test]
fn another_recipe_is_refused_and_what_differs_is_told() {
    let mut place = Place::new(FULL);
    place.train(false, 1).unwrap();
    let mut other = place.recipe.clone();
    other.seed = 2;
    other.checkpoint.keep_last = 1;
    let error = Start::resume(&mut other, None).unwrap_err();
    assert!(error.to_string().ends_with("began with another recipe: `seed`: 1 -> 2"), "{error}");
    // Threads that are left open are those of the run.
    let mut open = place.recipe.clone();
    open.threads = 0;
    Start::resume(&mut open, None).unwrap();
    assert_eq!(open.threads, 2);
}

#[test]
fn other_data_is_refused() {
    let mut place = Place::new(FULL);
    place.train(false, 1).unwrap();
    let data = place.folder.path().join("data.jsonl");
    let text = fs::read_to_string(&data).unwrap().replace("It is 0.", "It is 1.");
    fs::write(data, text).unwrap();
    let error = place.train(true, u64::MAX).unwrap_err();
    assert!(matches!(error, Error::DataChanged { stage: 0, .. }), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let mut place = Place::new(FULL);
    place.train(false, 1).unwrap();
    let file = place.run_folder().join("checkpoints/latest/state/optimizer.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = place.train(true, u64::MAX).unwrap_err();
    assert!(matches!(error, Error::Checkpoint { .. }), "{error}");
}

#[test]
fn a_finished_run_has_nothing_left_to_do() {
    let mut place = Place::new(TWO_STAGES);
    place.train(false, u64::MAX).unwrap();
    let metrics = place.metrics();
    assert_eq!(place.train(true, u64::MAX).unwrap(), Outcome::Finished);
    assert_eq!(place.metrics(), metrics);
}
