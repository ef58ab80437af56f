//! Directories that are torn, half written, newer or made to harm: what can be read is shown, the rest
//! is told, and nothing outside is read.

use std::fs;
use std::os::unix::fs::symlink;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::support::{SMALL, append, serve_folder, served};
use crate::synthetic;

fn notices(value: &Value) -> String {
    value["notices"].to_string()
}

#[tokio::test]
async fn torn_metrics_show_what_is_whole() {
    let served = served(|_, _, _| None).await;
    append(&served.run().join("metrics.jsonl"), b"{\"kind\":\"rl_step\",\"step\":5,\"accu");
    let curves = served.json("/api/runs/run/curves").await;
    assert!(notices(&curves).contains("the last line is not whole"), "{curves}");
    append(&served.run().join("metrics.jsonl"), b"racy\":1.0}\nno JSON\n");
    let curves = served.json("/api/runs/run/curves").await;
    let text = notices(&curves);
    assert!(text.contains("no JSON") && !text.contains("not whole"), "{text}");
    assert_eq!(served.json("/api/runs").await["runs"][0]["step"], 5);
    served.stop().await;
}

#[tokio::test]
async fn giant_lines_cost_themselves() {
    let served = served(|_, _, _| None).await;
    let giant = vec![b'['; 3 << 20];
    for name in ["metrics.jsonl", "events.jsonl"] {
        append(&served.run().join(name), &giant);
        append(&served.run().join(name), b"\n");
    }
    let run = &served.json("/api/runs").await["runs"][0];
    assert_eq!((&run["step"], &run["state"]), (&json!(4), &json!("finished")));
    assert!(notices(run).contains("longer than"), "{run}");
    served.stop().await;
}

#[tokio::test]
async fn a_damaged_step_shows_its_whole_groups() {
    let served = served(|_, _, _| None).await;
    let path = served.run().join("episodes/step_000002.jsonl.zst");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let step = served.json("/api/runs/run/steps/2").await;
    assert!(!step["notices"].as_array().unwrap().is_empty(), "{step}");
    fs::write(&path, b"no log").unwrap();
    let step = served.json("/api/runs/run/steps/2").await;
    assert_eq!(step["groups"], json!([]));
    assert!(notices(&step).contains("step_000002.jsonl.zst"), "{step}");
    assert!(!notices(&step).contains(served.folder.path().to_str().unwrap()), "{step}");
    let search = served.json("/api/runs/run/search?text=boxed").await;
    assert!(!search["hits"].as_array().unwrap().is_empty() && !notices(&search).is_empty());
    served.stop().await;
}

