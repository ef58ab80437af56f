//! Text to ids and back.

use std::{fs, sync::LazyLock};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_chat::{Show, Special, StreamDecoder, Tokenizer};
use serde_json::json;

use crate::support::{self, ADDED, SPECIAL, nasty_text, small_tokenizer};

fn streamed(tokenizer: &Tokenizer, tokens: &[u32], show: Show) -> String {
    let mut decoder = StreamDecoder::new(tokenizer, show);
    let mut text: String = tokens.iter().map(|&token| decoder.push(token)).collect();
    text += &decoder.finish();
    text
}

proptest! {
    #[test]
    fn text_survives_encoding(text in nasty_text()) {
        let tokenizer = small_tokenizer();
        for special in [Special::Parse, Special::AsText] {
            let tokens = tokenizer.encode(&text, special)?;
            prop_assert_eq!(tokenizer.decode(&tokens, Show::All), text.clone());
        }
    }

    #[test]
    fn plain_text_never_becomes_a_control_token(text in nasty_text()) {
        let tokenizer = small_tokenizer();
        let tokens = tokenizer.encode(&text, Special::AsText)?;
        prop_assert!(!tokens.iter().any(|&token| tokenizer.is_special(token)));
    }

    #[test]
    fn a_stream_shows_what_decoding_shows(tokens in prop::collection::vec(0_u32..290, 0..40)) {
        let tokenizer = small_tokenizer();
        for show in [Show::All, Show::WithoutSpecial] {
            let whole = tokenizer.decode(&tokens, show);
            prop_assert_eq!(streamed(&tokenizer, &tokens, show), whole);
        }
    }

    #[test]
    fn each_piece_of_a_stream_is_a_prefix_of_the_text(text in "\\PC{0,20}") {
        let tokenizer = small_tokenizer();
        let mut decoder = StreamDecoder::new(&tokenizer, Show::All);
        let mut shown = String::new();
        for token in tokenizer.encode(&text, Special::AsText)? {
            shown += &decoder.push(token);
            prop_assert!(text.starts_with(&shown));
            prop_assert!(decoder.pending_bytes().len() <= 3);
        }
        prop_assert_eq!(shown, text);
    }

    #[test]
    fn decoding_is_that_of_the_library(tokens in prop::collection::vec(0_u32..290, 0..40)) {
        static LIBRARY: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| {
            let json = support::tokenizer_json().to_string();
            tokenizers::Tokenizer::from_bytes(json.as_bytes()).expect("a tokenizer")
        });
        prop_assert_eq!(
            small_tokenizer().decode(&tokens, Show::All),
            LIBRARY.decode(&tokens, false).expect("text")
        );
    }
}

#[test]
fn a_character_is_shown_once_its_last_byte_is_there() {
    let tokenizer = small_tokenizer();
    let mut decoder = StreamDecoder::new(&tokenizer, Show::All);
    let bytes: Vec<_> = "é😀"
        .bytes()
        .map(|byte| tokenizer.token_id(&support::byte_character(byte).to_string()).expect("a byte"))
        .collect();
    let pieces: Vec<_> = bytes.iter().map(|&token| decoder.push(token)).collect();
    assert_eq!(pieces, ["", "é", "", "", "", "😀"]);
    // A character that is broken off is shown as soon as it is certain to stay broken.
    assert_eq!(decoder.push(bytes[2]), "");
    assert_eq!(decoder.push(bytes[0]), "\u{FFFD}");
    assert_eq!(decoder.finish(), "\u{FFFD}");
}

#[test]
fn control_tokens_are_parsed_only_on_request() {
    let tokenizer = small_tokenizer();
    let parsed = tokenizer.encode("<|im_start|>hello<|im_end|>", Special::Parse).expect("tokens");
    let hello = tokenizer.token_id("hello").expect("a token");
    assert_eq!(parsed, [1, hello, 2]);
    assert_eq!(tokenizer.decode(&parsed, Show::WithoutSpecial), "hello");
    let plain = tokenizer.encode("<think><|im_end|>", Special::AsText).expect("tokens");
    // An added token that is no control token is the model's word for it in any text.
    assert_eq!(plain[0], tokenizer.token_id(ADDED[0]).expect("a token"));
    assert!(plain.len() > 4 && plain.iter().all(|&token| !tokenizer.is_special(token)));
    assert_eq!(tokenizer.decode(&plain, Show::WithoutSpecial), "<think><|im_end|>");
}

#[test]
fn the_table_of_tokens_covers_every_id() {
    let tokenizer = small_tokenizer();
    let size = tokenizer.vocabulary_size();
    assert_eq!(tokenizer.token_id(ADDED[1]), Some(size as u32 - 1));
    assert_eq!(tokenizer.token_bytes(size as u32), None);
    assert_eq!(tokenizer.token_bytes(2), Some(SPECIAL[2].as_bytes()));
    let space_hello = tokenizer.token_id("Ġhello").expect("a token");
    assert_eq!(tokenizer.token_bytes(space_hello), Some(&b" hello"[..]));
    assert!(tokenizer.missing_bytes().is_empty());
}

