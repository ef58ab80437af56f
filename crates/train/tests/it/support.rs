//! A small tokenizer, a small model and a small recipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use rocstar_chat::{Family, Tokenizer};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::files;
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::Model;
use rocstar_record::episode::{Group, Timing, Verdict, VerdictKind};
use rocstar_record::run::Reader;
use rocstar_rollout::{Task, Verifier, VerifierError};
use rocstar_train::checkpoint::Checkpoint;
use rocstar_train::recipe::Recipe;
use rocstar_train::{Error, Event, Observer, Outcome, Outline, Prepared, Start, World};
use serde_json::{Map, Value, json};

/// A folder of its own with data, and the recipe of a run in it.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) recipe: Recipe,
}

impl Place {
    /// `stages` is the TOML of the recipe's stages; `DATA` and `MORE` in it are files of data.
    pub(crate) fn new(stages: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.jsonl");
        let more = folder.path().join("more.jsonl");
        write_rows(&data, (0..12).map(|number| conversation(number, 3)));
        write_rows(&more, (0..4).map(|number| conversation(number, 5)));
        let tasks = folder.path().join("tasks.jsonl");
        write_rows(&tasks, (0..12).map(task));
        let stages = stages
            .replace("DATA", &data.display().to_string())
            .replace("MORE", &more.display().to_string())
            .replace("TASKS", &tasks.display().to_string());
        let mut recipe = Recipe::from_toml(&stages).unwrap();
        recipe.threads = 2;
        recipe.run.name = "run".to_owned();
        recipe.run.folder = folder.path().join("runs");
        recipe.model.path = Some("small".into());
        Self { folder, recipe }
    }

    pub(crate) fn run_folder(&self) -> PathBuf {
        rocstar_train::directory_of(&self.recipe)
    }

    /// Begins the run, or goes on, and stops it after `stop_after` steps.
    pub(crate) fn train(&mut self, resumes: bool, stop_after: u64) -> Result<Outcome, Error> {
        let start = if resumes {
            Start::resume(&mut self.recipe, None)?
        } else {
            Start::new(&self.recipe)?
        };
        self.go_on(start, stop_after)
    }

    /// Goes on from an earlier checkpoint to the end.
    pub(crate) fn resume_from(&mut self, step: u64) {
        let start = Start::resume(&mut self.recipe, Some(step)).unwrap();
        assert_eq!(self.go_on(start, u64::MAX).unwrap(), Outcome::Finished);
    }

    fn go_on(&self, start: Start, stop_after: u64) -> Result<Outcome, Error> {
        let model = weights(start.checkpoint(), &self.recipe);
        self.go_on_with(start, model, stop_after)
    }

    /// Goes on with weights that are given.
    pub(crate) fn go_on_with(
        &self,
        start: Start,
        model: Model,
        stop_after: u64,
    ) -> Result<Outcome, Error> {
        let mut observer = Recorder { stop_after, ..Recorder::default() };
        self.go_on_before(start, model, &mut observer)
    }

    /// Goes on before an observer that is given.
    pub(crate) fn go_on_before(
        &self,
        start: Start,
        model: Model,
        observer: &mut Recorder,
    ) -> Result<Outcome, Error> {
        let prepared = Prepared::new(self.recipe.clone(), outline())?;
        let mut world = World::new(Value::Null);
        world.verifier = Arc::new(EvenVerifier);
        rocstar_train::run(&prepared, start, || Ok(model), &world, observer)
    }

    /// Begins the run, or goes on, until it is asked `questions` times whether to stop.
    pub(crate) fn train_until(&mut self, resumes: bool, questions: u64) -> Result<Outcome, Error> {
        let start = if resumes {
            Start::resume(&mut self.recipe, None)?
        } else {
            Start::new(&self.recipe)?
        };
        let model = weights(start.checkpoint(), &self.recipe);
        let mut observer = Recorder { stop_at: Some(questions), ..Recorder::default() };
        self.go_on_before(start, model, &mut observer)
    }

    /// The groups of every step, without what differs from run to run.
    pub(crate) fn groups(&self) -> Vec<(u64, Vec<Group>)> {
        let reader = Reader::open(&self.run_folder()).unwrap();
        let steps = reader.episode_steps().unwrap();
        let of_step = |step: u64| {
            let mut groups =
                reader.groups(step).unwrap().map(Result::unwrap).collect::<Vec<Group>>();
            for group in &mut groups {
                let kept = group.kept.iter_mut().map(|kept| &mut kept.episode);
                let dropped = group.dropped.iter_mut().map(|dropped| &mut dropped.episode);
                kept.chain(dropped).for_each(|episode| episode.timing = Timing::default());
            }
            (step, groups)
        };
        steps.into_iter().map(of_step).collect()
    }

