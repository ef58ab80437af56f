//! Two responses, and the prompt repeated.

use serde_json::json;

use crate::{Case, table};

#[test]
fn two_responses() {
    table(
        "combination:two_responses",
        &json!({}),
        &[
            Case("two", "One.\n******\nTwo.", true),
            Case("one", "One.", false),
            Case("three", "One.\n******\nTwo.\n******\nThree.", false),
            Case("the same twice", "One.\n******\nOne.", false),
            Case("the same but for white space", "One.\n******\n One. ", false),
            Case("a divider before all", "******\nOne.\n******\nTwo.", true),
            Case("a divider after all", "One.\n******\nTwo.\n******", true),
            Case("an empty one between", "One.\n******\n\n******\nTwo.", false),
            Case("five stars are no divider", "One.\n*****\nTwo.", false),
            Case("within a line", "One. ****** Two.", true),
            Case("a longer row of stars", "One.\n************\nTwo.", false),
        ],
    );
}

#[test]
fn repeated_prompt() {
    let kwargs = json!({"prompt_to_repeat": "Write a poem about the sea."});
    table(
        "combination:repeat_prompt",
        &kwargs,
        &[
            Case("and an answer", "Write a poem about the sea.\nThe sea…", true),
            Case("alone", "Write a poem about the sea.", true),
            Case("either case", "WRITE a poem about the sea. Waves", true),
            Case("white space before", "\n Write a poem about the sea.", true),
            Case("something before", "Sure! Write a poem about the sea.", false),
            Case("changed", "Write a poem on the sea.", false),
            Case("in quotation marks", "\"Write a poem about the sea.\"", false),
            Case("cut short", "Write a poem about the", false),
        ],
    );
}
