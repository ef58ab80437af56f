//! Runs that were never trained: written by the code that training writes with, from a seed, at any
//! size. Their tokens are bytes, so that whatever text is wanted can stand in an episode.

use std::path::Path;

use rocstar_grpo::{AdvantageConfig, RocConfig, Rollouts, selection_key};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{
    Activity, Author, Call, Doing, Episode, Evaluated, Finish, Group, GroupVerdict, SCHEMA_VERSION,
    Span, TaskId, Timing, ToolOutcome, Turn, Verdict, VerdictKind,
};
use rocstar_record::run::RunDirectory;
use serde_json::{Value, json};

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Steps.
    pub(crate) steps: u64,
    /// Tasks of each step.
    pub(crate) groups: usize,
    /// Rollouts of each task.
    pub(crate) samples: usize,
}

/// What stands in some of the episodes beside the arithmetic.
pub(crate) type Said = fn(step: u64, group: usize, sample: usize) -> Option<&'static str>;

/// Seed of all synthetic runs.
const SEED: u64 = 7;

/// Writes a run to `path`, which must not hold one.
///
/// # Errors
/// It can't be written.
pub(crate) fn write(path: &Path, size: Size, said: Said) -> Result<(), Box<dyn std::error::Error>> {
    let mut run = RunDirectory::create(path, &recipe(size))?;
    write_tokenizer(&run.tokenizer())?;
    run.write_environment(&environment())?;
    run.event("started", json!({ "step": 0 }))?;
    for step in 1..=size.steps {
        if step == 1 || step == size.steps {
            evaluate(&mut run, step, size)?;
        }
        let groups = step_groups(step, size, said)?;
        run.write_episodes(step, &groups)?;
        run.metric(&metrics(step, &groups, size))?;
    }
    run.event("finished", json!({ "step": size.steps }))?;
    Ok(())
}

fn recipe(size: Size) -> String {
    format!(
        "seed = {SEED}\n\n[run]\nname = \"synthetic\"\n\n[[stage]]\nkind = \"rl\"\nsteps = {}\n\n\
         [stage.rollout]\nsamples = {}\n\n[stage.selection]\nmode = \"paper\"\nkeep = {}\n\
         epsilon = 0.05\nreleased_minimum = 2\n\n[stage.advantage]\n\
         baseline = \"mean_and_deviation\"\nepsilon = 0.000001\n",
        size.steps,
        size.samples,
        keep(size)
    )
}

const fn keep(size: Size) -> usize {
    let half = size.samples / 2;
    if half == 0 { 1 } else { half }
}

fn environment() -> Value {
    let layers: Vec<Value> = ["pid_namespace", "mount_namespace", "network_namespace", "seccomp"]
        .into_iter()
        .map(|layer| json!({ "layer": layer, "holds": true }))
        .collect();
    json!({
        "rocstar": "0.0.0", "host": { "cores": 2 },
        "sandbox": { "layers": layers, "degraded": false, "python": "python3",
                     "python_version": "3.11.7", "packages": [] },
    })
}

/// A tokenizer whose tokens are the bytes.
fn write_tokenizer(folder: &Path) -> std::io::Result<()> {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut moved = 0x100;
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..=u8::MAX {
        let letter = if plain(byte) {
            char::from(byte)
        } else {
            moved += 1;
            char::from_u32(moved - 1).unwrap_or(' ')
        };
        vocabulary.insert(letter.to_string(), byte.into());
    }
    let end = json!({ "id": 256, "content": "<|end|>", "special": true });
    let tokenizer = json!({
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
        "decoder": { "type": "ByteLevel" }, "added_tokens": [end],
    });
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string())
}

fn step_groups(
    step: u64,
    size: Size,
    said: Said,
) -> Result<Vec<Group>, Box<dyn std::error::Error>> {
    let config = RocConfig { keep: keep(size), ..RocConfig::default() };
    let first = (step - 1) * size.groups as u64;
    let groups = (0..size.groups).map(|number| {
        let task = first + number as u64;
        let episodes: Vec<Episode> = (0..size.samples)
            .map(|sample| episode(step, task, sample, size, said(step, number, sample)))
            .collect();
        Ok(choose(step, task, episodes, &config)?)
    });
    groups.collect()
}

