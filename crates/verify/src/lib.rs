//! Is this answer right? Exact, bounded, explained.
//!
//! [`verify`] finds the answer in a text, reads it, and compares it with the gold one. The verdict
//! is one of four: right, wrong, unparseable, undecided. A failure of ours is never "wrong", and
//! nothing is right by tolerance unless it was written as a decimal.
//!
//! Integers compare exactly; expressions as rational functions over exact rationals, and where that
//! decides nothing, by their values to a hundred bits at seeded points. A general computer-algebra
//! system was rejected: none is usable here (licence, size, or it reads half of the common forms),
//! and simplification is the part that hangs.
//!
//! Pure: no input or output, no clock, no threads, no panics; every loop has a budget.

mod compare;
mod display;
mod exact;
mod expression;
mod extract;
mod lexer;
mod modular;
mod numerals;
mod numeric;
mod parser;
mod units;
mod verdict;
mod work;

use std::borrow::Cow;

use compare::Found;
use expression::Answer;
use extract::{Candidate, candidates, without_emphasis};
pub use extract::{Extraction, ExtractionRule};
use parser::{Choice, ParseError, Parsed, parse};
pub use verdict::{Options, Report, Rule, Side, Understood, Verdict};

/// Compares the answer in `answer` with the one in `gold`.
///
/// ```
/// use rocstar_verify::{Options, Verdict, verify};
///
/// let report = verify("\\frac{1}{2}", "So the answer is \\boxed{2/4}.", &Options::default());
/// assert_eq!(report.verdict, Verdict::Right);
/// ```
pub fn verify(gold: &str, answer: &str, options: &Options) -> Report {
    work::begin();
    let gold = read(gold, Extraction::Lenient);
    let answer = read(answer, options.extraction);
    let found = match (&gold.parsed, &answer.parsed) {
        (Ok(left), Ok(right)) => compared(left, right, options),
        _ => None,
    };
    let found = match (found, as_words(&gold, &answer, options)) {
        (Some(found), _) if found.is_same() => Some(found),
        (found, words) => words.or(found),
    };
    let (verdict, rule, difference) = match found {
        Some(Found::Same(rule)) => (Verdict::Right, Some(rule), None),
        _ if same_text(&gold, &answer) => (Verdict::Right, Some(Rule::Text), None),
        Some(Found::Different(why)) => (Verdict::Wrong, None, Some(why)),
        Some(Found::Unknown(why)) => (Verdict::Undecided { why: why.clone() }, None, Some(why)),
        None => (unparseable(&gold, &answer), None, None),
    };
    let work_steps = work::spent();
    Report {
        verdict,
        rule,
        difference,
        work_steps,
        gold: gold.understood(),
        answer: answer.understood(),
    }
}

/// A text with the answer that was found in it.
struct Read {
    rule: Option<ExtractionRule>,
    text: String,
    parsed: Result<Parsed, ParseError>,
    /// The other reading: all of it, where mathematics was found among words (`June 20`), or what a
    /// sentence ends with.
    words: Option<Answer>,
}

/// Most words that are an answer and no sentence.
const MOST_WORDS: usize = 3;

impl Read {
    /// Whether it is all that was said.
    const fn is_of_whole_text(&self) -> bool {
        matches!(self.rule, Some(ExtractionRule::Whole | ExtractionRule::Phrase))
    }

    fn understood(self) -> Understood {
        let normal_form =
            self.parsed.map_or_else(|_| String::new(), |it| display::text(&it.answer));
        Understood { extraction: self.rule, text: self.text, normal_form }
    }
}

/// The first candidate that can be read; mathematics before words.
fn read(text: &str, extraction: Extraction) -> Read {
    let mut words: Option<Read> = None;
    let mut failed = None;
    let text = match extraction {
        Extraction::Strict => Cow::Borrowed(text),
        Extraction::Lenient => without_emphasis(text),
    };
    for Candidate { rule, text } in candidates(&text, extraction) {
        let parsed = parse(&text);
        let read = Read { rule: Some(rule), text: text.into_owned(), parsed, words: None };
        match &read.parsed {
            Ok(Parsed { answer: Answer::Words(said), .. }) => {
                let is_sentence = said.split(' ').count() > MOST_WORDS;
                // Words that some rule set apart are an answer, a whole sentence hardly is.
                let apart = match rule {
                    ExtractionRule::Boxed | ExtractionRule::BoxInTag => return read,
                    ExtractionRule::Tag => !is_sentence,
                    ExtractionRule::Formula => true,
                    _ => false,
                };
                if apart || read.parsed.as_ref().is_ok_and(|it| it.choice.is_some()) {
                    return words.unwrap_or(read);
                }
                // What a sentence ends with may be the answer: `The winner is Alice.`
                let ends = rule == ExtractionRule::Tail && !is_sentence;
                match &mut words {
                    Some(whole) if ends && whole.is_of_whole_text() => {
                        whole.words = Some(Answer::Words(said.clone()));
                    }
                    Some(_) => {}
                    None => words = Some(read),
                }
            }
            Ok(_) => {
                let words = words.and_then(|it: Read| it.parsed.ok()).map(|it| it.answer);
                return Read { words, ..read };
            }
            Err(_) => {
                // What the author marked is the answer, whether or not it can be read.
                if matches!(rule, ExtractionRule::Boxed | ExtractionRule::BoxInTag) {
                    return read;
                }
                failed.get_or_insert(read);
            }
        }
    }
    words.or(failed).unwrap_or_else(|| Read {
        rule: None,
        text: String::new(),
        parsed: Err(ParseError { position: 0, message: "expected an answer".to_owned() }),
        words: None,
    })
}

