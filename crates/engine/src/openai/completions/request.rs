//! The body of `/v1/completions`.
//!
//! Invariant: token ids that come in are used as they are, never decoded and encoded again.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

use crate::openai::ask::{self, Ask};
use crate::openai::chat::request::MAX_TOP_LOG_PROBS;
use crate::openai::error::ApiError;
use crate::openai::fields::Fields;

/// New tokens where the client says nothing, as OpenAI documents.
const DEFAULT_NEW_TOKENS: usize = 16;

/// One prompt or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::openai) enum Prompts {
    /// As text, still to be encoded.
    Texts(Vec<String>),
    /// As token ids.
    Tokens(Vec<Vec<u32>>),
}

impl Prompts {
    /// How many.
    pub(in crate::openai) const fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(tokens) => tokens.len(),
        }
    }
}

/// A checked request.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::openai) struct CompletionRequest {
    /// Which model; `None` the one that is served.
    pub(in crate::openai) model: Option<String>,
    /// What is to be continued.
    pub(in crate::openai) prompts: Prompts,
    /// The answer begins with the prompt.
    pub(in crate::openai) echo: bool,
    /// Log-probabilities go back, with so many alternatives for each token.
    pub(in crate::openai) log_probs: Option<usize>,
    /// Text gets the model's begin token, where it has one.
    pub(in crate::openai) add_special_tokens: bool,
    /// The rest.
    pub(in crate::openai) ask: Ask,
}

impl CompletionRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// It is not JSON, or a field can't be accepted.
    pub(in crate::openai) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::read(body)?;
        fields.refuse_unless("suffix", |value| value == "")?;
        fields.refuse_unless("best_of", |value| *value == 1)?;
        let echo = fields.take("echo")?.unwrap_or(false);
        let request = Self {
            model: fields.take("model")?,
            prompts: fields.require("prompt")?,
            echo,
            log_probs: log_probs(&mut fields)?,
            add_special_tokens: fields.take("add_special_tokens")?.unwrap_or(true),
            ask: {
                // Nothing new after an echo is a way to score a text.
                let bound = ask::max_new_tokens(&mut fields, "max_tokens", usize::from(!echo))?;
                Ask::take(&mut fields, Some(bound.unwrap_or(DEFAULT_NEW_TOKENS)))?
            },
        };
        fields.finish()?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), ApiError> {
        let prompts = self.prompts.len();
        if prompts == 0 {
            return Err(ApiError::invalid("prompt", "must hold at least one prompt"));
        }
        let choices = prompts.saturating_mul(self.ask.choices as usize);
        if choices > ask::MAX_CHOICES {
            let most = ask::MAX_CHOICES;
            let problem = format_args!("times `n` asks for {choices} answers, at most {most} go");
            return Err(ApiError::invalid("prompt", problem));
        }
        Ok(())
    }
}

fn log_probs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    match fields.take::<usize>("logprobs")? {
        Some(top) if top > MAX_TOP_LOG_PROBS => {
            let problem = format_args!("must be from 0 to {MAX_TOP_LOG_PROBS}");
            Err(ApiError::invalid("logprobs", problem))
        }
        top => Ok(top),
    }
}

/// Read by hand: an untagged enum would hold a copy of the whole list, many times its size.
impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PromptsVisitor)
    }
}

struct PromptsVisitor;

const EXPECTED: &str = "a string, a list of strings, a list of token ids, or a list of such lists";

/// The first item of a list tells what the others have to be.
enum First {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
}

impl<'de> Visitor<'de> for PromptsVisitor {
    type Value = Prompts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(EXPECTED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Prompts, E> {
        Ok(Prompts::Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Prompts, A::Error> {
        fn rest<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
            first: T,
            mut items: A,
        ) -> Result<Vec<T>, A::Error> {
            let mut all = vec![first];
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
        Ok(match items.next_element()? {
            None => Prompts::Tokens(Vec::new()),
            Some(First::Text(text)) => Prompts::Texts(rest(text, items)?),
            Some(First::Token(token)) => Prompts::Tokens(vec![rest(token, items)?]),
            Some(First::Tokens(tokens)) => Prompts::Tokens(rest(tokens, items)?),
        })
    }
}

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FirstVisitor;

        impl<'de> Visitor<'de> for FirstVisitor {
            type Value = First;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string, a token id or a list of token ids")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<First, E> {
                Ok(First::Text(text.to_owned()))
            }

            fn visit_u64<E: serde::de::Error>(self, token: u64) -> Result<First, E> {
                let token = u32::try_from(token);
                token.map(First::Token).map_err(|_| E::custom("a token id is too large"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<First, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = items.next_element()? {
                    tokens.push(token);
                }
                if tokens.is_empty() {
                    return Err(A::Error::custom("a prompt of no tokens can't be continued"));
                }
                Ok(First::Tokens(tokens))
            }
        }

        from.deserialize_any(FirstVisitor)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &Value) -> Result<CompletionRequest, ApiError> {
        CompletionRequest::read(body.to_string().as_bytes())
    }

    #[test]
    fn a_prompt_comes_in_four_forms() {
        let prompts = |prompt: Value| read(&json!({"prompt": prompt})).unwrap().prompts;
        assert_eq!(prompts(json!("a")), Prompts::Texts(vec!["a".into()]));
        assert_eq!(prompts(json!(["a", "b"])), Prompts::Texts(vec!["a".into(), "b".into()]));
        assert_eq!(prompts(json!([1, 2])), Prompts::Tokens(vec![vec![1, 2]]));
        assert_eq!(prompts(json!([[1], [2, 3]])), Prompts::Tokens(vec![vec![1], vec![2, 3]]));
    }

    #[test]
    fn other_prompts_are_refused() {
        for prompt in [
            json!(null),
            json!([]),
            json!(7),
            json!([1, "a"]),
            json!(["a", 1]),
            json!([-1]),
            json!([1_u64 << 40]),
            json!([[1], "a"]),
            json!([[]]),
        ] {
            let error = read(&json!({"prompt": prompt})).unwrap_err();
            let param = error.param.unwrap_or_default();
            assert!(param.starts_with("prompt"), "{prompt}: {param}: {}", error.message);
        }
    }

    #[test]
    fn defaults_are_those_of_openai() {
        let request = read(&json!({"prompt": "a"})).unwrap();
        assert_eq!(request.ask.max_new_tokens, Some(16));
        assert_eq!((request.log_probs, request.echo), (None, false));
    }

    #[test]
    fn only_an_echo_may_have_nothing_after_it() {
        let error = read(&json!({"prompt": "a", "max_tokens": 0})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("max_tokens"));
        let echo = read(&json!({"prompt": "a", "max_tokens": 0, "echo": true})).unwrap();
        assert_eq!(echo.ask.max_new_tokens, Some(0));
    }

    #[test]
    fn the_number_of_answers_is_bounded() {
        let error = read(&json!({"prompt": vec!["a"; 600], "n": 2})).unwrap_err();
        assert!(error.message.contains("1200 answers"), "{}", error.message);
    }
}
