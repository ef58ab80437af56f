//! An answer of SGLang's `/generate`, whole.
//!
//! It is not streamed: each piece of such a stream repeats all tokens before it, unless the server
//! was started another way, and the stream doesn't say which.

use serde::Deserialize;
use serde_json::Value;

use super::completion::GeneratedTokens;
use super::{WireError, server_error};

/// Reads one answer.
#[derive(Debug)]
pub struct SglangReading {
    body: Vec<u8>,
    most_bytes: usize,
    max_new_tokens: usize,
}

#[derive(Debug, Deserialize)]
struct Body {
    #[serde(default)]
    meta_info: Option<MetaInfo>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct MetaInfo {
    finish_reason: Option<FinishReason>,
    #[serde(default)]
    output_token_logprobs: Option<Vec<TokenLogProb>>,
    #[serde(default)]
    weight_version: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct FinishReason {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    matched: Option<Value>,
}

/// Log-probability, id, and the token's text, which may be left out.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "the text stands in the list and is not wanted")]
struct TokenLogProb(f32, u32, #[serde(default)] Option<serde::de::IgnoredAny>);

impl SglangReading {
    /// Reads an answer of at most so many tokens.
    pub const fn new(max_new_tokens: usize, most_bytes: usize) -> Self {
        Self { body: Vec::new(), most_bytes, max_new_tokens }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// They are too many.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if self.body.len() + bytes.len() > self.most_bytes {
            return Err(WireError::TooLong { what: "the answer", most_bytes: self.most_bytes });
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// The tokens, when all bytes are here.
    ///
    /// # Errors
    /// Something is missing, or doesn't fit.
    pub fn finish(self) -> Result<GeneratedTokens, WireError> {
        let body: Body =
            serde_json::from_slice(&self.body).map_err(|error| WireError::malformed(&error))?;
        if let Some(error) = body.error.filter(|error| !error.is_null()) {
            return Err(server_error(&error));
        }
        let info = body.meta_info.ok_or(WireError::Cut { missing: "there is no `meta_info`" })?;
        let finish =
            info.finish_reason.ok_or(WireError::Cut { missing: "there is no `finish_reason`" })?;
        let all = info
            .output_token_logprobs
            .ok_or(WireError::Cut { missing: "there is no `output_token_logprobs`" })?;
        let version = info.weight_version.as_ref().and_then(version);
        let mut read = GeneratedTokens {
            tokens: all.iter().map(|token| token.1).collect(),
            log_probs: all.iter().map(|token| token.0).collect(),
            weight_versions: version.map(|version| (version, all.len())).into_iter().collect(),
            ..GeneratedTokens::default()
        };
        if read.tokens.len() > self.max_new_tokens {
            read.cut(self.max_new_tokens);
            return Ok(read);
        }
        match finish.kind.as_str() {
            "stop" => {
                let matched = finish.matched.as_ref().and_then(Value::as_u64);
                let last = read.tokens.last().map(|last| u64::from(*last));
                if matched.is_some() && matched != last {
                    let problem = "the stop token is not the last of the tokens".to_owned();
                    return Err(WireError::Contradiction { problem });
                }
                read.is_stopped = true;
            }
            "length" => read.is_context_full = read.tokens.len() < self.max_new_tokens,
            other => {
                return Err(WireError::ended(finish.message.as_deref().unwrap_or(other)));
            }
        }
        Ok(read)
    }
}

/// The version that whoever loaded the weights gave them, where it is a number.
fn version(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn read(meta_info: &Value) -> Result<GeneratedTokens, WireError> {
        let mut reading = SglangReading::new(3, 1 << 20);
        reading.push(json!({"text": "", "meta_info": meta_info}).to_string().as_bytes())?;
        reading.finish()
    }

    #[test]
    fn tokens_are_read_with_what_is_told_of_them() {
        let read = read(&json!({
            "finish_reason": {"type": "stop", "matched": 5}, "weight_version": "12",
            "output_token_logprobs": [[-0.5, 4, null], [-0.25, 5, "x"]],
        }));
        let expected = GeneratedTokens {
            tokens: vec![4, 5],
            log_probs: vec![-0.5, -0.25],
            weight_versions: vec![(12, 2)],
            is_stopped: true,
            ..GeneratedTokens::default()
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_is_not_an_end_of_the_model_is_a_fault() {
        let aborted = json!({"finish_reason": {"type": "abort", "message": "no memory"},
                             "output_token_logprobs": []});
        assert_eq!(read(&aborted), Err(WireError::Ended { reason: "no memory".to_owned() }));
        let trimmed = json!({"finish_reason": {"type": "stop", "matched": 5},
                             "output_token_logprobs": [[-0.5, 4, null]]});
        assert!(matches!(read(&trimmed), Err(WireError::Contradiction { .. })));
        let over = json!({"finish_reason": {"type": "stop", "matched": 5},
                          "output_token_logprobs": [[-1, 1], [-1, 2], [-1, 3], [-1, 5]]});
        let over = read(&over).expect("cut off");
        assert_eq!((over.tokens, over.is_stopped), (vec![1, 2, 3], false));
    }
}
