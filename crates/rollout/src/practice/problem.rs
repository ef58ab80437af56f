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

/// Makes up `count` tasks. Forms and wordings are spread evenly over any run of tasks, numbers are
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
        let wordings = wordings(form);
        let wording = wordings[draws.below(wordings.len() as u64) as usize];
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
///
/// The forms of a kind differ in whole words, not in the order of the same words: a tiny model that
/// has found a program for some words tries it first wherever it sees them, and where two forms share
/// most of their words it may settle on one program for both before it has tried the other.
pub(super) const fn wordings(form: Form) -> [&'static str; 2] {
    match form {
        Form::Sum => ["What is the sum of {} and {}?", "Add {} to {}."],
        Form::Difference => {
            ["What is the difference of {} and {}?", "How much larger is {} than {}?"]
        }
        Form::Product => ["What is the product of {} and {}?", "Multiply {} by {}."],
        Form::Quotient => {
            ["What is the whole quotient of {} and {}?", "How often does {} contain {}?"]
        }
        Form::Divisor => [
            "What is the greatest common divisor of {} and {}?",
            "Which is the largest number that divides {} and {}?",
        ],
        Form::Multiple => [
            "What is the least common multiple of {} and {}?",
            "Which is the smallest number that {} and {} divide?",
        ],
        Form::Remainder => {
            ["What is the remainder of {} divided by {}?", "What is left when {} is divided by {}?"]
        }
        Form::Power => [
            "What is {} to the power of {} modulo a thousand?",
            "Which number below a thousand remains of {} to the power of {}?",
        ],
        Form::CountDivisible => [
            "How many numbers from 1 to {} are divisible by {}?",
            "How many of the first {} numbers are multiples of {}?",
        ],
        Form::CountContaining => [
            "How many numbers from 1 to {} contain the digit {}?",
            "How many of the first {} numbers are written with a {}?",
        ],
        Form::CountDigitSum => [
            "How many numbers from 1 to {} have the digital sum {}?",
            "How many of the first {} numbers have digits that add up to {}?",
        ],
        Form::CountEnding => [
            "How many numbers from 1 to {} end in {}?",
            "How many of the first {} numbers have the last digit {}?",
        ],
        Form::TimesPlus => [
            "A shop has {} boxes of {} pens and {} loose pens. How many pens is that?",
            "Tom buys {} books for {} coins each and a bag for {} coins. How many coins does he pay?",
        ],
        Form::TimesMinus => [
            "A farm fills {} crates with {} eggs each, but {} eggs break. How many eggs are left?",
            "Mia sells {} cakes at {} dollars each and spends {} dollars. How many dollars does she keep?",
        ],
        Form::PlusTimes => [
            "In a school {} girls and {} boys get {} apples each. How many apples is that?",
            "One house has {} rooms, another {}. Each room has {} beds. How many beds is that?",
        ],
        Form::MinusTimes => [
            "Of {} guests {} stay at home. The others pay {} euros each. How many euros is that?",
            "A bus has {} seats, and {} are free. Each rider pays {} cents. How many cents is that?",
        ],
    }
}
