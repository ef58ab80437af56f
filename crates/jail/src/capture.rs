//! One output stream, drained to its end but kept only in part: the head and the tail.
//!
//! Invariant: `total` counts every byte that was written; at most `kept` bytes are held, half of
//! them from the beginning and half from the end; where something is missing the text says so.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::report::Captured;

/// Collects one stream.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `kept_bytes`.
    pub(crate) fn new(kept_bytes: u64) -> Self {
        let kept = usize::try_from(kept_bytes).unwrap_or(usize::MAX);
        let tail_limit = kept / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit: kept - tail_limit,
            tail_limit,
            total: 0,
        }
    }

    /// Bytes seen.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Takes what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last `tail_limit` bytes can matter.
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// The text, with a marked cut.
    pub(crate) fn finish(mut self) -> Captured {
        let cut_bytes = self.total - (self.head.len() + self.tail.len()) as u64;
        let tail = self.tail.make_contiguous();
        if cut_bytes == 0 {
            self.head.extend_from_slice(tail);
            let head = match String::from_utf8(self.head) {
                Ok(text) => {
                    let total_bytes = self.total;
                    return Captured { text, total_bytes, cut_bytes, base64: None };
                }
                Err(error) => error.into_bytes(),
            };
            let text = escape(&head);
            let base64 = Some(STANDARD.encode(&head));
            return Captured { text, total_bytes: self.total, cut_bytes, base64 };
        }
        // A cut must not fall inside a character, or valid text would be flagged as bytes.
        let head_end = character_boundary_before(&self.head);
        let tail_start = tail.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count();
        let (head, tail) = (&self.head[..head_end], &tail[tail_start..]);
        let cut_bytes = self.total - (head.len() + tail.len()) as u64;
        let mark = format!("\n[\u{2026} {cut_bytes} bytes cut \u{2026}]\n");
        let (text, base64) = match (std::str::from_utf8(head), std::str::from_utf8(tail)) {
            (Ok(head), Ok(tail)) => (format!("{head}{mark}{tail}"), None),
            _ => {
                let text = format!("{}{mark}{}", escape(head), escape(tail));
                (text, Some(STANDARD.encode([head, tail].concat())))
            }
        };
        Captured { text, total_bytes: self.total, cut_bytes, base64 }
    }
}

/// Length of the longest prefix that does not end in an unfinished character.
fn character_boundary_before(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => {
            // Invalid further up: still don't split the last character.
            let window = &bytes[bytes.len().saturating_sub(3)..];
            let lead = window.iter().rposition(|&byte| byte & 0xC0 != 0x80);
            match lead {
                Some(at) if expected_length(window[at]) > window.len() - at => {
                    bytes.len() - (window.len() - at)
                }
                _ => bytes.len(),
            }
        }
    }
}

const fn expected_length(lead: u8) -> usize {
    match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

/// Text with every invalid byte as `\xNN`, as Python's `backslashreplace` shows them.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Capture;

    fn capture(kept: u64, parts: &[&[u8]]) -> crate::report::Captured {
        let mut capture = Capture::new(kept);
        parts.iter().for_each(|part| capture.push(part));
        capture.finish()
    }

    #[test]
    fn keeps_head_and_tail_with_a_mark() {
        let captured = capture(8, &[b"abcdefgh", b"ijklmnop"]);
        assert_eq!(captured.text, "abcd\n[\u{2026} 8 bytes cut \u{2026}]\nmnop");
        assert_eq!((captured.total_bytes, captured.cut_bytes), (16, 8));
        assert_eq!(captured.base64, None);
    }

    #[test]
    fn a_cut_inside_a_character_leaves_valid_text() {
        let text = "ééééééé".as_bytes();
        let captured = capture(6, &[text]);
        assert_eq!(captured.text, "é\n[\u{2026} 10 bytes cut \u{2026}]\né");
        assert_eq!(captured.base64, None);
    }

    #[test]
    fn bytes_are_shown_and_given_back() {
        let captured = capture(100, &[b"a\xff\xfeb"]);
        assert_eq!(captured.text, "a\\xff\\xfeb");
        assert_eq!(captured.base64.as_deref(), Some("Yf/+Yg=="));
    }

    proptest! {
        #[test]
        fn counts_and_order_hold(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            kept in 1_u64..64,
        ) {
            let whole: Vec<u8> = parts.concat();
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let captured = capture(kept, &slices);
            prop_assert_eq!(captured.total_bytes, whole.len() as u64);
            if whole.len() as u64 <= kept {
                prop_assert_eq!(captured.cut_bytes, 0);
                match String::from_utf8(whole) {
                    Ok(text) => prop_assert_eq!(captured.text, text),
                    Err(_) => prop_assert!(captured.base64.is_some()),
                }
            } else {
                prop_assert!(captured.cut_bytes >= whole.len() as u64 - kept);
                prop_assert!(captured.text.contains("bytes cut"));
            }
        }

        #[test]
        fn valid_text_is_never_flagged(text in "\\PC{0,60}", kept in 8_u64..40) {
            prop_assert_eq!(capture(kept, &[text.as_bytes()]).base64, None);
        }
    }
}
