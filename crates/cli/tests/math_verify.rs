//! Math-Verify in the environment that `rocstar sandbox setup` made: as the second opinion of
//! `rocstar verify`, and as the scorer that a reward program imports. Where the environment lacks the
//! package, each test says SKIP with the reason.

#![cfg(test)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[test]
fn an_undecided_pair_gets_a_second_opinion() {
    if is_skipped() {
        return;
    }
    let pair = ["--gold", r"\frac{1}{0}", "--answer", r"\frac{1}{0}"];
    let (first, _) = text(&mut rocstar(&[&["verify", "--explain"], &pair[..]].concat()));
    assert!(first.starts_with("undecided\n"), "{first}");
    let asked = ["verify", "--explain", "--second-opinion", "math-verify"];
    let (second, notes) = text(&mut rocstar(&[&asked, &pair[..]].concat()));
    // Math-Verify has no opinion of what has no value: it fails, and the pair stays undecided.
    assert!(second.starts_with("undecided\n"), "{second}\n{notes}");
    assert!(second.contains("second opinion: Math-Verify"), "{second}\n{notes}");
}

#[test]
fn lines_of_a_batch_say_what_the_second_opinion_was() {
    if is_skipped() {
        return;
    }
    let lines =
        [json!({"gold": "1/2", "answer": "0.5"}), json!({"gold": r"\ln(0)", "answer": "5"})];
    let mut command = rocstar(&["verify", "--batch", "-", "--second-opinion", "math-verify"]);
    let mut child = piped(command.stderr(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    for line in &lines {
        writeln!(stdin, "{line}").expect("the binary reads its lines");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    let read: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {notes}")))
        .collect();
    assert_eq!((&read[0]["verdict"], read[0].get("second_opinion")), (&json!("right"), None));
    let opinion = read[1]["second_opinion"].as_str().unwrap_or_default();
    assert!(opinion.starts_with("Math-Verify"), "{read:?}\n{notes}");
    assert!(notes.contains("second opinions: 1 asked"), "{notes}");
}

/// What reward code sends for each answer: a program that imports its scorer and prints the score
/// between marks.
#[test]
fn a_reward_program_that_imports_its_scorer_works_through_the_code_judge_dialect() {
    if is_skipped() {
        return;
    }
    let program = |gold: &str, answer: &str| {
        format!(
            "import json\n\
             from math_verify import parse, verify\n\
             gold, answer = (parse('\\\\boxed{{' + text + '}}') for text in [{gold:?}, {answer:?}])\n\
             print('<result>' + json.dumps(float(verify(gold, answer))) + '</result>')\n"
        )
    };
    let submission =
        |gold: &str, answer: &str| json!({"type": "python", "solution": program(gold, answer)});
    let body = json!({
        "type": "batch",
        "submissions": [submission("1/2", "0.5"), submission("24", "25")],
    });
    let server = Server::start();
    let answer = server.post("/run/long-batch", &body);
    let printed: Vec<&str> =
        (0..2).map(|index| answer["results"][index]["stdout"].as_str().unwrap_or("")).collect();
    assert_eq!(printed, ["<result>1.0</result>\n", "<result>0.0</result>\n"], "{answer:#}");
}

/// A served code environment of this machine, stopped when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut command = rocstar(&["sandbox", "serve", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = piped(command.stderr(Stdio::null()));
        let stdout = child.stdout.take().expect("a pipe was asked for");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("an announcement");
        let said: Value = serde_json::from_str(&line).expect("an announcement in JSON");
        let url = said["url"].as_str().expect("an address");
        let address = url.trim_start_matches("http://").to_owned();
        Self { child, address }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("the server reads the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        // By HTTP/1.0, so that the body, the one JSON object, comes without chunks.
        let (start, end) = (answer.find("\r\n{").or_else(|| answer.find("\n{")), answer.rfind('}'));
        let json = start.zip(end).map_or("", |(start, end)| answer[start..=end].trim());
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the built binary")
}

/// What a command printed, and its notes.
fn text(command: &mut Command) -> (String, String) {
    let output = command.output().expect("the built binary");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Says why the tests can't run here, if they can't.
fn is_skipped() -> bool {
    static LACK: LazyLock<Option<String>> = LazyLock::new(lack);
    if let Some(lack) = &*LACK {
        eprintln!("SKIP: {lack}");
    }
    LACK.is_some()
}

fn lack() -> Option<String> {
    let (found, notes) = text(&mut rocstar(&["doctor", "--json"]));
    let Ok(found) = serde_json::from_str::<Value>(&found) else { return Some(notes) };
    if found["ready"] != json!(true) {
        return Some("a required isolation layer is missing, see `rocstar doctor`".to_owned());
    }
    let mut command = rocstar(&["sandbox", "run", "--json", "-"]);
    let mut child = piped(command.stderr(Stdio::null()));
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    stdin.write_all(b"import math_verify").expect("the binary reads the program");
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let works = report["outcome"] == json!({"type": "ok"});
    (!works).then(|| "no Math-Verify: run `rocstar sandbox setup`".to_owned())
}

/// The binary with the caller's own settings, so that it finds the environment of this machine.
fn rocstar(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocstar"));
    command.arg("--no-progress").args(arguments);
    command
}
