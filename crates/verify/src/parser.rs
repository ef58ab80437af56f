//! Tokens to an [`Answer`]: lists, tuples, sets, intervals, matrices, relations and their values.
//!
//! Invariant: a parse uses every token or fails at the position of the first that it can't use;
//! nothing is skipped in silence. Depth and length are bounded, so any text ends quickly.

mod brackets;
mod choice;
mod expression;
mod functions;
mod groups;
mod marks;
mod matrix;
mod names;
mod notation;
mod number;
mod rounded;
mod words;

pub(crate) use choice::Choice;

use crate::expression::{Answer, Expression, Interval, Mark, Sign, Value};
use crate::lexer::{ABOUT, CLOSE_SET, OPEN_SET, REALS, Token, TokenKind, tokens};
use crate::units;

/// Longest text that is parsed, in bytes.
pub(crate) const MAX_BYTES: usize = 20_000;
/// Longest text that is parsed, in tokens.
const MAX_TOKENS: usize = 2_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 60;
/// Steps of all attempts together, so that trying again can't take long.
const MAX_STEPS: usize = 60_000;

/// Why a text is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParseError {
    /// Byte of the text at which the first unusable token begins.
    pub(crate) position: usize,
    /// What was expected.
    pub(crate) message: String,
}

/// What a text may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The first reading.
    pub(crate) answer: Answer,
    /// The other reading of `1,22`: a number with a decimal comma.
    pub(crate) decimal_comma: Option<Expression>,
    /// The other reading of `(A) 12`: one of several choices.
    pub(crate) choice: Option<Choice>,
    /// The other reading of `\sqrt2 \approx 1.41`: what it was rounded to.
    pub(crate) rounded: Option<Answer>,
}

/// Reads `text` as an answer.
///
/// # Errors
/// The text is no answer that this parser knows, or it is too long or deep.
pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    if text.len() > MAX_BYTES {
        return Err(Parser::new(&[], 0).error("a shorter answer"));
    }
    let mut tokens = tokens(text);
    // Delimiters of mathematics and money.
    tokens.retain(|token| token.kind != TokenKind::Sign('$'));
    marks::half_of_day(&mut tokens);
    trim(&mut tokens);
    brackets::turn_outward_ones(&mut tokens);
    if tokens.len() > MAX_TOKENS {
        return Err(Parser::new(&[], 0).error("a shorter answer"));
    }
    let exact = rounded::taken_as_equal(&mut tokens, text.len());
    let decimal_comma = number::decimal_comma(&tokens);
    let choice = choice::choice(&tokens, text.len());
    let read = match groups::of_names(&tokens, text.len()) {
        Some(tuples) => Ok(tuples),
        None => answer(&tokens, text.len()),
    };
    match read {
        Ok(all) => {
            let (answer, rounded) = rounded::first_and_other(exact, all);
            Ok(Parsed { answer, decimal_comma, choice, rounded })
        }
        // A lone letter before what can't be read is still a choice.
        Err(error) => match &choice {
            Some(chosen) => {
                let answer = Answer::Words(chosen.letter.to_lowercase().to_string());
                Ok(Parsed { answer, decimal_comma, choice, rounded: None })
            }
            None => Err(error),
        },
    }
}

/// Reads all of `tokens`, or says where that fails.
fn answer(tokens: &[Token], end_position: usize) -> Parse<Answer> {
    let mut parser = Parser::new(tokens, end_position);
    if words::is_prose(tokens) {
        return words::words(tokens).ok_or_else(|| parser.error("an answer, not sentences"));
    }
    let error = match parser.answer() {
        Ok(answer) if parser.at_end() => return Ok(answer),
        Ok(_) => parser.error("the end of the answer"),
        Err(error) => error,
    };
    if let Some(words) = words::words(tokens) {
        return Ok(words);
    }
    // Signs of money that stand where none belongs say nothing.
    let is_money = |token: &Token| matches!(token.kind, TokenKind::Sign(sign) if units::currency(sign).is_some());
    if !tokens.iter().any(is_money) {
        return Err(error);
    }
    let bare: Vec<Token> = tokens.iter().filter(|token| !is_money(token)).cloned().collect();
    let mut parser = Parser::new(&bare, end_position);
    match parser.answer() {
        Ok(answer) if parser.at_end() => Ok(answer),
        _ => Err(error),
    }
}