#[test]
fn ids_beyond_the_vocabulary_and_holes_in_it_show_nothing() {
    let mut json = support::tokenizer_json();
    json["model"]["vocab"]["far"] = json!(400);
    json["added_tokens"].as_array_mut().expect("a list").truncate(SPECIAL.len());
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    assert_eq!(tokenizer.vocabulary_size(), 401);
    assert_eq!(tokenizer.token_bytes(399), None);
    assert_eq!(tokenizer.decode(&[399, 400, 5000], Show::All), "far");
}

#[test]
fn a_character_that_no_token_spells_becomes_a_replacement_character() {
    let mut json = support::tokenizer_json();
    let vocabulary = json["model"]["vocab"].as_object_mut().expect("an object");
    let id = vocabulary.remove(&support::byte_character(4).to_string()).expect("a token");
    vocabulary.insert("unused".to_owned(), id);
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    assert_eq!(tokenizer.missing_bytes(), [4]);
    let tokens = tokenizer.encode("a\u{4}b", Special::AsText).expect("tokens");
    assert_eq!(tokenizer.decode(&tokens, Show::All), "a\u{FFFD}b");
}

#[test]
fn truncation_and_padding_of_a_file_are_ignored() {
    let mut json = support::tokenizer_json();
    json["truncation"] = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                                "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 8}, "direction": "Right",
                             "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
                             "pad_token": "<|endoftext|>"});
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    assert_eq!(tokenizer.encode("abcd", Special::Parse).expect("tokens").len(), 4);
    assert_eq!(tokenizer.encode("a", Special::Parse).expect("tokens").len(), 1);
}

#[test]
fn byte_fallback_vocabularies_spell_spaces_and_bytes() {
    let vocabulary = json!({"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁hi": 5,
                            "▁": 6, "h": 7, "i": 8, "▁h": 9});
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 1, "content": "<s>", "special": true, "single_word": false,
                          "lstrip": false, "rstrip": false, "normalized": false}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
                  "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
                  "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary,
                  "merges": ["▁ h", "▁h i"]},
    });
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    let tokens = tokenizer.encode("hi hi\né", Special::Parse).expect("tokens");
    assert_eq!(tokens, [5, 5, 2, 3, 4]);
    assert_eq!(tokenizer.decode(&tokens, Show::All), "hi hi\né");
    assert_eq!(streamed(&tokenizer, &tokens, Show::All), "hi hi\né");
    assert_eq!(tokenizer.token_bytes(5), Some(&b" hi"[..]));
}

#[test]
fn a_folder_names_its_tokens_and_survives_saving() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("tokenizer.json", &support::tokenizer_json().to_string());
    let config = json!({
        "eos_token": {"content": "<|im_end|>"}, "pad_token": null, "add_bos_token": true,
        "model_max_length": 99, "chat_template": "{{ eos_token }}{{ bos_token }}",
        "added_tokens_decoder": {"279": {"content": "<extra>", "special": true}},
    });
    let next = small_tokenizer().vocabulary_size();
    write("tokenizer_config.json", &config.to_string().replace("279", &next.to_string()));
    write("special_tokens_map.json", r#"{"bos_token": "hello", "pad_token": "<|endoftext|>"}"#);

    let check = |tokenizer: &Tokenizer| {
        let hello = tokenizer.token_id("hello");
        assert_eq!(tokenizer.end_token(), Some(2));
        assert_eq!((tokenizer.begin_token(), tokenizer.padding_token()), (hello, Some(0)));
        assert!(tokenizer.expects_begin_token());
        // A named token is a control token, whatever tokenizer.json says.
        assert!(tokenizer.is_special(hello.expect("a token")));
        assert_eq!(tokenizer.token_id("<extra>"), Some(next as u32));
        assert!(tokenizer.is_special(next as u32));
        let template = tokenizer.template().expect("a template").expect("one");
        let text = template.render(&[], &[], &Default::default()).expect("text");
        assert_eq!(text, "<|im_end|>hello");
    };
    let tokenizer = Tokenizer::from_folder(folder.path()).expect("a tokenizer");
    check(&tokenizer);

    let saved = tempfile::tempdir().expect("a folder");
    tokenizer.save(saved.path()).expect("files");
    let again = Tokenizer::from_folder(saved.path()).expect("a tokenizer");
    check(&again);
    let text = "<|im_start|>hello <think>é\n\n<extra>";
    let ids = |tokenizer: &Tokenizer| tokenizer.encode(text, Special::Parse).expect("tokens");
    assert_eq!(ids(&again), ids(&tokenizer));
    let config = fs::read_to_string(saved.path().join("tokenizer_config.json")).expect("a file");
    assert!(config.contains("\"model_max_length\": 99") && !config.contains("chat_template"));
}
