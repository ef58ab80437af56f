//! Whole numbers in words: `three`, `forty-two`, `one hundred and five thousand`.
//!
//! Invariant: a text is a number only if every word of it is used.

/// Words below twenty, in order.
const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
/// Words for tens, from twenty.
const TENS: [&str; 8] =
    ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
/// Words that close a group of three digits, from the largest.
const GROUPS: [(&str, u64); 3] =
    [("billion", 1_000_000_000), ("million", 1_000_000), ("thousand", 1_000)];

/// The number that `text`, in small letters, spells.
pub(crate) fn spelled(text: &str) -> Option<u64> {
    let mut rest: Vec<&str> = text.split([' ', '-']).filter(|word| !word.is_empty()).collect();
    if rest.is_empty() {
        return None;
    }
    let mut total = 0;
    for (name, size) in GROUPS {
        if let Some(at) = rest.iter().position(|word| *word == name) {
            total += below_thousand(&rest[..at])? * size;
            rest.drain(..=at);
        }
    }
    if rest.is_empty() {
        return Some(total);
    }
    // `one thousand and five`.
    let rest = if total > 0 { rest.strip_prefix(&["and"][..]).unwrap_or(&rest) } else { &rest };
    Some(total + below_thousand(rest)?)
}

/// `two hundred and five`, `a hundred`.
fn below_thousand(words: &[&str]) -> Option<u64> {
    let place = words.iter().position(|word| *word == "hundred");
    let Some(place) = place else { return below_hundred(words) };
    let hundreds = match &words[..place] {
        ["a"] => 1,
        before => below_hundred(before).filter(|count| (1..10).contains(count))?,
    };
    let rest = &words[place + 1..];
    let rest = rest.strip_prefix(&["and"][..]).unwrap_or(rest);
    let rest = if rest.is_empty() { 0 } else { below_hundred(rest)? };
    Some(hundreds * 100 + rest)
}

/// `forty-two`, `seventeen`.
fn below_hundred(words: &[&str]) -> Option<u64> {
    let one = |word: &str| ONES.iter().position(|it| *it == word).map(|at| at as u64);
    let ten = |word: &str| TENS.iter().position(|it| *it == word).map(|at| 10 * (at as u64 + 2));
    match words {
        [word] => one(word).or_else(|| ten(word)),
        [tens, ones] => Some(ten(tens)? + one(ones).filter(|ones| (1..10).contains(ones))?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        for (text, expected) in [
            ("zero", Some(0)),
            ("seventeen", Some(17)),
            ("forty-two", Some(42)),
            ("forty two", Some(42)),
            ("a hundred", Some(100)),
            ("two hundred and five", Some(205)),
            ("one thousand and five", Some(1_005)),
            ("three million two hundred thousand one", Some(3_200_001)),
            ("", None),
            ("a", None),
            ("hundred", None),
            ("forty twelve", None),
            ("twelve forty", None),
            ("three solutions", None),
            ("one thousand million", None),
            ("five and", None),
        ] {
            assert_eq!(spelled(text), expected, "{text}");
        }
    }
}
