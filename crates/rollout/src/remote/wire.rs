//! What servers send, read: bytes in, an answer or a fault out.
//!
//! Invariants: what is read doesn't depend on how the bytes were cut into pieces; every length is
//! bounded before it is kept; an answer that broke off is a fault, never a short answer. No clock and
//! no connection is in here, so all of it is fuzzed.

mod chat;
mod completion;
mod events;
mod sglang;

pub use chat::ChatReading;
pub use completion::{CompletionReading, GeneratedTokens};
pub use events::Events;
pub use sglang::SglangReading;

use super::ask::ChatReply;
use super::words::plain;

/// Larger numbers are no lengths of sequences.
pub(super) const MOST_TOKENS: usize = u32::MAX as usize;

/// Why bytes are no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// More bytes than may be kept.
    #[error("{what} has more than {most_bytes} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// How many are kept.
        most_bytes: usize,
    },
    /// No such JSON.
    #[error("the answer can't be read: {cause}")]
    Malformed {
        /// Where and why.
        cause: String,
    },
    /// The server says that it failed.
    #[error("the server says: {message}")]
    Server {
        /// What it says.
        message: String,
    },
    /// It ended before its end.
    #[error("the answer broke off: {missing}")]
    Cut {
        /// What didn't come.
        missing: &'static str,
    },
    /// The server ended it for a reason that is none of the model's.
    #[error("the answer ended for the reason `{reason}`")]
    Ended {
        /// The server's word.
        reason: String,
    },
    /// Parts that don't fit each other.
    #[error("the answer contradicts itself: {problem}")]
    Contradiction {
        /// How.
        problem: String,
    },
}

impl WireError {
    fn malformed(error: &serde_json::Error) -> Self {
        // It may quote what the server sent.
        Self::Malformed { cause: plain(&error.to_string()) }
    }

    fn ended(reason: &str) -> Self {
        Self::Ended { reason: plain(reason) }
    }
}

/// How far the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// More is to come.
    More,
    /// It is complete.
    Done,
    /// It goes on, and nothing more of it is wanted.
    CutOff,
}

/// What OpenAI calls it when no more is paid for.
pub(super) const QUOTA_USED_UP: &str = "insufficient_quota";

/// The body of a refusal: OpenAI's code and message, or the text as it is.
pub(super) fn refusal(body: &[u8]) -> (Option<String>, String) {
    #[derive(serde::Deserialize)]
    struct Inner {
        message: Option<String>,
        code: Option<serde_json::Value>,
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
    }
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Said {
        Inner(Inner),
        Text(String),
    }
    #[derive(serde::Deserialize)]
    struct Body {
        error: Option<Said>,
        message: Option<String>,
        detail: Option<serde_json::Value>,
    }
    let as_text = || plain(&String::from_utf8_lossy(body));
    let Ok(read) = serde_json::from_slice::<Body>(body) else { return (None, as_text()) };
    match read.error {
        Some(Said::Inner(inner)) => {
            // Some servers leave the code out, or repeat the status there.
            let names = [inner.code, inner.kind];
            let mut names = names.iter().flatten().filter_map(serde_json::Value::as_str);
            let code = names.clone().find(|name| *name == QUOTA_USED_UP).or_else(|| names.next());
            let code = code.map(plain);
            (code, inner.message.map_or_else(as_text, |message| plain(&message)))
        }
        Some(Said::Text(message)) => (None, plain(&message)),
        None => {
            let detail = read.detail.map(|detail| detail.to_string());
            (None, read.message.or(detail).map_or_else(as_text, |message| plain(&message)))
        }
    }
}

/// What is told of an `error` object within an answer.
fn server_error(error: &serde_json::Value) -> WireError {
    let message = error.get("message").and_then(serde_json::Value::as_str);
    let message = message.map_or_else(|| plain(&error.to_string()), plain);
    WireError::Server { message }
}
