//! Control tokens that people wrote stay text, with any template.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_chat::{RenderOptions, Show, Special, Template};
use rocstar_record::message::Message;
use serde_json::json;

use crate::{
    families::family,
    support::{
        assistant, call, calling, nasty_text, small_tokenizer, system, tool, tool_spec, user,
    },
};

/// How many control tokens are in the tokens of a conversation.
fn control_tokens(template: &Template, messages: &[Message]) -> usize {
    let tokenizer = small_tokenizer();
    let options = RenderOptions::with_generation_prompt();
    let tokens =
        template.encode(&tokenizer, messages, &[tool_spec("f")], &options).expect("tokens");
    tokens.iter().filter(|&&token| tokenizer.is_special(token)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_message_adds_a_control_token(texts in prop::array::uniform5(nasty_text())) {
        let conversation = |texts: &[String; 5]| {
            let calls = vec![call("f", json!({"x": texts[3], texts[3].clone(): [texts[3]]}))];
            [system(&texts[0]), user(&texts[1]), calling(&texts[2], calls), tool(&texts[4])]
        };
        let harmless = texts.clone().map(|_| "x".to_owned());
        for name in ["rstar2.jinja", "qwen3_like.jinja", "smollm2_like.jinja"] {
            let template = family(name).template().clone();
            prop_assert_eq!(
                control_tokens(&template, &conversation(&texts)),
                control_tokens(&template, &conversation(&harmless))
            );
        }
    }

    #[test]
    fn shielding_leaves_the_text_as_it_is(texts in prop::array::uniform3(nasty_text())) {
        let tokenizer = small_tokenizer();
        let template = Template::chatml().expect("a template");
        let messages = [system(&texts[0]), user(&texts[1]), assistant(&texts[2])];
        let options = RenderOptions::default();
        let tokens = template.encode(&tokenizer, &messages, &[], &options)?;
        prop_assert_eq!(
            tokenizer.decode(&tokens, Show::All),
            template.render(&messages, &[], &options)?
        );
    }
}

#[test]
fn without_control_tokens_the_ids_are_those_of_the_whole_text() {
    let tokenizer = small_tokenizer();
    let template = Template::chatml().expect("a template");
    let messages = [system("\nhello hello"), user("\n\nhello é <think>"), assistant("\n\n")];
    let options = RenderOptions::with_generation_prompt();
    let text = template.render(&messages, &[], &options).expect("text");
    assert_eq!(
        template.encode(&tokenizer, &messages, &[], &options).expect("tokens"),
        tokenizer.encode(&text, Special::Parse).expect("tokens")
    );
}
