//! How each API says "run this" and what its answers mean. Pure: bytes in, bytes out.
//!
//! Invariant: an answer counts as [`Judged::Ok`] only if the API says that the program ended well
//! *and* the text that it printed is the expected one.

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Value, json};

use super::case::Job;

/// Whose API the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// rocstar's own
    Native,
    /// code-judge's `/run` and `/run/long-batch`
    CodeJudge,
    /// SandboxFusion's `/run_code`, which has no batches
    SandboxFusion,
}

/// What became of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The right text.
    Ok,
    /// Answered, but not with the right text; the string tells how.
    Wrong(String),
    /// Turned away by a full queue.
    Refused,
    /// No answer; the string tells why.
    Lost(String),
}

impl Api {
    /// The name in tables and JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::CodeJudge => "code-judge",
            Self::SandboxFusion => "sandbox-fusion",
        }
    }

    /// Route of a single call.
    pub(crate) const fn call_path(self) -> &'static str {
        match self {
            Self::Native => "/v1/execute",
            Self::CodeJudge => "/run",
            Self::SandboxFusion => "/run_code",
        }
    }

    /// Route of many calls in one request, where the API has one.
    pub(crate) const fn batch_path(self) -> Option<&'static str> {
        match self {
            Self::Native => Some("/v1/execute/batch"),
            Self::CodeJudge => Some("/run/long-batch"),
            Self::SandboxFusion => None,
        }
    }

    fn call(self, program: &str, limit_ms: Option<u64>) -> Value {
        match (self, limit_ms) {
            (Self::Native, None) => json!({"program": program}),
            (Self::Native, Some(limit)) => {
                json!({"program": program, "limits": {"wall_ms": limit, "cpu_ms": 2 * limit}})
            }
            // Its limit is the server's own and can't be asked for.
            (Self::CodeJudge, _) => json!({"type": "python", "solution": program}),
            (Self::SandboxFusion, None) => json!({"code": program, "language": "python"}),
            (Self::SandboxFusion, Some(limit)) => {
                let seconds = std::time::Duration::from_millis(limit).as_secs_f64();
                json!({"code": program, "language": "python", "run_timeout": seconds})
            }
        }
    }

    /// Body of a single call.
    pub(crate) fn call_body(self, program: &str, limit_ms: Option<u64>) -> Vec<u8> {
        self.call(program, limit_ms).to_string().into_bytes()
    }

    /// Body of many calls.
    pub(crate) fn batch_body(self, jobs: &[Job]) -> Vec<u8> {
        let calls: Vec<Value> = jobs.iter().map(|job| self.call(&job.program, None)).collect();
        let body = match self {
            Self::Native => json!({"calls": calls}),
            Self::CodeJudge | Self::SandboxFusion => json!({"type": "batch", "submissions": calls}),
        };
        body.to_string().into_bytes()
    }

    /// Judges the answer to one call, alone or as an element of a batch.
    pub(crate) fn judge(self, answer: &[u8], expected: &str) -> Judged {
        let parsed = match self {
            Self::Native => serde_json::from_slice(answer).map(NativeAnswer::text),
            Self::CodeJudge => serde_json::from_slice(answer).map(CodeJudgeAnswer::text),
            Self::SandboxFusion => serde_json::from_slice(answer).map(FusionAnswer::text),
        };
        match parsed {
            Ok(Ok(text)) if text == expected => Judged::Ok,
            Ok(Ok(text)) => Judged::Wrong(format!("printed {text:?}, not {expected:?}")),
            Ok(Err(how)) => Judged::Wrong(how),
            Err(_) => Judged::Wrong(format!("answered {}", beginning(answer))),
        }
    }
}

/// The beginning of an answer that made no sense, for people.
pub(crate) fn beginning(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.chars().take(200).collect()
}

/// The printed text, or how the program ended instead.
type Text = Result<String, String>;

#[derive(Deserialize)]
struct NativeAnswer {
    outcome: Value,
    stdout: NativeStream,
}

#[derive(Deserialize)]
struct NativeStream {
    text: String,
}

