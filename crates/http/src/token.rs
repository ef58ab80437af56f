//! The token that whoever asks must carry.
//!
//! Invariant: the comparison takes the same time wherever the given text differs.

use axum::http::{HeaderMap, header};

/// Whether a request carries this token as `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).
pub fn carries_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some((scheme, given)) = value.and_then(|value| value.split_at_checked("Bearer ".len()))
    else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && is_token(given.trim_ascii(), token)
}

/// Whether what was given is this token.
pub fn is_token(given: &[u8], token: &str) -> bool {
    constant_time_eq::constant_time_eq(given, token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_passes() {
        for (value, passes) in [
            ("Bearer secret", true),
            ("bearer secret", true),
            ("Bearer  secret ", true),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("Bearer ", false),
            ("Basic secret", false),
            ("secret", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(carries_token(&headers, "secret"), passes, "{value:?}");
        }
        assert!(!carries_token(&HeaderMap::new(), "secret"));
    }
}
