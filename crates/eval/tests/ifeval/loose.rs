//! The loose rule: without the first line, the last, both, and each without stars.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{check, gold};

#[test]
fn each_of_the_eight_variants_can_be_the_one_that_follows() {
    let quoted = |text: &str| {
        let report = check("startend:quotation", &json!({}), text);
        (report.instructions[0].strict, report.instructions[0].loose)
    };
    assert_eq!(quoted("\"as it stands\""), (true, true));
    assert_eq!(quoted("Sure, here it is:\n\"text\""), (false, true));
    assert_eq!(quoted("\"text\"\nHope that helps."), (false, true));
    assert_eq!(quoted("Sure:\n\"text\"\nHope that helps."), (false, true));
    assert_eq!(quoted("**\"text\"**"), (false, true));
    assert_eq!(quoted("Sure:\n**\"text\"**"), (false, true));
    assert_eq!(quoted("*\"text\"*\nBye."), (false, true));
    assert_eq!(quoted("Sure:\n*\"text\"*\nBye."), (false, true));
    assert_eq!(quoted("One.\nTwo.\n\"text\""), (false, false));
}

#[test]
fn a_variant_that_is_blank_follows_nothing() {
    // Without its only line, nothing is left that could hold a comma.
    let report = check("punctuation:no_comma", &json!({}), "Well, no.");
    assert!(!report.instructions[0].loose);
    let report = check("punctuation:no_comma", &json!({}), "Well, no.\nYes.");
    assert!(report.instructions[0].loose);
}

#[test]
fn prompts_count_where_every_instruction_does() {
    let row = json!({
        "key": 7,
        "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
        "kwargs": [{}, null],
    });
    let gold = rocstar_eval::ifeval::IfEvalGold::from_row(&row).unwrap();
    let report = gold.check("Sure, here:\n\"text\"");
    assert_eq!((report.followed_strictly(), report.followed_loosely()), (0, 2));
    assert!(!report.prompt_strict() && report.prompt_loose());
    let report = gold.check("\"text\"");
    assert!(report.prompt_strict() && report.prompt_loose());
    // One instruction loosely by one variant, the other by another: both count.
    let report = gold.check("\"one, two\"\nthree");
    assert_eq!((report.prompt_strict(), report.prompt_loose()), (false, true));
}

/// Every instruction, with arguments.
pub(crate) fn every_instruction() -> Vec<(&'static str, Value)> {
    let count = |name: &str| json!({name: 2});
    let bound = |relation: &str, name: &str| json!({relation: "at least", name: 2});
    let mut keyword = bound("relation", "frequency");
    keyword["keyword"] = "it".into();
    let mut letter = bound("let_relation", "let_frequency");
    letter["letter"] = "a".into();
    vec![
        ("keywords:existence", json!({"keywords": ["it"]})),
        ("keywords:frequency", keyword),
        ("keywords:forbidden_words", json!({"forbidden_words": ["it"]})),
        ("keywords:letter_frequency", letter),
        ("language:response_language", json!({"language": "fr"})),
        ("length_constraints:number_sentences", bound("relation", "num_sentences")),
        ("length_constraints:number_paragraphs", count("num_paragraphs")),
        ("length_constraints:number_words", bound("relation", "num_words")),
        (
            "length_constraints:nth_paragraph_first_word",
            json!({"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "it"}),
        ),
        ("detectable_content:number_placeholders", count("num_placeholders")),
        ("detectable_content:postscript", json!({"postscript_marker": "P.P.S"})),
        ("detectable_format:number_bullet_lists", count("num_bullets")),
        ("detectable_format:constrained_response", json!({})),
        ("detectable_format:number_highlighted_sections", count("num_highlights")),
        (
            "detectable_format:multiple_sections",
            json!({"section_spliter": "Day", "num_sections": 2}),
        ),
        ("detectable_format:json_format", json!({})),
        ("detectable_format:title", json!({})),
        ("combination:two_responses", json!({})),
        ("combination:repeat_prompt", json!({"prompt_to_repeat": "Do it."})),
        ("startend:end_checker", json!({"end_phrase": "So it is."})),
        ("startend:quotation", json!({})),
        ("change_case:capital_word_frequency", bound("capital_relation", "capital_frequency")),
        ("change_case:english_capital", json!({})),
        ("change_case:english_lowercase", json!({})),
        ("punctuation:no_comma", json!({})),
    ]
}

proptest! {
    /// Whatever the response holds, every check ends, strict implies loose, and a blank text
    /// follows nothing.
    #[test]
    fn any_text_can_be_checked(
        pieces in prop::collection::vec(
            prop_oneof![
                "[ -~]{0,12}",
                "\\PC{0,6}",
                Just("\n".to_owned()),
                Just("***".to_owned()),
                Just("<<".to_owned()),
                Just(">>".to_owned()),
                Just("it. It".to_owned()),
                Just("P.".to_owned()),
                Just("Day 1".to_owned()),
                Just("[".to_owned()),
                Just("\"".to_owned()),
            ],
            0..12,
        )
    ) {
        let text = pieces.concat();
        for (id, kwargs) in every_instruction() {
            let report = &gold(id, &kwargs).check(&text).instructions[0];
            prop_assert!(report.loose || !report.strict, "{}", id);
            prop_assert!(!text.trim().is_empty() || !report.loose, "{}", id);
        }
    }
}
