//! IFEval: every type of instruction with its edges, strict and loose checking, bad rows, and the
//! published prompts.
#![cfg(test)]

mod combination;
mod content;
mod format;
mod keywords;
mod language;
mod length;
mod loose;
mod published;
mod reference;
mod rows;
mod start_end;

use rocstar_eval::ifeval::{IfEvalGold, IfEvalReport};
use serde_json::{Value, json};

/// A response, and whether it follows the instruction strictly.
struct Case(&'static str, &'static str, bool);

fn gold(id: &str, kwargs: &Value) -> IfEvalGold {
    IfEvalGold::from_row(&json!({"key": 1, "instruction_id_list": [id], "kwargs": [kwargs]}))
        .unwrap()
}

fn check(id: &str, kwargs: &Value, response: &str) -> IfEvalReport {
    gold(id, kwargs).check(response)
}

/// Checks every case of a table: what it shows, the response, whether it follows.
fn table(id: &str, kwargs: &Value, cases: &[Case]) {
    let gold = gold(id, kwargs);
    assert_eq!(gold.instructions[0].id(), id);
    for Case(shows, response, follows) in cases {
        let report = &gold.check(response).instructions[0];
        assert_eq!(
            report.strict, *follows,
            "{id} {kwargs}: {shows}: {response:?}: {}",
            report.explanation
        );
        assert!(report.loose || !report.strict, "{id}: {shows}: strict but not loose");
    }
}
