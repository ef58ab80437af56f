//! `p = 5, q = 2; p = 7, q = 2`: several solutions, each with all names.
//!
//! Invariant: only groups that give the same names in the same order are tuples of their values.

use super::answer;
use crate::compare::named_items;
use crate::expression::Answer;
use crate::lexer::{Token, TokenKind};

/// The solutions as tuples, where semicolons part groups of named values.
pub(super) fn of_names(tokens: &[Token], end_position: usize) -> Option<Answer> {
    let is_end = |token: &Token| token.kind == TokenKind::Sign(';');
    if !tokens.iter().any(is_end) {
        return None;
    }
    let mut first: Option<Vec<String>> = None;
    let mut tuples = Vec::new();
    for group in tokens.split(is_end) {
        let group = answer(group, end_position).ok()?;
        let (names, values): (Vec<String>, Vec<Answer>) =
            named_items(&group)?.into_iter().map(|(name, value)| (name, value.clone())).unzip();
        if first.get_or_insert_with(|| names.clone()) != &names || names.len() < 2 {
            return None;
        }
        tuples.push(Answer::Tuple(values));
    }
    Some(Answer::List(tuples))
}
