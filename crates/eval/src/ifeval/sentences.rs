//! Where sentences end, after the algorithm of Kiss and Strunk ("Unsupervised Multilingual Sentence
//! Boundary Detection", 2006), which the published checker runs with a model of newspaper English.
//!
//! A mark that may end a sentence is judged by the word that it ends and the word that follows.
//! Question and exclamation marks always end one; a full stop does but after an abbreviation or an
//! initial, where the next word decides: one in small letters goes on, one that is mostly written
//! small and has a capital here starts anew. The lists below stand for the trained model's; it does
//! not know `e.g.`, `i.e.` and `etc.` as abbreviations, so neither do we.

/// Abbreviations, without their last full stop.
const ABBREVIATIONS: [&str; 116] = [
    // People.
    "mr", "mrs", "ms", "dr", "prof", "sen", "rep", "reps", "gen", "col", "lt", "maj", "adm", "jr",
    "sr", "st", "messrs", "ph.d", "m.b.a", // Companies and streets.
    "inc", "corp", "co", "cos", "ltd", "bros", "cie", "s.a", "n.v", "s.p.a", "ave", // Places.
    "u.s", "u.s.a", "u.k", "u.n", "u.s.s.r", "d.c", "n.y", "n.j", "n.c", "s.c", "n.h", "n.m",
    "n.d", "l.a", "r.i", "w.va", "ala", "ariz", "calif", "colo", "conn", "fla", "ga", "ill", "kan",
    "ky", "mich", "minn", "nev", "okla", "ore", "pa", "tenn", "va", "vt", "wash", "wis", "ft",
    // Time.
    "a.m", "p.m", "a.d", "jan", "feb", "aug", "sep", "sept", "oct", "nov", "dec", "tues", "wed",
    "fri", "yr", // Others.
    "vs", "v", "ct", "mg", "ok", "c.v", // Initials.
    "j.b", "j.c", "j.j", "j.k", "j.p", "j.r", "r.a", "r.j", "r.k", "t.j", "e.h",
    "h.c", // Letters.
    "c", "d", "e", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "w",
];

/// Words that are written small within a sentence: with a capital they start one.
const STARTERS: [&str; 75] = [
    "the",
    "this",
    "that",
    "these",
    "those",
    "there",
    "here",
    "it",
    "its",
    "he",
    "she",
    "they",
    "his",
    "her",
    "their",
    "we",
    "our",
    "you",
    "your",
    "a",
    "an",
    "in",
    "on",
    "at",
    "by",
    "for",
    "from",
    "with",
    "as",
    "of",
    "if",
    "when",
    "while",
    "where",
    "what",
    "which",
    "who",
    "why",
    "how",
    "but",
    "and",
    "or",
    "so",
    "yet",
    "nor",
    "because",
    "although",
    "though",
    "since",
    "after",
    "before",
    "during",
    "however",
    "moreover",
    "meanwhile",
    "instead",
    "indeed",
    "thus",
    "then",
    "also",
    "both",
    "many",
    "most",
    "some",
    "such",
    "each",
    "every",
    "all",
    "no",
    "not",
    "are",
    "is",
    "was",
    "please",
    "now",
];

/// Signs that end a word and are none of its letters.
const SIGNS: &str = ")\";}]*:@'({[?!";
/// Signs that start no word.
const NO_START: &str = "(\"`{[:;&#*@)}]-,";

/// How many sentences `text` has.
pub(super) fn count(text: &str) -> usize {
    let mut sentences = 0;
    // The part of the text that no sentence has been counted for is this and what follows.
    let mut pending = false;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        // Closing quotes and brackets go with the sentence that they close.
        if sentences > 0 && !pending && without_closers(word).is_empty() {
            continue;
        }
        let next = words.peek().copied();
        match last_mark(word, next.is_some()).filter(|end| ends_sentence(word, *end, next)) {
            Some(end) => {
                sentences += 1;
                pending = !without_closers(&word[end..]).is_empty();
            }
            None => pending = true,
        }
    }
    sentences + usize::from(pending)
}

fn without_closers(text: &str) -> &str {
    text.trim_start_matches(['"', '\'', ')', ']', '}'])
}

/// The end of the last mark in `word` that may end a sentence: one before a sign, or the word's last
/// character where another word follows.
fn last_mark(word: &str, has_next: bool) -> Option<usize> {
    let mut ends = word.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
    ends.rfind(|end| word[*end..].chars().next().map_or(has_next, |it| SIGNS.contains(it)))
}

/// Whether a sentence ends within `word`, up to its mark that ends at byte `end`.
fn ends_sentence(word: &str, end: usize, next: Option<&str>) -> bool {
    let after = match word[end..].chars().next() {
        Some(sign) => &word[end..end + sign.len_utf8()],
        None => next.unwrap_or_default(),
    };
    let mut tokens = tokens(&word[..end]);
    tokens.extend(self::tokens(after));
    tokens.windows(2).any(|pair| ends_with(pair[0], pair[1]))
}

/// The tokens of a piece of text without white space: words with their full stops, and signs.
fn tokens(piece: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = piece;
    while let Some(first) = rest.chars().next() {
        let length = match run(rest) {
            Some(length) => length,
            None if NO_START.contains(first) => first.len_utf8(),
            None => word_length(rest, first.len_utf8()),
        };
        tokens.push(&rest[..length]);
        rest = &rest[length..];
    }
    tokens
}

/// Length of the dashes or full stops that `text` starts with, where there are two at least.
fn run(text: &str) -> Option<usize> {
    let length = |sign| text.len() - text.trim_start_matches(sign).len();
    [length('-'), length('.')].into_iter().find(|it| *it > 1)
}

/// Length of the word that `text` starts with, at least `first` bytes.
fn word_length(text: &str, first: usize) -> usize {
    let ends = |rest: &str| {
        rest.is_empty() || rest.starts_with(|it| SIGNS.contains(it)) || run(rest).is_some()
    };
    let places = text[first..].char_indices().map(|(at, _)| first + at);
    let mut places = places.filter(|at| {
        let rest = &text[*at..];
        ends(rest) || rest.strip_prefix(',').is_some_and(ends)
    });
    places.next().unwrap_or(text.len())
}

/// Whether a sentence ends with `token`, which `next` follows.
fn ends_with(token: &str, next: &str) -> bool {
    let Some(bare) = token.strip_suffix('.') else { return matches!(token, "?" | "!") };
    let is_ellipsis = token.len() > 1 && token.bytes().all(|it| it == b'.');
    if !is_ellipsis && bare.ends_with('.') {
        return false;
    }
    let lower = bare.to_lowercase();
    let last_part = lower.rsplit('-').next().unwrap_or(&lower);
    let is_abbreviation = is_ellipsis || ABBREVIATIONS.contains(&last_part);
    let is_capital = next.starts_with(char::is_uppercase);
    let starts = is_capital && STARTERS.contains(&next.to_lowercase().trim_end_matches('.'));
    let goes_on =
        next.starts_with(char::is_lowercase) || matches!(next, ";" | ":" | "," | "." | "?" | "!");
    let mut letters = bare.chars();
    let is_initial = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    if is_initial {
        return !is_abbreviation && !goes_on && (starts || !is_capital);
    }
    if is_abbreviation {
        return starts;
    }
    !(is_number(bare) && goes_on)
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_prefix(['.', ',']).unwrap_or(text);
    text.starts_with(|it: char| it.is_ascii_digit())
        && text.chars().all(|it| it.is_ascii_digit() || ",.-".contains(it))
}
