//! The end of a response, and quotation marks around it.

use serde_json::json;

use crate::{Case, table};

#[test]
fn end_phrase() {
    table(
        "startend:end_checker",
        &json!({"end_phrase": "Any other questions?"}),
        &[
            Case("as asked", "Done. Any other questions?", true),
            Case("alone", "Any other questions?", true),
            Case("either case", "Done. any OTHER questions?", true),
            Case("white space after", "Any other questions? \n", true),
            Case("in quotation marks", "\"Done. Any other questions?\"", true),
            Case("something after", "Any other questions? Bye.", false),
            Case("another sign", "Any other questions.", false),
            Case("bold print", "**Any other questions?**", false),
            Case("missing", "Done.", false),
        ],
    );
}

#[test]
fn quotation() {
    table(
        "startend:quotation",
        &json!({}),
        &[
            Case("as asked", "\"All of it.\"", true),
            Case("white space around", " \"All of it.\"\n", true),
            Case("at the start only", "\"All of it.", false),
            Case("at the end only", "All of it.\"", false),
            Case("single ones", "'All of it.'", false),
            Case("curly ones", "“All of it.”", false),
            Case("one mark alone", "\"", false),
            Case("two marks alone", "\"\"", true),
            Case("others within", "\"He said \"no\" to it.\"", true),
        ],
    );
}
