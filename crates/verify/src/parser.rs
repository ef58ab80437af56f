//! Tokens to an [`Answer`]: lists, tuples, sets, intervals, matrices, relations and their values.
//!
//! Invariant: a parse uses every token or fails at the position of the first that it can't use;
//! nothing is skipped in silence. Depth and length are bounded, so any text ends quickly.

mod expression;
mod number;

use crate::expression::{Answer, Expression, Interval, Mark, Sign, Value};
use crate::lexer::{CLOSE_SET, OPEN_SET, Token, TokenKind, tokens};
use crate::units;

/// Longest text that is parsed, in tokens.
const MAX_TOKENS: usize = 2_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 60;
/// Steps of all attempts together, so that trying again can't take long.
const MAX_STEPS: usize = 60_000;

/// Why a text is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Byte of the text at which the first unusable token begins.
    pub position: usize,
    /// What was expected.
    pub message: String,
}

/// What a text may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The first reading.
    pub answer: Answer,
    /// The other reading of `1,22`: a number with a decimal comma.
    pub decimal_comma: Option<Expression>,
}

/// Reads `text` as an answer.
///
/// # Errors
/// The text is no answer that this parser knows, or it is too long or deep.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut tokens = tokens(text);
    // Delimiters of mathematics and money.
    tokens.retain(|token| token.kind != TokenKind::Sign('$'));
    trim(&mut tokens);
    let decimal_comma = number::decimal_comma(&tokens);
    let mut parser = Parser::new(&tokens, text.len());
    if tokens.len() > MAX_TOKENS {
        return Err(parser.error("a shorter answer"));
    }
    if is_prose(&tokens) {
        let answer = words(&tokens).ok_or_else(|| parser.error("an answer, not sentences"))?;
        return Ok(Parsed { answer, decimal_comma });
    }
    let answer = match parser.answer() {
        Ok(answer) if parser.at_end() => answer,
        Ok(_) => words(&tokens).ok_or_else(|| parser.error("the end of the answer"))?,
        Err(error) => words(&tokens).ok_or(error)?,
    };
    Ok(Parsed { answer, decimal_comma })
}

/// Full stops and commas around an answer, and the brackets of a lone choice, say nothing.
fn trim(tokens: &mut Vec<Token>) {
    let idle = |token: &Token| {
        matches!(token.kind, TokenKind::Sign('.' | ',' | ';' | ':' | '`') | TokenKind::Row)
    };
    while tokens.last().is_some_and(idle) {
        tokens.pop();
    }
    let leading = tokens.iter().take_while(|token| idle(token)).count();
    tokens.drain(..leading);
}

/// Two words that are neither functions nor units make a sentence, in which letters don't multiply.
fn is_prose(tokens: &[Token]) -> bool {
    let unknown = |token: &&Token| match &token.kind {
        TokenKind::Word(word) => expression::is_unknown_word(word),
        _ => false,
    };
    tokens.iter().filter(unknown).count() > 1
}

