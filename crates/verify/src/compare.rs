//! Two answers side by side: which rule of equality fits their kinds, and what it says.
//!
//! Invariant: integers and exact forms match exactly; only a value written as a decimal matches
//! within the digits that were asked for. Kinds that don't fit each other are different answers, and
//! what can't be decided is said to be so.

mod cases;
mod inequality;
pub(crate) mod infinity;
mod names;
mod parameters;
mod sets;
mod value;

use names::by_name;
pub(crate) use names::named_items;
pub(crate) use names::reduced;
use sets::{pieces, relation_lists, relations_and_set, sets};

use crate::exact::normal_form;
use crate::expression::{Answer, Expression};
use crate::verdict::{Options, Rule};
use crate::{numerals, numeric};

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The same answer, by this rule.
    Same(Rule),
    /// Different answers, and where.
    Different(String),
    /// Neither could be shown.
    Unknown(String),
}

impl Found {
    pub(crate) const fn is_same(&self) -> bool {
        matches!(self, Self::Same(_))
    }

    fn different(why: impl Into<String>) -> Self {
        Self::Different(why.into())
    }

    /// Same only if both are, different if either is; the rule is the weaker one.
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Same(rule) => match other() {
                Self::Same(next) => Self::Same(rule.max(next)),
                found => found,
            },
            Self::Unknown(why) => match other() {
                Self::Different(where_) => Self::Different(where_),
                Self::Same(_) | Self::Unknown(_) => Self::Unknown(why),
            },
            Self::Different(why) => Self::Different(why),
        }
    }
}

/// Most elements that are matched without regard to order.
const MAX_ELEMENTS: usize = 80;

/// Compares an answer with the gold one.
pub(crate) fn compare(gold: &Answer, answer: &Answer, options: &Options) -> Found {
    if let Some(found) = parameters::compare(gold, answer, options) {
        return found;
    }
    if let (Some(left), Some(right)) = (named_items(gold), named_items(answer))
        && let Some(found) = by_name(&left, &right, options)
    {
        return found;
    }
    // `y = a − x` and `x + y = a` are one equation, though the first also names a value.
    if let (Answer::Relation { sides: left, signs: a }, Answer::Relation { sides: right, signs: b }) =
        (gold, answer)
        && let found = inequality::relations((left, a), (right, b), options)
        && found.is_same()
    {
        return found;
    }
    let found = same(&reduced(gold), &reduced(answer), options);
    if found.is_same() && (is_unordered_for(gold, answer) || is_unordered_for(answer, gold)) {
        return Found::Unknown("which name stands for which place isn't said".to_owned());
    }
    found
}

/// `z = 1, y = 2` for a tuple: names that stand in another order than places usually do.
fn is_unordered_for(tuple: &Answer, named: &Answer) -> bool {
    let names = matches!(tuple, Answer::Tuple(_)).then(|| named_items(named)).flatten();
    names.is_some_and(|names| !names.is_sorted_by_key(|(name, _)| name.clone()))
}

/// Says where a difference is.
fn at(found: Found, place: impl FnOnce() -> String) -> Found {
    match found {
        Found::Different(why) => Found::Different(format!("{}: {why}", place())),
        other => other,
    }
}

