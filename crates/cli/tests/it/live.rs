//! The binary with a real jail: programs run, services start and stop.
//!
//! Where this host can't give the required isolation, each test says SKIP with the reason.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Harness, show};

/// The harness, if this host can run a jail.
fn live() -> Option<Harness> {
    let harness = Harness::new();
    let probe = harness.path().join("probe.py");
    std::fs::write(&probe, "").unwrap();
    let output = harness.command(&["sandbox", "run", "probe.py"]).output().unwrap();
    std::fs::remove_file(probe).unwrap();
    if output.status.success() {
        return Some(harness);
    }
    let text = show(&output);
    // Only this cause is the host's; every other failure is ours.
    assert!(text.contains("does not give the isolation that is required"), "{text}");
    eprintln!("SKIP: {text}");
    None
}

#[test]
fn doctor_lists_every_layer() {
    let Some(harness) = live() else { return };
    let output = harness.command(&["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["layers"].as_array().unwrap().len(), 13);
    assert!(output.status.success());
}

#[test]
fn the_sample_computes_and_is_held() {
    let Some(harness) = live() else { return };
    let output = harness.command(&["sandbox", "run", "--sample"]).output().unwrap();
    let text = show(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1215233140483755572040304994079820246041491 / 56786730"), "{text}");
    assert_eq!(text.matches(" refused: ").count(), 5, "{text}");
    assert!(!text.contains("GOT THROUGH"), "{text}");
}

#[test]
fn a_program_gets_its_input_and_gives_files_back() {
    let Some(harness) = live() else { return };
    let program = "import sys\n\
                   text = open('data/in.txt').read() + sys.stdin.read() + sys.argv[1]\n\
                   open('out.txt', 'w').write(text.upper())\n\
                   print(text)\n\
                   print('note', file=sys.stderr)\n\
                   sys.exit(3)\n";
    for (name, text) in [("program.py", program), ("in.txt", "file "), ("stdin.txt", "stdin ")] {
        std::fs::write(harness.path().join(name), text).unwrap();
    }
    let output = harness
        .command(&["sandbox", "run", "program.py", "--stdin", "stdin.txt"])
        .args(["--file", "data/in.txt=in.txt", "--fetch", "out.txt=saved.txt", "--", "argument"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));
    assert_eq!(output.stdout, b"file stdin argument\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("note\n") && stderr.contains("exit status 3 · "), "{stderr}");
    let saved = std::fs::read_to_string(harness.path().join("saved.txt")).unwrap();
    assert_eq!(saved, "FILE STDIN ARGUMENT");
}

#[test]
fn a_limit_ends_the_program_and_is_told() {
    let Some(harness) = live() else { return };
    std::fs::write(harness.path().join("loop.py"), "while True: pass\n").unwrap();
    let output = harness
        .command(&["sandbox", "run", "loop.py", "--wall", "300ms", "--json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["outcome"], json!({"type": "timeout"}));
}

#[test]
fn the_value_of_the_last_expression_is_shown() {
    let Some(harness) = live() else { return };
    std::fs::write(harness.path().join("value.py"), "x = 6\nx * 7\n").unwrap();
    let output = harness.command(&["sandbox", "run", "value.py", "--value"]).output().unwrap();
    assert_eq!(output.stdout, b"42\n", "{}", show(&output));
}

#[test]
fn a_refused_limit_is_wrong_use() {
    let Some(harness) = live() else { return };
    let output =
        harness.command(&["sandbox", "run", "--sample", "--memory", "99TiB"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", show(&output));
    assert!(show(&output).contains("limits.memory_bytes"), "{}", show(&output));
}

/// A started service and where it listens.
struct Service {
    process: Child,
    address: String,
}

impl Service {
    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let mut said = String::new();
            process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the service did not start ({error}): {said}")
        });
        let address = ready["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { process, address }
    }

    fn send(&self, request_line: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{request_line} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{headers}\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        stream
    }

    fn post(&self, path: &str, headers: &str, body: &Value) -> String {
        read(self.send(&format!("POST {path}"), headers, &body.to_string()))
    }

    fn signal(&self) {
        let pid = rustix::process::Pid::from_raw(self.process.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Asks it to stop, and gives its exit status and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        self.signal();
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

fn read(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SERVE: [&str; 5] = ["sandbox", "serve", "--json", "--listen", "127.0.0.1:0"];

#[test]
fn a_service_answers_and_stops_gracefully() {
    let Some(harness) = live() else { return };
    let service = Service::start(harness.command(&SERVE));
    let answer = service.post("/v1/execute", "", &json!({"program": "print(6 * 7)"}));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""text":"42\n""#), "{answer}");
    let (status, said) = service.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("stopped: 1 calls accepted, 1 answered, 0 cancelled"), "{said}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let Some(harness) = live() else { return };
    let mut service = Service::start(harness.command(&SERVE));
    let endless = json!({"program": "while True: pass", "limits": {"wall_ms": 60_000}});
    let _waiting = service.send("POST /v1/execute", "", &endless.to_string());
    while !read(service.send("GET /metrics", "", "")).contains("calls_running 1") {}
    service.signal();
    let mut lines = BufReader::new(service.process.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("stopping: ")));
    service.signal();
    assert!(lines.any(|line| line.unwrap().starts_with("error: stopped at once")));
    assert_eq!(service.process.wait().unwrap().code(), Some(1));
}

#[test]
fn a_token_is_asked_for() {
    let Some(harness) = live() else { return };
    let mut command = harness.command(&SERVE);
    command.env("ROCSTAR_TOKEN", "a-secret");
    let service = Service::start(command);
    let program = json!({"program": "print(1)"});
    let without = service.post("/v1/execute", "", &program);
    assert!(without.starts_with("HTTP/1.1 401"), "{without}");
    let with = service.post("/v1/execute", "authorization: Bearer a-secret\r\n", &program);
    assert!(with.starts_with("HTTP/1.1 200"), "{with}");
    let (_, said) = service.stop();
    assert!(!said.contains("a-secret"), "{said}");
}

#[test]
fn the_benchmark_measures_its_own_service() {
    let Some(harness) = live() else { return };
    let run = |more: &[&str]| -> Value {
        let output = harness.command(&["sandbox", "bench", "--json"]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", show(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    for load in [&["--calls", "40", "--in-flight", "4"][..], &["--burst", "40"][..]] {
        let summary = run(load);
        let counts = ["calls", "ok", "wrong", "refused", "lost"].map(|name| summary[name].clone());
        assert_eq!(counts, [json!(40), json!(40), json!(0), json!(0), json!(0)], "{summary:#}");
        for figure in ["mean_ms", "p50_ms", "p99_ms", "cpu_ms_per_call", "peak_rss_bytes"] {
            assert!(summary[figure].is_number(), "{figure} in {summary:#}");
        }
    }
}

#[test]
fn an_agent_runs_python_over_standard_input_and_output() {
    let Some(harness) = live() else { return };
    let mut server = harness
        .command(&["sandbox", "mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}
    }}));
    let hello: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
    assert!(hello["result"]["capabilities"]["tools"].is_object(), "{hello:#}");
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "python", "arguments": {"code": "print(6 * 7)"}
    }}));
    let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{answer:#}");
    drop(stdin);
    assert!(server.wait().unwrap().success());
}
