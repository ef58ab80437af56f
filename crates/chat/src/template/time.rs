//! `strftime_now`: dates in prompts, from a time that the caller gives.

use minijinja::{Error, ErrorKind, Value};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The function for templates; it fails where no time was given.
pub(super) fn strftime_now(now_unix_s: Option<i64>) -> Value {
    Value::from_function(move |format: String| -> Result<String, Error> {
        let now = now_unix_s.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                "the template asks for the time; none was given",
            )
        })?;
        strftime(now, &format)
    })
}

fn strftime(unix_s: i64, format: &str) -> Result<String, Error> {
    let (days, second_of_day) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let hour_of_12 = (hour + 11) % 12 + 1;
    // 1970-01-01 was a Thursday.
    let weekday = WEEKDAYS[(days + 3).rem_euclid(7) as usize];
    let month_name = MONTHS[(month - 1) as usize];
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive = characters.next();
        let pads = directive != Some('-');
        if !pads {
            directive = characters.next();
        }
        let two = |number: i64| if pads { format!("{number:02}") } else { number.to_string() };
        out.push_str(&match directive {
            Some('Y') => year.to_string(),
            Some('y') => two(year.rem_euclid(100)),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('e') => format!("{day:2}"),
            Some('H') => two(hour),
            Some('I') => two(hour_of_12),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => "UTC".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let directive = other.map(String::from).unwrap_or_default();
                let message = format!("strftime_now: `%{directive}` is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        });
    }
    Ok(out)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Years that begin in March put the leap day last, so a month's first day is a linear formula.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "Thursday 1970-01-01 00:00:00 12 AM"),
            (951_782_399, "Monday 2000-02-28 23:59:59 11 PM"),
            (951_782_400, "Tuesday 2000-02-29 00:00:00 12 AM"),
            (4_107_542_400, "Monday 2100-03-01 00:00:00 12 AM"),
            (-1, "Wednesday 1969-12-31 23:59:59 11 PM"),
        ];
        for (time, expected) in cases {
            assert_eq!(strftime(time, "%A %F %H:%M:%S %-I %p").expect("a format"), expected);
        }
        assert_eq!(strftime(0, "%d %b %Y 100%%").expect("a format"), "01 Jan 1970 100%");
        assert!(strftime(0, "%Q").is_err());
    }
}
