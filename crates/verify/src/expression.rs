//! What an answer means: the tree that the parser makes and the comparison walks.
//!
//! Invariant: a tree holds what was written, not what it simplifies to. Subtraction is a sum with a
//! product by −1 and division a power of −1, so that the comparison meets few shapes; a number
//! remembers whether it was written as a decimal, because a decimal is only as exact as its digits.

use num_bigint::BigInt;
use num_rational::Ratio;

/// An exact rational number.
pub(crate) type Rational = Ratio<BigInt>;

/// A mathematical expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// A number.
    Number(Number),
    /// A variable, with its index: `x`, `a_{37}`, `\alpha`.
    Symbol(String),
    /// A known constant.
    Constant(Constant),
    /// Terms added up; two at least.
    Sum(Vec<Self>),
    /// Factors multiplied; two at least.
    Product(Vec<Self>),
    /// Base and exponent.
    Power(Box<Self>, Box<Self>),
    /// A known function.
    Apply(Function, Vec<Self>),
    /// A function that isn't known, by its name: `f(x)`.
    Call(String, Vec<Self>),
    /// ∑ or ∏ over a range.
    Series(Box<Series>),
}

/// A number as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number {
    /// Its value.
    pub(crate) value: Rational,
    /// Digits after the decimal point; `None` for an exact number.
    pub(crate) decimal_places: Option<u32>,
}

/// A constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Constant {
    /// π.
    Pi,
    /// Euler's number.
    E,
    /// The imaginary unit.
    I,
    /// Positive infinity.
    Infinity,
}

/// A function that the comparison can evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Function {
    /// Square root, or the root whose degree is the second argument.
    Root,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Cotangent.
    Cot,
    /// Secant.
    Sec,
    /// Cosecant.
    Csc,
    /// Inverse sine.
    Arcsin,
    /// Inverse cosine.
    Arccos,
    /// Inverse tangent.
    Arctan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Natural logarithm, or to the base that is the second argument.
    Log,
    /// Exponential.
    Exp,
    /// Absolute value.
    Abs,
    /// Greatest integer below.
    Floor,
    /// Least integer above.
    Ceiling,
    /// n!
    Factorial,
    /// Binomial coefficient of two arguments.
    Binomial,
    /// Greatest common divisor of its arguments.
    Gcd,
    /// Least common multiple of its arguments.
    Lcm,
    /// Smallest argument.
    Min,
    /// Largest argument.
    Max,
}

/// ∑ or ∏.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// Adds or multiplies.
    pub(crate) kind: SeriesKind,
    /// The index.
    pub(crate) index: String,
    /// First value of the index.
    pub(crate) from: Expression,
    /// Last value of the index.
    pub(crate) to: Expression,
    /// What is added or multiplied.
    pub(crate) body: Expression,
}

/// ∑ or ∏.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesKind {
    /// ∑.
    Sum,
    /// ∏.
    Product,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A value, with what was written beside it.
    Value(Value),
    /// `(a, b, …)`; two elements may also be an open interval.
    Tuple(Vec<Self>),
    /// `{a, b, …}`; the empty set has none.
    Set(Vec<Self>),
    /// `a, b, …` without brackets, or joined by "and" or "or": order doesn't matter.
    List(Vec<Self>),
    /// An interval with at least one bracket that tells it from a pair.
    Interval(Interval),
    /// A union of sets.
    Union(Vec<Self>),
    /// A set without some points: `ℝ ∖ {2}`.
    Without {
        /// The set.
        set: Box<Self>,
        /// What is taken out of it.
        points: Box<Self>,
    },
    /// Rows of a matrix or vector, all of the same length.
    Matrix(Vec<Vec<Expression>>),
    /// Sides and the signs between them, one fewer: `a < b ≤ c`, `x = 5`.
    Relation {
        /// The sides.
        sides: Vec<Self>,
        /// The signs.
        signs: Vec<Sign>,
    },
    /// `a : b : c`.
    Proportion(Vec<Expression>),
    /// Words, in lower case, single spaces.
    Words(String),
}

/// A value and its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// The value itself, marks left out.
    pub(crate) expression: Expression,
    /// What was written after it.
    pub(crate) mark: Mark,
}

/// What stands beside a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    None,
    /// A per cent sign or word.
    Percent,
    /// A degree sign or word.
    Degree,
    /// A unit or currency, in its normal form.
    Unit(String),
}

/// An interval of real numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    /// Lower end.
    pub(crate) low: Expression,
    /// Upper end.
    pub(crate) high: Expression,
    /// The lower end belongs to it.
    pub(crate) low_closed: bool,
    /// The upper end belongs to it.
    pub(crate) high_closed: bool,
}

/// A relation's sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// `=`, also ≈ and ≡.
    Equal,
    /// `≠`.
    NotEqual,
    /// `<`.
    Less,
    /// `≤`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `≥`.
    GreaterOrEqual,
    /// `∈`.
    In,
}

impl Expression {
    /// A whole number.
    pub(crate) fn integer(value: impl Into<BigInt>) -> Self {
        Self::exact(Rational::from_integer(value.into()))
    }

    /// An exact number.
    pub(crate) const fn exact(value: Rational) -> Self {
        Self::Number(Number { value, decimal_places: None })
    }

    /// `−self`.
    #[must_use]
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Number(Number { value, decimal_places }) => {
                Self::Number(Number { value: -value, decimal_places })
            }
            other => Self::product(vec![Self::integer(-1), other]),
        }
    }

    /// `1 / self`.
    #[must_use]
    pub(crate) fn inverted(self) -> Self {
        Self::Power(Box::new(self), Box::new(Self::integer(-1)))
    }

    /// A sum; of one term, that term.
    pub(crate) fn sum(mut terms: Vec<Self>) -> Self {
        if terms.len() == 1 { terms.remove(0) } else { Self::Sum(terms) }
    }

    /// A product; of one factor, that factor.
    pub(crate) fn product(mut factors: Vec<Self>) -> Self {
        if factors.len() == 1 { factors.remove(0) } else { Self::Product(factors) }
    }

    /// Whether `test` holds of this or of any part of it.
    pub(crate) fn any(&self, test: &impl Fn(&Self) -> bool) -> bool {
        test(self)
            || match self {
                Self::Sum(items)
                | Self::Product(items)
                | Self::Apply(_, items)
                | Self::Call(_, items) => items.iter().any(|it| it.any(test)),
                Self::Power(base, exponent) => base.any(test) || exponent.any(test),
                Self::Series(series) => series.body.any(test),
                Self::Number(_) | Self::Symbol(_) | Self::Constant(_) => false,
            }
    }

    /// `self ^ exponent`.
    #[must_use]
    pub(crate) fn power(self, exponent: Self) -> Self {
        Self::Power(Box::new(self), Box::new(exponent))
    }
}

impl From<Expression> for Answer {
    fn from(expression: Expression) -> Self {
        Self::Value(Value { expression, mark: Mark::None })
    }
}
