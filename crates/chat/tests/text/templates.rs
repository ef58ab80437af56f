//! Templates against what transformers renders, and where they come from.

use std::{error::Error as _, fs, path::Path};

use pretty_assertions::assert_eq;
use rocstar_chat::{Error, RenderOptions, Template};
use rocstar_record::message::{Message, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{assistant, tool_spec, user};

#[derive(Deserialize)]
struct Case {
    name: String,
    messages: Vec<Message>,
    tools: Option<Vec<ToolSpec>>,
    add_generation_prompt: bool,
    expected: String,
    source: String,
}

/// The text of a template of these tests, or of a built-in one.
pub(crate) fn source(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/text/templates", "src/template/built_in"];
    let paths = folders.map(|folder| root.join(folder).join(name));
    let found = paths.iter().find_map(|path| fs::read_to_string(path).ok());
    found.unwrap_or_else(|| panic!("no template {name}"))
}

fn compile(text: &str) -> Template {
    let variables = json!({"bos_token": "<s>", "eos_token": "</s>"});
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("tokenizer_config.json", &variables.to_string());
    write("chat_template.jinja", text);
    Template::from_folder(folder.path()).expect("a template")
}

#[test]
fn each_case_renders_as_under_transformers() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../reference/templates.json")).expect("cases");
    assert!(cases.len() > 50);
    let expected: Vec<_> =
        cases.iter().map(|case| (case.name.clone(), Ok(case.expected.clone()))).collect();
    let rendered = cases.into_iter().map(|case| {
        let is_file = case.source.ends_with(".jinja");
        let template = compile(&if is_file { source(&case.source) } else { case.source });
        let options = RenderOptions {
            add_generation_prompt: case.add_generation_prompt,
            ..RenderOptions::default()
        };
        let text = template.render(&case.messages, &case.tools.unwrap_or_default(), &options);
        (case.name, text.map_err(|error| format!("{error:?}")))
    });
    let differing: Vec<_> =
        rendered.zip(expected).filter(|(rendered, expected)| rendered != expected).collect();
    assert_eq!(differing, []);
}

#[test]
fn the_built_in_templates_are_those_files() {
    assert_eq!(Template::rstar2().expect("a template").source(), source("rstar2.jinja"));
    assert_eq!(Template::chatml().expect("a template").source(), source("chatml.jinja"));
}

#[test]
fn the_rstar2_format_is_the_one_described() {
    let template = Template::rstar2().expect("a template");
    let options = RenderOptions::with_generation_prompt();
    let text = template.render(&[user("1+1?")], &[tool_spec("run")], &options).expect("text");
    let (system, rest) = text.split_once("<|im_end|>\n").expect("a system turn");
    for part in [
        "<|im_start|>system\n",
        "User",
        "Assistant",
        "<reason>",
        "<answer>",
        "\n\n# Tools\n\n",
        "\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"run\", \"description\": \"d\", \
         \"parameters\": {\"type\": \"object\"}}}\n</tools>\n",
        "<tool_call>\n{\"name\": ",
    ] {
        assert!(system.contains(part), "{part:?} in {system}");
    }
    assert!(rest.starts_with("<|im_start|>user\n") && rest.contains("\\boxed{}"), "{rest}");
    assert!(
        rest.ends_with("This is the problem:\n1+1?<|im_end|>\n<|im_start|>assistant\n<reason>")
    );
}

#[test]
fn a_template_that_refuses_says_why() {
    let template = compile(&source("other.jinja"));
    let error = template
        .render(&[user("a"), user("b")], &[], &RenderOptions::default())
        .expect_err("a refusal");
    let Error::TemplateRefused { message, .. } = error else { panic!("{error:?}") };
    assert_eq!(message, "roles must alternate, starting with a user");
}