fn same(gold: &Answer, answer: &Answer, options: &Options) -> Found {
    use Answer::{Interval as Range, List, Matrix, Proportion, Relation, Set, Tuple, Union, Words};
    match (gold, answer) {
        (Answer::Value(left), Answer::Value(right)) => value::same(left, right, options),
        (Words(left), Words(right)) => words(left, right),
        (Words(left), Answer::Value(right)) | (Answer::Value(right), Words(left)) => {
            match letters(&right.expression) {
                Some(right) => words(left, &right),
                None => match numerals::spelled(left) {
                    Some(number) => {
                        let number = Expression::integer(number);
                        value::same_expression(&number, &right.expression, options)
                    }
                    None => Found::different("words and a value"),
                },
            }
        }
        (Tuple(left), Tuple(right)) => in_order(left, right, options),
        (Tuple(left), List(right)) | (List(left), Tuple(right)) if left.len() == right.len() => {
            in_order(left, right, options)
        }
        (List(left), List(right)) if cases::has_rest(left) != cases::has_rest(right) => {
            match (cases::without_rest(left, right), cases::without_rest(right, left)) {
                (Some(left), _) => any_order(&left, right, options),
                (None, Some(right)) => any_order(left, &right, options),
                (None, None) => any_order(left, right, options),
            }
        }
        (List(left) | Set(left), List(right) | Set(right)) => any_order(left, right, options),
        (Set(items), other) if is_single_of(items) && is_single(other) => {
            same(&items[0], other, options)
        }
        (other, Set(items)) if is_single_of(items) && is_single(other) => {
            same(other, &items[0], options)
        }
        (Matrix(left), Matrix(right)) => matrices(left, right, options),
        (Matrix(rows), Tuple(items)) | (Tuple(items), Matrix(rows)) => {
            let cells: Vec<Answer> = rows.iter().flatten().cloned().map(Answer::from).collect();
            let vector = rows.len() == 1 || rows.iter().all(|row| row.len() == 1);
            if vector {
                in_order(&cells, items, options)
            } else {
                Found::different("a matrix and a tuple")
            }
        }
        (Proportion(left), Proportion(right)) => proportions(left, right, options),
        (Proportion(parts), Answer::Value(value)) | (Answer::Value(value), Proportion(parts)) => {
            match parts.as_slice() {
                [above, below] => {
                    let ratio = Expression::Product(vec![above.clone(), below.clone().inverted()]);
                    value::same_expression(&ratio, &value.expression, options)
                }
                _ => Found::different("a proportion of several parts and a value"),
            }
        }
        (Relation { sides: left, signs: a }, Relation { sides: right, signs: b }) => {
            inequality::relations((left, a), (right, b), options)
        }
        (Relation { .. }, List(_)) | (List(_), Relation { .. }) => {
            relation_lists(gold, answer, options)
        }
        (
            Relation { .. } | List(_),
            Range(_) | Union(_) | Tuple(_) | Set(_) | Answer::Without { .. },
        ) => relations_and_set(gold, answer, options),
        (
            Range(_) | Union(_) | Tuple(_) | Set(_) | Answer::Without { .. },
            Relation { .. } | List(_),
        ) => {
            if options.allow_set_relation_comp {
                relations_and_set(answer, gold, options)
            } else {
                Found::different("a set was asked for, something else was given")
            }
        }
        (
            Range(_) | Union(_) | Tuple(_) | Set(_) | Answer::Without { .. },
            Range(_) | Union(_) | Tuple(_) | Set(_) | Answer::Without { .. },
        ) => match (pieces(gold), pieces(answer)) {
            (Some(left), Some(right)) => sets(left, right, options),
            // Nothing is known of what is in either.
            (None, None) => Found::Unknown("no set of real numbers on either side".to_owned()),
            _ => Found::different("a set and something else"),
        },
        _ => Found::Different(format!("{} and {}", kind(gold), kind(answer))),
    }
}

const fn is_single(answer: &Answer) -> bool {
    matches!(answer, Answer::Value(_) | Answer::Words(_) | Answer::Tuple(_))
}

/// One element, and no description of many.
fn is_single_of(items: &[Answer]) -> bool {
    matches!(items, [item] if !matches!(item, Answer::Relation { .. }))
}

/// What an answer is, for the explanation.
pub(crate) const fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Value(_) => "a value",
        Answer::Tuple(_) => "a tuple",
        Answer::Set(_) => "a set",
        Answer::List(_) => "a list",
        Answer::Interval(_) => "an interval",
        Answer::Union(_) => "a union",
        Answer::Without { .. } => "a set without some points",
        Answer::Matrix(_) => "a matrix",
        Answer::Relation { .. } => "a relation",
        Answer::Proportion(_) => "a proportion",
        Answer::Words(_) => "words",
    }
}

