//! The document of the native API, and the promise that it tells the truth.
//!
//! `docs/openapi.json` is written by hand and built in. Invariant, kept by the tests below: every
//! value that this server sends has exactly the documented fields, and every route and error code is
//! in the document.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};

/// The document.
const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::{
        Captured, Effective, FetchedFile, InputFile, Kind, Layer, LayerState, Limits, Outcome,
        Report, Request, Stream,
    };
    use rocstar_verify::Rule;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::super::error::{Code, Envelope, HttpError};
    use super::super::native::Opened;
    use super::DOCUMENT;
    use crate::{
        AnswerCase, AnswerVerdict, Batch, CaseResult, Comparison, Error, JudgeCase, JudgeRequest,
        Judgement, SessionId, SessionOptions, Verdict,
    };

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    /// What is wrong with `value` under `schema`, as far as the document uses JSON Schema.
    fn mismatch(document: &Value, schema: &Value, value: &Value) -> Option<String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = document.pointer(&reference[1..]).expect(reference);
            return mismatch(document, target, value);
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let fits = choices.iter().filter(|choice| mismatch(document, choice, value).is_none());
            let fits = fits.count();
            return (fits != 1).then(|| format!("{value} fits {fits} of the choices in {schema}"));
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let of_type = |name: &&str| match *name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("the test does not know the type {other}"),
        };
        if !types.is_empty() && !types.iter().any(of_type) {
            return Some(format!("{value} is not {types:?}"));
        }
        if schema.get("const").is_some_and(|only| only != value) {
            return Some(format!("{value} is not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
            return Some(format!("{value} is none of {}", schema["enum"]));
        }
        if let Some(elements) = value.as_array() {
            return elements.iter().find_map(|one| mismatch(document, &schema["items"], one));
        }
        let (fields, known) = (value.as_object()?, schema["properties"].as_object()?);
        for required in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                return Some(format!("{required} is missing in {value}"));
            }
        }
        fields.iter().find_map(|(name, field)| match known.get(name) {
            Some(schema) => mismatch(document, schema, field),
            None => Some(format!("`{name}` is not documented")),
        })
    }

    /// `full` has every field of the type set: it must fit, and no documented field may be missing.
    fn documented(name: &str, full: impl Serialize) {
        let document = document();
        let schema = &document["components"]["schemas"][name];
        let value = serde_json::to_value(full).unwrap();
        assert_eq!(mismatch(&document, schema, &value), None, "{name}");
        if let Some(properties) = schema["properties"].as_object() {
            let documented: Vec<&String> = properties.keys().collect();
            let sent: Vec<&String> = value.as_object().unwrap().keys().collect();
            assert_eq!(sent, documented, "{name}");
        }
    }

    fn limits() -> Limits {
        Limits {
            wall_ms: Some(1),
            cpu_ms: Some(1),
            memory_bytes: Some(1),
            processes: Some(1),
            file_bytes: Some(1),
            tmp_bytes: Some(1),
            output_bytes: Some(1),
            kept_bytes: Some(1),
        }
    }

    fn report(outcome: Outcome) -> Report {
        let captured = Captured { base64: Some("/w==".into()), ..Captured::default() };
        let file = |content, problem| FetchedFile { path: "a".into(), content, problem };
        Report {
            stdout: captured,
            value: Some("1".into()),
            files: vec![
                file(Some(vec![0xff]), None),
                file(Some(b"text".into()), None),
                file(None, Some("missing".into())),
            ],
            isolation: Layer::ALL.iter().map(|layer| layer.name().to_owned()).collect(),
            ..Report::without_run(outcome)
        }
    }

    #[test]
    fn requests_are_documented() {
        let request = Request {
            program: String::new(),
            stdin: Some(vec![0xff]),
            argv: vec!["a".into()],
            files: vec![InputFile { path: "a".into(), content: b"text".into() }],
            fetch: vec!["a".into()],
            last_expression: true,
            kind: Some(Kind::Scientific),
            limits: limits(),
        };
        documented("Request", &request);
        documented("Request", Request::new(""));
        documented("Limits", limits());
        documented("Batch", Batch { calls: vec![request], share_identical: true });
        let options = SessionOptions {
            kind: Some(Kind::Bare),
            limits: limits(),
            idle_ms: Some(1),
            lifetime_ms: Some(1),
        };
        documented("SessionOptions", options);
        let cases = vec![
            JudgeCase::Output { stdin: String::new(), expected_stdout: String::new() },
            JudgeCase::Answer(AnswerCase::new("1")),
            JudgeCase::Asserts { asserts: String::new() },
        ];
        let judge =
            JudgeRequest { program: String::new(), cases, stop_early: true, limits: limits() };
        documented("JudgeRequest", judge);
    }

    #[test]
    fn answers_are_documented() {
        let text = String::new;
        let outcomes = [
            Outcome::Ok,
            Outcome::Exception { name: text(), line: None, message: text() },
            Outcome::Exit { code: 0 },
            Outcome::Signal { number: 11, name: text() },
            Outcome::Timeout,
            Outcome::CpuLimit,
            Outcome::MemoryLimit,
            Outcome::OutputLimit { stream: Stream::Stderr },
            Outcome::ProcessLimit,
            Outcome::FileLimit,
            Outcome::TmpLimit,
            Outcome::Denied { what: text() },
            Outcome::Cancelled,
            Outcome::Infrastructure { cause: text() },
        ];
        let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
        assert_eq!(names, Outcome::NAMES);
        for outcome in outcomes {
            documented("Report", report(outcome));
        }
        documented("Session", Opened { id: SessionId("a".into()) });
        let verdicts = [
            Verdict::Passed,
            Verdict::WrongOutput,
            Verdict::Undecided,
            Verdict::AssertionFailed,
            Verdict::Failed,
            Verdict::Skipped,
            Verdict::Infrastructure,
        ];
        let compared = |verdict| Comparison { verdict, rule: None, explanation: None };
        let case = |verdict| CaseResult {
            verdict,
            report: Some(report(Outcome::Ok)),
            comparison: Some(compared(AnswerVerdict::Right)),
        };
        documented("Judgement", Judgement { passed: false, cases: verdicts.map(case).into() });
        for verdict in [
            AnswerVerdict::Right,
            AnswerVerdict::Wrong,
            AnswerVerdict::Unparseable,
            AnswerVerdict::Undecided,
        ] {
            documented("Comparison", compared(verdict));
        }
        for rule in Rule::ALL {
            let explanation = Some(String::new());
            let right = AnswerVerdict::Right;
            documented("Comparison", Comparison { verdict: right, rule: Some(rule), explanation });
        }
        let state = |layer| LayerState { layer, holds: false, lack: Some(String::new()) };
        let effective = Effective {
            layers: Layer::ALL.map(state).into(),
            degraded: false,
            python: text(),
            python_version: text(),
            packages: vec![text()],
        };
        documented("Effective", effective);
        documented("BatchAnswer", json!({ "reports": [report(Outcome::Ok)] }));
        documented("BatchLine", json!({ "index": 0, "report": report(Outcome::Ok) }));
    }

    #[test]
    fn errors_are_documented() {
        let full = Error::Full { queued: 1, capacity: 1, retry_after_s: 1 };
        let error = HttpError::from(full).field("a").hint("b");
        documented("Error", &error);
        documented("Failure", Envelope { error });

        let document = document();
        let codes = &document["components"]["schemas"]["Error"]["properties"]["code"]["enum"];
        let mut codes: Vec<&str> =
            codes.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        let sent = serde_json::to_value(Code::ALL).unwrap();
        let mut sent: Vec<&str> =
            sent.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        codes.sort_unstable();
        sent.sort_unstable();
        assert_eq!(codes, sent);
    }
}
