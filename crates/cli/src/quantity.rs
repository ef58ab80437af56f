//! Durations and sizes as people write them: `5s`, `250ms`, `2min`; `256MiB`, `1GB`, `4096`.
//!
//! Invariant: a value is exact or refused; nothing is rounded or wrapped.

use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 4] =
    [("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000)];

const SIZE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a duration; a unit is required.
///
/// # Errors
/// What would be right, as text for the argument parser.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    scaled(text, &DURATION_UNITS)
        .map(Duration::from_millis)
        .ok_or_else(|| "write a whole number with a unit: `250ms`, `5s`, `2min`, `1h`".to_owned())
}

/// Reads a size in bytes; no unit means bytes.
///
/// # Errors
/// What would be right, as text for the argument parser.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    scaled(text, &SIZE_UNITS).ok_or_else(|| {
        "write a whole number of bytes, or one with a unit: `64KiB`, `256MiB`, `1GB`".to_owned()
    })
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// A size in binary units with one decimal, for people.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn show_size(bytes: u64) -> String {
    for (name, scale) in
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= scale {
            return format!("{:.1} {name}", bytes as f64 / scale as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_duration, parse_size, show_size};

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5 s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "5", "-5s", "1.5s", "s", "5 weeks", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["", "-1", "1.5GiB", "1 XB", "99999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shows_sizes() {
        assert_eq!(show_size(0), "0 B");
        assert_eq!(show_size(1536), "1.5 KiB");
        assert_eq!(show_size(3 << 30), "3.0 GiB");
    }
}
