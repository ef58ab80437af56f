//! Directories that are torn, half written, newer or made to harm: what can be read is shown, the rest
//! is told, and nothing outside is read.

use std::fs;
use std::os::unix::fs::symlink;

use hyper::StatusCode;
use serde_json::json;

use crate::support::{SMALL, append, serve_folder, served};
use crate::synthetic;

fn notices(value: &serde_json::Value) -> String {
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
    fs::write(served.run().join("env.json"), r#"{"schema": 99}"#).unwrap();
    // Runs that were opened before stay open: another server looks at it.
    let folder = tempfile::tempdir().unwrap();
    fs::rename(served.run(), folder.path().join("newer")).unwrap();
    served.stop().await;
    let served = serve_folder(folder).await;
    let runs = served.json("/api/runs").await;
    assert_eq!(runs["runs"][0]["state"], "unreadable");
    assert!(notices(&runs["runs"][0]).contains("newer"), "{runs}");
    let run = served.get("/api/runs/newer").await;
    assert_eq!(run.status, StatusCode::UNPROCESSABLE_ENTITY);
    served.stop().await;
}

#[tokio::test]
async fn links_inside_a_run_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    synthetic::write(&outside.path().join("secret"), SMALL, |_, _, _| Some("hidden words"))
        .unwrap();
    let secret = outside.path().join("secret");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("config.toml"), "seed = 1\n").unwrap();
    for name in ["episodes", "eval", "checkpoints", "tokenizer", "metrics.jsonl", "events.jsonl"] {
        symlink(secret.join(name), run.join(name)).unwrap();
    }
    symlink(&secret, folder.path().join("linked")).unwrap();
    let served = serve_folder(folder).await;
    for path in [
        "/api/runs",
        "/api/runs/run",
        "/api/runs/run/curves",
        "/api/runs/run/steps/2",
        "/api/runs/run/steps/2/groups/0/episodes/0",
        "/api/runs/run/search?text=hidden",
        "/api/runs/run/evaluations",
        "/api/runs/run/evaluations/held_out",
        "/api/runs/run/problems",
        "/api/runs/linked",
        "/api/runs/linked/steps/2",
        "/report/run",
    ] {
        let answer = served.get(path).await;
        assert!(!answer.text.contains("hidden words"), "{path}: {}", answer.text);
        assert!(!answer.text.contains("task-0"), "{path}: {}", answer.text);
        assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
    served.stop().await;
}

/// A recipe that is none, numbers out of range, names that are paths.
#[tokio::test]
async fn odd_names_and_numbers_are_refused() {
    let served = served(|_, _, _| None).await;
    fs::write(served.run().join("config.toml"), "seed = [").unwrap();
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