    /// Lines of the metrics, without what differs from run to run.
    pub(crate) fn metrics(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run_folder().join("metrics.jsonl")).unwrap();
        text.lines()
            .map(|line| {
                let mut line: Map<String, Value> = serde_json::from_str(line).unwrap();
                line.retain(|key, _| !key.starts_with("seconds") && key != "tokens_per_s");
                Value::Object(line)
            })
            .collect()
    }

    /// Names of what is among the checkpoints.
    pub(crate) fn checkpoints(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.run_folder().join("checkpoints")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Every file of the last checkpoint but the state's own (which holds the metrics' length).
    pub(crate) fn last_checkpoint(&self) -> Vec<(String, Vec<u8>)> {
        let folder = std::fs::canonicalize(self.run_folder().join("checkpoints/latest")).unwrap();
        let mut all = files_below(&folder);
        all.retain(|(name, _)| !name.ends_with("state.json"));
        all
    }
}

fn files_below(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files_below(&path));
        } else {
            all.push((
                path.file_name().unwrap().to_string_lossy().into_owned(),
                std::fs::read(&path).unwrap(),
            ));
        }
    }
    all.sort();
    all
}

/// Hears everything, and stops the run after some steps or when it is asked often enough.
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    pub(crate) steps: u64,
    pub(crate) stop_after: u64,
    pub(crate) asked: u64,
    pub(crate) stop_at: Option<u64>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { events: Vec::new(), steps: 0, stop_after: u64::MAX, asked: 0, stop_at: None }
    }
}

impl Observer for Recorder {
    fn event(&mut self, event: &Event) {
        self.steps += u64::from(matches!(event, Event::Step(_) | Event::RlStep(_)));
        self.events.push(event.clone());
    }

    fn wants_stop(&mut self) -> bool {
        self.asked += 1;
        self.steps >= self.stop_after || self.stop_at.is_some_and(|at| self.asked >= at)
    }
}

/// Even numbers are right: a reward that a small model can find out about.
#[derive(Debug)]
struct EvenVerifier;

impl Verifier for EvenVerifier {
    fn verify(
        &self,
        _task: &Task,
        text: &str,
    ) -> BoxFuture<'static, Result<Verdict, VerifierError>> {
        let digit = text.bytes().rfind(u8::is_ascii_digit);
        let kind = match digit {
            None => VerdictKind::Unparseable,
            Some(digit) if digit.is_multiple_of(2) => VerdictKind::Right,
            Some(_) => VerdictKind::Wrong,
        };
        let answer = digit.map(|digit| char::from(digit).to_string());
        let explanation = "its last digit".to_owned();
        let verdict = Verdict { kind, answer, explanation, second_opinion: None };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

pub(crate) fn conversation(number: usize, factor: usize) -> Value {
    json!({ "messages": [
        { "role": "user", "content": format!("{number} times {factor}?") },
        { "role": "assistant", "content": format!("It is {}.", number * factor) },
    ]})
}

pub(crate) fn task(number: usize) -> Value {
    json!({ "problem": format!("{number} times 3?"), "answer": (3 * number).to_string() })
}

pub(crate) fn write_rows(path: &Path, rows: impl IntoIterator<Item = Value>) {
    let lines: Vec<String> = rows.into_iter().map(|row| row.to_string()).collect();
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

pub(crate) fn outline() -> Outline {
    let tokenizer = tokenizer();
    let config = ModelConfig {
        vocabulary_size: tokenizer.vocabulary_size(),
        hidden_size: 32,
        layers: 2,
        heads: 2,
        key_value_heads: 1,
        head_size: 16,
        feed_forward_size: 48,
        context_tokens: 1024,
        ..ModelConfig::tiny()
    };
    Outline { name: Some("small".to_owned()), config, tokenizer, family: Family::chatml().unwrap() }
}

pub(crate) fn weights(checkpoint: Option<&Checkpoint>, recipe: &Recipe) -> Model {
    let config = outline().config;
    match checkpoint {
        Some(checkpoint) if recipe.stage[0].lora().is_none() => {
            let loaded = files::load(&checkpoint.path).unwrap();
            Model { config: loaded.config, parameters: loaded.parameters }
        }
        _ => Model { parameters: Parameters::random(&config, recipe.seed), config },
    }
}

/// Every byte is a token; then come ChatML's control tokens.
pub(crate) fn tokenizer() -> Tokenizer {
    let vocabulary: Map<String, Value> =
        byte_letters().into_iter().enumerate().map(|(id, text)| (text, id.into())).collect();
    let added: Vec<Value> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({ "id": 256 + index, "content": text, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true })
        })
        .collect();
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                        "use_regex": true });
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": { "type": "BPE", "dropout": null, "unk_token": null,
                   "continuing_subword_prefix": null, "end_of_word_suffix": null,
                   "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                   "vocab": vocabulary, "merges": [] },
    });
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

/// The letters that byte-level tokenizers write for the bytes 0 to 255: printable ones as they are,
/// the rest from U+0100 on.
fn byte_letters() -> Vec<String> {
    let mut next = 0x100;
    (0..256_u32)
        .map(|byte| {
            let is_printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let letter = if is_printable {
                byte
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(letter).unwrap().to_string()
        })
        .collect()
}
