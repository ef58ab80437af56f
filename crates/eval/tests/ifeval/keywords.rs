//! Keywords, forbidden words, letters.

use serde_json::json;

use crate::{Case, table};

#[test]
fn keywords_exist() {
    table(
        "keywords:existence",
        &json!({"keywords": ["river", "old mill"]}),
        &[
            Case("both", "The river runs by the old mill.", true),
            Case("one is missing", "The river runs by.", false),
            Case("either case", "THE RIVER runs by the Old Mill.", true),
            Case("within a longer word counts", "Riverside walks lead to the old millpond.", true),
            Case("another white space is another text", "The river runs by the old\nmill.", false),
            Case("order does not matter", "An old mill stands at the river.", true),
            Case("nothing", "", false),
        ],
    );
}

#[test]
fn a_keyword_is_a_text_and_no_pattern() {
    table(
        "keywords:existence",
        &json!({"keywords": ["c++ (old)"]}),
        &[
            Case("as written", "We use C++ (old).", true),
            Case("not as a pattern", "We use ccc old.", false),
        ],
    );
}

#[test]
fn keyword_frequency() {
    let at_least = json!({"keyword": "sea", "frequency": 3, "relation": "at least"});
    table(
        "keywords:frequency",
        &at_least,
        &[
            Case("just enough", "Sea, sea and sea.", true),
            Case("one too few", "Sea and sea.", false),
            Case("within longer words", "Seaside seas search for the sea.", true),
            Case("either case", "SEA sea Sea", true),
            Case("more", "sea sea sea sea", true),
            Case("none", "A lake.", false),
        ],
    );
    let less_than = json!({"keyword": "aa", "frequency": 2, "relation": "less than"});
    table(
        "keywords:frequency",
        &less_than,
        &[
            Case("none is less", "b", true),
            Case("one is less", "aa", true),
            Case("the bound itself is not less", "aa aa", false),
            Case("occurrences do not overlap", "aaa", true),
        ],
    );
}

#[test]
fn forbidden_words() {
    table(
        "keywords:forbidden_words",
        &json!({"forbidden_words": ["can", "rain"]}),
        &[
            Case("neither", "The sun shines.", true),
            Case("one of them", "It will rain.", false),
            Case("either case", "CAN it?", false),
            Case("a part of a word is allowed", "The candle trains us.", true),
            Case("between signs", "(rain)", false),
            Case("a hyphen ends a word", "A rain-coat.", false),
            Case("an underscore does not", "rain_coat", true),
            Case("an apostrophe ends a word", "The rain's end.", false),
            Case("after a part of a word", "Trains in the rain", false),
        ],
    );
}

#[test]
fn letter_frequency() {
    let at_least = json!({"letter": "q", "let_frequency": 2, "let_relation": "at least"});
    table(
        "keywords:letter_frequency",
        &at_least,
        &[
            Case("just enough", "quite quiet", true),
            Case("one too few", "quite so", false),
            Case("either case", "Q and q", true),
            Case("more", "qqqq", true),
            Case("none", "no", false),
        ],
    );
    let less_than = json!({"letter": "#", "let_frequency": 2, "let_relation": "less than"});
    table(
        "keywords:letter_frequency",
        &less_than,
        &[
            Case("any sign can be asked: none", "no tags", true),
            Case("one is less", "# Title", true),
            Case("the bound itself is not less", "## Title", false),
        ],
    );
    let capital = json!({"letter": "A", "let_frequency": 1, "let_relation": "at least"});
    table("keywords:letter_frequency", &capital, &[Case("a capital is asked", "a", true)]);
}