/// Full stops and commas around an answer, and the brackets of a lone choice, say nothing.
fn trim(tokens: &mut Vec<Token>) {
    let idle = |token: &Token| {
        matches!(token.kind, TokenKind::Sign('.' | ',' | ';' | ':' | '`') | TokenKind::Row)
    };
    let of_decimal = |token: Option<&Token>| matches!(token, Some(Token { kind: TokenKind::Digits(digits), .. }) if digits.contains('.'));
    let is_equal = |token: &Token| matches!(token.kind, TokenKind::Sign('=' | ABOUT));
    while let Some(last) = tokens.last() {
        // The dots behind `0.333` are a part of it.
        let dots = last.kind == TokenKind::Sign('…');
        let are_idle_dots = dots && !of_decimal(tokens.iter().rev().nth(1));
        if !idle(last) && !are_idle_dots {
            break;
        }
        tokens.pop();
    }
    // So does a sign of equality that nothing stands before.
    let leading = tokens.iter().take_while(|token| idle(token) || is_equal(token)).count();
    tokens.drain(..leading);
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    end_position: usize,
    depth: usize,
    steps: usize,
    /// Open `|…|`, inside which a `|` closes.
    bars: usize,
    /// Round and square brackets: a comma inside them parts elements, never thousands.
    brackets: usize,
    /// How `±` is read now, and whether one was met.
    plus_minus: i8,
    met_plus_minus: bool,
    /// Where the value ends that was given in degrees.
    degrees_until: Option<usize>,
    /// The unit of a sign of money before a number.
    money: Option<&'static str>,
    /// What is left of a token of digits or letters, from which one was taken: of `\frac12`, of `xy^2`.
    split: Option<(usize, usize)>,
}

type Parse<T> = Result<T, ParseError>;

impl<'t> Parser<'t> {
    const fn new(tokens: &'t [Token], end_position: usize) -> Self {
        Self {
            tokens,
            at: 0,
            end_position,
            depth: 0,
            steps: 0,
            bars: 0,
            brackets: 0,
            plus_minus: 1,
            met_plus_minus: false,
            split: None,
            degrees_until: None,
            money: None,
        }
    }

