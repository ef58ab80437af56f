//! Values of functions against mpmath's (`tests/reference/values.py`), to 30 digits after the point.

#![cfg(test)]

use rocstar_verify::{Options, Verdict, verify};

const VALUES: &str = include_str!("reference/values.txt");
const DIGITS: u32 = 30;

#[test]
fn functions_have_the_values_that_mpmath_gives() {
    let options = Options { precision: DIGITS, ..Options::default() };
    for line in VALUES.lines() {
        let (expression, value) = line.split_once('\t').unwrap();
        let report = verify(expression, value, &options);
        assert_eq!(report.verdict, Verdict::Right, "{report:?}");
        let off = off_in_the_last_digit(value);
        let report = verify(expression, &off, &options);
        assert_eq!(report.verdict, Verdict::Wrong, "{report:?}");
    }
}

/// `value` cut to the digits that count, with another last digit.
fn off_in_the_last_digit(value: &str) -> String {
    let end = value.find('.').unwrap() + 1 + DIGITS as usize;
    let (head, last) = value[..end].split_at(end - 1);
    let digit: u32 = last.parse().unwrap();
    format!("{head}{}", (digit + 5) % 10)
}
