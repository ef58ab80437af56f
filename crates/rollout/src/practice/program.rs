//! Programs: a form with numbers as Python, what it prints, and the faults that a call can have.
//!
//! Invariant: [`Form::result`] is what the program prints, and [`Fault::error`] what the tool says to a
//! faulty one; tests run them through the real sandbox.

use super::problem::Kind;

/// What a program computes of the numbers of a problem; four for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Sum,
    Difference,
    Product,
    Quotient,
    Divisor,
    Multiple,
    Remainder,
    Power,
    CountDivisible,
    CountContaining,
    CountDigitSum,
    CountEnding,
    TimesPlus,
    TimesMinus,
    PlusTimes,
    MinusTimes,
}

impl Form {
    /// All of them, one kind after the other.
    pub(super) const ALL: [Self; 16] = [
        Self::Sum,
        Self::Divisor,
        Self::CountDivisible,
        Self::TimesPlus,
        Self::Difference,
        Self::Multiple,
        Self::CountContaining,
        Self::TimesMinus,
        Self::Product,
        Self::Remainder,
        Self::CountDigitSum,
        Self::PlusTimes,
        Self::Quotient,
        Self::Power,
        Self::CountEnding,
        Self::MinusTimes,
    ];

    /// The kind of problem that it can solve.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Sum | Self::Difference | Self::Product | Self::Quotient => Kind::Arithmetic,
            Self::Divisor | Self::Multiple | Self::Remainder | Self::Power => Kind::NumberTheory,
            Self::CountDivisible
            | Self::CountContaining
            | Self::CountDigitSum
            | Self::CountEnding => Kind::Counting,
            Self::TimesPlus | Self::TimesMinus | Self::PlusTimes | Self::MinusTimes => Kind::Story,
        }
    }

    /// The four forms of a kind.
    pub(super) fn of(kind: Kind) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |form| form.kind() == kind)
    }

    /// The form as one word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Difference => "difference",
            Self::Product => "product",
            Self::Quotient => "quotient",
            Self::Divisor => "divisor",
            Self::Multiple => "multiple",
            Self::Remainder => "remainder",
            Self::Power => "power",
            Self::CountDivisible => "count_divisible",
            Self::CountContaining => "count_containing",
            Self::CountDigitSum => "count_digit_sum",
            Self::CountEnding => "count_ending",
            Self::TimesPlus => "times_plus",
            Self::TimesMinus => "times_minus",
            Self::PlusTimes => "plus_times",
            Self::MinusTimes => "minus_times",
        }
    }

    /// The program: the numbers under their names, then what is computed of them.
    pub(super) fn code(self, numbers: &[u64]) -> String {
        let mut code = String::new();
        if matches!(self, Self::Divisor | Self::Multiple) {
            code += "import math\n";
        }
        for (name, number) in NAMES.iter().zip(numbers) {
            code += &format!("{name} = {number}\n");
        }
        code + &format!("print({})", self.expression())
    }

    /// What is printed.
    pub(super) const fn expression(self) -> &'static str {
        match self {
            Self::Sum => "a + b",
            Self::Difference => "a - b",
            Self::Product => "a * b",
            Self::Quotient => "a // b",
            Self::Divisor => "math.gcd(a, b)",
            Self::Multiple => "math.lcm(a, b)",
            Self::Remainder => "a % b",
            Self::Power => "pow(a, b, 1000)",
            Self::CountDivisible => "sum(n % b == 0 for n in range(1, a + 1))",
            Self::CountContaining => "sum(str(b) in str(n) for n in range(1, a + 1))",
            Self::CountDigitSum => "sum(sum(map(int, str(n))) == b for n in range(1, a + 1))",
            Self::CountEnding => "sum(n % 10 == b for n in range(1, a + 1))",
            Self::TimesPlus => "a * b + c",
            Self::TimesMinus => "a * b - c",
            Self::PlusTimes => "(a + b) * c",
            Self::MinusTimes => "(a - b) * c",
        }
    }

    /// What the program prints.
    pub(super) fn result(self, numbers: &[u64]) -> i128 {
        let (a, b, c) = three(numbers);
        let (x, y, z) = (i128::from(a), i128::from(b), i128::from(c));
        let count = |has: fn(u64, u64) -> bool| (1..=a).filter(|n| has(*n, b)).count() as i128;
        match self {
            Self::Sum => x + y,
            Self::Difference => x - y,
            Self::Product => x * y,
            Self::Quotient => x / y,
            Self::Divisor => i128::from(divisor(a, b)),
            Self::Multiple => x / i128::from(divisor(a, b)) * y,
            Self::Remainder => x % y,
            Self::Power => power(a, b, 1000),
            Self::CountDivisible => count(|n, b| n.is_multiple_of(b)),
            Self::CountContaining => count(|n, b| digits(n).any(|digit| digit == b)),
            Self::CountDigitSum => count(|n, b| digits(n).sum::<u64>() == b),
            Self::CountEnding => count(|n, b| n % 10 == b),
            Self::TimesPlus => x * y + z,
            Self::TimesMinus => x * y - z,
            Self::PlusTimes => (x + y) * z,
            Self::MinusTimes => (x - y) * z,
        }
    }

    /// Whether the numbers make a sensible problem of this form.
    pub(super) fn fits(self, numbers: &[u64]) -> bool {
        let (a, b, c) = three(numbers);
        match self {
            Self::Difference | Self::Quotient | Self::MinusTimes => a > b,
            Self::Divisor | Self::Multiple => a != b,
            Self::Remainder => a > b && !a.is_multiple_of(b),
            Self::TimesMinus => c < a * b,
            _ => true,
        }
    }
}

