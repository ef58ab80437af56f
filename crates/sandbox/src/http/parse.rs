//! Request bodies into values, and a failed parse into an error that names the field.
//!
//! Well-formed bodies are parsed once, by plain `serde_json`; only a body that fails is read again
//! to find out where and why. Invariant: parsing needs memory in proportion to the body, whatever
//! it holds, so lists have a bound while they are being read. Pure functions of bytes; fuzzed.

use std::fmt;
use std::marker::PhantomData;

use rocstar_jail::{Limits, Request};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::{Code, HttpError};
use crate::api::{default_precision, default_strict};
use crate::{AnswerCase, Batch, JudgeCase, JudgeRequest, MAX_BATCH_CALLS, SessionOptions};

/// One program.
///
/// # Errors
/// The body is not JSON, or not a request.
pub fn execute(body: &[u8]) -> Result<Request, HttpError> {
    parse(body)
}

/// Many programs.
///
/// # Errors
/// As [`execute`], or there are none or too many calls.
pub fn batch(body: &[u8]) -> Result<Batch, HttpError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(deserialize_with = "bounded_list")]
        calls: Vec<Request>,
        #[serde(default)]
        share_identical: bool,
    }
    let Body { calls, share_identical } = parse(body)?;
    Ok(Batch { calls, share_identical })
}

/// What a session is opened with; an empty body means the defaults.
///
/// # Errors
/// As [`execute`].
pub fn session(body: &[u8]) -> Result<SessionOptions, HttpError> {
    if body.is_empty() { Ok(SessionOptions::default()) } else { parse(body) }
}

/// A program and its cases.
///
/// # Errors
/// As [`execute`], or there are too many cases.
pub fn judge(body: &[u8]) -> Result<JudgeRequest, HttpError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        program: String,
        #[serde(deserialize_with = "bounded_list")]
        cases: Vec<Case>,
        #[serde(default)]
        stop_early: bool,
        #[serde(default)]
        limits: Limits,
    }
    let Body { program, cases, stop_early, limits } = parse(body)?;
    let cases = cases.into_iter().map(|case| case.0).collect();
    Ok(JudgeRequest { program, cases, stop_early, limits })
}

/// A case of a judgement, read field by field: an untagged enum would hold a copy of whatever
/// stands in its place, and could name no field.
#[derive(Deserialize)]
#[serde(try_from = "CaseFields")]
struct Case(JudgeCase);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFields {
    stdin: Option<String>,
    expected_stdout: Option<String>,
    expected_answer: Option<String>,
    precision: Option<u32>,
    strict: Option<bool>,
    allow_set_relation_comp: Option<bool>,
    asserts: Option<String>,
}

impl TryFrom<CaseFields> for Case {
    type Error = &'static str;

    fn try_from(fields: CaseFields) -> Result<Self, Self::Error> {
        let CaseFields { precision, strict, allow_set_relation_comp, .. } = fields;
        let is_plain = precision.is_none() && strict.is_none() && allow_set_relation_comp.is_none();
        let stdin = fields.stdin;
        match (fields.expected_stdout, fields.expected_answer, fields.asserts) {
            (Some(expected_stdout), None, None) if is_plain => {
                let stdin = stdin.unwrap_or_default();
                Ok(Self(JudgeCase::Output { stdin, expected_stdout }))
            }
            (None, Some(expected_answer), None) => Ok(Self(JudgeCase::Answer(AnswerCase {
                stdin: stdin.unwrap_or_default(),
                expected_answer,
                precision: precision.unwrap_or_else(default_precision),
                strict: strict.unwrap_or_else(default_strict),
                allow_set_relation_comp: allow_set_relation_comp.unwrap_or_default(),
            }))),
            (None, None, Some(asserts)) if is_plain && stdin.is_none() => {
                Ok(Self(JudgeCase::Asserts { asserts }))
            }
            _ => Err("must have one of `expected_stdout`, with or without `stdin`; \
                      `expected_answer`, with or without `stdin`, `precision`, `strict` and \
                      `allow_set_relation_comp`; and `asserts`"),
        }
    }
}

