//! Formulas between their delimiters, and the last number of a text.
//!
//! Invariant: a text is gone through once.

/// What stands between `$…$`, `$$…$$`, `\(…\)`, `\[…\]`, in order.
pub(super) fn formulas(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(['$', '\\']) {
        if at < from {
            continue;
        }
        let rest = &text[at..];
        let delimiters = [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")];
        let opening = delimiters.into_iter().find(|(open, _)| rest.starts_with(open));
        let Some((open, close)) = opening else {
            // Whatever is escaped opens nothing: `\$` is money.
            from = at + 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let begin = at + open.len();
        let Some(end) = closing(&text[begin..], close).map(|it| begin + it) else { return found };
        let inside = text[begin..end].trim();
        if !inside.is_empty() {
            found.push(inside);
        }
        from = end + close.len();
    }
    found
}

/// Formulas of `text`, those that "and" or "or" joins as one: `$x = 2$ or $x = 3$`.
pub(super) fn joined<'t>(text: &'t str, formulas: Vec<&'t str>) -> Vec<&'t str> {
    let place = |piece: &str| piece.as_ptr() as usize - text.as_ptr() as usize;
    let mut all: Vec<&str> = Vec::with_capacity(formulas.len());
    for formula in formulas {
        let start = all.last().map(|last| (place(last), place(last) + last.len()));
        let run = start.filter(|(_, end)| {
            let gap = text[*end..place(formula)].trim_matches(['$', ' ', ',']);
            let gap = gap.trim_start_matches("\\)").trim_end_matches("\\(");
            matches!(gap.trim_matches([' ', ',']), "and" | "or")
        });
        if let Some((start, _)) = run {
            all.pop();
            all.push(&text[start..place(formula) + formula.len()]);
        } else {
            all.push(formula);
        }
    }
    all
}

/// Where `close` stands first, not counting `\$`.
fn closing(text: &str, close: &str) -> Option<usize> {
    let escaped = |at: usize| close == "$" && text[..at].ends_with('\\');
    text.match_indices(close).map(|it| it.0).find(|at| !escaped(*at))
}

/// From the sign of the last number to the end of the text.
pub(super) fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut start = bytes.iter().rposition(u8::is_ascii_digit)?;
    while start > 0 {
        let before = bytes[start - 1];
        let inside = before.is_ascii_digit()
            || (matches!(before, b'.' | b',' | b'/')
                && start > 1
                && bytes[start - 2].is_ascii_digit());
        if !inside {
            break;
        }
        start -= 1;
    }
    // A minus sign, unless it subtracts.
    let signed = start > 0
        && bytes[start - 1] == b'-'
        && (start == 1 || !bytes[start - 2].is_ascii_alphanumeric());
    text.get(start - usize::from(signed)..)
}

/// Whether the number is one, and no part of mathematics that could not be read: `x^2`, `∛8`, `5!`.
pub(super) fn stands_alone(text: &str, number: &str) -> bool {
    let before = &text[..text.len() - number.len()];
    let after = &number[bare_number(number).len()..];
    let opens = |c: char| "*=:$€£¥~\"'“`#>".contains(c) || c.is_whitespace();
    let last = before.chars().next_back();
    let apart =
        last.is_none_or(|c| opens(c) || c == '(' && before.trim_end_matches('(').ends_with(opens));
    let word_before = before.strip_suffix("\\$").unwrap_or(before);
    let word_before = word_before.trim_end_matches(|c: char| opens(c) || c == '(');
    // A word, or the end of a clause; no sign and no command.
    let command = word_before.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let follows_prose = word_before.is_empty()
        || (word_before.ends_with(|c: char| c.is_alphabetic() || ".,;:!?|".contains(c))
            && !command.ends_with('\\'));
    let mut rest = after.chars();
    let ends = match rest.next() {
        None => true,
        Some('\\') => {
            rest.next().is_some_and(|c| "%$)],; ".contains(c)) || after.starts_with("\\text")
        }
        Some('!') => false,
        Some(c) => c.is_whitespace() || c.is_alphabetic() || ".,;:?%°$€£¥*)\"'”`<".contains(c),
    };
    let continues = after.trim_start().starts_with(['+', '^', '/', '×', '·', '=', '−']);
    let is_all = !in_open_bracket(before) && !is_bounded(before);
    apart && follows_prose && ends && !continues && is_all
}

/// Whether a bracket is open that holds something before the number: `(1, `.
fn in_open_bracket(before: &str) -> bool {
    let mut open = Vec::new();
    for (at, sign) in before.char_indices() {
        match sign {
            '(' | '[' | '{' => open.push(at + 1),
            ')' | ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.last().is_some_and(|at| before[*at..].contains([',', ';']))
}

/// Whether the words before the number make it a part, a bound or the opposite of an answer: "1 and",
/// "at least", "is not".
fn is_bounded(before: &str) -> bool {
    const JOINING: [&str; 13] = [
        "and", "or", "over", "under", "above", "below", "about", "around", "roughly", "from", "to",
        "minus", "plus",
    ];
    // `> 42`; `<b>42` is a tag.
    let sign = before.trim_end();
    let is_relation = sign.len() < before.len() && sign.ends_with(['<', '>', '≤', '≥']);
    let is_joined = last_words(before).next().is_some_and(|last| is_one_of(last, &JOINING));
    is_relation || is_joined || is_denied(before)
}

/// Whether the words before a value deny it, or make it a bound: "is not", "at least".
pub(super) fn is_denied(before: &str) -> bool {
    const BOUNDS: [&str; 8] =
        ["than", "least", "most", "between", "exceed", "exceeds", "exceeding", "within"];
    let denies = |word: &str| {
        is_one_of(word, &["not", "never", "cannot", "neither", "nor"])
            || word.ends_with("n't")
            || word.ends_with("n’t")
    };
    let is_bound = last_words(before).next().is_some_and(|last| is_one_of(last, &BOUNDS));
    let near = last_words(before).take(3).take_while(|word| !word.contains(char::is_numeric));
    is_bound || near.into_iter().any(denies)
}

/// The words before the end of `text`, from the last, without what isn't a letter or digit around them.
fn last_words(text: &str) -> impl Iterator<Item = &str> {
    let is_around = |letter: char| !letter.is_alphanumeric() && !"'’".contains(letter);
    let words = text.split_whitespace().rev().map(move |word| word.trim_matches(is_around));
    words.filter(|word| !word.is_empty())
}

fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// The number of `72 clips`: words follow, and nothing else.
pub(super) fn count_of_things(text: &str) -> Option<&str> {
    let number = bare_number(text.trim_start());
    let things = text.trim().strip_prefix(number)?;
    let mut words = things.trim_end_matches('.').chars();
    let is_number = number.starts_with(|first: char| first.is_ascii_digit());
    let is_words =
        words.next() == Some(' ') && words.all(|c| c.is_alphabetic() || " -,".contains(c));
    (is_number && is_words).then_some(number)
}

/// A formula that only names what is asked for: `x`, `AB`, `f(x)`.
pub(super) fn is_name(formula: &str) -> bool {
    let (name, arguments) = formula.split_once('(').unwrap_or((formula, ")"));
    let is_letters = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let inside = arguments.strip_suffix(')');
    !name.is_empty() && name.len() <= 2 && is_letters(name) && inside.is_some_and(is_letters)
}

/// The number itself, with what parts and separates its digits.
pub(super) fn bare_number(text: &str) -> &str {
    let length = text
        .char_indices()
        .find(|(index, c)| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '/') || *index == 0))
        .map_or(text.len(), |(index, _)| index);
    text[..length].trim_end_matches(['.', ',', '/'])
}