/// What the numbers of a problem are called, in order.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The numbers of a problem; what it doesn't have is 0.
fn three(numbers: &[u64]) -> (u64, u64, u64) {
    let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
    (number(0), number(1), number(2))
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

fn power(base: u64, exponent: u64, modulus: u64) -> i128 {
    let mut result = 1;
    for _ in 0..exponent {
        result = result * (base % modulus) % modulus;
    }
    i128::from(result)
}

fn digits(mut number: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        (number > 0).then(|| {
            let digit = number % 10;
            number /= 10;
            digit
        })
    })
}

/// What is wrong with a call. Each is mended by writing the call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// The last parenthesis is missing.
    MissingParenthesis,
    /// One parenthesis too many.
    ExtraParenthesis,
    /// A colon behind the expression.
    StrayColon,
    /// `print` is misspelt.
    MisspeltName,
    /// The last brace of the call is missing.
    MissingBrace,
    /// The quote behind the program is missing.
    MissingQuote,
}

impl Fault {
    pub(super) const ALL: [Self; 6] = [
        Self::MissingParenthesis,
        Self::ExtraParenthesis,
        Self::StrayColon,
        Self::MisspeltName,
        Self::MissingBrace,
        Self::MissingQuote,
    ];

    /// The program with this fault; faults of the call leave it as it is.
    pub(super) fn apply(self, code: &str) -> String {
        match self {
            Self::MissingParenthesis => code.strip_suffix(')').unwrap_or(code).to_owned(),
            Self::ExtraParenthesis => format!("{code})"),
            Self::StrayColon => format!("{code}:"),
            Self::MisspeltName => code.replacen("print(", "pritn(", 1),
            Self::MissingBrace | Self::MissingQuote => code.to_owned(),
        }
    }

    /// The error of a faulty program: its class, and its message; `None` for faults of the call.
    pub(super) const fn error(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::MissingParenthesis => Some(("SyntaxError", "'(' was never closed")),
            Self::ExtraParenthesis => Some(("SyntaxError", "unmatched ')'")),
            Self::StrayColon => Some(("SyntaxError", "invalid syntax")),
            Self::MisspeltName => Some(("NameError", "name 'pritn' is not defined")),
            Self::MissingBrace | Self::MissingQuote => None,
        }
    }
}