/// Chooses as training does. What was learned from became a little likelier where that is what was
/// learned.
fn choose(
    step: u64,
    task: u64,
    episodes: Vec<Episode>,
    config: &RocConfig,
) -> Result<Group, rocstar_grpo::SelectionError> {
    let (id, answer) = (task_id(task), answer(task).to_string());
    let rollouts = Rollouts { task: id, answer, episodes, lost: Vec::new() };
    let key = selection_key(SEED, step, task);
    let mut group = rocstar_grpo::choose(rollouts, config, &AdvantageConfig::default(), key)?.group;
    for kept in &mut group.kept {
        let towards = 0.01 * kept.advantage as f32;
        let moved = kept.episode.log_probs.iter().map(|it| (it + towards).min(0.0));
        kept.trained_log_probs = moved.collect();
    }
    Ok(group)
}

/// Tasks come again after some steps.
fn task_id(task: u64) -> TaskId {
    TaskId(format!("task-{:05}", task % 4_096))
}

const fn numbers(task: u64) -> (u64, u64) {
    (task % 97 + 3, task % 89 + 11)
}

const fn answer(task: u64) -> u64 {
    let (a, b) = numbers(task);
    a * b
}

fn episode(step: u64, task: u64, sample: usize, size: Size, said: Option<&str>) -> Episode {
    let key =
        Key { step: step as u32, task, sample: sample as u32, ..Key::new(SEED, Purpose::Tasks) };
    let mut draws = key.at(0);
    // From a third right to most, and from many failed calls to few.
    let progress = step as f64 / size.steps.max(1) as f64;
    let right = draws.uniform() < 0.3 + 0.6 * progress;
    let fails = draws.uniform() < 0.35 - 0.3 * progress;
    let (a, b) = numbers(task);
    let result = if right { a * b } else { a * b + 1 };
    let mut text = Text::default();
    text.push(Author::Prompt, &format!("How much is {a} times {b}?"));
    text.push(Author::Template, "\nassistant\n");
    let program = if fails { format!("print({a} * b)") } else { format!("print({a} * {b})") };
    let start = text.tokens.len();
    let written =
        text.push(Author::Policy, &format!("I compute it.\n<tool_call>{program}</tool_call>"));
    let (outcome, shown) = if fails {
        (ToolOutcome::Exception { name: "NameError".into() }, "NameError: name 'b'".to_owned())
    } else {
        (ToolOutcome::Ok, result.to_string())
    };
    text.push(Author::Tool, &shown);
    text.push(Author::Template, "\nassistant\n");
    let second = text.tokens.len();
    let said = said.map(|said| format!("{said} ")).unwrap_or_default();
    let closing = text.push(Author::Policy, &format!("{said}That is \\boxed{{{result}}}."));
    let wall_us = 2_000 + (draws.uniform() * 20_000.0) as u64;
    let turns = vec![
        Turn {
            start_token: start,
            policy_tokens: written,
            answer_tags: 0,
            calls: vec![call(program, outcome, shown, wall_us)],
        },
        Turn { start_token: second, policy_tokens: closing, answer_tags: 1, calls: Vec::new() },
    ];
    let log_probs: Vec<f32> = (0..written + closing)
        .map(|at| -((key.at(at as u64 + 1).below(50)) as f32) / 100.0)
        .collect();
    Episode {
        schema: SCHEMA_VERSION,
        task: task_id(task),
        sample: sample as u32,
        step,
        tokens: text.tokens,
        spans: text.spans,
        model_log_probs: log_probs.clone(),
        log_probs,
        weight_versions: vec![(step - 1, written + closing)],
        turns,
        finish: Finish::Done,
        verdict: Verdict {
            kind: if right { VerdictKind::Right } else { VerdictKind::Wrong },
            answer: Some(result.to_string()),
            explanation: format!("{} and {result}", a * b),
            second_opinion: None,
        },
        reward: f64::from(u8::from(right)),
        timing: timing(sample as u64 * 10_000, wall_us),
    }
}

