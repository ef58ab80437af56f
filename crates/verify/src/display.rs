//! Answers as text, for explanations.

use crate::compare::{infinity, reduced};
use crate::exact::normal_form;
use crate::expression::{Answer, Expression, Interval, Mark, Sign};

/// The normal form of `answer`.
pub(crate) fn text(answer: &Answer) -> String {
    shown(&reduced(answer))
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Value(value) => {
            let mark = match &value.mark {
                Mark::None => String::new(),
                Mark::Percent => "%".to_owned(),
                Mark::Degree => "°".to_owned(),
                Mark::Unit(unit) => format!(" {unit}"),
            };
            format!("{}{mark}", expression(&value.expression))
        }
        Answer::Tuple(items) => format!("({})", all(items)),
        Answer::Set(items) => format!("{{{}}}", all(items)),
        Answer::List(items) => all(items),
        Answer::Interval(interval) => range(interval),
        Answer::Union(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(" ∪ "),
        Answer::Without { set, points } => format!("{} ∖ {}", shown(set), shown(points)),
        Answer::Matrix(rows) => {
            let row =
                |row: &Vec<Expression>| row.iter().map(expression).collect::<Vec<_>>().join(", ");
            format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join("; "))
        }
        Answer::Relation { sides, signs } => {
            let mut text = String::new();
            for (index, side) in sides.iter().enumerate() {
                if let Some(sign) = index.checked_sub(1).and_then(|before| signs.get(before)) {
                    text.push_str(sign_text(*sign));
                }
                text.push_str(&shown(side));
            }
            text
        }
        Answer::Proportion(parts) => parts.iter().map(expression).collect::<Vec<_>>().join(" : "),
        Answer::Words(words) => format!("\"{words}\""),
    }
}

fn all(items: &[Answer]) -> String {
    items.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn range(interval: &Interval) -> String {
    let (open, close) =
        (if interval.low_closed { '[' } else { '(' }, if interval.high_closed { ']' } else { ')' });
    format!("{open}{}, {}{close}", expression(&interval.low), expression(&interval.high))
}

const fn sign_text(sign: Sign) -> &'static str {
    match sign {
        Sign::Equal => " = ",
        Sign::NotEqual => " ≠ ",
        Sign::Less => " < ",
        Sign::LessOrEqual => " ≤ ",
        Sign::Greater => " > ",
        Sign::GreaterOrEqual => " ≥ ",
        Sign::In => " ∈ ",
    }
}

fn expression(expression: &Expression) -> String {
    match infinity::sign(expression) {
        Some(true) => return "∞".to_owned(),
        Some(false) => return "-∞".to_owned(),
        None => {}
    }
    normal_form(expression).map_or_else(|_| "(no normal form)".to_owned(), |form| form.text())
}