/// Where in a body something is wrong, and what.
#[derive(Debug)]
pub(super) struct Problem {
    /// Keys and indices from the root.
    pub(super) path: Vec<Step>,
    /// In serde's words.
    pub(super) message: String,
    /// Whether the body is JSON at all.
    pub(super) is_json: bool,
    /// 1-based, as `serde_json` counts; 0 where unknown.
    pub(super) line: usize,
    /// 1-based.
    pub(super) column: usize,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A value from JSON, or the first problem.
pub(super) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| locate::<T>(body, &error))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpError> {
    from_json(body).map_err(|problem| refuse(&problem))
}

fn locate<T: DeserializeOwned>(body: &[u8], first: &serde_json::Error) -> Problem {
    let mut path = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    if let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut reader) {
        path = error.path().iter().filter_map(step).collect();
    }
    // serde_json checks the grammar, but not the values, of what it skips. A lone surrogate or a
    // number out of range is a value that can't be accepted; a missing brace is not JSON.
    let is_json =
        std::str::from_utf8(body).is_ok() && serde_json::from_slice::<IgnoredAny>(body).is_ok();
    let text = first.to_string();
    let position = format!(" at line {} column {}", first.line(), first.column());
    let message = text.strip_suffix(&position).unwrap_or(&text).to_owned();
    if let Some(name) = field_in(&message) {
        let name = Step::Key(name.to_owned());
        if path.last() != Some(&name) {
            path.push(name);
        }
    }
    Problem { path, message, is_json, line: first.line(), column: first.column() }
}

fn step(segment: &serde_path_to_error::Segment) -> Option<Step> {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// The field that serde names in its message rather than in the path.
fn field_in(message: &str) -> Option<&str> {
    let rest = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    rest.split('`').next()
}

/// A path as it is written in messages: `calls[17].limits.wall_ms`.
pub(super) fn dotted(path: &[Step]) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
        text
    })
}

fn refuse(problem: &Problem) -> HttpError {
    let Problem { message, line, column, .. } = problem;
    let field = dotted(&problem.path);
    let error = if problem.is_json {
        HttpError::new(Code::InvalidField, in_plain_words(message))
    } else {
        let message = format!("the body is not JSON: {message} at line {line} column {column}");
        HttpError::new(Code::MalformedJson, message)
    };
    let error = match hint(problem) {
        Some(hint) => error.hint(hint),
        None => error,
    };
    if field.is_empty() { error } else { error.field(field) }
}

/// Rust's type names mean nothing to a caller.
fn in_plain_words(message: &str) -> String {
    message
        .replace("expected u64", "expected a whole number, 0 or more")
        .replace("expected struct ", "expected an object: ")
}

fn hint(problem: &Problem) -> Option<&'static str> {
    if problem.message.contains("surrogate") || problem.message.contains("end of hex escape") {
        Some("half of a surrogate pair is not a character; encode the text as UTF-8 before sending")
    } else if problem.is_json {
        None
    } else {
        Some("JSON has no NaN and no Infinity, and needs double quotes")
    }
}

