//! Tokenizers out of GGUF metadata, against ids that another implementation gave.

pub(crate) mod metadata;

use pretty_assertions::assert_eq;
use rocstar_chat::{Show, Special, Tokenizer};
use serde::Deserialize;

use crate::support::{small_gguf, small_tokenizer, smollm2};

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    ids_as_text: Vec<u32>,
}

#[test]
fn smollm2_gives_the_ids_of_the_reference() {
    let Some(gguf) = smollm2() else { return };
    let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
    assert_eq!(tokenizer.vocabulary_size(), 49_152);
    assert_eq!(tokenizer.end_token(), Some(2));
    assert!(!tokenizer.expects_begin_token());
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../reference/smollm2.json")).expect("cases");
    for Case { text, ids, ids_as_text } in cases {
        assert_eq!(tokenizer.encode(&text, Special::Parse).expect("tokens"), ids, "{text}");
        assert_eq!(
            tokenizer.encode(&text, Special::AsText).expect("tokens"),
            ids_as_text,
            "{text}"
        );
        assert_eq!(tokenizer.decode(&ids, Show::All), text);
        assert_eq!(tokenizer.decode(&ids_as_text, Show::All), text);
    }
}

#[test]
fn smollm2_survives_saving() {
    let Some(gguf) = smollm2() else { return };
    let template = gguf.chat_template.clone();
    let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
    let folder = tempfile::tempdir().expect("a folder");
    tokenizer.save(folder.path()).expect("files");
    let again = Tokenizer::from_folder(folder.path()).expect("a tokenizer");
    let text = "<|im_start|>user\nWhat is 1234 + ½?\u{4}<|im_end|>\n";
    let ids = |tokenizer: &Tokenizer| tokenizer.encode(text, Special::Parse).expect("tokens");
    assert_eq!(ids(&again), ids(&tokenizer));
    let found = again.template().expect("a template").map(|template| template.source().to_owned());
    assert_eq!(found, template);
}

#[test]
fn metadata_and_json_of_one_vocabulary_give_the_same_ids() {
    let (gguf, json) =
        (Tokenizer::from_gguf(small_gguf()).expect("a tokenizer"), small_tokenizer());
    for text in ["hello  hello\n\n<|im_end|>é x", "<|im_start|>", ""] {
        for special in [Special::Parse, Special::AsText] {
            assert_eq!(
                gguf.encode(text, special).expect("ids"),
                json.encode(text, special).expect("ids")
            );
        }
    }
}

#[test]
fn each_rule_splits_digits_and_words_as_its_family() {
    let pieces = |pre: &str, text: &str| {
        // A vocabulary that merges all digits and letters, so that only the rule keeps them apart.
        let mut gguf = small_gguf();
        gguf.pre = Some(pre.to_owned());
        for (left, right) in
            [("1", "1"), ("11", "1"), ("111", "1"), ("'", "L"), ("!", "a"), (" ", "1")]
        {
            let (left, right) = (crate::support::spelled(left), crate::support::spelled(right));
            let whole = format!("{left}{right}");
            if !gguf.tokens.contains(&whole) {
                gguf.tokens.push(whole);
                gguf.token_types.push(1);
            }
            gguf.merges.push(format!("{left} {right}"));
        }
        let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
        let ids = tokenizer.encode(text, Special::AsText).expect("tokens");
        ids.iter().map(|&id| tokenizer.decode(&[id], Show::All)).collect::<Vec<_>>().join("·")
    };
    let text = "1111 1'L!a";
    assert_eq!(pieces("gpt-2", text), "11·11· 1·'·L·!·a");
    assert_eq!(pieces("smollm", text), "1·1·1·1· ·1·'·L·!·a");
    assert_eq!(pieces("qwen2", text), "1·1·1·1· ·1·'L·!a");
    assert_eq!(pieces("llama-bpe", text), "111·1· ·1·'L·!a");
    assert_eq!(pieces("default", text), "111·1· ·1·'·L·!·a");
    assert_eq!(pieces("qwen2", "e\u{301}"), pieces("qwen2", "é"));
}

#[test]
fn unused_and_user_defined_tokens_keep_their_ids() {
    let mut gguf = small_gguf();
    gguf.tokens.extend(["[PAD 1]".to_owned(), "<tool call>".to_owned()]);
    gguf.token_types.extend([5, 4]);
    let size = gguf.tokens.len() as u32;
    let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
    assert_eq!(tokenizer.token_id("[PAD 1]"), Some(size - 2));
    let ids = tokenizer.encode("<tool call>", Special::AsText).expect("tokens");
    assert_eq!(ids, [size - 1]);
    assert!(!tokenizer.is_special(size - 1));
    assert_eq!(tokenizer.decode(&ids, Show::WithoutSpecial), "<tool call>");
}
