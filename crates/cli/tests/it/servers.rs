//! Evaluations at servers of other people: several that serve one model, and one that judges.

use std::path::Path;

use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Reply, Script};
use serde_json::Value;

use crate::harness::{Harness, show};

fn server(model: &str, answer: fn(&str) -> String) -> FakeEndpoint {
    let script = Script::new(move |question| Reply::text(answer(question.last_text())));
    let model = model.to_owned();
    FakeEndpoint::start(Behaviour { model, script, ..Behaviour::default() }).unwrap()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Two questions in two categories, as the hub's layout has them.
fn write_arena_hard(folder: &Path) {
    let questions = "{\"uid\": \"a\", \"category\": \"hard_prompt\", \"prompt\": \"p\"}\n\
                     {\"uid\": \"b\", \"category\": \"creative_writing\", \"prompt\": \"q\"}\n";
    let answer = |uid: &str| {
        format!(
            "{{\"uid\": \"{uid}\", \"messages\": [{{\"role\": \"assistant\", \"content\": \"x\"}}]}}\n"
        )
    };
    let folder = folder.join("arena-hard-v2.0");
    write(&folder.join("question.jsonl"), questions);
    write(&folder.join("model_answer/o3-mini-2025-01-31.jsonl"), &answer("a"));
    write(&folder.join("model_answer/gemini-2.0-flash-001.jsonl"), &answer("b"));
}

fn result(harness: &Harness, arguments: &[&str]) -> Value {
    let output = harness.command(arguments).output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_judge_s_figures_stand_under_its_own_name() {
    let harness = Harness::new();
    write_arena_hard(&harness.path().join("data"));
    let model = server("writer", |_| "an answer".to_owned());
    let judge = server("strict", |_| "I think: [[A>B]]".to_owned());
    let other = server("kind", |_| "[[B>>A]]".to_owned());
    let (model, judge, other) = (model.url(), judge.url(), other.url());
    let begin = [
        "eval",
        &model,
        "--suite",
        "arena-hard",
        "--arena-hard",
        "v2.0",
        "--data-dir",
        "data",
        "--samples",
        "1",
        "--no-tool",
        "--out",
        "it",
        "--json",
    ];
    let refused = harness.run(&begin);
    assert!(refused.starts_with("exit status: 2") && refused.contains("--judge URL"), "{refused}");
    assert!(!harness.path().join("it").exists());
    let with_judge = [&begin[..], &["--judge", &judge]].concat();
    let output = harness.command(&with_judge).output().unwrap();
    let shown = show(&output);
    assert!(
        shown.contains("judge:     `strict`; published figures were judged by `gpt-4.1`"),
        "{shown}"
    );
    let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(judged["protocol"]["judge"]["model"], "strict");
    assert_eq!(judged["protocol"]["judge"]["prompts"], "rocstar");
    let rates = judged["win_rates"].as_object().unwrap();
    assert_eq!(rates.keys().collect::<Vec<_>>(), ["creative_writing", "hard_prompt"]);
    assert_eq!(rates["hard_prompt"]["value"], 0.5);

    let again = ["eval", "rescore", "it", "--data-dir", "data", "--json"];
    let shown = harness.run(&again);
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    assert!(shown.contains("were judged by `strict`") && shown.contains("--judge URL"), "{shown}");
    let shown = harness.run(&[&again[..], &["--judge", &other]].concat());
    assert!(shown.starts_with("exit status: 2"), "{shown}");
    assert!(shown.contains("not by `kind`"), "{shown}");
    let same = result(&harness, &[&again[..], &["--judge", &judge]].concat());
    assert_eq!(same["figures"], judged["figures"]);
}

#[test]
fn two_servers_of_a_model_share_its_questions() {
    let harness = Harness::new();
    let problem = |n: usize| format!("{{\"problem\": \"{n}?\", \"answer\": \"{n}\"}}\n");
    write(&harness.path().join("own.jsonl"), &(0..40).map(problem).collect::<String>());
    fn echo(text: &str) -> String {
        let digits = text.split(|letter: char| !letter.is_ascii_digit());
        let n: usize = digits.filter_map(|it| it.parse().ok()).next().unwrap();
        format!("\\boxed{{{}}}", n - n % 4)
    }
    let first = server("m", echo);
    let second = server("m", echo);
    let (one, two) = (first.url(), second.url());
    let settings = [
        "--suite",
        "own.jsonl",
        "--samples",
        "1",
        "--preset",
        "greedy",
        "--max-concurrent",
        "4",
        "--json",
    ];
    let alone = result(&harness, &[&["eval", &one, "--out", "alone"], &settings[..]].concat());
    let before = first.seen().len();
    let both = result(&harness, &[&["eval", &one, &two, "--out", "both"], &settings[..]].concat());
    assert_eq!(both["figures"]["score"]["value"], 0.25);
    assert_eq!(both["figures"], alone["figures"]);
    let answered =
        |server: &FakeEndpoint| server.seen().iter().filter(|it| it.was_answered).count();
    let (of_first, of_second) = (answered(&first) - before, answered(&second));
    assert_eq!(of_first + of_second, 40);
    assert!(of_first > 0 && of_second > 0, "{of_first} {of_second}");

    // Names that would lie in one folder, and what lies there already, are told before anybody is asked.
    write(&harness.path().join("b/own.jsonl"), &problem(1));
    let asked = (first.seen().len(), second.seen().len());
    let twice = harness.run(&[&["eval", &one, "--suite", "b/own.jsonl"], &settings[..]].concat());
    assert!(twice.starts_with("exit status: 2"), "{twice}");
    assert!(twice.contains("two suites would lie in evals/m-own"), "{twice}");
    let again = harness.run(&[&["eval", &one, "--out", "both"], &settings[..]].concat());
    assert!(again.contains("holds an evaluation already"), "{again}");
    assert_eq!((first.seen().len(), second.seen().len()), asked);
}
