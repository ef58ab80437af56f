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
    let given = text.trim().trim_matches(['.', ',', '(', ')']);
    let text = given.to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.as_str() {
        "%" | "percent" | "pct" | "percentage" | "per cent" => return Some(Mark::Percent),
        "degree" | "degrees" | "deg" => return Some(Mark::Degree),
        "" => return set.then_some(Mark::None),
        _ => {}
    }
    if let Some((unit, _)) =
        CASED.iter().find(|(unit, anywhere)| *unit == given && (set || *anywhere))
    {
        return Some(Mark::Unit((*unit).to_owned()));
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
    set.then_some(Mark::Unit(text))
}

fn known(text: &str) -> Option<&'static str> {
    UNITS.iter().find(|(_, names)| names.contains(&text)).map(|(normal, _)| *normal)
}

/// Units whose case tells them apart, and whether they are known where they are not set as text too;
/// the others are products of letters there.
const CASED: &[(&str, bool)] = &[
    ("meV", true),
    ("eV", true),
    ("keV", true),
    ("MeV", true),
    ("GeV", true),
    ("TeV", true),
    ("kJ", true),
    ("MJ", false),
    ("mJ", false),
    ("Hz", true),
    ("kHz", true),
    ("MHz", true),
    ("GHz", true),
    ("mHz", true),
    ("kPa", true),
    ("MPa", true),
    ("mPa", true),
    ("kW", true),
    ("MW", false),
    ("mW", false),
    ("MV", false),
    ("mV", false),
    ("mol", true),
    ("M", false),
    ("m", false),
    ("G", false),
    ("g", false),
    ("K", false),
    ("k", false),
    ("S", false),
    ("T", false),
    ("t", false),
    ("Mm", false),
];

/// An exponent, and the words for it before and after a unit.
const POWERS: [(u32, &str, &str); 3] =
    [(2, "square ", " squared"), (2, "sq ", " squared"), (3, "cubic ", " cubed")];

/// Each unit's normal form and its spellings.
const UNITS: &[(&str, &[&str])] = &[
    ("mm", &["mm", "millimeter", "millimeters", "millimetre", "millimetres"]),
    ("cm", &["cm", "centimeter", "centimeters", "centimetre", "centimetres"]),
    ("m", &["meter", "meters", "metre", "metres"]),
    ("km", &["km", "kilometer", "kilometers", "kilometre", "kilometres"]),
    ("inch", &["inch", "inches", "in"]),
    ("foot", &["ft", "foot", "feet"]),
    ("yard", &["yd", "yard", "yards"]),
    ("mile", &["mile", "miles"]),
    ("second", &["s", "sec", "second", "seconds", "secs"]),
    ("minute", &["minute", "minutes", "mins"]),
    ("hour", &["h", "hr", "hrs", "hour", "hours"]),
    ("day", &["day", "days"]),
    ("week", &["week", "weeks"]),
    ("month", &["month", "months"]),
    ("year", &["year", "years"]),
    ("g", &["gram", "grams"]),
    ("kg", &["kg", "kilogram", "kilograms"]),
    ("pound", &["lb", "lbs", "pound", "pounds"]),
    ("ounce", &["oz", "ounce", "ounces"]),
    ("litre", &["l", "liter", "liters", "litre", "litres"]),
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
