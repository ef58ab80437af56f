//! What a verification says, and how it may be asked.

use serde::{Deserialize, Serialize};

use crate::extract::{Extraction, ExtractionRule};

/// How answers are to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How the answer is looked for in its text. The gold text is always read leniently.
    pub extraction: Extraction,
    /// Digits after the decimal point that count where a side is a decimal.
    pub precision: u32,
    /// Names of variables matter: f(x) is not f(y).
    pub strict: bool,
    /// A relation may be given where a set is asked for.
    pub allow_set_relation_comp: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            extraction: Extraction::Lenient,
            precision: 6,
            strict: true,
            allow_set_relation_comp: false,
        }
    }
}

/// Is the answer right?
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The same as the gold answer.
    Right,
    /// Another one.
    Wrong,
    /// One side is no answer that can be read.
    Unparseable {
        /// Which.
        side: Side,
        /// Byte of the extracted text at which reading stopped.
        position: usize,
        /// What was expected there.
        message: String,
    },
    /// Both were read, and neither equality nor difference could be shown.
    Undecided {
        /// Why.
        why: String,
    },
}

/// One of the two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The text that is right.
    Gold,
    /// The text that is checked.
    Answer,
}

/// The rule of equality that fired, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The same text, where it could not be read as mathematics.
    Text,
    /// The same words.
    Words,
    /// The same numbers or the same tree.
    Exact,
    /// The same rational function in the same atoms.
    Algebra,
    /// The same number but for a unit or per cent sign.
    Unit,
    /// The same rational function at seeded points modulo two primes, where it is too large to
    /// multiply out.
    Modular,
    /// The same value at seeded points, to many digits.
    Numeric,
    /// The same to the decimal digits that count.
    Decimal,
}

impl Rule {
    /// All, from the strongest to the weakest.
    pub const ALL: [Self; 8] = [
        Self::Text,
        Self::Words,
        Self::Exact,
        Self::Algebra,
        Self::Unit,
        Self::Modular,
        Self::Numeric,
        Self::Decimal,
    ];
}

/// A side of the comparison as it was understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Understood {
    /// The rule that found it; none where nothing was found.
    pub extraction: Option<ExtractionRule>,
    /// The piece of the text that was compared.
    pub text: String,
    /// Its normal form, as text.
    pub normal_form: String,
}

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Right, wrong, or neither.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The rule that made it right.
    pub rule: Option<Rule>,
    /// Steps of arithmetic that it took, the same on every machine.
    pub work_steps: u64,
    /// Where the two differ, or why nothing could be said.
    pub difference: Option<String>,
    /// The gold side.
    pub gold: Understood,
    /// The answer's side.
    pub answer: Understood,
}
