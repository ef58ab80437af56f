//! Which family a template belongs to, and that the family's turns are the template's.

use std::{collections::BTreeMap, sync::Mutex};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_chat::{
    Error, Family, RenderOptions, Show, Special, Template, Tokenizer, Transcript, calls::CallFormat,
};
use rocstar_record::message::{Message, ToolSpec};
use serde_json::{Map, json};

use crate::{
    support::{
        assistant, call, calling, nasty_text, small_tokenizer, smollm2, system, tool, tool_spec,
        user,
    },
    templates::source,
};

/// The family of a template of these tests, found once.
pub(crate) fn family(name: &str) -> Family {
    static FOUND: Mutex<BTreeMap<String, Family>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().expect("a lock");
    let detect = || {
        let template = Template::from_source(&source(name)).expect("a template");
        Family::detect(&template).unwrap_or_else(|error| panic!("{name}: {error:?}"))
    };
    found.entry(name.to_owned()).or_insert_with(detect).clone()
}

/// Whether transcript and template give the same tokens.
fn compare(tokenizer: &Tokenizer, family: &Family, messages: &[Message], tools: &[ToolSpec]) {
    let options = family.options();
    let whole = family.template().encode(tokenizer, messages, tools, options).expect("tokens");
    let transcript = Transcript::new(tokenizer, family, messages, tools).expect("a transcript");
    assert_eq!(transcript.tokens(), whole);
    let learned = Transcript::from_messages(tokenizer, family, messages, tools).expect("a sample");
    let text = |tokens: &[u32]| tokenizer.decode(tokens, Show::All);
    assert_eq!(text(learned.tokens()), text(&whole));
    let mut open = transcript;
    open.open_assistant().expect("a turn");
    let prompted = RenderOptions { add_generation_prompt: true, ..options.clone() };
    let prompt = family.template().encode(tokenizer, messages, tools, &prompted).expect("tokens");
    assert_eq!(open.tokens(), prompt);
}

#[test]
fn each_family_is_known_by_what_its_template_renders() {
    for (name, expected, calls) in [
        ("qwen2_5_like.jinja", "qwen2.5", Some(CallFormat::Hermes)),
        ("qwen3_like.jinja", "qwen3", Some(CallFormat::Hermes)),
        ("smollm2_like.jinja", "smollm2", None),
        ("rstar2.jinja", "rstar2", Some(CallFormat::Hermes)),
        ("chatml.jinja", "qwen2.5", Some(CallFormat::Hermes)),
    ] {
        let family = family(name);
        assert_eq!((family.name(), family.call_format()), (expected, calls), "{name}");
    }
}

#[test]
fn another_template_is_refused_with_the_difference() {
    let other = Template::from_source(&source("other.jinja")).expect("a template");
    let error = Family::detect(&other).expect_err("no family");
    assert!(matches!(error, Error::UnknownFamily { source: None, .. }), "{error:?}");
    // ChatML to the eye, with a space too much in each turn.
    let text =
        source("smollm2_like.jinja").replace("message['content'] +", "message['content'] + ' ' +");
    let odd = Template::from_source(&text).expect("a template");
    let error = Family::detect(&odd).expect_err("no family");
    let Error::UnknownFamily { source: Some(source), .. } = error else { panic!("{error:?}") };
    assert!(
        source.to_string().contains("\" <|im_end|>\\n\" against \"<|im_end|>\\n\""),
        "{source}"
    );
}

#[test]
fn conversations_are_what_the_template_renders() {
    let tokenizer = small_tokenizer();
    let chat = [system("s"), user("\n\nhello"), assistant("b"), user(" c"), assistant("d\n")];
    for name in [
        "qwen2_5_like.jinja",
        "smollm2_like.jinja",
        "rstar2.jinja",
        "chatml.jinja",
        "qwen3_like.jinja",
    ] {
        let family = family(name);
        for length in 2..=chat.len() {
            compare(&tokenizer, &family, &chat[..length], &[]);
            compare(&tokenizer, &family, &chat[1..length], &[]);
        }
    }
}

#[test]
fn conversations_with_tools_are_what_the_template_renders() {
    let tokenizer = small_tokenizer();
    let tools = [tool_spec("f"), tool_spec("g")];
    let arguments = json!({"code": "print('é')\n", "n": [1, 2.0, 1e22, null], "o": {}});
    let calls = vec![call("f", arguments), call("g", json!({}))];
    let chat = [
        user("a"),
        calling("b", calls.clone()),
        tool("\nhello"),
        tool("</tool_response>"),
        calling("", calls),
        tool(""),
        assistant("c"),
        user("d"),
    ];
    for name in ["qwen2_5_like.jinja", "rstar2.jinja", "chatml.jinja", "qwen3_like.jinja"] {
        let family = family(name);
        for length in [1, 2, 4, 5, 6, 7, 8] {
            compare(&tokenizer, &family, &chat[..length], &tools);
        }
    }
}

#[test]
fn the_real_template_of_smollm2_is_one_of_its_family() {
    let Some(gguf) = smollm2() else { return };
    let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
    let template = tokenizer.template().expect("a template").expect("one");
    let family = Family::detect(&template).expect("a family");
    assert_eq!((family.name(), template.shows_tools()), ("smollm2", false));
    let chat = [user("Hi"), assistant("\nHello"), user("2+2?\n"), assistant("4")];
    for length in 1..=chat.len() {
        compare(&tokenizer, &family, &chat[..length], &[]);
    }
    template.check_append_only(&chat, &[], &RenderOptions::default()).expect("append-only");
    let built_in = [Family::rstar2(), Family::chatml()].map(|family| family.expect("a family"));
    for family in &built_in {
        compare(&tokenizer, family, &chat, &[tool_spec("f")]);
    }
}

