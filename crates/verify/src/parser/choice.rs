//! One of several choices: `A)`, `(A) 12`, `\textbf{(B)}\ 7`.
//!
//! Invariant: only a letter that brackets, a stop or the word "option" set apart is a choice; `(A)(B)` and
//! `(A) + 1` are mathematics.

use super::answer;
use crate::expression::Answer;
use crate::lexer::{Token, TokenKind};

/// A letter, and what was written beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// From `A` to `J`.
    pub(crate) letter: char,
    /// What that choice says.
    pub(crate) content: Option<Answer>,
}

/// The choice that `tokens` begin with, if they do.
pub(super) fn choice(tokens: &[Token], end_position: usize) -> Option<Choice> {
    // "Option B": the word says nothing.
    if let [Token { kind: TokenKind::Word(word) | TokenKind::Text(word), .. }, rest @ ..] = tokens
        && ["option", "choice"].iter().any(|it| it.eq_ignore_ascii_case(word))
    {
        if let [Token { kind: TokenKind::Letter(letter), .. }] = rest {
            return capital(letter).map(|letter| Choice { letter, content: None });
        }
        return choice(rest, end_position);
    }
    let kind = |at: usize| tokens.get(at).map(|token| &token.kind);
    let sign = |at: usize, signs: &[char]| matches!(kind(at), Some(TokenKind::Sign(it)) if signs.contains(it));
    let (letter, length) = match kind(0)? {
        TokenKind::Text(text) => {
            let bare = text.trim_matches(['(', ')', '.', ':', ' ']);
            (bare.len() < text.len()).then_some((bare, 1))?
        }
        TokenKind::Sign('(') if sign(2, &[')']) => match kind(1)? {
            TokenKind::Letter(letter) => (letter.as_str(), 3),
            TokenKind::Text(text) => (text.as_str(), 3),
            _ => return None,
        },
        TokenKind::Letter(letter) if sign(1, &[')', '.']) => (letter.as_str(), 2),
        // `A: 5` with a space; `A:5` is a proportion.
        TokenKind::Letter(letter)
            if sign(1, &[':']) && tokens.get(2).is_some_and(|next| next.spaced) =>
        {
            (letter.as_str(), 2)
        }
        _ => return None,
    };
    // `(b)` may be a choice too, `b.` hardly.
    let letter = match letter.as_bytes() {
        [byte @ b'a'..=b'e'] if length != 2 => char::from(byte.to_ascii_uppercase()),
        _ => capital(letter)?,
    };
    let rest = tokens.get(length..)?;
    let Some(first) = rest.first() else { return Some(Choice { letter, content: None }) };
    let apart = match &first.kind {
        TokenKind::Digits(_) | TokenKind::Text(_) | TokenKind::Word(_) => true,
        TokenKind::Command(_) | TokenKind::Letter(_) => first.spaced,
        // Money; any other sign goes on with the mathematics.
        TokenKind::Sign(it) => crate::units::currency(*it).is_some(),
        TokenKind::Begin(_) | TokenKind::End(_) | TokenKind::Row => false,
    };
    apart.then(|| Choice { letter, content: answer(rest, end_position).ok() })
}

fn capital(letter: &str) -> Option<char> {
    match letter.as_bytes() {
        [byte @ b'A'..=b'J'] => Some(char::from(*byte)),
        _ => None,
    }
}
