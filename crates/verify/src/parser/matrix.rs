//! Matrices, vectors and other rows: `\begin{pmatrix}`, `[[1, 2], [3, 4]]`, cases.
//!
//! Invariant: rows of a matrix are of one length; what stands in a cell was read whole.

use super::{Parse, Parser, one_or, plain};
use crate::expression::{Answer, Expression, Interval};
use crate::lexer::TokenKind;

/// Largest exponent of a matrix that is multiplied out.
const MAX_MATRIX_POWER: u32 = 4;
/// Most rows or columns of a matrix that is multiplied.
const MAX_FACTOR_ROWS: usize = 6;

impl Parser<'_> {
    /// A sum of matrices, each with a factor: `½ A + B`.
    pub(super) fn matrices(&mut self) -> Parse<Option<Answer>> {
        let is_det = |token: &super::Token| token.kind == TokenKind::Command("det".to_owned());
        let rest = &self.tokens[self.at..];
        if !rest.iter().any(|token| is_matrix(&token.kind)) || rest.iter().any(is_det) {
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
        if !self.kind().is_some_and(is_matrix) && !self.is_sign('(') && !self.is_sign('[') {
            factor = Some(self.deeper(Self::product)?);
        }
        let mut rows = self.matrix_power()?;
        while self.begins_matrix() {
            self.take_sign('*');
            let right = self.matrix_power()?;
            rows = multiplied(&rows, &right).ok_or_else(|| self.error("a matrix that fits"))?;
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

    /// The next token can only be a matrix that is multiplied with the one before.
    fn begins_matrix(&self) -> bool {
        let is_open = |kind: Option<&TokenKind>| matches!(kind, Some(TokenKind::Sign('(' | '[')));
        let star = usize::from(self.is_sign('*'));
        let open = usize::from(is_open(self.kind_at(star)));
        self.kind_at(star + open).is_some_and(is_matrix)
    }

    /// A matrix in whichever brackets, as often as its exponent says.
    fn matrix_power(&mut self) -> Parse<Vec<Vec<Expression>>> {
        let bracket = match (self.take_sign('('), self.take_sign('[')) {
            (true, false) => Some(')'),
            (false, true) => Some(']'),
            (false, false) => None,
            (true, true) => return Err(self.error("a matrix")),
        };
        let rows = match self.kind() {
            Some(TokenKind::Begin(_)) => self.matrix()?,
            _ => return Err(self.error("a matrix")),
        };
        if let Some(close) = bracket {
            self.expect_sign(close)?;
        }
        if !self.take_sign('^') {
            return Ok(rows);
        }
        let brace = self.take_sign('{');
        let times = match self.kind() {
            Some(TokenKind::Digits(digits)) => digits.parse().unwrap_or(0),
            _ => 0,
        };
        if !(1..=MAX_MATRIX_POWER).contains(&times) {
            return Err(self.error("a small power of a matrix"));
        }
        self.at += 1;
        if brace {
            self.expect_sign('}')?;
        }
        let mut power = rows.clone();
        for _ in 1..times {
            power = multiplied(&power, &rows).ok_or_else(|| self.error("a square matrix"))?;
        }
        Ok(power)
    }

    pub(super) fn matrix(&mut self) -> Parse<Vec<Vec<Expression>>> {
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
                Some(TokenKind::Text(word) | TokenKind::Word(word)) if is_condition(word) => {
                    self.at += 1;
                }
                Some(_) => row.push(self.deeper(Self::relation)?),
            }
        }
        self.brackets = outer;
        rows.push(row);
        rows.retain(|row| !row.is_empty());
        Ok(rows)
    }

    /// Cases and aligned rows: a list of what the rows hold.
    pub(super) fn environment(&mut self, name: &str) -> Parse<Answer> {
        let rows = self.rows()?;
        if rows.is_empty() {
            return Err(self.error(&format!("rows in `{name}`")));
        }
        Ok(one_or(rows.into_iter().map(|row| one_or(row, Answer::Tuple)).collect(), Answer::List))
    }
}

/// Words before the condition of a case.
fn is_condition(word: &str) -> bool {
    let word = word.trim_matches([',', '.', ' ', ':']);
    ["if", "for", "when", "where"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// The rows of `[[1, 2], [3, 4]]`, where lists in square brackets are all that is inside.
pub(super) fn nested_rows(items: &[Answer]) -> Option<Vec<Vec<Expression>>> {
    let row = |item: &Answer| -> Option<Vec<Expression>> {
        match item {
            Answer::Interval(Interval { low, high, low_closed: true, high_closed: true }) => {
                Some(vec![low.clone(), high.clone()])
            }
            Answer::Tuple(cells) => cells.iter().cloned().map(plain).collect(),
            _ => None,
        }
    };
    let rows: Vec<Vec<Expression>> = items.iter().map(row).collect::<Option<_>>()?;
    let width = rows.first()?.len();
    (rows.len() > 1 && rows.iter().all(|row| row.len() == width)).then_some(rows)
}

fn is_matrix(kind: &TokenKind) -> bool {
    matches!(kind, TokenKind::Begin(name)
        if (name.ends_with("matrix") || name == "array") && !is_determinant(name))
}

/// A matrix between bars is its determinant.
pub(super) fn is_determinant(name: &str) -> bool {
    name == "vmatrix"
}

/// The product, where the shapes fit and it is small.
fn multiplied(left: &[Vec<Expression>], right: &[Vec<Expression>]) -> Option<Vec<Vec<Expression>>> {
    let columns = right.first()?.len();
    let fits = left.iter().all(|row| row.len() == right.len());
    if !fits || left.len().max(right.len()).max(columns) > MAX_FACTOR_ROWS {
        return None;
    }
    let cell = |row: &Vec<Expression>, column: usize| {
        let down = right.iter().map(|other| other[column].clone());
        let terms = row.iter().cloned().zip(down).map(|(a, b)| Expression::product(vec![a, b]));
        Expression::sum(terms.collect())
    };
    Some(left.iter().map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect())
}

fn added(sum: Vec<Vec<Expression>>, rows: Vec<Vec<Expression>>) -> Option<Vec<Vec<Expression>>> {
    let fits = sum.len() == rows.len() && sum.iter().zip(&rows).all(|(a, b)| a.len() == b.len());
    let add_rows = |(left, right): (Vec<Expression>, Vec<Expression>)| {
        left.into_iter().zip(right).map(|(a, b)| Expression::Sum(vec![a, b])).collect()
    };
    fits.then(|| sum.into_iter().zip(rows).map(add_rows).collect())
}
