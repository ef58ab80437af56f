//! Why a server doesn't answer.

use rocstar_record::draw::Key;

use super::wire::WireError;

/// What keeps a server from being asked. Never the model's doing, and never with a key in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No address was given.
    #[error("no endpoint is given")]
    None,
    /// The settings.
    #[error("the settings of the endpoint `{url}` can't work: {}", .problems.join("; "))]
    Options {
        /// Which.
        url: String,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// The variable with the key isn't set.
    #[error("the endpoint `{url}` needs a key: set the environment variable `{variable}`")]
    KeyMissing {
        /// Which endpoint.
        url: String,
        /// The variable.
        variable: String,
    },
    /// Nothing answers there, or not as such a server does.
    #[error("the endpoint `{url}` can't be reached: {cause}")]
    Unreachable {
        /// Which.
        url: String,
        /// What happened.
        cause: String,
    },
    /// It serves no such model, or several and none was named.
    #[error("the endpoint `{url}` {}; {wanted}", list(.served))]
    Model {
        /// Which.
        url: String,
        /// What it serves.
        served: Vec<String>,
        /// What was asked for.
        wanted: String,
    },
    /// It hides its tokens.
    #[error(
        "the endpoint `{url}` speaks messages only ({kind}): token ids are not to be had there, so \
         nothing it writes can be trained on; rocstar, vLLM and SGLang give them"
    )]
    NoTokens {
        /// Which.
        url: String,
        /// What it is.
        kind: &'static str,
    },
    /// It understood and won't; the same request will never be answered.
    #[error("the endpoint `{url}` refuses with status {status}: {message}")]
    Refused {
        /// Which.
        url: String,
        /// The HTTP status.
        status: u16,
        /// OpenAI's code, where there is one.
        code: Option<String>,
        /// What it says.
        message: String,
    },
    /// One request failed as often as it was tried; others may not.
    #[error("a request failed {tries} times, last at `{url}`: {cause}")]
    Failed {
        /// Where it was sent last.
        url: String,
        /// How often it was sent.
        tries: usize,
        /// What happened last.
        cause: String,
    },
    /// No endpoint works any more.
    #[error("no endpoint answers any more: {}", .causes.join("; "))]
    AllGone {
        /// For each, what happened last.
        causes: Vec<String>,
    },
    /// An answer that can't be taken for what it says it is.
    #[error("the endpoint `{url}` withheld the answer: {cause}")]
    Withheld {
        /// Which.
        url: String,
        /// Why.
        cause: String,
    },
}

fn list(names: &[String]) -> String {
    match names {
        [] => "lists no model".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("serves {}", names.join(", "))
        }
    }
}

impl RemoteError {
    /// Whether no other request can succeed either: keys, names, payment, everything gone.
    pub const fn is_final(&self) -> bool {
        match self {
            // A 429 is a refusal where it says that what was paid for is used up.
            Self::Refused { status, .. } => matches!(status, 401..=405 | 429),
            Self::Failed { .. } | Self::Withheld { .. } => false,
            Self::None
            | Self::Options { .. }
            | Self::KeyMissing { .. }
            | Self::Unreachable { .. }
            | Self::Model { .. }
            | Self::NoTokens { .. }
            | Self::AllGone { .. } => true,
        }
    }

    /// Whether the prompt leaves no room in the model's context.
    pub fn is_context_full(&self) -> bool {
        let Self::Refused { status: 400 | 413 | 422, code, message, .. } = self else {
            return false;
        };
        let says = |text: &str| {
            let text = text.to_lowercase();
            [
                "context_length",
                "context length",
                "maximum context",
                "context window",
                "context size",
            ]
            .iter()
            .any(|words| text.contains(words))
        };
        code.as_deref().is_some_and(says) || says(message)
    }
}

/// One try that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server is full, and says when to come again, perhaps.
    Busy { retry_after_ms: Option<u64>, cause: String },
    /// It broke: the same request may be answered another time, or elsewhere.
    Broken { retry_after_ms: Option<u64>, cause: String },
    /// It won't.
    Refused { status: u16, code: Option<String>, message: String },
    /// It ended the answer on its own grounds.
    Withheld { cause: String },
    /// This answer is none, and it came from a server that answers: parts that don't fit, an end
    /// that is none of the model's. The same request may be answered another time.
    Odd { cause: String },
}

impl Fault {
    pub(super) fn broken(cause: impl Into<String>) -> Self {
        Self::Broken { retry_after_ms: None, cause: cause.into() }
    }

    /// With other words for what the server says.
    pub(super) fn reword(self, word: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Busy { retry_after_ms, cause } => {
                Self::Busy { retry_after_ms, cause: word(&cause) }
            }
            Self::Broken { retry_after_ms, cause } => {
                Self::Broken { retry_after_ms, cause: word(&cause) }
            }
            Self::Refused { status, code, message } => {
                Self::Refused { status, code: code.as_deref().map(&word), message: word(&message) }
            }
            Self::Withheld { cause } => Self::Withheld { cause: word(&cause) },
            Self::Odd { cause } => Self::Odd { cause: word(&cause) },
        }
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        let cause = error.to_string();
        match error {
            // What a server ended on its own grounds is not asked for again.
            WireError::Ended { reason } if reason == "content_filter" => Self::Withheld {
                cause: "its filter of contents took it (`content_filter`)".to_owned(),
            },
            WireError::Ended { .. }
            | WireError::Contradiction { .. }
            | WireError::TooLong { .. } => Self::Odd { cause },
            WireError::Malformed { .. } | WireError::Server { .. } | WireError::Cut { .. } => {
                Self::broken(cause)
            }
        }
    }
}

/// The pause after so many failures before, between half of it and all of it.
pub(super) fn pause_ms(first_ms: u64, longest_ms: u64, failures: usize, draw: Key) -> u64 {
    let full = first_ms.saturating_mul(1 << failures.min(32)).min(longest_ms);
    let purpose = rocstar_record::draw::Purpose::Pauses;
    let share = Key { purpose, ..draw }.at(failures as u64).uniform();
    full / 2 + (full as f64 * share / 2.0) as u64
}

#[cfg(test)]
mod tests {
    use rocstar_record::draw::Purpose;

    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_are_drawn_from_the_key() {
        let key = Key::new(7, Purpose::Sampling);
        for failures in 0..40 {
            let full = (100_u64 << failures.min(20)).min(3000);
            let pause = pause_ms(100, 3000, failures, key);
            assert!(pause >= full / 2 && pause <= full, "{failures}: {pause}");
            assert_eq!(pause, pause_ms(100, 3000, failures, key));
        }
        assert_ne!(pause_ms(100, 3000, 3, key), pause_ms(100, 3000, 3, Key { sample: 1, ..key }));
    }
}
