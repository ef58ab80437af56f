//! minijinja set up as transformers sets up jinja2, and its errors told apart.

use std::fmt;

use minijinja::{
    Environment, ErrorKind, UndefinedBehavior, Value, syntax::SyntaxConfig, value::ValueKind,
};
use minijinja_contrib::pycompat;

use super::python;
use crate::error::Error;

/// Deepest nesting of calls and macros; a template from a stranger's folder must not overflow.
const RECURSION_LIMIT: usize = 200;

/// An environment without templates.
pub(super) fn new() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_recursion_limit(RECURSION_LIMIT);
    environment.set_unknown_method_callback(pycompat::unknown_method_callback);
    environment.set_formatter(python::write);
    environment.add_filter("tojson", python::to_json);
    environment.add_filter("string", python::to_text);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_function("raise_exception", raise_exception);
    Ok(environment)
}

/// Unlike minijinja, Python can't iterate over `None`.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// For jinja2 a sequence is what has a length and an index: text, objects and what is undefined too.
fn is_sequence(value: &Value) -> bool {
    use ValueKind::{Map, Seq, String, Undefined};
    matches!(value.kind(), Undefined | String | Seq | Map)
}

/// What a template says about a conversation that it can't show.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn raise_exception(message: String) -> Result<String, minijinja::Error> {
    let error = minijinja::Error::new(ErrorKind::InvalidOperation, message.clone());
    Err(error.with_source(Refusal(message)))
}

/// Our error for a failed rendering.
pub(super) fn failure(file: &str, error: minijinja::Error) -> Error {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        if let Some(Refusal(message)) = cause.downcast_ref() {
            return Error::TemplateRefused { file: file.to_owned(), message: message.clone() };
        }
        source = cause.source();
    }
    Error::TemplateRender { file: file.to_owned(), source: error }
}

/// The source with `{% generation %}` blocks, which mark the assistant's text for training and
/// render as their content, turned into blocks that every Jinja knows.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag_and_rest) = rest.split_at(start);
        out.push_str(before);
        let length = tag_and_rest.find("%}").map_or(tag_and_rest.len(), |end| end + 2);
        let (tag, after) = tag_and_rest.split_at(length);
        let inner = tag.trim_start_matches("{%").trim_end_matches("%}");
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match word {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
