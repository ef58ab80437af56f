//! What holds for every answer: itself is right, order of the sides doesn't matter, spelling doesn't
//! matter, and different values stay different.

#![cfg(test)]

use proptest::prelude::*;
use rocstar_verify::{Options, Verdict, verify};

fn verdict(gold: &str, answer: &str) -> Verdict {
    verify(gold, answer, &Options::default()).verdict
}

fn right(gold: &str, answer: &str) -> Result<(), TestCaseError> {
    let report = verify(gold, answer, &Options::default());
    prop_assert_eq!(&report.verdict, &Verdict::Right, "{} | {}: {:?}", gold, answer, report);
    Ok(())
}

/// A whole number's spellings.
fn spelled(value: i64) -> Vec<String> {
    let digits = value.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0 { "-" } else { "" };
    vec![
        value.to_string(),
        format!("{sign}{grouped}"),
        format!("{sign}{}", grouped.replace(',', "{,}")),
        format!("{sign}{}", grouped.replace(',', "\\,")),
        format!("{value}.0"),
        format!("\\frac{{{value}}}{{1}}"),
        format!("{value}/1"),
        format!("\\boxed{{{value}}}"),
        format!("x = {value}"),
        format!("The answer is ${value}$."),
        format!("{} - 1", i128::from(value) + 1),
    ]
}

/// An expression as a tree, so that it can be written in several ways.
#[derive(Debug, Clone)]
enum Tree {
    Number(i32),
    Symbol(char),
    Sum(Box<Self>, Box<Self>),
    Product(Box<Self>, Box<Self>),
    Power(Box<Self>, u8),
    Quotient(Box<Self>, u8),
}

impl Tree {
    fn latex(&self) -> String {
        match self {
            Self::Number(value) => format!("({value})"),
            Self::Symbol(name) => name.to_string(),
            Self::Sum(a, b) => format!("\\left({} + {}\\right)", a.latex(), b.latex()),
            Self::Product(a, b) => format!("{} \\cdot {}", a.latex(), b.latex()),
            Self::Power(base, exponent) => {
                format!("\\left({}\\right)^{{{exponent}}}", base.latex())
            }
            Self::Quotient(above, below) => format!("\\frac{{{}}}{{{below}}}", above.latex()),
        }
    }

    /// Another spelling: sides turned round, powers written out, plain text.
    fn turned(&self) -> String {
        match self {
            Self::Number(value) => format!("(0 + {value})"),
            Self::Symbol(name) => name.to_string(),
            Self::Sum(a, b) => format!("({} + {})", b.turned(), a.turned()),
            // a·(b + c) = a·b + a·c.
            Self::Product(a, b) => match b.as_ref() {
                Self::Sum(first, second) => {
                    let a = a.turned();
                    format!("(({a})*({}) + ({a})*({}))", first.turned(), second.turned())
                }
                other => format!("({})*({})", other.turned(), a.turned()),
            },
            Self::Power(base, exponent) => {
                let base = format!("({})", base.turned());
                format!("({})", vec![base; usize::from(*exponent)].join("*"))
            }
            Self::Quotient(above, below) => format!("(({})/{below})", above.turned()),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (-9..10_i32).prop_map(Tree::Number),
        prop_oneof![Just('x'), Just('y'), Just('n')].prop_map(Tree::Symbol),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            two.clone().prop_map(|(a, b)| Tree::Sum(Box::new(a), Box::new(b))),
            two.prop_map(|(a, b)| Tree::Product(Box::new(a), Box::new(b))),
            (inner.clone(), 1..4_u8).prop_map(|(a, n)| Tree::Power(Box::new(a), n)),
            (inner, 2..9_u8).prop_map(|(a, n)| Tree::Quotient(Box::new(a), n)),
        ]
    })
}

