//! Files that are no tokenizer: each error names the file and the field.

use std::{error::Error as _, fs};

use pretty_assertions::assert_eq;
use rocstar_chat::{Error, GgufTokenizer, Tokenizer};
use serde_json::{Value, json};

use crate::support::{small_gguf, tokenizer_json};

/// The error's messages, from the outside in.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

fn json_error(change: impl FnOnce(&mut Value)) -> String {
    let mut json = tokenizer_json();
    change(&mut json);
    chain(&Tokenizer::from_json(json.to_string().as_bytes()).expect_err("no tokenizer"))
}

#[test]
fn broken_json_is_told_with_its_place() {
    let json = tokenizer_json().to_string();
    for length in [0, 1, json.len() / 3, json.len() - 1] {
        let error = Tokenizer::from_json(&json.as_bytes()[..length]).expect_err("no tokenizer");
        let text = chain(&error);
        assert!(text.contains("`tokenizer.json`") && text.contains("EOF"), "{text}");
    }
    let error = Tokenizer::from_json(b"[1, 2]").expect_err("no tokenizer");
    assert!(chain(&error).contains("`tokenizer.json`"), "{error}");
}

#[test]
fn wrong_fields_are_named() {
    let no_model = json_error(|json| {
        json.as_object_mut().expect("an object").remove("model");
    });
    assert!(no_model.contains("missing field `model`"), "{no_model}");
    let wrong_type = json_error(|json| json["added_tokens"][0]["id"] = json!("zero"));
    assert!(wrong_type.contains("expected u32"), "{wrong_type}");
    let merge = json_error(|json| json["model"]["merges"][0] = json!("zz yy"));
    assert!(merge.contains("zz"), "{merge}");
    let other_id = json_error(|json| json["added_tokens"][4]["id"] = json!(900));
    assert!(
        other_id.contains("field `added_tokens[4]`: says that `<think>` has id 900"),
        "{other_id}"
    );
    let high_id = json_error(|json| json["model"]["vocab"]["h"] = json!(u32::MAX));
    let expected = "field `model.vocab`: gives `h` the id 4294967295; at most 16777215";
    assert!(high_id.contains(expected), "{high_id}");
    let dropout = json_error(|json| json["model"]["dropout"] = json!(0.5));
    assert!(dropout.contains("field `model.dropout`: is 0.5"), "{dropout}");
    let decoder = json_error(|json| {
        json["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true})
    });
    assert!(decoder.contains("field `decoder`: is `WordPiece`"), "{decoder}");
    let no_decoder = json_error(|json| json["decoder"] = Value::Null);
    assert!(no_decoder.contains("field `decoder`: is `none`"), "{no_decoder}");
}

#[test]
fn a_folder_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = || chain(&Tokenizer::from_folder(folder.path()).expect_err("no tokenizer"));
    let path = |name: &str| folder.path().join(name);
    let missing = error();
    assert!(missing.starts_with(&format!("cannot read `{}`", path("tokenizer.json").display())));

    fs::write(path("tokenizer.json"), tokenizer_json().to_string()).expect("a file");
    for (config, expected) in [
        ("{", "EOF"),
        (r#"{"eos_token": 7}"#, "field `eos_token`: should be text"),
        (r#"{"added_tokens_decoder": {"x": {}}}"#, "field `added_tokens_decoder.x`: should be"),
        (r#"{"added_tokens_decoder": {"0": {}}}"#, "field `added_tokens_decoder.0`: should be"),
        (
            r#"{"added_tokens_decoder": {"7": {"content": "hello"}}}"#,
            "field `added_tokens_decoder.7`: says that `hello` has id 7",
        ),
        (r#"{"chat_template": [{"name": "default"}]}"#, "field `chat_template[0]`: should be"),
        (r#"{"chat_template": {"a": 1}}"#, "field `chat_template`: should be"),
    ] {
        fs::write(path("tokenizer_config.json"), config).expect("a file");
        let text = error();
        assert!(text.contains("tokenizer_config.json`") && text.contains(expected), "{text}");
    }
}

fn gguf_error(change: impl FnOnce(&mut GgufTokenizer)) -> String {
    let mut gguf = small_gguf();
    change(&mut gguf);
    Tokenizer::from_gguf(gguf).expect_err("no tokenizer").to_string()
}

#[test]
fn bad_gguf_metadata_names_its_key() {
    let starts = "`GGUF metadata`: field `tokenizer.ggml.";
    let cases = [
        (gguf_error(|gguf| gguf.model = "llama".into()), "model`: is `llama`; known are `gpt2`"),
        (
            gguf_error(|gguf| gguf.pre = Some("new".into())),
            "pre`: is `new`; known are `default`, `gpt-2`, `smollm`, `starcoder`, `refact`, \
             `qwen2`, `deepseek-r1-qwen`, `llama-bpe`",
        ),
        (gguf_error(|gguf| gguf.pre = None), "pre`: is missing, so how the model splits text is"),
        (gguf_error(|gguf| gguf.tokens.clear()), "tokens`: is missing"),
        (
            gguf_error(|gguf| gguf.token_types.truncate(3)),
            "token_type`: has 3 entries where `tokenizer.ggml.tokens` has 274",
        ),
        (
            gguf_error(|gguf| gguf.tokens[9] = "a b".into()),
            "tokens[9]`: is `a b`, where ' ' stands for no byte",
        ),
        (gguf_error(|gguf| gguf.tokens[9] = "a".into()), "tokens[101]`: is `a`, which is token 9"),
        (
            gguf_error(|gguf| gguf.merges[1] = "zz y".into()),
            "merges[1]`: is `zz y`, but `zz` is not in the vocabulary",
        ),
        (
            gguf_error(|gguf| gguf.merges[0] = "x y".into()),
            "merges[0]`: is `x y`, but `xy` is not in the vocabulary",
        ),
        (gguf_error(|gguf| gguf.merges[2] = "xy".into()), "merges[2]`: is `xy`, not two tokens"),
        (gguf_error(|gguf| gguf.merges[2] = "h e l".into()), "merges[2]`: is `h e l`, not two"),
        (
            gguf_error(|gguf| gguf.end_token = Some(9999)),
            "eos_token_id`: is 9999, beyond the vocabulary of 274 tokens",
        ),
    ];
    for (found, expected) in cases {
        let expected = format!("{starts}{expected}");
        assert_eq!(found.get(..expected.len()), Some(expected.as_str()), "{found}");
    }
}