#[tokio::test]
async fn a_newer_schema_is_told_and_not_guessed_at() {
    let served = served(|_, _, _| None).await;
    let step = served.get("/api/runs/run/steps/99/groups/0/episodes/0").await;
    let folder = served.folder.path().to_str().unwrap().to_owned();
    assert_eq!(step.status, StatusCode::NOT_FOUND);
    assert!(step.text.contains("step_000099") && !step.text.contains(&folder), "{}", step.text);
    // Also of a run that is open.
    fs::write(served.run().join("env.json"), r#"{"schema": 99}"#).unwrap();
    let runs = served.json("/api/runs").await;
    assert_eq!(runs["runs"][0]["state"], "unreadable");
    assert!(notices(&runs["runs"][0]).contains("newer"), "{runs}");
    assert!(!notices(&runs["runs"][0]).contains(&folder), "{runs}");
    let run = served.get("/api/runs/run").await;
    assert_eq!(run.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(!run.text.contains(&folder), "{}", run.text);
    served.stop().await;
}

/// A group of a newer schema, with all its fields or without, is shown nowhere.
#[tokio::test]
async fn groups_of_a_newer_schema_are_told_and_not_guessed_at() {
    let served = served(|_, _, _| Some("Eureka")).await;
    for (path, is_alike) in [
        ("episodes/step_000002.jsonl.zst", true),
        ("episodes/step_000003.jsonl.zst", false),
        ("eval/held_out/step_000004.jsonl.zst", true),
    ] {
        let path = served.run().join(path);
        let mut records = rocstar_record::log::read::<Value>(&path).unwrap().records;
        records[1]["schema"] = json!(99);
        if !is_alike {
            records[1] = json!({"schema": 99, "novel": true});
        }
        let mut file = fs::File::create(&path).unwrap();
        rocstar_record::log::write(&mut file, &records).unwrap();
    }
    let told = "a newer rocstar wrote it: update this one";
    for step in [2, 3] {
        let view = served.json(&format!("/api/runs/run/steps/{step}")).await;
        assert_eq!(view["groups"].as_array().unwrap().len(), 1, "{view}");
        assert_eq!(view["notices"], json!([format!("step {step}: {told}")]));
        let path = format!("/api/runs/run/steps/{step}/groups/1/episodes/0");
        let episode = served.get(&path).await;
        assert_eq!(episode.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", episode.text);
        assert!(episode.text.contains(told), "{}", episode.text);
    }
    let search = served.json("/api/runs/run/search?text=eureka").await;
    let of_step = |hit: &&Value| hit["step"] == 2 || hit["step"] == 3;
    let hits = search["hits"].as_array().unwrap().iter().filter(of_step).count();
    assert_eq!(hits, 2 * SMALL.samples, "{search}");
    assert!(notices(&search).contains(told), "{search}");
    let matrix = served.json("/api/runs/run/evaluations/held_out").await;
    assert!(notices(&matrix).contains(told), "{matrix}");
    let mut problems = served.json("/api/runs/run/problems").await;
    while problems["progress"]["steps"] != json!(SMALL.steps) {
        problems = served.json("/api/runs/run/problems").await;
    }
    assert_eq!(problems["found"], json!(2 * SMALL.groups + 2), "{problems}");
    assert!(notices(&problems).contains(told), "{problems}");
    served.stop().await;
}

/// Texts of any length are cut, since those of a whole run are kept.
#[tokio::test]
async fn giant_names_and_answers_are_cut() {
    let served = served(|_, _, _| None).await;
    let path = served.run().join("episodes/step_000004.jsonl.zst");
    let mut records = rocstar_record::log::read::<Value>(&path).unwrap().records;
    records.truncate(1);
    let giant = "ä".repeat(1 << 20);
    (records[0]["task"], records[0]["answer"]) = (json!(giant), json!(giant));
    let mut file = fs::File::create(&path).unwrap();
    rocstar_record::log::write(&mut file, &records).unwrap();
    let step = served.get("/api/runs/run/steps/4").await;
    assert!(step.text.contains("ää") && step.text.len() < 50_000, "{}", step.text.len());
    let path = "/api/runs/run/problems?sort=newest&limit=1";
    let mut problems = served.get(path).await;
    while problems.json()["progress"]["steps"] != json!(SMALL.steps) {
        problems = served.get(path).await;
    }
    assert!(problems.text.contains("ää") && problems.text.len() < 5_000, "{}", problems.text.len());
    served.stop().await;
}

/// A run for each link, so that none hides behind the refusal of another.
#[tokio::test]
async fn links_inside_a_run_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    synthetic::write(&secret, SMALL, |_, _, _| Some("hidden words")).unwrap();
    fs::write(secret.join("sandbox.json"), "{}").unwrap();
    fs::write(secret.join("notes.json"), r#"{"text": "hidden words"}"#).unwrap();
    let links = [
        "config.toml",
        "env.json",
        "metrics.jsonl",
        "events.jsonl",
        "notes.json",
        "sandbox.json",
        "episodes",
        "episodes/step_000002.jsonl.zst",
        "eval",
        "eval/held_out",
        "eval/held_out/step_000004.json",
        "eval/held_out/step_000004.jsonl.zst",
        "tokenizer",
        "tokenizer/tokenizer.json",
    ];
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in links.iter().enumerate() {
        let run = folder.path().join(format!("run{number}"));
        synthetic::write(&run, SMALL, |_, _, _| None).unwrap();
        let link = run.join(name);
        let _ = fs::remove_file(&link).or_else(|_| fs::remove_dir_all(&link));
        symlink(secret.join(name), &link).unwrap();
    }
    symlink(&secret, folder.path().join("linked")).unwrap();
    let served = serve_folder(folder).await;
    for (number, name) in links.iter().enumerate() {
        let run = format!("/api/runs/run{number}");
        let mut all = String::new();
        for path in [
            "",
            "/curves",
            "/steps/2",
            "/steps/2/groups/0/episodes/0",
            "/search?text=hidden",
            "/evaluations",
            "/evaluations/held_out",
            "/evaluations/held_out/4/tasks/0/episodes/0",
            "/environment",
            "/environment/now",
        ] {
            let answer = served.get(&format!("{run}{path}")).await;
            assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{name}: {path}");
            all += &answer.text;
        }
        let report = served.get(&format!("/report/run{number}")).await;
        assert!(!(all.clone() + &report.text).contains("hidden words"), "{name}");
        // A folder of the tokenizer that is a link counts as none.
        let why = ["is a link", "no ordinary file", "\"has_text\":false"];
        let refused = why.iter().any(|why| all.contains(why));
        assert!(refused, "{name} is refused and told: {all}");
    }
    for path in ["/api/runs/linked", "/api/runs/linked/steps/2", "/report/linked"] {
        assert_eq!(served.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    served.stop().await;
}

/// A recipe that is none, numbers out of range, names that are paths.
#[tokio::test]
async fn odd_names_and_numbers_are_refused() {
    let served = served(|_, _, _| None).await;
    fs::write(served.run().join("config.toml"), "seed = [").unwrap();
    let run = &served.json("/api/runs").await["runs"][0];
    assert!(notices(run).contains("config.toml can't be read"), "{run}");
    assert_eq!((&run["step"], &run["steps"]), (&json!(4), &Value::Null));
    for path in [
        "/api/runs/%2e%2e",
        "/api/runs/..%2f..%2fetc",
        "/api/runs/run%00",
        "/api/runs/run/steps/99999999999999999999",
        "/api/runs/run/steps/-1",
        "/api/runs/run/steps/1/groups/18446744073709551615/episodes/0",
        "/api/runs/run/evaluations/..%2f..%2fepisodes",
        "/api/runs/run/evaluations/held_out/1/tasks/0/episodes/4294967295",
        "/report/..%2frun",
    ] {
        let answer = served.get(path).await;
        assert!(answer.status.is_client_error(), "{path}: {} {}", answer.status, answer.text);
    }
    served.stop().await;
}
