//! Units, currencies and other words that may stand beside a number.
//!
//! Invariant: a unit changes no value. An answer that leaves out the unit is as good as one that
//! names it; two units that differ are not the same answer.

use crate::expression::Mark;
use crate::lexer::DOLLAR;

/// The unit that a sign of money stands for.
pub(crate) const fn currency(sign: char) -> Option<&'static str> {
    match sign {
        '€' => Some("euro"),
        '£' => Some("pound sterling"),
        '¥' => Some("yen"),
        '₹' => Some("rupee"),
        '¢' => Some("cent"),
        DOLLAR => Some("dollar"),
        _ => None,
    }
}

/// The mark that `text` is. Where it was `set` as text, any words are a unit; elsewhere only known
/// ones are, since letters may be variables.
pub(crate) fn mark(text: &str, set: bool) -> Option<Mark> {
    let text = text.trim().trim_matches(['.', ',', '(', ')']).to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.as_str() {
        "%" | "percent" | "pct" | "percentage" | "per cent" => return Some(Mark::Percent),
        "degree" | "degrees" | "deg" => return Some(Mark::Degree),
        "" => return set.then_some(Mark::None),
        _ => {}
    }
    if let Some(unit) = known(&text) {
        return Some(Mark::Unit(unit.to_owned()));
    }
    for (exponent, before, after) in POWERS {
        let inner = text.strip_prefix(before).or_else(|| text.strip_suffix(after));
        if let Some(unit) = inner.and_then(known) {
            return Some(Mark::Unit(format!("{unit}^{exponent}")));
        }
    }
    set.then(|| Mark::Unit(if text == "in" { "inch".to_owned() } else { text }))
}

fn known(text: &str) -> Option<&'static str> {
    UNITS.iter().find(|(_, names)| names.contains(&text)).map(|(normal, _)| *normal)
}

/// An exponent, and the words for it before and after a unit.
const POWERS: [(u32, &str, &str); 3] =
    [(2, "square ", " squared"), (2, "sq ", " squared"), (3, "cubic ", " cubed")];

/// Each unit's normal form and its spellings.
const UNITS: &[(&str, &[&str])] = &[
    ("mm", &["mm", "millimeter", "millimeters", "millimetre", "millimetres"]),
    ("cm", &["cm", "centimeter", "centimeters", "centimetre", "centimetres"]),
    ("m", &["meter", "meters", "metre", "metres"]),
    ("km", &["km", "kilometer", "kilometers", "kilometre", "kilometres"]),
    ("inch", &["inch", "inches"]),
    ("foot", &["ft", "foot", "feet"]),
    ("yard", &["yd", "yard", "yards"]),
    ("mile", &["mile", "miles"]),
    ("second", &["sec", "second", "seconds", "secs"]),
    ("minute", &["minute", "minutes", "mins"]),
    ("hour", &["hr", "hrs", "hour", "hours"]),
    ("day", &["day", "days"]),
    ("week", &["week", "weeks"]),
    ("month", &["month", "months"]),
    ("year", &["year", "years"]),
    ("g", &["gram", "grams"]),
    ("kg", &["kg", "kilogram", "kilograms"]),
    ("pound", &["lb", "lbs", "pound", "pounds"]),
    ("ounce", &["oz", "ounce", "ounces"]),
    ("litre", &["liter", "liters", "litre", "litres"]),
    ("ml", &["ml", "milliliter", "milliliters", "millilitre", "millilitres"]),
    ("gallon", &["gallon", "gallons"]),
    ("mph", &["mph", "miles per hour"]),
    ("km/h", &["kmh", "kph", "km per hour", "kilometers per hour"]),
    ("dollar", &["dollar", "dollars", "usd"]),
    ("cent", &["cent", "cents"]),
    ("euro", &["euro", "euros", "eur"]),
    ("square unit", &["square unit", "square units", "sq units", "units squared"]),
    ("unit", &["unit", "units"]),
    ("radian", &["rad", "radian", "radians"]),
    ("times", &["time", "times"]),
    ("way", &["way", "ways"]),
    ("people", &["people", "person", "persons"]),
    ("student", &["student", "students"]),
    ("point", &["point", "points"]),
];