impl NativeAnswer {
    fn text(self) -> Text {
        match self.outcome["type"].as_str() {
            Some("ok") => Ok(self.stdout.text),
            _ => Err(format!("outcome {}", self.outcome)),
        }
    }
}

#[derive(Deserialize)]
struct CodeJudgeAnswer {
    run_success: bool,
    stdout: Option<String>,
    stderr: Option<String>,
    reason: String,
}

impl CodeJudgeAnswer {
    fn text(self) -> Text {
        match self {
            Self { run_success: true, stdout: Some(text), .. } => Ok(text),
            Self { reason, stderr, .. } => {
                Err(format!("reason {reason:?}, stderr {:?}", stderr.unwrap_or_default()))
            }
        }
    }
}

#[derive(Deserialize)]
struct FusionAnswer {
    status: String,
    message: String,
    run_result: Option<FusionResult>,
}

#[derive(Deserialize)]
struct FusionResult {
    stdout: Option<String>,
    stderr: Option<String>,
}

impl FusionAnswer {
    fn text(self) -> Text {
        let result = self.run_result.unwrap_or(FusionResult { stdout: None, stderr: None });
        match (self.status.as_str(), result) {
            ("Success", FusionResult { stdout: Some(text), .. }) => Ok(text),
            (status, FusionResult { stderr, .. }) => {
                Err(format!("{status}: {} {}", self.message, stderr.unwrap_or_default()))
            }
        }
    }
}

/// Cuts a JSON answer that arrives in pieces into the objects of its one array, such as
/// `{"reports":[{…},{…}]}`, each as soon as it is whole.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    depth: usize,
    in_string: bool,
    escaped: bool,
    element: Vec<u8>,
}

impl Elements {
    /// Inside the outer object and its array, an element's own braces are the third level.
    const ELEMENT_DEPTH: usize = 3;

    /// Takes the next piece and calls `found` for each element that it completes.
    pub(crate) fn feed(&mut self, piece: &[u8], mut found: impl FnMut(&[u8])) {
        for &byte in piece {
            let inside = self.depth >= Self::ELEMENT_DEPTH;
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = byte == b'\\' && !self.escaped;
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
            }
            if inside || self.depth >= Self::ELEMENT_DEPTH {
                self.element.push(byte);
            }
            if inside && self.depth < Self::ELEMENT_DEPTH {
                found(&self.element);
                self.element.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Api, Elements, Judged};

    #[test]
    fn elements_are_found_whatever_the_pieces() {
        let text = br#"{"sub_id":"a]}","results":[{"a":"}]{"},{"b":[{"c":"\\\"}"}]}]}"#;
        let whole = [r#"{"a":"}]{"}"#, r#"{"b":[{"c":"\\\"}"}]}"#];
        for size in 1..text.len() {
            let mut elements = Elements::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                elements.feed(piece, |element| {
                    found.push(String::from_utf8(element.to_vec()).unwrap());
                });
            }
            assert_eq!(found, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn only_the_right_text_is_ok() {
        let native = br#"{"outcome":{"type":"ok"},"stdout":{"text":"2\n","total_bytes":2}}"#;
        assert_eq!(Api::Native.judge(native, "2\n"), Judged::Ok);
        assert!(matches!(Api::Native.judge(native, "3\n"), Judged::Wrong(_)));
        let failed = br#"{"outcome":{"type":"timeout"},"stdout":{"text":"2\n"}}"#;
        assert!(matches!(Api::Native.judge(failed, "2\n"), Judged::Wrong(_)));
        let judge = br#"{"sub_id":"x","success":true,"run_success":true,"cost":0.0043,
            "stdout":"2\n","stderr":"","reason":""}"#;
        assert_eq!(Api::CodeJudge.judge(judge, "2\n"), Judged::Ok);
        let fusion = br#"{"status":"Success","message":"","compile_result":null,"run_result":
            {"status":"Finished","execution_time":0.033,"return_code":0,"stdout":"2\n","stderr":""},
            "executor_pod_name":null,"files":{}}"#;
        assert_eq!(Api::SandboxFusion.judge(fusion, "2\n"), Judged::Ok);
        assert!(matches!(Api::SandboxFusion.judge(b"<html>", "2\n"), Judged::Wrong(_)));
    }
}
