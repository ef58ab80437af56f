//! `rocstar data …`, on a hub that this test plays.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Harness, show};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The commit at which `aime25` is pinned.
const AIME25: &str = "a6ad95f611d72cf628a80b58bd0432ef6638f958";

/// A hub with one data set.
struct HubState {
    dataset: &'static str,
    commit: &'static str,
    files: BTreeMap<&'static str, Vec<u8>>,
    /// The answer to everything, where it is not 200.
    refuses_with: Option<&'static str>,
    /// The next file is cut off after so many bytes.
    cut_after: AtomicUsize,
    /// Heads of the requests for files.
    asked: Mutex<Vec<String>>,
}

const WHOLE: usize = usize::MAX;

/// It lives as long as the process.
fn start(state: HubState) -> (String, Arc<HubState>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let state = Arc::new(state);
    let shared = Arc::clone(&state);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let state = Arc::clone(&shared);
            std::thread::spawn(move || state.answer(stream.unwrap()));
        }
    });
    (url, state)
}

impl HubState {
    fn new(
        dataset: &'static str,
        commit: &'static str,
        files: &[(&'static str, &'static str)],
    ) -> Self {
        let bytes = |(path, text): &(&'static str, &'static str)| (*path, text.as_bytes().to_vec());
        Self {
            dataset,
            commit,
            files: files.iter().map(bytes).collect(),
            refuses_with: None,
            cut_after: AtomicUsize::new(WHOLE),
            asked: Mutex::new(Vec::new()),
        }
    }

    /// One request, then the connection closes.
    fn answer(&self, mut stream: TcpStream) {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let Some(target) = head.first().and_then(|line| line.split(' ').nth(1)) else { return };
        let path = target.split('?').next().unwrap();
        let api = format!("/api/datasets/{}", self.dataset);
        let resolve = format!("/datasets/{}/resolve/{}/", self.dataset, self.commit);
        if let Some(status) = self.refuses_with {
            return send(&mut stream, status, "", b"", WHOLE);
        }
        if path.starts_with(&format!("{api}/tree/{}", self.commit)) {
            assert!(target.ends_with("?recursive=true"), "{target}");
            let entry = |(path, bytes): (&&str, &Vec<u8>)| json!({ "type": "file", "oid": "1", "size": bytes.len(), "path": path });
            let folder = json!({ "type": "directory", "oid": "1", "size": 0, "path": "data" });
            let entries: Value = self.files.iter().map(entry).chain([folder]).collect();
            send(&mut stream, "200 OK", "", entries.to_string().as_bytes(), WHOLE);
        } else if path.starts_with(&format!("{api}/revision/")) {
            let is_old = path.ends_with("/old");
            let is_known = is_old || path.ends_with("/main") || path.ends_with(self.commit);
            let status = if is_known { "200 OK" } else { "404 Not Found" };
            let sha = if is_old { COMMIT.replace('0', "f") } else { self.commit.to_owned() };
            let body = json!({ "sha": sha }).to_string();
            send(&mut stream, status, "", body.as_bytes(), WHOLE);
        } else if let Some(bytes) = path.strip_prefix(&resolve).and_then(|it| self.files.get(it)) {
            self.asked.lock().unwrap().push(head.join("\n").to_lowercase());
            let range = head.iter().find_map(|line| {
                let line = line.to_lowercase();
                line.strip_prefix("range: bytes=")?.trim_end_matches('-').parse::<usize>().ok()
            });
            let cut = self.cut_after.swap(WHOLE, Ordering::SeqCst);
            match range {
                Some(from) => {
                    let last = bytes.len() - 1;
                    let extra = format!("Content-Range: bytes {from}-{last}/{}\r\n", bytes.len());
                    send(&mut stream, "206 Partial Content", &extra, &bytes[from..], cut);
                }
                None => send(&mut stream, "200 OK", "", bytes, cut),
            }
        } else {
            send(&mut stream, "404 Not Found", "", b"", WHOLE);
        }
    }
}

fn send(stream: &mut TcpStream, status: &str, extra: &str, body: &[u8], cut_after: usize) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{extra}Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Who is gone needs nothing.
    let _ = stream.write_all(&body[..cut_after.min(body.len())]);
}

const FIRST: &str = "{\"question\": \"1 + 1?\", \"answer\": \"2\"}\n";
const SECOND: &str = "{\"question\": \"2 + 2?\", \"answer\": \"4\"}\n";

fn aime25() -> HubState {
    let files = [("aime2025-I.jsonl", FIRST), ("aime2025-II.jsonl", SECOND), ("README.md", "?")];
    HubState::new("opencompass/AIME2025", AIME25, &files)
}

