//! What the policy is shown of its calls: bounded, with a mark where something was cut.

use rocstar_chat::calls::CallFailure;
use rocstar_chat::{Error, Special, Tokenizer};
use rocstar_record::episode::ToolOutcome;
use rocstar_record::message::{Message, Role};

use crate::tool::Answered;

/// A text as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Tokens of the whole text that are not shown.
    pub(super) cut_tokens: usize,
}

/// The answer to what begins as a call and can't be read.
pub(super) fn malformed(failure: &CallFailure) -> Answered {
    let message = failure.to_string();
    let outcome = ToolOutcome::Malformed { message: message.clone() };
    Answered { outcome, ..Answered::refused(message) }
}

/// A tool's message.
pub(super) fn message(tool: &str, text: &str) -> Message {
    let name = (!tool.is_empty()).then(|| tool.to_owned());
    Message { name, ..Message::text(Role::Tool, text) }
}

/// The text in at most `most` tokens: what is longer loses its middle, with a mark in its place.
pub(super) fn cut(tokenizer: &Tokenizer, text: &str, most: usize) -> Result<Shown, Error> {
    let encode = |text: &str| tokenizer.encode(text, Special::AsText);
    let tokens = encode(text)?;
    if tokens.len() <= most {
        return Ok(Shown { text: text.to_owned(), cut_tokens: 0 });
    }
    let mark = |cut: usize| format!("\n[... {cut} tokens cut ...]\n");
    // The mark's own length first; then, since texts that are joined may be read as other tokens
    // than each alone, a few more where it is still too long.
    let mut kept = most.saturating_sub(encode(&mark(tokens.len()))?.len());
    loop {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let cut_tokens = tokens.len() - kept;
        let head = head_text(tokenizer, &tokens[..head]);
        let tail = tail_text(tokenizer, &tokens[tokens.len() - tail..]);
        let shown = format!("{head}{}{tail}", mark(cut_tokens));
        let excess = encode(&shown)?.len().saturating_sub(most);
        if excess == 0 || kept == 0 {
            return Ok(Shown { text: shown, cut_tokens });
        }
        kept = kept.saturating_sub(excess);
    }
}

fn bytes(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<u8> {
    tokens
        .iter()
        .flat_map(|&token| tokenizer.token_bytes(token).unwrap_or_default())
        .copied()
        .collect()
}

/// Without a character that the cut goes through.
fn head_text(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes = bytes(tokenizer, tokens);
    let text = String::from_utf8_lossy(&bytes);
    text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
}

/// Without a character that the cut goes through.
fn tail_text(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes = bytes(tokenizer, tokens);
    let text = String::from_utf8_lossy(&bytes);
    text.trim_start_matches(char::REPLACEMENT_CHARACTER).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::tokenizer;

    #[test]
    fn a_long_text_loses_its_middle() {
        let text: String = (0..200).map(|number| format!("{number},")).collect();
        let shown = cut(&tokenizer(), &text, 64).expect("tokens");
        assert!(shown.text.starts_with("0,1,2,") && shown.text.ends_with("198,199,"), "{shown:?}");
        assert!(shown.text.contains(&format!("[... {} tokens cut ...]", shown.cut_tokens)));
        let short = cut(&tokenizer(), "1, 2", 64).expect("tokens");
        assert_eq!(short, Shown { text: "1, 2".to_owned(), cut_tokens: 0 });
    }

    proptest! {
        #[test]
        fn what_is_shown_fits(text in "(\\PC|é|<\\|im_end\\|>|\n){0,300}", most in 64_usize..120) {
            let tokenizer = tokenizer();
            let shown = cut(&tokenizer, &text, most).expect("tokens");
            let tokens = tokenizer.encode(&shown.text, Special::AsText).expect("tokens");
            prop_assert!(tokens.len() <= most);
            prop_assert_eq!(shown.cut_tokens == 0, shown.text == text);
        }
    }
}
