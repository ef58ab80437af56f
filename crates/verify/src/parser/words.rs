//! Answers in words: what is a sentence, what is a name, and which words are mathematics.
//!
//! Invariant: words are compared as words; only the few that name a set become one.

use super::names::is_unknown_word;
use crate::expression::{Answer, Constant, Expression, Interval};
use crate::lexer::{Token, TokenKind};

/// Two words that are neither functions nor units make a sentence, in which letters don't multiply.
pub(super) fn is_prose(tokens: &[Token]) -> bool {
    let is_arithmetic = |at: Option<usize>| {
        let kind = at.and_then(|at| tokens.get(at)).map(|token| &token.kind);
        matches!(kind, Some(TokenKind::Sign(sign)) if "+-*/^=<>≤≥{}".contains(*sign))
    };
    let unknown = |(at, token): &(usize, &Token)| match &token.kind {
        // `ab + ac`: a few letters beside a sign of arithmetic are a product.
        TokenKind::Word(word) => {
            let product = word.len() <= 3
                && (is_arithmetic(at.checked_sub(1)) || is_arithmetic(Some(at + 1)));
            is_unknown_word(word) && !product
        }
        _ => false,
    };
    tokens.iter().enumerate().filter(unknown).count() > 1
}

/// An answer in words: letters only, at least one word among them.
pub(super) fn words(tokens: &[Token]) -> Option<Answer> {
    let mut all = String::new();
    let mut any = false;
    for token in tokens {
        let part = match &token.kind {
            TokenKind::Word(word) | TokenKind::Text(word) => {
                any = true;
                word.as_str()
            }
            TokenKind::Letter(letter) => letter,
            TokenKind::Digits(digits) => digits,
            TokenKind::Sign('-' | '\'' | ',' | '.' | '(' | ')' | ':' | '{' | '}' | '"' | '!') => {
                " "
            }
            _ => return None,
        };
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(part);
    }
    let text = all.to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    any.then(|| named(text))
}

/// Words that name a set are that set, all others stay words.
pub(super) fn named(words: String) -> Answer {
    const NOTHING: [&str; 8] = [
        "no solution",
        "no solutions",
        "no real solution",
        "no real solutions",
        "no such solution",
        "there is no solution",
        "there are no solutions",
        "empty set",
    ];
    const ALL: [&str; 5] =
        ["all real numbers", "all reals", "real numbers", "any real number", "all real values"];
    let plain = words.strip_prefix("the ").unwrap_or(&words);
    if NOTHING.contains(&plain) {
        return Answer::Set(Vec::new());
    }
    if ALL.contains(&plain) {
        return all_reals();
    }
    Answer::Words(words)
}

/// (−∞, ∞).
pub(super) fn all_reals() -> Answer {
    let infinity = Expression::Constant(Constant::Infinity);
    Answer::Interval(Interval {
        low: infinity.clone().negated(),
        high: infinity,
        low_closed: false,
        high_closed: false,
    })
}
