//! Bullet points, one of three answers, highlights, sections, JSON, titles, capital letters.

use serde_json::json;

use crate::{Case, check, table};

#[test]
fn bullet_points() {
    table(
        "detectable_format:number_bullet_lists",
        &json!({"num_bullets": 2}),
        &[
            Case("stars", "* one\n* two", true),
            Case("dashes", "- one\n- two", true),
            Case("mixed", "* one\n- two", true),
            Case("one too few", "* one", false),
            Case("one too many", "* one\n* two\n* three", false),
            Case("indented", "List:\n  * one\n    - two", true),
            Case("bold print is no point", "**bold** text\n* one\n* two", true),
            Case("within a line", "a * one\na - two", false),
            Case("italics at a line's start count, as published", "*one* and\n*two*", true),
            Case("a divider of dashes counts, as published", "* one\n---", true),
            Case("a divider of stars does not", "* one\n***\n* two", true),
            Case("numbers are no points", "1. one\n2. two", false),
            Case("without a space", "*one\n*two", true),
            Case("a lone star takes the next line, as published", "*\n* one\n* two", true),
            Case("a lone star at the end is none", "* one\n* two\n*", true),
            Case("other signs are no points", "• one\n• two", false),
        ],
    );
}

#[test]
fn constrained_response() {
    table(
        "detectable_format:constrained_response",
        &json!({}),
        &[
            Case("yes", "My answer is yes.", true),
            Case("no", "My answer is no.", true),
            Case("maybe", "My answer is maybe.", true),
            Case("with text around", "Well. My answer is no. Sorry.", true),
            Case("the full stop is part of it", "My answer is yes", false),
            Case("case matters", "my answer is yes.", false),
            Case("another answer", "My answer is perhaps.", false),
        ],
    );
}

#[test]
fn highlights() {
    table(
        "detectable_format:number_highlighted_sections",
        &json!({"num_highlights": 2}),
        &[
            Case("italics", "*one* and *two*", true),
            Case("bold print", "**one** and **two**", true),
            Case("mixed", "*one* and **two**", true),
            Case("one too few", "*one*", false),
            Case("blank ones don't count", "* * and ** ** and *one*", false),
            Case("none over two lines", "*one\ntwo* and *three*", false),
            Case("two bullet points make no pair over lines", "* one\n* two", false),
            Case("more", "*a* *b* *c*", true),
            Case("three stars count on both ways, as published", "***one***", true),
            Case("stars in a sum count, as published", "2*3*4 and 5*6*7", true),
            Case("underscores don't", "_one_ and _two_", false),
        ],
    );
}

#[test]
fn sections() {
    let kwargs = json!({"section_spliter": "Section", "num_sections": 2});
    table(
        "detectable_format:multiple_sections",
        &kwargs,
        &[
            Case("as asked", "Section 1\nHere.\nSection 2\nThere.", true),
            Case("one too few", "Section 1\nHere.", false),
            Case("more", "Section 1\nSection 2\nSection 3", true),
            Case("without a space", "Section1 Section2", true),
            Case("two spaces", "Section  1 Section  2", false),
            Case("case matters", "SECTION 1 SECTION 2", false),
            Case("without numbers", "Section one, Section two", false),
            Case("Roman numbers are none", "Section I\nSection II", false),
            Case("numbers need not follow each other", "Section 7\nSection 7", true),
            Case("bold print", "**Section 1**\n**Section 2:**", true),
        ],
    );
}

#[test]
fn json_format() {
    table(
        "detectable_format:json_format",
        &json!({}),
        &[
            Case("an object", "{\"a\": [1, 2.5, null]}", true),
            Case("a fence", "```json\n{\"a\": 1}\n```", true),
            Case("a fence without a name", "```\n[1]\n```", true),
            Case("a fence in capitals", "```JSON\n[1]\n```", true),
            Case("a bare value", "\"text\"", true),
            Case("text before", "Here: {\"a\": 1}", false),
            Case("text after", "{\"a\": 1} done", false),
            Case("single quotation marks", "{'a': 1}", false),
            Case("a comma too many", "{\"a\": 1,}", false),
            Case("a comment", "{\"a\": 1} // one", false),
            Case("a large number", "1e999", true),
            Case("no number", "NaN", false),
            Case("an empty fence", "```json\n```", false),
            Case("white space around", "\n {} \n", true),
        ],
    );
}

#[test]
fn title() {
    table(
        "detectable_format:title",
        &json!({}),
        &[
            Case("as asked", "<<Poem of joy>>\nText", true),
            Case("within the text", "Text <<A title>> text", true),
            Case("missing", "A title", false),
            Case("empty", "<<>>", false),
            Case("blank", "<<  >>", false),
            Case("over two lines", "<<A\ntitle>>", false),
            Case("single brackets", "<A title>", false),
            Case("more brackets", "<<<A title>>>", true),
            Case("brackets alone", "<<>>>", false),
            Case("not closed", "<<A title>", false),
            Case("the second line has it", "<<>>\n<<B>>", true),
        ],
    );
}

#[test]
fn capital_words() {
    let at_least = json!({"capital_frequency": 3, "capital_relation": "at least"});
    table(
        "change_case:capital_word_frequency",
        &at_least,
        &[
            Case("just enough", "THE END IS near", true),
            Case("one too few", "THE END is near", false),
            Case("the pronoun counts", "I came, I saw, I left", true),
            Case("a hyphen joins", "WELL-KNOWN AND-OLD", false),
            Case("an ending is a word", "DON'T STOP", true),
            Case("a small ending is not", "NASA's and ESA's", false),
            Case("digits in a word", "B2 C3 D4", true),
            Case("digits alone are none", "1 2 3", false),
            Case("in brackets", "[NAME] (CITY) {LAND}", true),
            Case("a slash joins", "AND/OR", false),
            Case("a comma parts", "ONE,TWO,THREE", true),
            Case("dots within stay", "U.S.A. WON", false),
            Case("an ellipsis parts", "ONE...TWO...THREE", true),
            Case("two dashes part", "ONE--TWO--THREE", true),
            Case("two words written as one", "I CANNOT", true),
            Case("a curly apostrophe parts", "DON’T STOP", true),
            Case("other scripts", "ДА НЕТ МОЖЕТ", true),
        ],
    );
    let less_than = json!({"capital_frequency": 2, "capital_relation": "less than"});
    table(
        "change_case:capital_word_frequency",
        &less_than,
        &[
            Case("none is less", "all small", true),
            Case("one is less", "one BIG word", true),
            Case("the bound itself is not less", "TWO BIG words", false),
        ],
    );
}

#[test]
fn explanations_say_what_was_found() {
    let report =
        check("detectable_format:number_bullet_lists", &json!({"num_bullets": 3}), "* one\n* two");
    assert_eq!(report.instructions[0].explanation, "2 bullet points, 3 asked");
}
