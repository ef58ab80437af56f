//! Placeholders, postscripts, commas.

use serde_json::json;

use crate::{Case, table};

#[test]
fn placeholders() {
    table(
        "detectable_content:number_placeholders",
        &json!({"num_placeholders": 2}),
        &[
            Case("just enough", "Dear [name], I live in [city].", true),
            Case("one too few", "Dear [name],", false),
            Case("more", "[a] [b] [c]", true),
            Case("empty ones count", "[] []", true),
            Case("none over two lines", "[a\nb] [c]", false),
            Case("nested ones are one", "[a [b] c]", false),
            Case("links count", "[text](address) [other](address)", true),
            Case("other brackets don't", "<a> {b} (c)", false),
            Case("the same twice", "[name] and [name]", true),
        ],
    );
}

#[test]
fn postscript() {
    table(
        "detectable_content:postscript",
        &json!({"postscript_marker": "P.S."}),
        &[
            Case("as asked", "Bye.\n\nP.S. One more thing.", true),
            Case("missing", "Bye.", false),
            Case("either case", "Bye. p.s. more", true),
            Case("a space within", "Bye.\nP. S. more", true),
            Case("without its last full stop", "Bye.\nPS more, P.S more", false),
            Case("within a line", "Bye, P.S. more", true),
            Case("two spaces within", "P.  S. more", false),
        ],
    );
    table(
        "detectable_content:postscript",
        &json!({"postscript_marker": "P.P.S"}),
        &[
            Case("as asked", "P.P.S I forgot.", true),
            Case("with a full stop", "P.P.S. I forgot.", true),
            Case("spaces within", "p. p. s. more", true),
            Case("a plain postscript", "P.S. more", false),
            Case("a third", "P.P.P.S more", true),
            Case("a letter is missing", "P.P. more", false),
        ],
    );
    table(
        "detectable_content:postscript",
        &json!({"postscript_marker": "PS:"}),
        &[
            Case("a marker of another form", "ps: more", true),
            Case("its own signs only", "P.S. more", false),
        ],
    );
}

#[test]
fn no_comma() {
    table(
        "punctuation:no_comma",
        &json!({}),
        &[
            Case("none", "No such sign here; none at all.", true),
            Case("one", "Well, no.", false),
            Case("in a number", "1,000 ways", false),
            Case("another script's comma is another sign", "一、二，三", true),
            Case("in quotation marks", "\",\"", false),
            Case("a blank text follows nothing", "\n", false),
            Case("an apostrophe is none", "It's fine", true),
        ],
    );
}