/// Answers of many kinds.
fn answer() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i32>().prop_map(|it| it.to_string()),
        (1..1000_i32, 1..100_i32).prop_map(|(a, b)| format!("\\frac{{{a}}}{{{b}}}")),
        (1..100_u32, 1..100_u32).prop_map(|(a, b)| format!("{a}\\sqrt{{{b}}}")),
        (0..100_u32, 0..1000_u32).prop_map(|(a, b)| format!("{a}.{b}")),
        (1..20_u32).prop_map(|a| format!("\\frac{{{a}\\pi}}{{7}}")),
    ];
    let several = proptest::collection::vec(number.clone(), 2..5);
    prop_oneof![
        number.clone(),
        tree().prop_map(|tree| tree.latex()),
        several.clone().prop_map(|items| format!("({})", items.join(", "))),
        several.clone().prop_map(|items| format!("\\{{{}\\}}", items.join(", "))),
        several.prop_map(|items| items.join(", ")),
        (number.clone(), number.clone()).prop_map(|(a, b)| format!("[{a}, {b})")),
        number.clone().prop_map(|a| format!("x \\le {a}")),
        number.prop_map(|a| format!("{a} \\text{{ cm}}")),
        "[A-Z][a-z]{3,8}".prop_map(|word| format!("\\text{{{word}}}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_right_for_itself_in_any_dress(gold in answer()) {
        right(&gold, &gold)?;
        for dressed in [
            format!("  {gold}\n"),
            format!("${gold}$"),
            format!("$${gold}$$"),
            format!("\\[ {gold} \\]"),
            format!("\\displaystyle {gold}"),
            gold.replace(", ", ",\\, "),
            gold.replace('(', "\\left(").replace(')', "\\right)").replace("\\left\\left", "\\left").replace("\\right\\right", "\\right"),
            format!("Thus we get $\\boxed{{{gold}}}$, as was asked."),
        ] {
            right(&gold, &dressed)?;
        }
    }

    #[test]
    fn the_sides_may_be_exchanged(gold in answer(), other in answer()) {
        prop_assert_eq!(
            verdict(&gold, &other) == Verdict::Right,
            verdict(&other, &gold) == Verdict::Right,
            "{} | {}", gold, other
        );
    }

    #[test]
    fn different_whole_numbers_are_never_equal(a in any::<i64>(), offset in 1..2_000_000_i64) {
        let near = a.wrapping_add(offset);
        for (left, right) in spelled(a).iter().zip(spelled(near).iter().rev()) {
            prop_assert_eq!(verdict(left, right), Verdict::Wrong, "{} | {}", left, right);
        }
    }

    #[test]
    fn powers_of_ten_apart_are_never_equal(a in -100_000..100_000_i64, zeros in 1..4_u32) {
        let far = a * 10_i64.pow(zeros);
        prop_assume!(a != 0);
        for left in spelled(a) {
            for right in spelled(far) {
                prop_assert_eq!(verdict(&left, &right), Verdict::Wrong, "{} | {}", left, right);
            }
        }
    }

    #[test]
    fn a_whole_number_is_equal_in_all_spellings(a in -1_000_000_000..1_000_000_000_i64) {
        for left in spelled(a) {
            for other in spelled(a) {
                right(&left, &other)?;
            }
        }
    }

    #[test]
    fn an_expression_written_in_two_ways_is_one(tree in tree(), offset in 1..50_i32) {
        let (plain, turned) = (tree.latex(), tree.turned());
        right(&plain, &turned)?;
        let perturbed = format!("{turned} + {offset}");
        prop_assert_eq!(verdict(&plain, &perturbed), Verdict::Wrong, "{} | {}", plain, perturbed);
    }

    #[test]
    fn decimals_count_to_the_digits_asked_for(
        a in 1..999_u32, b in 2..999_u32, precision in 1..12_u32,
    ) {
        prop_assume!(a % b != 0);
        let scale = 10_u128.pow(precision);
        let (a, b) = (u128::from(a), u128::from(b));
        let rounded = (2 * a * scale + b) / (2 * b);
        prop_assume!(!rounded.is_multiple_of(scale));
        let decimal = |units: u128| {
            format!("{}.{:0width$}", units / scale, units % scale, width = precision as usize)
        };
        let gold = format!("\\frac{{{a}}}{{{b}}}");
        let options = Options { precision, ..Options::default() };
        let near = verify(&gold, &decimal(rounded), &options);
        prop_assert_eq!(&near.verdict, &Verdict::Right, "{:?}", near);
        for off in [rounded + 2, rounded.saturating_sub(2)] {
            let far = verify(&gold, &decimal(off), &options);
            prop_assert_eq!(&far.verdict, &Verdict::Wrong, "{:?}", far);
        }
    }

    #[test]
    fn tuples_are_ordered_and_sets_are_not(items in proptest::collection::hash_set(any::<i16>(), 2..6)) {
        let forward: Vec<String> = items.iter().map(i16::to_string).collect();
        let backward: Vec<String> = forward.iter().rev().cloned().collect();
        let (forward, backward) = (forward.join(", "), backward.join(", "));
        right(&format!("\\{{{forward}\\}}"), &format!("\\{{{backward}\\}}"))?;
        right(&forward, &backward)?;
        prop_assert_eq!(
            verdict(&format!("({forward})"), &format!("({backward})")),
            Verdict::Wrong
        );
    }

    #[test]
    fn no_text_makes_it_panic(gold in ".{0,60}", answer in ".{0,200}") {
        verify(&gold, &answer, &Options::default());
    }

    #[test]
    fn no_soup_of_commands_makes_it_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("\\frac"), Just("\\sqrt"), Just("{"), Just("}"), Just("\\boxed{"), Just("("),
                Just(")"), Just("["), Just("]"), Just("^"), Just("_"), Just("1"), Just("23"),
                Just("x"), Just("\\pm"), Just(","), Just("\\text{"), Just("$"), Just("|"),
                Just("\\begin{cases}"), Just("\\end{cases}"), Just("&"), Just("\\\\"), Just("!"),
                Just("\\infty"), Just("="), Just("<"), Just("\\cup"), Just("\\{"), Just("\\}"),
                Just("0"), Just("/"), Just("."), Just("é"), Just(" is "), Just("°"), Just("½"),
                Just("\\sum_{k=1}^"), Just("\\log"), Just("\\mathbb R"), Just("\\setminus"),
            ],
            0..30,
        )
    ) {
        let text = parts.concat();
        let report = verify(&text, &text, &Options::default());
        prop_assert!(!matches!(report.verdict, Verdict::Wrong), "{:?}", report);
    }
}