/// Stops reading one element past the limit, so that a hostile list costs no memory.
pub(super) fn bounded_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "a list of 1 to {MAX_BATCH_CALLS} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = sequence.next_element()? {
                if elements.len() == MAX_BATCH_CALLS {
                    return Err(A::Error::custom(format_args!(
                        "holds more than {MAX_BATCH_CALLS} entries"
                    )));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }

    deserializer.deserialize_seq(Bounded(PhantomData))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn refused(body: &str) -> (Code, String) {
        let error = batch(body.as_bytes()).unwrap_err();
        (error.code, error.field.unwrap_or_default())
    }

    #[test]
    fn the_field_at_fault_is_named() {
        for (calls, field) in [
            (r#"[{}]"#, "calls[0].program"),
            (r#"[{"program":1}]"#, "calls[0].program"),
            (r#"[{"program":""},{"program":"","argv":[1]}]"#, "calls[1].argv[0]"),
            (r#"[{"program":"","limits":{"wall_ms":-5}}]"#, "calls[0].limits.wall_ms"),
            (r#"[{"program":"","limits":{"wall_ms":1.5}}]"#, "calls[0].limits.wall_ms"),
            (r#"[{"program":"","limits":{"wall_ms":1e999}}]"#, "calls[0].limits.wall_ms"),
            (
                r#"[{"program":"","limits":{"wall_ms":99999999999999999999}}]"#,
                "calls[0].limits.wall_ms",
            ),
            (r#"[{"program":"","limits":{"wall":5}}]"#, "calls[0].limits.wall"),
            (r#"[{"program":"","program":""}]"#, "calls[0].program"),
            (r#"[{"program":"\ud800"}]"#, "calls[0].program"),
            (r#"[{"program":"","stdin":{"base64":"?"}}]"#, "calls[0].stdin"),
            ("5", "calls"),
        ] {
            let body = format!(r#"{{"calls":{calls}}}"#);
            assert_eq!(refused(&body), (Code::InvalidField, field.to_owned()), "{body}");
        }
        assert_eq!(refused(r#"{"call":[]}"#), (Code::InvalidField, "call".to_owned()));
        assert_eq!(refused("[]"), (Code::InvalidField, String::new()));
    }

    #[test]
    fn what_is_not_json_says_where() {
        for (body, line_and_column) in [
            ("", "line 1 column 0"),
            ("{\"program\":\n print}", "line 2 column 2"),
            (r#"{"program":"" "#, "line 1 column 14"),
            (r#"{"program":""} x"#, "line 1 column 16"),
            (r#"{"program":"","limits":{"wall_ms":Infinity}}"#, "line 1 column 35"),
            (r#"{"program":"","limits":{"wall_ms":NaN}}"#, "line 1 column 35"),
        ] {
            let error = execute(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, Code::MalformedJson, "{body}");
            assert!(error.message.ends_with(line_and_column), "{body}: {}", error.message);
        }
        let infinite = execute(br#"{"program":"","limits":{"wall_ms":Infinity}}"#).unwrap_err();
        assert_eq!(infinite.field.as_deref(), Some("limits.wall_ms"));
        assert_eq!(execute(b"{\"program\":\"\xff\"}").unwrap_err().code, Code::MalformedJson);
    }

    #[test]
    fn a_case_is_one_of_three() {
        let cases =
            |cases: &str| judge(format!(r#"{{"program":"","cases":[{cases}]}}"#).as_bytes());
        let read = cases(r#"{"expected_stdout":"a"},{"asserts":"b"}"#).unwrap().cases;
        let output = JudgeCase::Output { stdin: String::new(), expected_stdout: "a".into() };
        assert_eq!(read, [output, JudgeCase::Asserts { asserts: "b".into() }]);
        let read = cases(
            r#"{"expected_answer":"1"},{"expected_answer":"1","stdin":"2","precision":3,"strict":false,"allow_set_relation_comp":true}"#,
        );
        let usual = AnswerCase::new("1");
        let set = AnswerCase {
            stdin: "2".into(),
            precision: 3,
            strict: false,
            allow_set_relation_comp: true,
            ..usual.clone()
        };
        assert_eq!(read.unwrap().cases, [usual, set].map(JudgeCase::Answer));
        for (case, field) in [
            ("{}", "cases[0]"),
            (r#"{"stdin":""}"#, "cases[0]"),
            (r#"{"stdin":"","asserts":""}"#, "cases[0]"),
            (r#"{"expected_stdout":"","asserts":""}"#, "cases[0]"),
            (r#"{"expected_stdout":"","expected_answer":""}"#, "cases[0]"),
            (r#"{"expected_answer":"","asserts":""}"#, "cases[0]"),
            (r#"{"expected_stdout":"","precision":3}"#, "cases[0]"),
            (r#"{"asserts":"","strict":true}"#, "cases[0]"),
            (r#"{"expected_answer":"1","precision":-1}"#, "cases[0].precision"),
            (r#"{"expected_stdout":1}"#, "cases[0].expected_stdout"),
            (r#"{"expected":""}"#, "cases[0].expected"),
        ] {
            let error = cases(case).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (Code::InvalidField, Some(field)));
        }
    }

    #[test]
    fn a_list_is_not_read_past_its_bound() {
        let calls = vec![r#"{"program":""}"#; MAX_BATCH_CALLS + 1].join(",");
        let error = batch(format!(r#"{{"calls":[{calls}]}}"#).as_bytes()).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (Code::InvalidField, Some("calls")));
    }

    #[test]
    fn an_empty_body_opens_a_session_with_defaults() {
        assert_eq!(session(b"").unwrap(), SessionOptions::default());
        assert_eq!(session(b"{\"idle\":1}").unwrap_err().field.as_deref(), Some("idle"));
    }
}
