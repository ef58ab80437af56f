//! The row that a submission is judged by, and the judging that needs no run: pure functions.
//!
//! SandboxFusion takes `labels`, `test` and `asset` as objects or as text that holds them in JSON;
//! so does this. Invariant: parts that are not needed are skipped, not built, so that a row costs
//! memory in proportion to its text.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::super::super::pydantic::{self, Refusal, Word};
use super::super::run_code;
use super::bad_request;

/// Longest text of a passed case that the answer repeats, in characters.
const SHOWN_CHARACTERS: usize = 1_000;
/// Stands for the middle of a text that is longer.
const CUT: &str = "...";
/// Where a row's test code wants the program.
const INSERT: &str = "#<INSERT>";

#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) dataset_type: Option<String>,
    #[serde(default, deserialize_with = "optional_language")]
    pub(super) language: Option<Word>,
    #[serde(default, deserialize_with = "pydantic::optional_float")]
    run_timeout: Option<f64>,
    #[serde(default)]
    pub(super) custom_extract_logic: Option<String>,
    #[serde(default)]
    provided_data: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) extra: Extra,
}

fn optional_language<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    #[derive(Deserialize)]
    struct Language(#[serde(deserialize_with = "run_code::language")] Word);
    Ok(Option::<Language>::deserialize(deserializer)?.map(|language| language.0))
}

/// Switches, on by anything that Python takes for true.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Extra {
    #[serde(default, deserialize_with = "truth")]
    pub(super) run_all_cases: bool,
    #[serde(default, deserialize_with = "truth")]
    pub(super) return_full_case: bool,
    #[serde(default, deserialize_with = "truth")]
    pub(super) append_flag: bool,
    #[serde(default, deserialize_with = "truth")]
    pub(super) repr_code: bool,
}

fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = Box::<RawValue>::deserialize(deserializer)?;
    Ok(!["false", "null", "0", "0.0", "\"\"", "[]", "{}"].contains(&value.get()))
}

/// One row of a data set.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    #[serde(default)]
    labels: Option<Box<RawValue>>,
    #[serde(default)]
    test: Option<Box<RawValue>>,
}

/// What a row says of its languages.
#[derive(Debug, Deserialize)]
pub(super) struct Labels {
    pub(super) programming_language: String,
    #[serde(default)]
    pub(super) execution_language: Option<String>,
}

/// One case of CommonOJ.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub(super) struct Case {
    input: BTreeMap<String, String>,
    output: BTreeMap<String, String>,
}

/// The test of AutoEval.
#[derive(Debug)]
pub(super) struct AutoTest {
    pub(super) code: String,
    pub(super) asset: BTreeMap<String, Option<String>>,
}

impl Config {
    pub(super) fn run_timeout_or(&self, default_s: f64) -> f64 {
        self.run_timeout.filter(|&timeout| timeout != 0.0).unwrap_or(default_s)
    }

    /// The row that came with the request.
    pub(super) fn row(&self) -> Result<Row, Refusal> {
        let data = self.provided_data.as_deref().map_or("", RawValue::get);
        if data.is_empty() || data == "{}" {
            return Err(bad_request("this server has no data sets: give config.provided_data"));
        }
        if data.starts_with('[') {
            let detail = "request.config.provided_data should be a dict with str -> str | int";
            return Err(bad_request(detail));
        }
        serde_json::from_str(data).map_err(|error| malformed("", &error))
    }
}

impl Row {
    pub(super) fn labels(&self) -> Result<Labels, Refusal> {
        nested(self.labels.as_deref(), "labels")
    }

    pub(super) fn cases(&self) -> Result<Vec<Case>, Refusal> {
        nested(self.test.as_deref(), "test")
    }

    pub(super) fn auto_test(&self) -> Result<AutoTest, Refusal> {
        #[derive(Deserialize)]
        struct Wire {
            code: String,
            #[serde(default)]
            asset: Option<Box<RawValue>>,
        }
        let Wire { code, asset } = nested(self.test.as_deref(), "test")?;
        let asset = match asset.as_deref() {
            Some(asset) if asset.get().starts_with(['{', '"']) => {
                nested(Some(asset), "test.asset")?
            }
            Some(_) | None => BTreeMap::new(),
        };
        Ok(AutoTest { code, asset })
    }
}

/// A value that may be written as text holding its JSON.
fn nested<T: DeserializeOwned>(value: Option<&RawValue>, field: &str) -> Result<T, Refusal> {
    let Some(value) = value else {
        return Err(bad_request(format!("config.provided_data.{field} is missing")));
    };
    let parsed = if value.get().starts_with('"') {
        serde_json::from_str::<String>(value.get()).and_then(|text| serde_json::from_str(&text))
    } else {
        serde_json::from_str(value.get())
    };
    parsed.map_err(|error| malformed(&format!(".{field}"), &error))
}

fn malformed(field: &str, error: &serde_json::Error) -> Refusal {
    bad_request(format!("config.provided_data{field}: {error}"))
}

impl Case {
    pub(super) fn stdin(&self) -> Result<&str, Refusal> {
        stream(&self.input, "input", "stdin")
    }

    pub(super) fn stdout(&self) -> Result<&str, Refusal> {
        stream(&self.output, "output", "stdout")
    }

