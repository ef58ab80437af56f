//! Rows as they come: what is read, and what each fault is called.

use pretty_assertions::assert_eq;
use rocstar_eval::ifeval::{Bound, IfEvalGold, Instruction, Relation};
use serde_json::{Value, json};

use crate::loose::every_instruction;

fn fault(row: &Value) -> String {
    IfEvalGold::from_row(row).unwrap_err().to_string()
}

fn row(id: &str, kwargs: &Value) -> Value {
    json!({"key": 7, "instruction_id_list": [id], "kwargs": [kwargs]})
}

#[test]
fn all_25_instructions_are_read_by_their_names() {
    let all = every_instruction();
    assert_eq!(all.len(), 25);
    for (id, kwargs) in all {
        let gold = IfEvalGold::from_row(&row(id, &kwargs)).unwrap();
        assert_eq!(gold.instructions[0].id(), id);
    }
}

#[test]
fn arguments_keep_their_values() {
    let kwargs = json!({"relation": "less than", "num_words": 300.0, "num_bullets": null});
    let gold = IfEvalGold::from_row(&row("length_constraints:number_words", &kwargs)).unwrap();
    let bound = Bound { relation: Relation::LessThan, threshold: 300 };
    assert_eq!(gold.instructions, [Instruction::WordCount(bound)]);
}

#[test]
fn faults_name_row_field_and_what_is_right() {
    assert_eq!(
        fault(&row("punctuation:no_dash", &json!({}))),
        "row with key 7: `instruction_id_list[0]` names `punctuation:no_dash`, which is none of \
         IFEval's 25 instructions"
    );
    assert_eq!(
        fault(&row("length_constraints:number_words", &json!({"relation": "at least"}))),
        "row with key 7: `kwargs[0].num_words` is missing"
    );
    assert_eq!(
        fault(&row(
            "length_constraints:number_words",
            &json!({"relation": "at most", "num_words": 3})
        )),
        "row with key 7: `kwargs[0].relation` must be `at least` or `less than`"
    );
    assert_eq!(
        fault(&row("detectable_format:number_bullet_lists", &json!({"num_bullets": 2.5}))),
        "row with key 7: `kwargs[0].num_bullets` must be a whole number, 0 at least"
    );
    assert_eq!(
        fault(&row("keywords:existence", &json!({"keywords": ["a", 1]}))),
        "row with key 7: `kwargs[0].keywords` must be a list of texts, one at least"
    );
    assert_eq!(
        fault(&row("startend:end_checker", &json!({"end_phrase": " "}))),
        "row with key 7: `kwargs[0].end_phrase` must be a text that is not blank"
    );
    assert_eq!(
        fault(&row("language:response_language", &json!({"language": "tlh"}))),
        "row with key 7: `kwargs[0].language` is `tlh`, a language that is not known here"
    );
    assert_eq!(
        fault(&row(
            "length_constraints:nth_paragraph_first_word",
            &json!({"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"})
        )),
        "row with key 7: `kwargs[0].nth_paragraph` must be from 1 to `num_paragraphs`, 2"
    );
    assert_eq!(
        fault(&row(
            "keywords:letter_frequency",
            &json!({"letter": "ab", "let_frequency": 1, "let_relation": "at least"})
        )),
        "row with key 7: `kwargs[0].letter` must be one character"
    );
}

#[test]
fn faults_of_the_lists() {
    assert_eq!(fault(&json!({})), "row with key unknown: `instruction_id_list` must be a list");
    assert_eq!(
        fault(&json!({"key": 7, "instruction_id_list": ["startend:quotation"]})),
        "row with key 7: `kwargs` must be a list"
    );
    assert_eq!(
        fault(&json!({"key": 7, "instruction_id_list": [], "kwargs": []})),
        "row with key 7: `instruction_id_list` is empty: there is nothing to check"
    );
    assert_eq!(
        fault(&json!({"key": 7, "instruction_id_list": ["startend:quotation"], "kwargs": []})),
        "row with key 7: `kwargs` has 0 entries for 1 instructions"
    );
    assert_eq!(
        fault(&json!({"key": 7, "instruction_id_list": [3], "kwargs": [{}]})),
        "row with key 7: `instruction_id_list[0]` must be a text"
    );
    assert_eq!(
        fault(&row("startend:quotation", &json!([1]))),
        "row with key 7: `kwargs[0]` must be an object"
    );
}
