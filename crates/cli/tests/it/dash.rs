//! `rocstar dash`, `report` and `watch`, on a run of version 1 that is kept for reading.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Child;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::{Harness, announced, show};

/// A harness with the run `runs/run_1`.
pub(crate) fn with_run() -> Harness {
    let harness = Harness::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/golden/run_1");
    copy(&golden, &harness.path().join("runs/run_1"));
    harness
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// A dashboard that is served; gives its process and what it announced.
fn serve(harness: &Harness, more: &[&str]) -> (Child, Value) {
    let arguments = ["dash", "runs", "--listen", "127.0.0.1:0", "--json", "--no-open"];
    announced(harness.command(&[&arguments, more].concat()))
}

fn get(announcement: &Value, path: &str) -> String {
    let url = announcement["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (address, _) = url.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn stop(mut process: Child) -> Option<i32> {
    let pid = rustix::process::Pid::from_raw(process.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    process.wait().unwrap().code()
}

#[test]
fn the_dashboard_shows_the_runs_until_a_signal() {
    let harness = with_run();
    let (process, announcement) = serve(&harness, &[]);
    let runs = get(&announcement, "/api/runs");
    assert!(runs.starts_with("HTTP/1.1 200") && runs.contains("\"name\":\"run_1\""), "{runs}");
    assert!(get(&announcement, "/").contains("<!doctype html>"));
    assert_eq!(stop(process), Some(0));
}

#[test]
fn a_token_is_in_the_link_and_without_it_nothing_is_shown() {
    let harness = with_run();
    let (process, announcement) = serve(&harness, &["--token", "secret"]);
    assert!(announcement["url"].as_str().unwrap().ends_with("/?token=secret"));
    assert!(get(&announcement, "/api/runs").starts_with("HTTP/1.1 401"));
    let entered = get(&announcement, "/?token=secret");
    assert!(entered.starts_with("HTTP/1.1 303") && entered.contains("HttpOnly"), "{entered}");
    assert_eq!(stop(process), Some(0));
    let public = harness.command(&["dash", "runs", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(public.status.code(), Some(2), "{}", show(&public));
    let absent = harness.command(&["dash", "absent"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(1), "{}", show(&absent));
    assert!(show(&absent).contains("hint: "), "{}", show(&absent));
}

/// A service's own state beside the runs, and what is told when the service is gone.
#[test]
fn a_served_code_environment_is_shown_as_it_is_now() {
    let harness = crate::quickstart::harness();
    std::fs::create_dir_all(harness.path().join("runs")).unwrap();
    let arguments = ["sandbox", "serve", "--listen", "127.0.0.1:0", "--json"];
    let sandbox = ["--config", "sandbox.toml", "--allow-degraded", "--token", "secret"];
    let (service, said) = announced(harness.command(&[&arguments[..], &sandbox].concat()));
    let url = said["url"].as_str().unwrap().to_owned();
    let more = ["--environment", &url, "--environment-token", "secret"];
    let (process, announcement) = serve(&harness, &more);
    let seen = |wanted: fn(&Value) -> bool| loop {
        let answer = get(&announcement, "/api/environment");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let seen: Value = serde_json::from_str(body).unwrap();
        if wanted(&seen) {
            return seen;
        }
    };
    let now = seen(|seen| seen["state"].is_object());
    assert!(now["state"]["slots"].as_u64().unwrap() > 0, "{now}");
    assert!(!now["state"]["layers"].as_object().unwrap().is_empty(), "{now}");
    assert_eq!(stop(service), Some(0));
    let gone = seen(|seen| seen["run"] == "unreachable");
    assert!(gone["state"].is_object() && gone["notice"].as_str().unwrap().contains(&url), "{gone}");
    assert_eq!(stop(process), Some(0));
}

#[test]
fn a_report_is_written_in_both_forms() {
    let harness = with_run();
    harness.run(&["report", "runs/run_1"]);
    let html = std::fs::read_to_string(harness.path().join("runs/run_1/report.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && !html.contains("<script"), "{html}");
    let text = harness.run(&["report", "runs/run_1", "runs/run_1", "--format", "md", "--out", "-"]);
    assert!(text.contains("## Results") && text.contains("run_1"), "{text}");
    let two = harness.command(&["report", "runs/run_1", "runs/run_1"]).output().unwrap();
    assert_eq!(two.status.code(), Some(2), "{}", show(&two));
    // A run from elsewhere, in which the report's name is a link.
    let (report, outside) =
        (harness.path().join("runs/run_1/report.html"), harness.path().join("mine"));
    std::fs::write(&outside, "kept").unwrap();
    std::fs::remove_file(&report).unwrap();
    std::os::unix::fs::symlink(&outside, &report).unwrap();
    harness.run(&["report", "runs/run_1"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
    assert!(std::fs::read_to_string(&report).unwrap().contains("<!doctype html>"));
    let none = harness.command(&["report", "runs"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1), "{}", show(&none));
}

#[test]
fn a_picture_of_a_run_is_printed() {
    let harness = with_run();
    let picture = harness.run(&["watch", "runs/run_1", "--once"]);
    assert!(picture.contains("run_1") && picture.contains("episodes of step"), "{picture}");
    let no_terminal = harness.command(&["watch", "runs/run_1"]).output().unwrap();
    assert_eq!(no_terminal.status.code(), Some(1), "{}", show(&no_terminal));
}