#[test]
fn what_a_family_would_drop_is_an_error() {
    let tokenizer = small_tokenizer();
    let learn = |name: &str, messages: &[Message], tools: &[ToolSpec]| {
        Transcript::from_messages(&tokenizer, &family(name), messages, tools).expect_err("an error")
    };
    let thinking = |text: &str| Message { reasoning_content: Some("t".into()), ..assistant(text) };
    let error = learn("smollm2_like.jinja", &[user("a")], &[tool_spec("f")]);
    assert!(matches!(error, Error::ToolsUnsupported { family: "smollm2" }), "{error:?}");
    let calls = [user("a"), calling("", vec![call("f", json!({}))])];
    let error = learn("smollm2_like.jinja", &calls, &[]);
    assert!(matches!(error, Error::ToolsUnsupported { family: "smollm2" }), "{error:?}");
    let error = learn("qwen2_5_like.jinja", &[user("a"), thinking("b")], &[]);
    assert!(matches!(error, Error::ReasoningUnsupported { message: 1, .. }), "{error:?}");
    let chat = [user("a"), thinking("b"), user("c"), thinking("d")];
    let error = learn("qwen3_like.jinja", &chat, &[]);
    assert!(matches!(error, Error::Forgotten { message: 1, .. }), "{error:?}");
    // As a prompt, the same conversation is what the template makes of it.
    let family = family("qwen3_like.jinja");
    let prompt = Transcript::new(&tokenizer, &family, &chat, &[]).expect("a prompt");
    let whole = family.template().encode(&tokenizer, &chat, &[], family.options());
    assert_eq!(prompt.tokens(), whole.expect("tokens"));
}

#[test]
fn a_tokenizer_without_the_turn_tokens_is_refused() {
    let mut json = crate::support::tokenizer_json();
    json["added_tokens"][2]["special"] = json!(false);
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    let family = Family::chatml().expect("a family");
    let error = Transcript::new(&tokenizer, &family, &[], &[]).expect_err("an error");
    assert!(matches!(error, Error::MissingToken { token: "<|im_end|>", .. }), "{error:?}");
}

#[test]
fn a_template_that_keeps_all_thinking_is_a_family_of_its_own() {
    let condition = "loop.index0 > found.question and (loop.last or parts.thinking)";
    let text = source("qwen3_like.jinja");
    assert!(text.contains(condition));
    let template = Template::from_source(&text.replace(condition, "true")).expect("a template");
    let family = Family::detect(&template).expect("a family");
    assert_eq!(family.name(), "qwen3-kept");
    let thinking = |text: &str| Message { reasoning_content: Some("t".into()), ..assistant(text) };
    let chat = [user("a"), thinking("b"), user("c"), assistant("d"), user("e"), thinking("f")];
    for length in 1..=chat.len() {
        compare(&small_tokenizer(), &family, &chat[..length], &[]);
    }
    template.check_append_only(&chat, &[], &RenderOptions::default()).expect("append-only");
}

#[test]
fn variables_of_the_template_stay_in_force() {
    let template = Template::from_source(&source("qwen3_like.jinja")).expect("a template");
    let variables = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
    let options = RenderOptions { variables, ..RenderOptions::default() };
    let family = Family::detect_with(&template, &options).expect("a family");
    let opening = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(family.assistant_opening(), opening);
    let tokenizer = small_tokenizer();
    let mut transcript = Transcript::new(&tokenizer, &family, &[user("a")], &[]).expect("one");
    transcript.open_assistant().expect("a turn");
    transcript.push_policy(&tokenizer.encode("b", Special::AsText).expect("ids")).expect("a turn");
    transcript.close_assistant().expect("an end");
    let learned = Transcript::from_messages(&tokenizer, &family, &[user("a"), assistant("b")], &[]);
    assert_eq!(transcript.tokens(), learned.expect("a sample").tokens());
}

/// A conversation that users, tools and an assistant might have, with nasty texts.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let texts = prop::collection::vec(nasty_text(), 0..3);
    let parts = (nasty_text(), prop::option::of(nasty_text()), texts);
    let assistant_message = parts.prop_map(|(text, reasoning_content, arguments)| {
        let calls = arguments.iter().map(|text| call("f", json!({"x": text, "y": [text]})));
        Message { reasoning_content, ..calling(&text, calls.collect()) }
    });
    let message = prop_oneof![
        nasty_text().prop_map(|text| user(&text)),
        nasty_text().prop_map(|text| tool(&text)),
        nasty_text().prop_map(|text| system(&text)),
        assistant_message,
    ];
    prop::collection::vec(message, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_conversation_is_what_the_template_renders(
        mut messages in conversation(),
        name in prop::sample::select(vec!["qwen2_5_like.jinja", "rstar2.jinja", "chatml.jinja", "qwen3_like.jinja"]),
    ) {
        let tokenizer = small_tokenizer();
        let family = family(name);
        let tools = [tool_spec("f")];
        if family.name() == "qwen2.5" {
            // The family has no place for it.
            messages.iter_mut().for_each(|message| message.reasoning_content = None);
        }
        let transcript = Transcript::new(&tokenizer, &family, &messages, &tools)?;
        let whole = family.template().encode(&tokenizer, &messages, &tools, family.options())?;
        prop_assert_eq!(transcript.tokens(), whole);
        let text = family.template().render(&messages, &tools, family.options())?;
        prop_assert_eq!(tokenizer.decode(transcript.tokens(), Show::All), text);
    }
}