    /// The case with long texts cut in the middle.
    pub(super) fn shortened(self) -> Self {
        let shorten = |texts: BTreeMap<String, String>| {
            texts.into_iter().map(|(name, text)| (name, shortened(text))).collect()
        };
        Self { input: shorten(self.input), output: shorten(self.output) }
    }
}

fn stream<'a>(
    texts: &'a BTreeMap<String, String>,
    side: &str,
    name: &str,
) -> Result<&'a str, Refusal> {
    let text = texts.get(name).map(String::as_str);
    text.ok_or_else(|| bad_request(format!("a case has no {side}.{name}")))
}

fn shortened(text: String) -> String {
    let characters = text.chars().count();
    if characters <= SHOWN_CHARACTERS {
        return text;
    }
    let kept = (SHOWN_CHARACTERS - CUT.len()) / 2;
    let head = text.chars().take(kept);
    let tail = text.chars().skip(characters - kept);
    head.chain(CUT.chars()).chain(tail).collect()
}

/// Whether two outputs have the same lines, apart from surrounding space, case, and the last digits
/// of numbers.
pub(super) fn same_lines(printed: &str, expected: &str) -> bool {
    let printed: Vec<&str> = printed.trim().split('\n').collect();
    let expected: Vec<&str> = expected.trim().split('\n').collect();
    printed.len() == expected.len()
        && printed.iter().zip(&expected).all(|(printed, expected)| same_line(printed, expected))
}

fn same_line(printed: &str, expected: &str) -> bool {
    let (printed, expected) = (printed.trim().to_lowercase(), expected.trim().to_lowercase());
    if printed == expected {
        return true;
    }
    match (printed.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(printed), Ok(expected)) => {
            (printed - expected).abs() / expected.abs().max(1e-10) < 1e-5
        }
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
}

/// The program joined with the row's test code.
pub(super) fn with_test(code: &str, test: &str, as_literal: bool) -> String {
    let literal = |code: &str| if as_literal { python_literal(code) } else { code.to_owned() };
    match test.split_once(INSERT) {
        Some((before, after)) => {
            // Only the text up to a second mark is used, as in SandboxFusion.
            let after = after.split(INSERT).next().unwrap_or_default();
            format!("{before}{}{after}", literal(code))
        }
        None => {
            let code = code.split("if __name__ ==").next().unwrap_or_default();
            format!("{}\n{test}", literal(code))
        }
    }
}

/// A Python string literal of the text. (JSON's escapes mean the same in Python, except that it
/// writes characters beyond the basic plane as they are, which Python allows too.)
fn python_literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn config(value: serde_json::Value) -> Config {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn lines_are_compared_as_sandbox_fusion_does() {
        for (printed, expected, same) in [
            ("a\nb\n", "a\nb", true),
            ("A \n b", "a\nB", true),
            ("1.000001", "1", true),
            ("1.1", "1", false),
            ("0.0", "0", true),
            ("a", "a\nb", false),
            ("", "", true),
            ("nan", "1", false),
        ] {
            assert_eq!(same_lines(printed, expected), same, "{printed:?} {expected:?}");
        }
    }

    #[test]
    fn rows_may_hold_json_as_text() {
        let case = json!({"input": {"stdin": "1"}, "output": {"stdout": "2"}});
        for test in [json!([case]), json!(json!([case]).to_string())] {
            let config = config(json!({"provided_data": {"id": 1, "content": "", "test": test}}));
            let cases = config.row().unwrap().cases().unwrap();
            assert_eq!(serde_json::to_value(cases).unwrap(), json!([case]));
        }
        let test = json!({"code": "assert f", "asset": "{\"a\": null}"}).to_string();
        let labels = json!({"programming_language": "python"}).to_string();
        let config = config(json!({"provided_data": {"test": test, "labels": labels}}));
        let row = config.row().unwrap();
        assert_eq!(row.labels().unwrap().programming_language, "python");
        let test = row.auto_test().unwrap();
        assert_eq!((test.code.as_str(), test.asset.len()), ("assert f", 1));
    }

    #[test]
    fn a_row_that_can_not_be_used_is_a_400() {
        for data in [json!(null), json!([]), json!({}), json!({"test": 5}), json!({"id": 1})] {
            let config = config(json!({"provided_data": data}));
            let refusal = config.row().and_then(|row| row.cases()).unwrap_err();
            assert_eq!(refusal.status.as_u16(), 400, "{data}");
        }
    }

    #[test]
    fn tests_are_joined_to_the_program() {
        assert_eq!(with_test("f = 1", "a\n#<INSERT>\nb", false), "a\nf = 1\nb");
        assert_eq!(with_test("f\nif __name__ == 1:\n  g", "t", false), "f\n\nt");
        assert_eq!(with_test("f = \"1\"", "x = #<INSERT>", true), r#"x = "f = \"1\"""#);
    }

    #[test]
    fn long_texts_of_passed_cases_are_cut_in_the_middle() {
        let text = shortened("é".repeat(2_000));
        assert_eq!(text, format!("{0}...{0}", "é".repeat(498)));
        assert_eq!(shortened("a".repeat(1_000)), "a".repeat(1_000));
    }

    #[test]
    fn switches_are_on_by_what_python_takes_for_true() {
        let config = config(json!({"extra": {"run_all_cases": 1, "append_flag": ""}}));
        assert_eq!((config.extra.run_all_cases, config.extra.append_flag), (true, false));
    }
}