fn fetch(harness: &Harness, hub: &str, arguments: &[&str]) -> Output {
    let mut command = harness.command(&[&["data", "fetch"], arguments].concat());
    command.env("HF_ENDPOINT", hub).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn listed(mut command: Command, name: &str) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    all.into_iter().find(|suite| suite["name"] == name).unwrap()
}

#[test]
fn a_suites_data_comes_from_the_hub_once_at_its_commit() {
    let harness = Harness::new();
    let (hub, state) = start(aime25());
    let output = fetch(&harness, &hub, &["aime25", "practice", "--json"]);
    assert!(output.status.success(), "{}", show(&output));
    let place = harness.path().join(".cache/rocstar/data/aime25");
    let fetched: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fetched.as_array().unwrap().len(), 1, "practice needs no data: {fetched}");
    assert_eq!(fetched[0]["path"], place.to_str().unwrap());
    assert_eq!(fetched[0]["revision"], AIME25);
    assert_eq!(fetched[0]["changed"], true);
    assert_eq!(fetched[0]["files"][1]["path"], "aime2025-II.jsonl");
    assert_eq!(fetched[0]["files"][1]["bytes"], SECOND.len());
    assert_eq!(names(&place), ["aime2025-I.jsonl", "aime2025-II.jsonl", "source.json"]);
    assert_eq!(names(place.parent().unwrap()), ["aime25"]);
    assert_eq!(state.asked.lock().unwrap().len(), 2);
    // A second time nobody is asked.
    let again = show(&fetch(&harness, "http://127.0.0.1:1", &["aime25"]));
    let expected = format!(
        "exit status: 0\n--- stdout\n{}\n--- stderr\ndata: aime25 already here\n",
        place.display()
    );
    assert_eq!(again, expected);
    let suite = listed(harness.command(&["data", "list", "--json"]), "aime25");
    assert_eq!((&suite["is_here"], &suite["path"]), (&json!(true), &json!(place)));
    // Another commit is not mixed with this one.
    let other = show(&fetch(&harness, &hub, &["aime25", "--revision", COMMIT]));
    assert!(other.starts_with("exit status: 2\n"), "{other}");
    assert!(other.contains(&format!("holds other files, of commit {AIME25}")), "{other}");
}

#[test]
fn a_download_that_broke_off_is_gone_on_with() {
    let harness = Harness::new();
    let (hub, state) = start(aime25());
    state.cut_after.store(10, Ordering::SeqCst);
    let said = show(&fetch(&harness, &hub, &["aime25"]));
    assert!(said.starts_with("exit status: 1\n"), "{said}");
    assert!(said.contains("error: can't fetch `opencompass/AIME2025` from the hub\n"), "{said}");
    let place = harness.path().join(".cache/rocstar/data/aime25");
    assert!(!place.exists());
    let output = fetch(&harness, &hub, &["aime25"]);
    assert!(output.status.success(), "{}", show(&output));
    assert_eq!(std::fs::read_to_string(place.join("aime2025-I.jsonl")).unwrap(), FIRST);
    let asked = state.asked.lock().unwrap();
    assert!(asked[1].contains("range: bytes=10-"), "{asked:?}");
    assert!(!asked[2].contains("range: "), "{asked:?}");
}

#[test]
fn what_is_not_what_it_must_be_is_refused() {
    let harness = Harness::new();
    let commit = "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be";
    let files = [("test.jsonl", "{\"problem\": \"p\", \"answer\": \"1\"}\n")];
    let (hub, _) = start(HubState::new("HuggingFaceH4/MATH-500", commit, &files));
    for _ in 0..2 {
        let said = show(&fetch(&harness, &hub, &["math500"]));
        assert!(said.starts_with("exit status: 1\n"), "{said}");
        assert!(said.contains(", it must be 35dc41080a36"), "{said}");
        assert!(!harness.path().join(".cache/rocstar/data/math500").exists());
    }
}

