//! Numbers as Python writes them: `1_000`, `0x1F`, `.5`, `2.`, `1e-9`.
//!
//! Hides their grammar. A value is exact or refused: an integer beyond 64 bits and a float beyond
//! f64 have no JSON value, nor has a complex number.

use serde_json::Value;

use super::failure::{FailureKind, Fault};
use super::json::{self, float, integer};

/// The value of a number's characters, its sign read before.
pub(super) fn value(body: &str, negative: bool) -> Result<Value, Fault> {
    if body.ends_with(['j', 'J']) {
        let message = "a complex number has no JSON value";
        return Err(Fault::new(FailureKind::NotALiteral, message));
    }
    let digits =
        plain_digits(body).ok_or_else(|| Fault::new(FailureKind::Syntax, "malformed number"))?;
    let sign = if negative { "-" } else { "" };
    match digits {
        Digits::Whole(digits) => integer(&format!("{sign}{digits}")),
        // The digits are sound, so that only their number can be too great.
        Digits::Radix(digits, radix) => u64::from_str_radix(&digits, radix)
            .map_err(|_| json::beyond_64_bits())
            .and_then(|value| integer(&format!("{sign}{value}"))),
        Digits::Fraction(number) => float(&format!("{sign}{number}")),
    }
}

/// What a number's characters say, underscores removed.
enum Digits {
    Whole(String),
    Radix(String, u32),
    Fraction(String),
}

/// `None` where they are no number of Python.
fn plain_digits(body: &str) -> Option<Digits> {
    let radix = body.get(..2).and_then(|prefix| match prefix {
        "0x" | "0X" => Some(16),
        "0o" | "0O" => Some(8),
        "0b" | "0B" => Some(2),
        _ => None,
    });
    if let Some(radix) = radix {
        // `0x_1F` is a number, `0x1F_` is not.
        let digits = &body[2..];
        return grouped(digits.strip_prefix('_').unwrap_or(digits), radix)
            .map(|digits| Digits::Radix(digits, radix));
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let part = |part: &str| if part.is_empty() { Some("0".to_owned()) } else { grouped(part, 10) };
    if whole.is_empty() && fraction.is_none_or(str::is_empty) {
        return None;
    }
    let whole = part(whole)?;
    if fraction.is_none() && exponent.is_none() {
        let zeros_lead = whole.len() > 1 && whole.starts_with('0');
        let is_zero = whole.bytes().all(|digit| digit == b'0');
        return (!zeros_lead || is_zero).then_some(Digits::Whole(whole));
    }
    let fraction = part(fraction.unwrap_or(""))?;
    let exponent = match exponent {
        None => "0".to_owned(),
        Some(exponent) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let sign = if exponent.starts_with('-') { "-" } else { "" };
            format!("{sign}{}", grouped(digits, 10)?)
        }
    };
    Some(Digits::Fraction(format!("{whole}.{fraction}e{exponent}")))
}

/// Digits with single underscores between them; never empty.
fn grouped(text: &str, radix: u32) -> Option<String> {
    let is_valid =
        text.split('_').all(|group| !group.is_empty() && group.chars().all(|c| c.is_digit(radix)));
    is_valid.then(|| text.replace('_', ""))
}