fn words(left: &str, right: &str) -> Found {
    let plain = |text: &str| -> String {
        let article = ["a ", "an ", "the "].iter().find_map(|it| text.strip_prefix(it));
        article
            .unwrap_or(text)
            .chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    if plain(left) == plain(right) {
        Found::Same(Rule::Words)
    } else {
        Found::Different(format!("`{left}` and `{right}`"))
    }
}

/// The letters of a lone symbol or a product of letters: `E`, `odd`.
fn letters(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Symbol(name) => Some(name.clone()),
        Expression::Constant(crate::expression::Constant::E) => Some("e".to_owned()),
        Expression::Constant(crate::expression::Constant::I) => Some("i".to_owned()),
        Expression::Product(factors) => factors.iter().map(letters).collect(),
        _ => None,
    }
}

fn in_order(left: &[Answer], right: &[Answer], options: &Options) -> Found {
    if left.len() != right.len() {
        return Found::Different(format!("{} and {} elements", left.len(), right.len()));
    }
    let pairs = left.iter().zip(right).enumerate();
    pairs.fold(Found::Same(Rule::Exact), |found, (index, (left, right))| {
        found.and(|| at(same(left, right, options), || format!("element {}", index + 1)))
    })
}

/// Each element of one side has its like on the other.
fn any_order(left: &[Answer], right: &[Answer], options: &Options) -> Found {
    if left.len().max(right.len()) > MAX_ELEMENTS {
        return in_order(left, right, options);
    }
    covered(left, right, options, "is missing").and(|| covered(right, left, options, "is too much"))
}

fn covered(left: &[Answer], right: &[Answer], options: &Options, what: &str) -> Found {
    let mut rule = Rule::Exact;
    let mut open = None;
    for (index, item) in left.iter().enumerate() {
        let mut unknown = None;
        let mut matched = false;
        for other in right {
            match same(item, other, options) {
                Found::Same(found) => {
                    rule = rule.max(found);
                    matched = true;
                    break;
                }
                Found::Unknown(why) => unknown = Some(why),
                Found::Different(_) => {}
            }
        }
        match (matched, unknown) {
            (true, _) => {}
            // A later element without any like still tells the two apart.
            (false, Some(why)) => {
                open.get_or_insert(why);
            }
            (false, None) => return Found::Different(format!("element {} {what}", index + 1)),
        }
    }
    open.map_or(Found::Same(rule), Found::Unknown)
}

fn matrices(left: &[Vec<Expression>], right: &[Vec<Expression>], options: &Options) -> Found {
    let shape = |rows: &[Vec<Expression>]| (rows.len(), rows.first().map_or(0, Vec::len));
    if shape(left) != shape(right) {
        return Found::Different(format!("shapes {:?} and {:?}", shape(left), shape(right)));
    }
    let cells = left.iter().flatten().zip(right.iter().flatten()).enumerate();
    let width = shape(left).1.max(1);
    cells.fold(Found::Same(Rule::Exact), |found, (index, (left, right))| {
        found.and(|| {
            at(value::same_expression(left, right, options), || {
                format!("row {}, column {}", index / width + 1, index % width + 1)
            })
        })
    })
}

/// Proportional, unless a part is zero (then `12:00` is a time): a : b = c : d if a·d = b·c.
fn proportions(left: &[Expression], right: &[Expression], options: &Options) -> Found {
    if left.len() != right.len() {
        return Found::different("proportions of different length");
    }
    let zero = |it: &Expression| {
        normal_form(it)
            .ok()
            .and_then(|form| form.as_rational())
            .is_some_and(|value| numeric::sign(&value).is_eq())
    };
    if left.iter().chain(right).any(zero) {
        let pairs = left.iter().zip(right);
        return pairs.fold(Found::Same(Rule::Exact), |found, (left, right)| {
            found.and(|| value::same_expression(left, right, options))
        });
    }
    let (Some(first_left), Some(first_right)) = (left.first(), right.first()) else {
        return Found::different("an empty proportion");
    };
    left.iter().zip(right).skip(1).fold(Found::Same(Rule::Exact), |found, (a, b)| {
        found.and(|| {
            let across = Expression::Product(vec![first_left.clone(), b.clone()]);
            let down = Expression::Product(vec![a.clone(), first_right.clone()]);
            value::same_expression(&across, &down, options)
        })
    })
}
