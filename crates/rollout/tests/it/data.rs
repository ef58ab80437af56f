//! Tasks from files: layouts, filters, faults with their place, and counts that add up.

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_record::message::{Message, Role};
use rocstar_rollout::Task;
use rocstar_rollout::data::{Counts, DataError, HeldOut, Layout, Longer, Only, TaskOptions, Tasks};
use rocstar_rollout::data::{read, split};
use serde_json::{Value, json};

fn write(path: &Path, rows: &[Value]) {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(path, text).unwrap();
}

/// Reads rows that were written to `tasks.jsonl`, with an evaluation set beside it.
fn tasks(rows: &[Value], options: TaskOptions, evaluation: &[Value]) -> Result<Tasks, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("tasks.jsonl"), rows);
    write(&path("evaluation.jsonl"), evaluation);
    let decontaminate =
        if evaluation.is_empty() { Vec::new() } else { vec![path("evaluation.jsonl")] };
    let options = TaskOptions { paths: vec![path("tasks.jsonl")], decontaminate, ..options };
    let shown = format!("{}/", folder.path().display());
    read(&options).map_err(|error| error.to_string().replace(&shown, ""))
}

fn plain(id: u64, problem: &str, answer: &str) -> Value {
    json!({"id": id, "problem": problem, "answer": answer})
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.0.as_str()).collect()
}

#[test]
fn a_row_is_a_task_with_all_else_as_meta() {
    let row = json!({"problem": "1 + 1?", "answer": 2, "level": 3, "tags": ["sum"]});
    let options = TaskOptions { system: Some("Think.".to_owned()), ..TaskOptions::default() };
    let all = tasks(&[row], options, &[]).unwrap();
    let [task] = &all.tasks[..] else { panic!("{all:?}") };
    assert_eq!((task.id.0.as_str(), task.answer.as_str()), ("tasks.jsonl:1", "2"));
    let messages = [Message::text(Role::System, "Think."), Message::text(Role::User, "1 + 1?")];
    assert_eq!(task.messages, messages);
    assert_eq!(Value::Object(task.meta.clone()), json!({"level": 3, "tags": ["sum"]}));
    assert_eq!(all.places[0].row, 1);
}

#[test]
fn verls_layout_is_read_from_parquet_and_from_lines() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/verl.parquet");
    let options = TaskOptions { paths: vec![file], layout: Layout::Verl, ..TaskOptions::default() };
    let all = read(&options).unwrap();
    assert_eq!(ids(&all.tasks), ["0", "1"]);
    let first = &all.tasks[0];
    assert_eq!(first.messages, [Message::text(Role::User, "What is 6 · 7?")]);
    assert_eq!(first.answer, "42");
    assert_eq!(first.meta["data_source"], "math");
    assert_eq!(first.meta["reward_model"], json!({"style": "rule"}));
    let row = json!({
        "prompt": [{"role": "user", "content": "What is 6 · 7?"}], "data_source": "math",
        "reward_model": {"ground_truth": "42", "style": "rule"}, "extra_info": {"index": 0},
    });
    let options = TaskOptions { layout: Layout::Verl, ..TaskOptions::default() };
    let line = tasks(&[row], options, &[]).unwrap();
    assert_eq!(line.tasks[0].messages, first.messages);
    assert_eq!((&line.tasks[0].id, &line.tasks[0].answer), (&first.id, &first.answer));
}

#[test]
fn faults_name_file_row_and_field() {
    let good = plain(7, "What is 1 + 1?", "2");
    for (row, expected) in [
        (json!({"answer": "2"}), "problem: is missing; the row has `answer`"),
        (json!({"problem": "?"}), "answer: is missing; the row has `problem`"),
        (json!({"problem": "?", "answer": " "}), "answer: is empty: a task needs the right answer"),
        (json!({"problem": "?", "answer": []}), "answer: must be a text or a number"),
        (json!({"problem": "", "answer": "2"}), "problem: is empty: there is no problem"),
        (json!({"problem": [], "answer": "2"}), "problem: is empty: there is no problem"),
        (json!({"problem": 3, "answer": "2"}), "problem: must be a text or a list of messages"),
        (
            json!({"problem": [{"role": "bot", "content": "?"}], "answer": "2"}),
            "problem: must be a list of messages: unknown variant `bot`",
        ),
        (
            json!({"problem": [{"role": "assistant", "content": "2"}], "answer": "2"}),
            "problem: must end with a message of the user",
        ),
        (
            plain(7, "Another?", "3"),
            "id: `7` is the identity of tasks.jsonl:1 too: make them differ",
        ),
        (json!([1]), "column 0: is not a JSON object"),
    ] {
        let error = tasks(&[good.clone(), row], TaskOptions::default(), &[]).unwrap_err();
        assert!(error.starts_with(&format!("tasks.jsonl:2: {expected}")), "{error}");
    }
    let absent = TaskOptions { paths: vec![PathBuf::from("absent.jsonl")], ..Default::default() };
    assert!(read(&absent).unwrap_err().to_string().starts_with("can't open absent.jsonl: "));
    let nothing = TaskOptions { only: vec![Only::default()], ..TaskOptions::default() };
    let error = read(&nothing).unwrap_err().to_string();
    let expected = "`paths` is missing: files of `.jsonl` or `.parquet`; `only.field` is missing; \
                    `only.equals` is missing (or `at_least`, or `at_most`)";
    assert_eq!(error, format!("the data's settings can't work: {expected}"));
}