/// Words on one side are compared with the words on the other, where these are the same.
fn as_words(gold: &Read, answer: &Read, options: &Options) -> Option<Found> {
    let side = |read: &Read| match &read.parsed {
        Ok(Parsed { answer: it @ Answer::Words(_), .. }) => Some(it.clone()),
        _ => None,
    };
    let pairs = [(side(gold), answer.words.clone()), (gold.words.clone(), side(answer))];
    let mut found = pairs.into_iter().filter_map(|(left, right)| {
        let found = compare::compare(&left?, &right?, options);
        found.is_same().then_some(found)
    });
    found.next()
}

/// The first readings, and where one side may be a number with a decimal comma, that one.
fn compared(gold: &Parsed, answer: &Parsed, options: &Options) -> Option<Found> {
    let found = compare::compare(&gold.answer, &answer.answer, options);
    if found.is_same() {
        return Some(found);
    }
    for (left, right) in other_readings(gold, answer) {
        let second = compare::compare(&left, &right, options);
        if second.is_same() {
            return Some(second);
        }
    }
    Some(found)
}

/// Pairs of readings beside the first ones: decimal commas, rounded values, and choices with what they
/// say.
fn other_readings(gold: &Parsed, answer: &Parsed) -> Vec<(Answer, Answer)> {
    let mut pairs = Vec::new();
    let comma = |parsed: &Parsed| parsed.decimal_comma.clone().map(Answer::from);
    let value =
        |parsed: &Parsed| matches!(parsed.answer, Answer::Value(_)).then(|| parsed.answer.clone());
    for (left, right) in [(comma(gold), value(answer)), (value(gold), comma(answer))] {
        pairs.extend(left.zip(right));
    }
    let both = |parsed: &Parsed| [Some(parsed.answer.clone()), parsed.rounded.clone()];
    let [gold_first, gold_rounded] = both(gold);
    let [answer_first, answer_rounded] = both(answer);
    for (left, right) in [
        (gold_first, answer_rounded.clone()),
        (gold_rounded.clone(), answer_first),
        (gold_rounded, answer_rounded),
    ] {
        pairs.extend(left.zip(right));
    }
    if let (Some(left), Some(right)) = (&gold.choice, &answer.choice) {
        pairs.push((letter(left), letter(right)));
    }
    if let Some(choice) = &answer.choice {
        pairs.push((gold.answer.clone(), letter(choice)));
        pairs.extend(choice.content.clone().map(|content| (gold.answer.clone(), content)));
    }
    if let Some(choice) = &gold.choice {
        pairs.push((letter(choice), answer.answer.clone()));
        pairs.extend(choice.content.clone().map(|content| (content, answer.answer.clone())));
    }
    pairs
}

fn letter(choice: &Choice) -> Answer {
    Answer::Words(choice.letter.to_string())
}

/// The same signs in the same order, for what is no mathematics that is known here.
fn same_text(gold: &Read, answer: &Read) -> bool {
    if gold.parsed.is_ok() && answer.parsed.is_ok() {
        return false;
    }
    if gold.text.len().max(answer.text.len()) > parser::MAX_BYTES {
        return gold.text == answer.text;
    }
    let kinds = |text: &str| -> Vec<lexer::TokenKind> {
        let tokens = lexer::tokens(text).into_iter().map(|token| token.kind);
        tokens.filter(|kind| *kind != lexer::TokenKind::Sign('$')).collect()
    };
    let (left, right) = (kinds(&gold.text), kinds(&answer.text));
    !left.is_empty() && left == right
}

fn unparseable(gold: &Read, answer: &Read) -> Verdict {
    let sides = [(Side::Gold, gold), (Side::Answer, answer)];
    for (side, read) in sides {
        if let Err(error) = &read.parsed {
            let message = error.message.clone();
            return Verdict::Unparseable { side, position: error.position, message };
        }
    }
    Verdict::Undecided { why: "nothing was compared".to_owned() }
}
