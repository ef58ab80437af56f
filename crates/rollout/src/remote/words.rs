//! What others say, made fit for our messages: a server's words, an address as it was given.
//!
//! Invariant: no key is in what comes out of here, and nothing that steers a terminal.

use std::fmt;

/// Most characters of a server's own words that are shown.
pub(super) const MOST_SHOWN: usize = 500;
/// Shorter keys are no secrets: replacing them would garble words.
const FEWEST_KEY_BYTES: usize = 4;
/// What stands where a key stood.
const HIDDEN: &str = "<key>";

/// The beginning of a text on one line, without what steers a terminal or turns text around.
pub(super) fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().take(MOST_SHOWN).map(shown).collect()
}

/// An address that may be wrong, without what may be a secret: who is named before `@`, and all
/// behind `?` or `#`.
pub(super) fn without_secrets(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (kept, rest) = url.split_at(end);
    let scheme =
        kept.find("://").filter(|at| kept[..*at].chars().all(|c| c.is_ascii_alphanumeric()));
    let start = scheme.map_or(0, |at| at + "://".len());
    let host = kept.rfind('@').map_or(start, |at| start.max(at + 1));
    let user = if host > start { "…@" } else { "" };
    let rest = rest.get(..1).map_or_else(String::new, |mark| format!("{mark}…"));
    plain(&format!("{}{user}{}{rest}", &kept[..start], &kept[host..]))
}

/// A server's key, if it has one.
#[derive(Clone, Default)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// The words without the key, should a server repeat it; also where its end was cut off.
    pub(super) fn redact(&self, text: &str) -> String {
        let key = self.0.as_str();
        if key.len() < FEWEST_KEY_BYTES {
            return text.to_owned();
        }
        let text = text.replace(key, HIDDEN);
        let begins = (FEWEST_KEY_BYTES..key.len()).rev().filter_map(|end| key.get(..end));
        match begins.into_iter().find_map(|begin| text.strip_suffix(begin)) {
            Some(before) if text.chars().count() >= MOST_SHOWN => format!("{before}{HIDDEN}"),
            _ => text,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let all = [
            ("http://h:8000/v1", "http://h:8000/v1"),
            ("http://user:secret@h/v1", "http://…@h/v1"),
            ("http://:secret@h", "http://…@h"),
            ("http://user:se/c@ret@h", "http://…@h"),
            ("user:secret@h:80", "…@h:80"),
            ("http://h?key=secret#x", "http://h?…"),
            ("http://h#secret", "http://h#…"),
            ("", ""),
        ];
        for (url, shown) in all {
            assert_eq!(without_secrets(url), shown, "{url}");
        }
    }

    #[test]
    fn a_key_is_hidden_wherever_it_stands() {
        let key = Key::new("sk-1234");
        assert_eq!(key.redact("no sk-1234, sk-1234!"), "no <key>, <key>!");
        assert_eq!(key.redact("it ends with sk-12"), "it ends with sk-12");
        let cut = format!("{}sk-12", "x".repeat(MOST_SHOWN - 5));
        assert!(key.redact(&cut).ends_with("x<key>"));
        assert_eq!(Key::default().redact("as it is"), "as it is");
        assert_eq!(format!("{key:?}"), "Key");
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left(text in "(\u{1b}\\[2J|\r|\n|\u{9b}|\u{202e}|[a-zé]){0,40}") {
            let shown = plain(&text);
            let steers = |c: char| c.is_control() || c == '\u{202e}';
            prop_assert!(!shown.contains(steers), "{:?}", shown);
            prop_assert_eq!(shown.chars().count(), text.chars().count());
        }

        #[test]
        fn no_secret_of_an_address_is_left(
            before in "(http://|https://|)", user in "[a-z:/]{0,6}", after in "[a-z:/]{0,8}",
        ) {
            let shown = without_secrets(&format!("{before}{user}SECRET@{after}?x=SECRET"));
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
        }
    }
}
