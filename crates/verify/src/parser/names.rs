//! Names with a meaning: functions, constants, and which words multiply.

use crate::expression::{Constant, Expression, Function};
use crate::{numerals, units};

/// A word with a meaning of its own.
pub(super) enum KnownWord {
    /// A function's name.
    Function(Function),
    /// A constant's name.
    Constant(Constant),
}

/// What a word of letters means.
pub(super) fn known_word(word: &str) -> Option<KnownWord> {
    match word {
        "pi" | "Pi" => Some(KnownWord::Constant(Constant::Pi)),
        "inf" | "infinity" | "infty" | "oo" => Some(KnownWord::Constant(Constant::Infinity)),
        _ => function(word).map(KnownWord::Function),
    }
}

/// A run of small letters that names no function, unit or joining word. `AB` and `XY` are points.
pub(super) fn is_unknown_word(word: &str) -> bool {
    known_word(word).is_none()
        && units::mark(word, false).is_none()
        && !["and", "or"].iter().any(|it| it.eq_ignore_ascii_case(word))
        && !word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Short runs of letters multiply: `ab`, `xyz`. Longer ones are words.
pub(super) fn is_product_of_letters(word: &str) -> bool {
    word.len() <= 4
        && !is_capitalised(word)
        && known_word(word).is_none()
        && units::mark(word, false).is_none()
        && numerals::spelled(&word.to_ascii_lowercase()).is_none()
        && ![
            "and", "or", "the", "is", "are", "odd", "even", "yes", "no", "true", "none", "not",
            "so", "we", "done", "per",
        ]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(word))
        || word == "NO"
}

/// `June`: a name. `Ab` may be two points.
fn is_capitalised(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() > 2
        && bytes[0].is_ascii_uppercase()
        && bytes[1..].iter().all(u8::is_ascii_lowercase)
}

/// One letter as a factor.
pub(super) fn single(letter: char) -> Expression {
    match letter {
        'e' => Expression::Constant(Constant::E),
        'i' => Expression::Constant(Constant::I),
        _ => Expression::Symbol(letter.to_string()),
    }
}

/// The function of that name.
pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sqrt" => Function::Root,
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" | "ctg" => Function::Cot,
        "sec" => Function::Sec,
        "csc" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" | "arctg" => Function::Arctan,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "log" | "ln" | "lg" => Function::Log,
        "exp" => Function::Exp,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "ceil" | "ceiling" => Function::Ceiling,
        "gcd" => Function::Gcd,
        "lcm" => Function::Lcm,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return None,
    })
}

/// The inverse that an exponent of −1 stands for.
pub(super) const fn inverse(function: Function) -> Option<Function> {
    match function {
        Function::Sin => Some(Function::Arcsin),
        Function::Cos => Some(Function::Arccos),
        Function::Tan => Some(Function::Arctan),
        _ => None,
    }
}