/// An answer in words: letters only, at least one word among them.
fn words(tokens: &[Token]) -> Option<Answer> {
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
    any.then_some(Answer::Words(text))
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
    /// Digits that an argument like `\frac12` left of its token.
    split_digits: Option<(usize, usize)>,
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
            split_digits: None,
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
        let before = (self.at, self.bars, self.brackets, self.split_digits, self.met_plus_minus);
        let result = self.deeper(parse);
        if let Ok(Some(value)) = result {
            return Some(value);
        }
        (self.at, self.bars, self.brackets, self.split_digits, self.met_plus_minus) = before;
        None
    }

    /// The whole answer: items parted by commas, "and", "or".
    fn answer(&mut self) -> Parse<Answer> {
        let items = self.items()?;
        Ok(one_or(items, Answer::List))
    }

    fn items(&mut self) -> Parse<Vec<Answer>> {
        let mut items = Vec::new();
        loop {
            self.item(&mut items)?;
            if !self.separator() {
                return Ok(items);
            }
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
        let first = self.set_or_value()?;
        if self.is_sign('∪') {
            let mut parts = vec![first];
            while self.take_sign('∪') {
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
        if let Some(TokenKind::Begin(name)) = self.kind() {
            return self.environment(name);
        }
        if let Some(TokenKind::Text(text)) = self.kind()
            && !self.is_separator()
        {
            self.at += 1;
            let text = text.trim_matches(['(', ')', '.', ' ']).to_lowercase();
            return Ok(Answer::Words(text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
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
        if !matches!(open, '(' | '[' | '{' | OPEN_SET | '⟨') {
            return Ok(None);
        }
        self.at += 1;
        if open == OPEN_SET && self.take_sign(CLOSE_SET) {
            return Ok(Some(Answer::Set(Vec::new())));
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
            ('[' | '(', ']' | ')') if items.len() == 2 => {
                interval(items, open == '[', *close == ']')
            }
            ('[', ']') if items.len() > 2 => Some(Answer::Tuple(items)),
            _ => None,
        })
    }

    /// A sum of matrices, each with a factor: `½ A + B`.
    fn matrices(&mut self) -> Parse<Option<Answer>> {
        if !self.tokens[self.at..].iter().any(|token| is_matrix(&token.kind)) {
            return Ok(None);
        }
        let mut total: Option<Vec<Vec<Expression>>> = None;
        loop {
            let negative = self.take_sign('-');
            let positive = !negative && self.take_sign('+');
            if total.is_some() && !negative && !positive {
                break;
            }
            let rows = self.matrix_term(negative)?;
            total = Some(match total {
                None => rows,
                Some(sum) => added(sum, rows).ok_or_else(|| self.error("matrices of one shape"))?,
            });
        }
        Ok(total.map(Answer::Matrix))
    }

    fn matrix_term(&mut self, negative: bool) -> Parse<Vec<Vec<Expression>>> {
        let mut factor = None;
        if !self.kind().is_some_and(is_matrix) && !self.is_sign('(') {
            factor = Some(self.deeper(Self::product)?);
        }
        let bracket = self.take_sign('(');
        let rows = match self.kind() {
            Some(TokenKind::Begin(_)) => self.matrix()?,
            _ => return Err(self.error("a matrix")),
        };
        if bracket {
            self.expect_sign(')')?;
        }
        let factor = match (factor, negative) {
            (None, false) => return Ok(rows),
            (None, true) => Expression::integer(-1),
            (Some(factor), false) => factor,
            (Some(factor), true) => factor.negated(),
        };
        let scale = |cell| Expression::product(vec![factor.clone(), cell]);
        Ok(rows.into_iter().map(|row| row.into_iter().map(scale).collect()).collect())
    }

    fn matrix(&mut self) -> Parse<Vec<Vec<Expression>>> {
        let mut rows = Vec::new();
        for row in self.rows()? {
            let cells: Option<Vec<Expression>> = row.into_iter().map(plain).collect();
            rows.push(cells.ok_or_else(|| self.error("expressions in a matrix"))?);
        }
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            return Err(self.error("rows of one length"));
        }
        Ok(rows)
    }

    /// `\begin{name}` to `\end{name}`, cell by cell.
    fn rows(&mut self) -> Parse<Vec<Vec<Answer>>> {
        self.at += 1;
        let mut rows = Vec::new();
        let mut row = Vec::new();
        let outer = std::mem::replace(&mut self.brackets, 0);
        loop {
            match self.kind() {
                None => return Err(self.error("`\\end`")),
                Some(TokenKind::End(_)) => {
                    self.at += 1;
                    break;
                }
                Some(TokenKind::Row) => {
                    self.at += 1;
                    rows.push(std::mem::take(&mut row));
                }
                Some(TokenKind::Sign('&' | ',' | '.' | ';')) => self.at += 1,
                Some(_) => row.push(self.deeper(Self::relation)?),
            }
        }
        self.brackets = outer;
        rows.push(row);
        rows.retain(|row| !row.is_empty());
        Ok(rows)
    }

    /// Cases and aligned rows: a list of what the rows hold.
    fn environment(&mut self, name: &str) -> Parse<Answer> {
        let rows = self.rows()?;
        if rows.is_empty() {
            return Err(self.error(&format!("rows in `{name}`")));
        }
        Ok(one_or(rows.into_iter().map(|row| one_or(row, Answer::Tuple)).collect(), Answer::List))
    }

    /// What stands after a value: per cent, degrees, a unit.
    fn mark(&mut self) -> Mark {
        let mut mark = Mark::None;
        loop {
            match self.kind() {
                Some(TokenKind::Sign('%')) => mark = Mark::Percent,
                Some(TokenKind::Sign('°')) => mark = Mark::Degree,
                Some(TokenKind::Sign(sign)) if units::is_currency(*sign) => {}
                Some(TokenKind::Text(text) | TokenKind::Word(text)) if !self.is_separator() => {
                    let text = text.clone();
                    let Some(found) =
                        units::mark(&text, matches!(self.kind(), Some(TokenKind::Text(_))))
                    else {
                        return mark;
                    };
                    self.at += 1;
                    mark = self.unit_power(found);
                    continue;
                }
                _ => return mark,
            }
            self.at += 1;
        }
    }

    /// `cm^2`, `cm²`.
    fn unit_power(&mut self, mark: Mark) -> Mark {
        let Mark::Unit(unit) = mark else { return mark };
        if self.is_sign('^') {
            let (digits, tokens) = match (self.kind_at(1), self.kind_at(2)) {
                (Some(TokenKind::Digits(digits)), _) => (digits, 2),
                (Some(TokenKind::Sign('{')), Some(TokenKind::Digits(digits)))
                    if self.kind_at(3) == Some(&TokenKind::Sign('}')) =>
                {
                    (digits, 4)
                }
                _ => return Mark::Unit(unit),
            };
            self.at += tokens;
            return Mark::Unit(format!("{unit}^{digits}"));
        }
        Mark::Unit(unit)
    }
}

fn is_matrix(kind: &TokenKind) -> bool {
    matches!(kind, TokenKind::Begin(name) if name.ends_with("matrix") || name == "array")
}

fn one_or(mut items: Vec<Answer>, many: impl FnOnce(Vec<Answer>) -> Answer) -> Answer {
    if items.len() == 1 { items.remove(0) } else { many(items) }
}

/// The expression of an answer that is nothing but one.
pub fn plain(answer: Answer) -> Option<Expression> {
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

fn added(sum: Vec<Vec<Expression>>, rows: Vec<Vec<Expression>>) -> Option<Vec<Vec<Expression>>> {
    let fits = sum.len() == rows.len() && sum.iter().zip(&rows).all(|(a, b)| a.len() == b.len());
    let add_rows = |(left, right): (Vec<Expression>, Vec<Expression>)| {
        left.into_iter().zip(right).map(|(a, b)| Expression::Sum(vec![a, b])).collect()
    };
    fits.then(|| sum.into_iter().zip(rows).map(add_rows).collect())
}