#[test]
fn faults_of_a_template_are_told_with_their_line() {
    let error = Template::from_source("a\n{% if %}").expect_err("no template");
    assert!(matches!(error, Error::TemplateSyntax { .. }));
    assert!(error.source().expect("a cause").to_string().contains(":2"), "{error:?}");
    let template = Template::from_source("{{ messages[0].a.b }}").expect("a template");
    let error = template.render(&[user("a")], &[], &RenderOptions::default()).expect_err("a fault");
    assert!(matches!(error, Error::TemplateRender { .. }), "{error:?}");
}

#[test]
fn the_time_is_the_one_that_is_given() {
    let template = Template::from_source("{{ strftime_now('%d %B %Y') }}").expect("a template");
    let at = |now_unix_s| RenderOptions { now_unix_s, ..RenderOptions::default() };
    let text = template.render(&[], &[], &at(Some(1_735_689_600))).expect("text");
    assert_eq!(text, "01 January 2025");
    let error = template.render(&[], &[], &at(None)).expect_err("no time");
    assert!(matches!(error, Error::TemplateRender { .. }));
}

#[test]
fn variables_reach_the_template() {
    let template = Template::from_source("{{ enable_thinking is false }}{{ x.y }}").expect("one");
    let Value::Object(variables) = json!({"enable_thinking": false, "x": {"y": [1]}}) else {
        unreachable!()
    };
    let options = RenderOptions { variables, ..RenderOptions::default() };
    assert_eq!(template.render(&[], &[], &options).expect("text"), "True[1]");
}

#[test]
fn a_folder_may_hold_its_template_in_three_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let render = |tools: &[ToolSpec]| {
        let template = Template::from_folder(folder.path()).expect("a template");
        template
            .render(&[user("u"), assistant("a")], tools, &RenderOptions::default())
            .expect("text")
    };
    let error = Template::from_folder(folder.path()).expect_err("no template");
    assert!(matches!(error, Error::NoTemplate { .. }));
    write("tokenizer_config.json", r#"{"chat_template": "text"}"#);
    assert_eq!(render(&[]), "text");
    let named = r#"{"chat_template": [{"name": "default", "template": "usual"},
                    {"name": "tool_use", "template": "tools {{ tools | length }}"},
                    {"name": "rag", "template": "{% broken"}]}"#;
    write("tokenizer_config.json", named);
    assert_eq!((render(&[]), render(&[tool_spec("f")])), ("usual".into(), "tools 1".into()));
    write("chat_template.jinja", "file");
    assert_eq!(render(&[tool_spec("f")]), "file");
}

#[test]
fn whether_a_template_shows_tools_is_found_out() {
    let shows = |name: &str| compile(&source(name)).shows_tools();
    assert_eq!(
        ["rstar2.jinja", "qwen3_like.jinja", "smollm2_like.jinja", "other.jinja"].map(shows),
        [true, true, false, false]
    );
}

#[test]
fn a_template_that_rewrites_earlier_turns_is_found_out() {
    let thinking = |text: &str| Message { reasoning_content: Some("t".into()), ..assistant(text) };
    let chat = [user("a"), thinking("b"), user("c"), thinking("d")];
    let plain = [user("a"), assistant("b"), user("c"), assistant("d")];
    let check = |name: &str, chat: &[Message]| {
        compile(&source(name)).check_append_only(chat, &[], &RenderOptions::default())
    };
    for name in ["qwen2_5_like.jinja", "smollm2_like.jinja", "rstar2.jinja", "chatml.jinja"] {
        check(name, &plain).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    check("qwen3_like.jinja", &chat[..2]).expect("one question only grows");
    let error = check("qwen3_like.jinja", &chat).expect_err("thinking is dropped");
    assert_eq!(
        error.to_string(),
        "the template is not append-only: with message 2 the text changes at byte 51: \
         \"<think>\\nt\\n</think>\\n\\nb<|im_end|>\\n\" against \
         \"b<|im_end|>\\n<|im_start|>user\\nc<|\"; \
         train one turn at a time, or choose another template"
    );
}
