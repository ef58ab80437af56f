//! Words, sentences, paragraphs.

use serde_json::json;

use crate::{Case, check, table};

#[test]
fn number_of_words() {
    let at_least = json!({"num_words": 4, "relation": "at least"});
    table(
        "length_constraints:number_words",
        &at_least,
        &[
            Case("just enough", "one two three four", true),
            Case("one too few", "one two three", false),
            Case("a hyphen parts words", "well-known and loved", true),
            Case("an apostrophe parts words", "it's theirs now", true),
            Case("an underscore does not", "a_b c_d e_f", false),
            Case("digits are words", "1 2 3.4", true),
            Case("signs are none", "one -- two ** three !!", false),
            Case("letters of any script", "один два три четыре", true),
        ],
    );
    let less_than = json!({"num_words": 2, "relation": "less than"});
    table(
        "length_constraints:number_words",
        &less_than,
        &[
            Case("one is less", "Yes.", true),
            Case("the bound itself is not less", "Oh yes.", false),
            Case("a blank text follows nothing", " \n ", false),
        ],
    );
}

/// How many sentences a text has, by the two instructions that only that number follows.
fn sentences(text: &str) -> usize {
    let holds = |count: usize| {
        let kwargs = json!({"num_sentences": count, "relation": "at least"});
        check("length_constraints:number_sentences", &kwargs, text).prompt_strict()
    };
    (1..100).take_while(|count| holds(*count)).last().unwrap_or(0)
}

#[test]
fn number_of_sentences() {
    let cases = [
        ("full stops", "One is here. Two is here.", 2),
        ("other marks", "Really? Yes! Good.", 3),
        ("no mark at the end", "One is here. Two is", 2),
        ("no mark at all", "Only words", 1),
        ("a small letter may follow", "It ends here. and goes on.", 2),
        ("several marks", "What?! Wow!!! Good.", 3),
        ("a title", "Dr. Smith met Mrs. Jones.", 1),
        ("a title at the end", "He met the Dr. The rest is known.", 2),
        ("a country", "It is made in the U.S. and sold here.", 1),
        ("a country before a new sentence", "It is made in the U.S. The rest is known.", 2),
        ("a time of day", "At 5 p.m. we left. At 6 p.m. The bus came.", 3),
        ("an initial", "J. Bach wrote it.", 1),
        ("a decimal", "It costs 3.50 in all.", 1),
        ("a number at the end", "It costs 3. Then we left.", 2),
        ("a list's number counts, as published", "1. Buy milk\n2. Go home", 3),
        ("a list's number before a small letter", "1. buy milk\n2. go home", 1),
        ("an ellipsis within", "Wait... what is it?", 1),
        ("an ellipsis before a new sentence", "Wait... The rest is known.", 2),
        ("a quotation", "He said \"Go.\" Then he left.", 2),
        ("a quotation's end", "He said \"Go.\"", 1),
        ("a quotation mark apart", "He left. \"", 1),
        ("brackets", "He left (see below.) Then he came back.", 2),
        ("a domain", "See example.com for more.", 1),
        ("no white space", "End.Next one.", 1),
        ("bold print", "**Bold.** Next one.", 2),
        ("e.g. is no abbreviation here, as published", "Some fruit, e.g. apples.", 2),
        ("lines without marks are one sentence", "First line\n\nSecond line", 1),
        ("a hyphen before an abbreviation", "The non-U.S. market grew.", 1),
    ];
    for (shows, text, count) in cases {
        assert_eq!(sentences(text), count, "{shows}: {text:?}");
    }
}

#[test]
fn bounds_of_sentences() {
    let less_than = json!({"num_sentences": 3, "relation": "less than"});
    table(
        "length_constraints:number_sentences",
        &less_than,
        &[
            Case("two are less", "One. Two.", true),
            Case("the bound itself is not less", "One. Two. Three.", false),
        ],
    );
}

#[test]
fn number_of_paragraphs() {
    table(
        "length_constraints:number_paragraphs",
        &json!({"num_paragraphs": 2}),
        &[
            Case("a divider between", "One.\n***\nTwo.", true),
            Case("blank lines are no dividers", "One.\n\nTwo.", false),
            Case("one too many", "One.\n***\nTwo.\n***\nThree.", false),
            Case("a divider before all", "***\nOne.\n***\nTwo.", true),
            Case("a divider after all", "One.\n***\nTwo.\n***", true),
            Case("an empty paragraph between", "One.\n***\n***\nTwo.", false),
            Case("within a line", "One. *** Two.", true),
            Case("six stars are two dividers", "One.\n******\nTwo.", false),
            Case("two stars are none", "One.\n**\nTwo.", false),
        ],
    );
    table(
        "length_constraints:number_paragraphs",
        &json!({"num_paragraphs": 1}),
        &[
            Case("no divider", "One.", true),
            Case("dividers around", "***\nOne.\n***", true),
            Case("nothing but a divider", "***", false),
        ],
    );
}

#[test]
fn first_word_of_a_paragraph() {
    let second = json!({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Hello"});
    table(
        "length_constraints:nth_paragraph_first_word",
        &second,
        &[
            Case("as asked", "One.\n\nHello there.", true),
            Case("either case", "One.\n\nHELLO there.", true),
            Case("a sign ends the word", "One.\n\nHello, you.", true),
            Case("an apostrophe ends it", "One.\n\nHello's there.", true),
            Case("in quotation marks", "One.\n\n\"Hello\" she said.", true),
            Case("another word", "One.\n\nHi there.", false),
            Case("the word of the wrong paragraph", "Hello.\n\nTwo.", false),
            Case("one paragraph too few", "Hello there.", false),
            Case("one too many", "One.\n\nHello.\n\nThree.", false),
            Case("one line end parts nothing", "One.\nHello there.", false),
            Case("blank paragraphs at the end don't count", "One.\n\nHello.\n\n", true),
            Case("a blank one before shifts the number, as published", "One.\n\n\n\nHello.", false),
            Case("a hyphen is part of the word", "One.\n\nHello-there you.", false),
            Case("a mark of bold print is part of it", "One.\n\n**Hello** you.", false),
        ],
    );
}