    const fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn kind(&self) -> Option<&'t TokenKind> {
        self.kind_at(0)
    }

    fn kind_at(&self, ahead: usize) -> Option<&'t TokenKind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn is_sign(&self, sign: char) -> bool {
        self.kind() == Some(&TokenKind::Sign(sign))
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn expect_sign(&mut self, sign: char) -> Parse<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.error(&format!("`{sign}`"))) }
    }

    fn error(&self, expected: &str) -> ParseError {
        let position = self.tokens.get(self.at).map_or(self.end_position, |token| token.position);
        ParseError { position, message: format!("expected {expected}") }
    }

    /// One level deeper, or an error where that would be too deep or takes too long.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.steps += 1;
        if self.depth >= MAX_DEPTH || self.steps > MAX_STEPS {
            return Err(self.error("a simpler answer"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Tries `parse`, and goes back to where it began if that fails or gives nothing.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<Option<T>>) -> Option<T> {
        let before = (self.at, self.bars, self.brackets, self.split, self.met_plus_minus);
        let result = self.deeper(parse);
        if let Ok(Some(value)) = result {
            return Some(value);
        }
        (self.at, self.bars, self.brackets, self.split, self.met_plus_minus) = before;
        None
    }

    /// The whole answer: items parted by commas, "and", "or".
    fn answer(&mut self) -> Parse<Answer> {
        let items = self.items()?;
        Ok(one_or(items, Answer::List))
    }

    fn items(&mut self) -> Parse<Vec<Answer>> {
        let mut items = Vec::new();
        // The last item is bound to the one before: by "and" or a comma, not by "or".
        let mut bound = false;
        loop {
            let before = items.len();
            self.item(&mut items)?;
            if bound && items.len() == before + 1 {
                brackets::join_bounds(&mut items);
            }
            let start = self.at;
            if !self.separator() {
                return Ok(items);
            }
            bound = !self.tokens[start..self.at].iter().any(is_or);
        }
    }

    /// Commas, semicolons, "and", "or", and several of them in a row; nothing at the end.
    fn separator(&mut self) -> bool {
        let start = self.at;
        while self.is_separator() {
            self.at += 1;
        }
        let closes = match self.kind() {
            None => true,
            Some(TokenKind::Sign(sign)) => matches!(*sign, ')' | ']' | '}' | CLOSE_SET | '⟩'),
            Some(_) => false,
        };
        self.at > start && !closes
    }

    fn is_separator(&self) -> bool {
        match self.kind() {
            Some(TokenKind::Sign(sign)) => matches!(*sign, ',' | ';' | '∧' | '∨'),
            Some(TokenKind::Word(word) | TokenKind::Text(word)) => {
                let word = word.trim_matches([',', ';', '.', ' ']);
                word.is_empty()
                    || ["and", "or", "et", "&"].iter().any(|it| it.eq_ignore_ascii_case(word))
            }
            _ => false,
        }
    }

    /// One item; with a `±` in it, two.
    fn item(&mut self, into: &mut Vec<Answer>) -> Parse<()> {
        let start = self.at;
        let outer = std::mem::replace(&mut self.met_plus_minus, false);
        let first = self.deeper(Self::relation)?;
        into.push(first);
        if self.met_plus_minus && self.plus_minus == 1 {
            self.at = start;
            self.plus_minus = -1;
            let second = self.deeper(Self::relation);
            self.plus_minus = 1;
            into.push(second?);
        }
        self.met_plus_minus = outer;
        Ok(())
    }

    fn relation(&mut self) -> Parse<Answer> {
        let mut sides = vec![self.side()?];
        let mut signs = Vec::new();
        while let Some(sign) = self.relation_sign() {
            self.at += 1;
            signs.push(sign);
            sides.push(self.side()?);
        }
        if signs.is_empty() {
            return Ok(sides.remove(0));
        }
        Ok(Answer::Relation { sides, signs })
    }

    fn relation_sign(&self) -> Option<Sign> {
        let Some(TokenKind::Sign(sign)) = self.kind() else { return None };
        match sign {
            '=' => Some(Sign::Equal),
            '≠' => Some(Sign::NotEqual),
            '<' => Some(Sign::Less),
            '≤' => Some(Sign::LessOrEqual),
            '>' => Some(Sign::Greater),
            '≥' => Some(Sign::GreaterOrEqual),
            '∈' => Some(Sign::In),
            _ => None,
        }
    }

    /// One side of a relation: a union of sets, a proportion, or a value.
    fn side(&mut self) -> Parse<Answer> {
        let mut first = self.set_or_value()?;
        while self.take_sign('∖') {
            let points = self.set_or_value()?;
            first = Answer::Without { set: Box::new(first), points: Box::new(points) };
        }
        if self.is_union(&first) {
            let mut parts = vec![first];
            while parts.last().is_some_and(|last| self.is_union(last)) {
                self.at += 1;
                parts.push(self.set_or_value()?);
            }
            return Ok(Answer::Union(parts));
        }
        if !self.is_sign(':') {
            return Ok(first);
        }
        let mut parts = vec![plain(first).ok_or_else(|| self.error("a number before `:`"))?];
        while self.take_sign(':') {
            parts.push(self.deeper(Self::sum)?);
        }
        Ok(Answer::Proportion(parts))
    }

    fn set_or_value(&mut self) -> Parse<Answer> {
        if let Some(Answer::Matrix(rows)) = self.attempt(Self::matrices) {
            return Ok(Answer::Matrix(rows));
        }
        if let Some(found) = self.attempt(Self::bracketed) {
            return Ok(found);
        }
        if let Some(TokenKind::Begin(name)) = self.kind()
            && !matrix::is_determinant(name)
        {
            return self.environment(name);
        }
        if let Some(TokenKind::Text(text)) = self.kind()
            && !self.is_separator()
        {
            self.at += 1;
            let text = text.trim_matches(['(', ')', '.', ' ']).to_lowercase();
            return Ok(words::named(text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        self.money = None;
        let expression = self.deeper(Self::sum)?;
        let mark = self.mark();
        Ok(Answer::Value(Value { expression, mark }))
    }

    /// A tuple, set or interval; nothing where the brackets hold one value.
    fn bracketed(&mut self) -> Parse<Option<Answer>> {
        let Some(TokenKind::Sign(open)) = self.kind() else { return Ok(None) };
        let open = *open;
        if open == '∅' {
            self.at += 1;
            return Ok(Some(Answer::Set(Vec::new())));
        }
        if open == REALS {
            self.at += 1;
            return self.half_of_reals().map(Some);
        }
        if !matches!(open, '(' | '[' | '{' | OPEN_SET | '⟨') {
            return Ok(None);
        }
        self.at += 1;
        if open == OPEN_SET && self.take_sign(CLOSE_SET) {
            return Ok(Some(Answer::Set(Vec::new())));
        }
        if open == OPEN_SET
            && let Some(described) = self.attempt(Self::described)
        {
            return Ok(Some(described));
        }
        self.brackets += usize::from(open != '{');
        let items = self.items()?;
        self.brackets -= usize::from(open != '{');
        let Some(TokenKind::Sign(close)) = self.kind() else { return Ok(None) };
        self.at += 1;
        // What goes on after the bracket is arithmetic: `(1, 2) · 3` is none that is known here.
        Ok(match (open, *close) {
            (OPEN_SET, CLOSE_SET) => Some(Answer::Set(items)),
            ('{', '}') if items.len() > 1 => Some(Answer::List(items)),
            ('{', '}') => items.into_iter().next().filter(|item| plain(item.clone()).is_none()),
            ('⟨', '⟩') => Some(Answer::Tuple(items)),
            ('(', ')') if items.len() > 1 => Some(Answer::Tuple(items)),
            ('(', ')') => items.into_iter().next().filter(|item| plain(item.clone()).is_none()),
            ('[', ']') if matrix::nested_rows(&items).is_some() => {
                matrix::nested_rows(&items).map(Answer::Matrix)
            }
            ('[' | '(', ']' | ')') if items.len() == 2 => {
                interval(items, open == '[', *close == ']')
            }
            ('[', ']') if items.len() > 2 => Some(Answer::Tuple(items)),
            _ => None,
        })
    }
}

/// "or", in any spelling.
fn is_or(token: &Token) -> bool {
    match &token.kind {
        TokenKind::Sign(sign) => *sign == '∨',
        TokenKind::Word(word) | TokenKind::Text(word) => {
            word.trim_matches([',', ';', '.', ' ']).eq_ignore_ascii_case("or")
        }
        _ => false,
    }
}

/// The only item, or all of them as `many` has it.
fn one_or(mut items: Vec<Answer>, many: impl FnOnce(Vec<Answer>) -> Answer) -> Answer {
    if items.len() == 1 { items.remove(0) } else { many(items) }
}

/// The expression of an answer that is nothing but one.
pub(crate) fn plain(answer: Answer) -> Option<Expression> {
    match answer {
        Answer::Value(Value { expression, mark: Mark::None }) => Some(expression),
        _ => None,
    }
}

fn interval(items: Vec<Answer>, low_closed: bool, high_closed: bool) -> Option<Answer> {
    let mut ends = items.into_iter().map(plain);
    let (low, high) = (ends.next()??, ends.next()??);
    Some(Answer::Interval(Interval { low, high, low_closed, high_closed }))
}