#[test]
fn what_is_left_out_has_a_reason() {
    let mut rows = vec![
        plain(1, "How many primes are there below one hundred and two?", "26"),
        plain(2, "What is one half?", "1/2"),
        plain(3, "What  is 6 times 7?", "42"),
        plain(4, "What is 6 times 7?", "42"),
        plain(5, "Say how many PRIMES, are there below one hundred and two!", "26"),
        plain(6, "What is 9 times 9?", "81"),
        plain(7, "What is 3 times 9?", "27"),
    ];
    for row in &mut rows {
        row["source"] = json!({"name": "own", "level": row["id"]});
    }
    rows[5]["source"]["name"] = json!("other");
    let only = |field: &str| Only { field: field.to_owned(), ..Only::default() };
    let options = TaskOptions {
        only: vec![
            Only { equals: Some(vec![json!("own"), json!("x")]), ..only("source.name") },
            Only { at_least: Some(1.0), at_most: Some(6.0), ..only("source.level") },
        ],
        integer_answers_only: true,
        ..TaskOptions::default()
    };
    let evaluation = [json!({"question": "primes are there below one hundred and two"})];
    let all = tasks(&rows, options, &evaluation).unwrap();
    assert_eq!(ids(&all.tasks), ["3"]);
    let counts = Counts {
        rows: 7,
        used: 1,
        filtered: 2,
        not_integer: 1,
        duplicates: 1,
        contaminated: 2,
        too_long: 0,
    };
    assert_eq!(all.counts, counts);
    let expected = "of 7 rows 1 are used, 2 are left out by `only`, 1 have an answer that is no \
                    integer, 1 have a problem that is there already, 2 share eight words in a row \
                    with an evaluation set";
    assert_eq!(all.counts.to_string(), expected);
    let none = TaskOptions { integer_answers_only: true, ..TaskOptions::default() };
    let error = tasks(&rows[1..2], none, &[]).unwrap_err();
    assert!(error.starts_with("there are no tasks: of 1 rows 0 are used, 1 have an"), "{error}");
}

#[test]
fn a_short_problem_is_known_as_a_whole() {
    let rows = [plain(1, "What is 6 times 7?", "42"), plain(2, "So what is 6 times 7?", "42")];
    let evaluation = [json!({"problem": "what is 6 TIMES 7"})];
    let all = tasks(&rows, TaskOptions::default(), &evaluation).unwrap();
    assert_eq!(ids(&all.tasks), ["2"]);
    let error = tasks(&rows, TaskOptions::default(), &[json!({"text": "?"})]).unwrap_err();
    assert_eq!(error, "evaluation.jsonl:1: problem: is missing; the row has `text`");
}

#[test]
fn prompts_over_the_limit_stop_it_or_are_counted() {
    let rows = [plain(1, "short", "1"), plain(2, "much longer", "2")];
    let options = TaskOptions { prompt_tokens: Some(6), ..TaskOptions::default() };
    let all = tasks(&rows, options.clone(), &[]).unwrap();
    let measure = |task: &Task| Ok::<_, DataError>(task.messages[0].content.len());
    let error = all.clone().fit(&options, &measure).unwrap_err().to_string();
    let expected = "tasks.jsonl:2: problem: makes a prompt of 11 tokens, `prompt_tokens` is 6: \
                    raise it, or set `longer_prompts = \"drop\"`";
    assert!(error.ends_with(expected), "{error}");
    let dropping = TaskOptions { longer_prompts: Longer::Drop, ..options };
    let mut fitting = all;
    fitting.fit(&dropping, &measure).unwrap();
    assert_eq!((ids(&fitting.tasks), fitting.places.len()), (vec!["1"], 1));
    assert_eq!((fitting.counts.used, fitting.counts.too_long), (1, 1));
}

#[test]
fn a_limit_ends_the_reading() {
    let rows = [plain(1, "a?", "1"), plain(2, "b?", "2"), json!({})];
    let options = TaskOptions { limit: Some(2), ..TaskOptions::default() };
    let all = tasks(&rows, options, &[]).unwrap();
    assert_eq!((all.tasks.len(), all.counts.rows), (2, 2));
}

#[test]
fn unknown_keys_of_the_settings_are_refused() {
    let error = serde_json::from_value::<TaskOptions>(json!({"path": []})).unwrap_err();
    assert!(error.to_string().contains("unknown field `path`"), "{error}");
    let options: TaskOptions = serde_json::from_value(json!({"layout": "verl"})).unwrap();
    let written = serde_json::to_value(&options).unwrap();
    assert_eq!(serde_json::from_value::<TaskOptions>(written).unwrap(), options);
}

proptest! {
    #[test]
    fn a_split_loses_nothing_and_hangs_on_the_seed_alone(count in 0_usize..60, held in 0_usize..70, seed: u64) {
        let all: Vec<Task> = (0..count)
            .map(|number| {
                let rows = [plain(number as u64, "?", "1")];
                tasks(&rows, TaskOptions::default(), &[]).unwrap().tasks.remove(0)
            })
            .collect();
        let (learnt, out) = split(all.clone(), HeldOut::Tasks(held), seed);
        prop_assert_eq!(out.len(), held.min(count));
        let mut joined: Vec<Task> = learnt.iter().chain(&out).cloned().collect();
        joined.sort_by_key(|task| task.id.0.parse::<usize>().unwrap());
        prop_assert_eq!(&joined, &all);
        prop_assert_eq!(split(all.clone(), HeldOut::Tasks(held), seed), (learnt, out));
        let (_, share) = split(all, HeldOut::Share(0.25), seed);
        prop_assert_eq!(share.len(), count / 4);
    }
}