/// A turn, its call, another turn and the verdict, one after the other.
fn timing(began_us: u64, wall_us: u64) -> Timing {
    let (total_us, generating_us) = (wall_us + 60_000, 58_000);
    let mut from_us = began_us;
    let parts = [
        (Doing::Generating, 40_000),
        (Doing::Tool, wall_us),
        (Doing::Generating, 18_000),
        (Doing::Verifying, 1_000),
    ];
    let activities = parts.map(|(what, us)| {
        from_us += us;
        Activity { what, from_us: from_us - us, us }
    });
    Timing { total_us, generating_us, tools_us: wall_us, activities: activities.into() }
}

fn call(program: String, outcome: ToolOutcome, shown: String, wall_us: u64) -> Call {
    Call {
        tool: "python".into(),
        program,
        input: String::new(),
        outcome,
        shown,
        cut_tokens: 0,
        wall_us,
        cpu_us: wall_us / 4,
        memory_bytes: Some(2 << 20),
        isolation: vec!["pid_namespace".into(), "seccomp".into()],
    }
}

/// Tokens with their authors.
#[derive(Debug, Default)]
struct Text {
    tokens: Vec<u32>,
    spans: Vec<Span>,
}

impl Text {
    fn push(&mut self, author: Author, text: &str) -> usize {
        self.tokens.extend(text.bytes().map(u32::from));
        self.spans.push(Span { author, tokens: text.len() });
        text.len()
    }
}

fn evaluate(
    run: &mut RunDirectory,
    step: u64,
    size: Size,
) -> Result<(), Box<dyn std::error::Error>> {
    let tasks: Vec<Evaluated> = (0..64)
        .map(|task| {
            let task = 1_000_000 + task;
            let episode = episode(step, task, 0, size, None);
            let answer = answer(task).to_string();
            let (task, episodes) = (episode.task.clone(), vec![episode]);
            Evaluated { schema: SCHEMA_VERSION, task, answer, episodes, lost: Vec::new() }
        })
        .collect();
    let is_right = |task: &&Evaluated| task.episodes[0].verdict.kind == VerdictKind::Right;
    let accuracy = tasks.iter().filter(is_right).count() as f64 / tasks.len() as f64;
    let error = (accuracy * (1.0 - accuracy) / tasks.len() as f64).sqrt();
    let numbers = json!({
        "step": step, "stage": 0, "tasks": tasks.len(), "samples": 1, "accuracy": accuracy,
        "accuracy_standard_error": error,
    });
    run.write_evaluation("held_out", step, &numbers, &tasks)?;
    let mut line = numbers;
    line["kind"] = "rl_evaluation".into();
    line["seconds"] = 1.5.into();
    Ok(run.metric(&line)?)
}

fn metrics(step: u64, groups: &[Group], size: Size) -> Value {
    let episodes = || groups.iter().flat_map(Group::episodes).map(|(episode, _)| episode);
    let count = episodes().count().max(1) as f64;
    let right = || episodes().filter(|it| it.verdict.kind == VerdictKind::Right);
    let accuracy = right().count() as f64 / count;
    let failed = |all: Vec<&Episode>| {
        let calls: Vec<&Call> = all.iter().flat_map(|it| it.calls()).collect();
        calls.iter().filter(|it| it.outcome.is_failure()).count() as f64 / calls.len().max(1) as f64
    };
    let used = groups.iter().filter(|group| group.verdict == GroupVerdict::Used).count();
    json!({
        "kind": "rl_step", "step": step, "stage": 0, "epoch": 0, "accuracy": accuracy,
        "reward_mean": accuracy, "groups": size.groups, "groups_used": used,
        "rollouts": count, "tool_error_share": failed(episodes().collect()),
        "tool_error_share_right": failed(right().collect()), "response_tokens_mean": 80.0,
        "turns_mean": 2.0, "truncated_share": 0.0, "entropy_mean": 0.3, "loss": -0.01,
        "gradient_norm": 1.0, "seconds": 1.5, "seconds_rolling_out": 1.3, "seconds_generating": 1.0,
        "seconds_tools_waiting": 0.3, "seconds_verifying": 0.0, "seconds_updating": 0.2,
        "seconds_weights": 0.0, "seconds_other": 0.0, "tokens_per_s": 14_000.0, "kv_use_max": 0.8,
    })
}
