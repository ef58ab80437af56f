//! Problems: kinds, wordings, the numbers in them, and the split into training and held out.
//!
//! The words give each number a name, and the program begins with the same names. So copying a
//! number is finding what stood behind the same name before, which a small model learns several
//! times sooner than to find "the second number".
//!
//! Invariant: a problem's split follows from its kind and numbers alone, so no seed can make a
//! problem of one split appear in the other.

use rocstar_record::draw::{Draws, Key, Purpose};
use rocstar_record::episode::TaskId;
use rocstar_record::message::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::program::{Form, NAMES};
use crate::task::Task;

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Sums, differences, products, whole quotients.
    Arithmetic,
    /// Divisors, multiples, remainders, powers modulo a thousand.
    NumberTheory,
    /// How many of the first numbers have a property.
    Counting,
    /// Small stories with three numbers.
    Story,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Arithmetic, Self::NumberTheory, Self::Counting, Self::Story];

    /// The kind as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::NumberTheory => "number_theory",
            Self::Counting => "counting",
            Self::Story => "story",
        }
    }
}

/// What problems are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// To learn from.
    Train,
    /// To measure with.
    HeldOut,
}

/// One in this many problems is held out.
const HELD_OUT_ONE_IN: u64 = 8;

/// A problem: a form with numbers, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// What solves it.
    pub(super) form: Form,
    /// Its numbers, in the order in which the words name them.
    pub(super) numbers: Vec<u64>,
    /// The words.
    pub(super) text: String,
}

/// Makes up `count` tasks. Forms are spread evenly over any run of tasks, numbers are
/// drawn. `meta` has the `kind`.
pub fn tasks(count: usize, seed: u64, split: Split) -> Vec<Task> {
    let sample = match split {
        Split::Train => 0,
        Split::HeldOut => 1,
    };
    (0..count).map(|index| task(index, Key { sample, ..key(seed, index) }, split)).collect()
}

fn task(index: usize, key: Key, split: Split) -> Task {
    let problem = Problem::draw(index, &mut key.at(0), split);
    let name = match split {
        Split::Train => "train",
        Split::HeldOut => "held_out",
    };
    let mut meta = Map::new();
    meta.insert("kind".to_owned(), json!(problem.form.kind().name()));
    meta.insert("form".to_owned(), Value::from(problem.form.name()));
    Task {
        id: TaskId(format!("practice-{name}-{}-{index:06}", key.seed)),
        messages: vec![Message::text(Role::User, &problem.text)],
        answer: problem.form.result(&problem.numbers).to_string(),
        functions: Vec::new(),
        meta,
    }
}

/// The key of what is drawn for `index`.
pub(super) const fn key(seed: u64, index: usize) -> Key {
    Key { task: index as u64, ..Key::new(seed, Purpose::Tasks) }
}

impl Problem {
    /// The problem number `index` of a series.
    pub(super) fn draw(index: usize, draws: &mut Draws, split: Split) -> Self {
        let form = Form::ALL[index % Form::ALL.len()];
        let wording = wording(form);
        loop {
            let numbers = numbers(form, draws);
            if form.fits(&numbers) && split_of(form.kind(), &numbers) == split {
                let text = fill(wording, &numbers);
                return Self { form, numbers, text };
            }
        }
    }
}

/// The split that a problem belongs to.
fn split_of(kind: Kind, numbers: &[u64]) -> Split {
    // An odd multiplier spreads neighbouring numbers over the residues.
    let mix = |hash: u64, number: &u64| {
        (hash ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    };
    let hash = numbers.iter().fold(kind as u64 + 1, mix);
    if hash.is_multiple_of(HELD_OUT_ONE_IN) { Split::HeldOut } else { Split::Train }
}

/// Numbers for a problem of this form: of one to four digits, fewer where more would be no story.
fn numbers(form: Form, draws: &mut Draws) -> Vec<u64> {
    match form.kind() {
        Kind::Arithmetic => vec![of_digits(&[1, 2, 3, 4], draws), of_digits(&[1, 2, 3, 4], draws)],
        Kind::NumberTheory => {
            // A common factor, so that divisors and multiples aren't trivial.
            let factor = 2 + draws.below(30);
            vec![factor * (1 + draws.below(300)), factor * (1 + draws.below(100))]
        }
        Kind::Counting => vec![of_digits(&[2, 3, 4], draws), 2 + draws.below(8)],
        Kind::Story => (0..3).map(|_| of_digits(&[1, 2, 2, 3], draws)).collect(),
    }
}

/// A number of at least 2 whose number of digits is one of `digits`.
fn of_digits(digits: &[u32], draws: &mut Draws) -> u64 {
    let digits = digits[draws.below(digits.len() as u64) as usize];
    let least = 10_u64.pow(digits - 1).max(2);
    least + draws.below(10_u64.pow(digits) - least)
}

fn fill(wording: &str, numbers: &[u64]) -> String {
    let mut text = String::new();
    for (index, part) in wording.split("{}").enumerate() {
        if index > 0 {
            text += &format!("{} = {}", NAMES[index - 1], numbers[index - 1]);
        }
        text += part;
    }
    text
}

/// How problems of a form are put; `{}` stands for the numbers with their names, in order.
pub(super) const fn wording(form: Form) -> &'static str {
    match form {
        Form::Sum => "What is the sum of {} and {}?",
        Form::Difference => "How much larger is {} than {}?",
        Form::Product => "Multiply {} by {}.",
        Form::Quotient => "How often does {} contain {}?",
        Form::Divisor => "What is the greatest common divisor of {} and {}?",
        Form::Multiple => "Which is the smallest number that {} and {} divide?",
        Form::Remainder => "What is left when {} is divided by {}?",
        Form::Power => "What is {} to the power of {} modulo a thousand?",
        Form::CountDivisible => "How many numbers from 1 to {} are multiples of {}?",
        Form::CountContaining => "How many of the first {} numbers are written with a {}?",
        Form::CountDigitSum => "Count the numbers from 1 to {} whose digits add up to {}.",
        Form::CountEnding => "Of the numbers up to {}, how many end in {}?",
        Form::TimesPlus => {
            "A shop has {} boxes of {} pens and {} loose pens. How many pens is that?"
        }
        Form::TimesMinus => {
            "Mia sells {} cakes at {} dollars each and spends {} dollars. What does she keep?"
        }
        Form::PlusTimes => {
            "In a school {} girls and {} boys get {} apples each. How many apples are needed?"
        }
        Form::MinusTimes => {
            "Of {} guests {} stay at home. The others pay {} euros each. How much do they pay?"
        }
    }
}
