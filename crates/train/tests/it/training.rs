//! What a run computes and writes.

use pretty_assertions::assert_eq;
use rocstar_nn::files;
use rocstar_train::recipe::Stage;
use rocstar_train::{Error, Event, Prepared, Start, World};
use serde_json::Value;

use crate::support::{Place, Recorder, outline, tokenizer, weights, write_rows};

const RECIPE: &str = "[[stage]]\nkind = \"sft\"\nepochs = 30\nsequences_per_step = 12\n\
    sequence_tokens = 128\ndata.paths = [\"DATA\"]\nevaluation.paths = [\"DATA\"]\n\
    optimizer.learning_rate = 2e-2\noptimizer.warm_up_steps = 3\n";

fn losses(place: &Place, kind: &str) -> Vec<f64> {
    let lines = place.metrics();
    let of_kind = lines.iter().filter(|line| line["kind"] == kind);
    of_kind.map(|line| line["loss"].as_f64().unwrap()).collect()
}

#[test]
fn the_loss_falls_and_the_checkpoint_is_a_model() {
    let mut place = Place::new(RECIPE);
    place.train(false, u64::MAX).unwrap();
    let steps = losses(&place, "step");
    assert_eq!(steps.len(), 30);
    assert!(steps[0] > 5.0 && steps[29] < 1.0, "{steps:?}");
    let evaluations = losses(&place, "evaluation");
    // All data is one step here: what is measured before the first step is what it learns from.
    assert!((evaluations[0] - steps[0]).abs() < 1e-4, "{evaluations:?} {steps:?}");
    assert!(evaluations[1] < steps[29], "{evaluations:?}");
    let latest = place.run_folder().join("checkpoints/latest");
    assert_eq!(files::load(&latest).unwrap().config, outline().config);
    assert_eq!(
        rocstar_chat::Tokenizer::from_folder(&latest).unwrap().vocabulary_size(),
        tokenizer().vocabulary_size()
    );
    assert!(latest.join("chat_template.jinja").exists());
    assert!(place.run_folder().join("env.json").exists());
}

/// The loss and the gradient of a step don't depend on how it is split into micro-batches.
#[test]
fn micro_batches_change_nothing_but_rounding() {
    let run = |tokens: usize| {
        let mut place = Place::new(RECIPE);
        let Stage::Sft(stage) = &mut place.recipe.stage[0] else { panic!("no SFT stage") };
        stage.tokens_per_micro_batch = tokens;
        place.train(false, 1).unwrap();
        place.metrics()[1].clone()
    };
    let (one, many) = (run(4096), run(128));
    assert_eq!(one["micro_batches"], 1);
    assert!(many["micro_batches"].as_u64().unwrap() > 3, "{many}");
    assert_eq!(one["learnt_tokens"], many["learnt_tokens"]);
    for key in ["loss", "gradient_norm"] {
        let (one, many) = (one[key].as_f64().unwrap(), many[key].as_f64().unwrap());
        assert!((one / many - 1.0).abs() < 1e-4, "{key}: {one} {many}");
    }
}

#[test]
fn a_gradient_that_is_no_number_is_not_applied() {
    let mut place = Place::new(RECIPE);
    let Stage::Sft(stage) = &mut place.recipe.stage[0] else { panic!("no SFT stage") };
    stage.evaluation.paths.clear();
    let prepared = Prepared::new(place.recipe.clone(), outline()).unwrap();
    let start = Start::new(&place.recipe).unwrap();
    let mut model = weights(None, &place.recipe);
    model.parameters.values_mut()[0] = f32::NAN;
    let mut observer = Recorder::default();
    let error =
        rocstar_train::run(&prepared, start, || Ok(model), &World::new(Value::Null), &mut observer)
            .unwrap_err();
    assert!(matches!(error, Error::NotFinite { step: 1, .. }), "{error}");
    assert!(!observer.events.iter().any(|event| matches!(event, Event::Step(_))));
}

#[test]
fn what_does_not_fit_together_is_told_before_anything_is_made() {
    let place = Place::new(RECIPE);
    let mut small = outline();
    small.config.vocabulary_size = 100;
    let error = Prepared::new(place.recipe.clone(), small).unwrap_err();
    assert!(matches!(error, Error::Vocabulary { tokenizer: 259, embedding: 100 }), "{error}");
    let mut short = outline();
    short.config.context_tokens = 64;
    let error = Prepared::new(place.recipe.clone(), short).unwrap_err();
    assert!(matches!(error, Error::Context { sequence_tokens: 128, .. }), "{error}");
    write_rows(&place.folder.path().join("data.jsonl"), []);
    let error = Prepared::new(place.recipe.clone(), outline()).unwrap_err();
    assert!(matches!(error, Error::NoExamples { purpose: "learn from", .. }), "{error}");
    assert!(!place.run_folder().exists());
}