#[test]
fn a_gated_suite_is_told_with_what_to_do() {
    let harness = Harness::new();
    let state = HubState::new("Idavidrein/gpqa", COMMIT, &[]);
    let (hub, _) = start(HubState { refuses_with: Some("401 Unauthorized"), ..state });
    let said = show(&fetch(&harness, &hub, &["gpqa-diamond"]));
    assert!(said.starts_with("exit status: 1\n"), "{said}");
    let hint = "hint: `Idavidrein/gpqa` is gated: accept its conditions at \
                https://huggingface.co/datasets/Idavidrein/gpqa, make a token at \
                https://huggingface.co/settings/tokens and set `HF_TOKEN` to it\n";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn files_of_any_data_set_can_be_had() {
    let harness = Harness::new();
    let files = [("data/mine.jsonl", "{\"problem\": \"1 + 1?\", \"answer\": \"2\"}\n")];
    let (hub, _) = start(HubState::new("owner/mine", COMMIT, &files));
    let which = show(&fetch(&harness, &hub, &["owner/mine"]));
    assert!(which.contains("which files of `owner/mine`?"), "{which}");
    assert!(
        which.contains("hint: name each with `--file PATH`; it has data/mine.jsonl\n"),
        "{which}"
    );
    let none = show(&fetch(&harness, &hub, &["owner/mine", "--file", "no.jsonl"]));
    assert!(none.contains("`owner/mine` has no file `no.jsonl` there"), "{none}");
    let out = show(&fetch(&harness, &hub, &["owner/mine", "--file", "../no.jsonl"]));
    assert!(out.starts_with("exit status: 2\n"), "{out}");
    let output =
        fetch(&harness, &hub, &["owner/mine", "--file", "data/mine.jsonl", "--to", "here"]);
    assert!(output.status.success(), "{}", show(&output));
    let path = harness.path().join("here/owner--mine/data/mine.jsonl");
    assert!(path.exists(), "{}", show(&output));
}

#[test]
fn names_that_lead_nowhere_are_told_before_anything_is_fetched() {
    let harness = Harness::new();
    let cases = [
        (
            &["gsm8k", "gsm-8k"][..],
            "error: no suite is called `gsm-8k`\nhint: did you mean `gsm8k`?\n",
        ),
        (
            &["riddles"],
            "error: no suite is called `riddles`\nhint: give `OWNER/NAME` for a data set on the \
             hub, or gsm8k, math500, aime24, aime25, hmmt25, gpqa-diamond, ifeval, bfcl-v3, \
             arena-hard, practice\n",
        ),
        (
            &["gsm8k", "--file", "x.jsonl"],
            "error: `gsm8k` has files of its own; leave out `--file`\n",
        ),
    ];
    for (arguments, said) in cases {
        let output = show(&fetch(&harness, "http://127.0.0.1:1", arguments));
        assert_eq!(output, format!("exit status: 2\n--- stdout\n--- stderr\n{said}"));
    }
    let gone = show(&fetch(&harness, "http://127.0.0.1:1", &["gsm8k"]));
    assert!(
        gone.contains("or copy its files here and name their folder with `--data-dir`"),
        "{gone}"
    );
}

#[test]
fn the_list_shows_which_data_is_here() {
    let harness = Harness::new();
    let data = harness.path().join("mine");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("aime24.jsonl"), "").unwrap();
    let text = harness.run(&["data", "list", "--data-dir", "mine"]);
    assert!(text.starts_with("exit status: 0\n"), "{text}");
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("aime24").contains("  mine/aime24.jsonl  "), "{text}");
    assert!(row("aime25").contains("  not here  "), "{text}");
    assert!(row("practice").contains("  made up  "), "{text}");
    assert!(text.ends_with("note: `rocstar data fetch NAME` brings what is not here\n"), "{text}");
    let mut command = harness.command(&["data", "list", "--json"]);
    command.env("ROCSTAR_DATA", &data);
    let suite = listed(command, "aime24");
    assert_eq!(suite["path"], data.join("aime24.jsonl").to_str().unwrap());
    assert_eq!((&suite["problems"], &suite["scorer"]), (&json!(30), &json!("math")));
}

#[test]
fn another_revision_or_strange_files_are_no_data_that_is_here() {
    let harness = Harness::new();
    let hub = HubState::new("owner/sums", COMMIT, &[("sums.jsonl", FIRST)]);
    let (hub, state) = start(hub);
    let wanted = ["owner/sums", "--file", "sums.jsonl", "--to", "here"];
    let first = fetch(&harness, &hub, &wanted);
    assert!(first.status.success(), "{}", show(&first));
    let with = |revision: &str| {
        let output = fetch(&harness, &hub, &[&wanted[..], &["--revision", revision]].concat());
        show(&output)
    };
    assert!(with("main").contains("already here"), "{}", with("main"));
    let old = with("old");
    assert!(old.starts_with("exit status: 2") && old.contains("holds other files"), "{old}");
    assert_eq!(state.asked.lock().unwrap().len(), 1);

    let folder = harness.path().join("here/owner--sums");
    std::fs::remove_file(folder.join("source.json")).unwrap();
    let strange = fetch(&harness, &hub, &wanted);
    let strange = show(&strange);
    assert!(strange.starts_with("exit status: 2"), "{strange}");
    assert!(strange.contains("holds files that were not fetched"), "{strange}");
    assert_eq!(state.asked.lock().unwrap().len(), 1);
}
