//! What chat and completion requests say in common about generating: how many, how sampled, until
//! when, and in which form the answer goes back.
//!
//! Invariant: an [`Ask`] is checked: every number is in its range, and its seed is settled, drawn
//! here where the client gave none and told in the answer, so that any answer can be had again.

use rocstar_record::draw::{Key, Purpose};
use serde::Deserialize;

use super::error::ApiError;
use super::fields::Fields;
use crate::request::Sampling;

/// Most answers to one request, over all its prompts.
pub(super) const MAX_CHOICES: usize = 1024;
/// Most stop strings.
const MAX_STOP_STRINGS: usize = 16;
/// Longest stop string, in bytes.
const MAX_STOP_STRING_BYTES: usize = 256;
/// Highest temperature: the distribution is flat long before.
const MAX_TEMPERATURE: f32 = 100.0;
/// Bits of a seed that is drawn here: every JSON reader keeps them.
const DRAWN_SEED_BITS: u32 = 53;

/// How the answer goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// At once, when all is generated.
    Whole,
    /// Piece by piece.
    Stream {
        /// A last piece tells the token counts.
        include_usage: bool,
    },
}

/// What is said about generating.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    /// Answers to each prompt.
    pub(super) choices: u32,
    /// Names the random draws; the first choice's, of the first prompt.
    pub(super) key: Key,
    /// How the tokens are drawn.
    pub(super) draw: Sampling,
    /// Most new tokens; `None` as many as the context has room for.
    pub(super) max_new_tokens: Option<usize>,
    /// Texts that end an answer and are not part of it.
    pub(super) stop_strings: Vec<String>,
    /// Tokens that end an answer, besides the model's own.
    pub(super) stop_tokens: Vec<u32>,
    /// The model's own end tokens do not end an answer.
    pub(super) ignore_end: bool,
    /// Control tokens show in the text.
    pub(super) show_special: bool,
    /// Token ids go back with the text.
    pub(super) return_tokens: bool,
    /// How the answer goes back.
    pub(super) answer: Answer,
}

impl Ask {
    /// Takes the common fields. `max_tokens` is read by the caller, since its name and default
    /// depend on the route.
    ///
    /// # Errors
    /// A field has a wrong type or a value out of range, or can't be honoured.
    pub(super) fn take(
        fields: &mut Fields,
        max_new_tokens: Option<usize>,
    ) -> Result<Self, ApiError> {
        fields.accept_unused(&[
            "metadata",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "store",
            "user",
        ]);
        for name in ["frequency_penalty", "presence_penalty"] {
            fields.refuse_unless(name, |value| value.as_f64() == Some(0.0))?;
        }
        fields.refuse_unless("repetition_penalty", |value| value.as_f64() == Some(1.0))?;
        fields.refuse_unless("logit_bias", |value| {
            value.as_object().is_some_and(|map| map.is_empty())
        })?;
        Ok(Self {
            choices: choices(fields)?,
            key: key(fields)?,
            draw: draw(fields)?,
            max_new_tokens,
            stop_strings: stop_strings(fields)?,
            stop_tokens: fields.take("stop_token_ids")?.unwrap_or_default(),
            ignore_end: fields.take("ignore_eos")?.unwrap_or(false),
            show_special: !fields.take("skip_special_tokens")?.unwrap_or(true),
            return_tokens: fields.take("return_token_ids")?.unwrap_or(false),
            answer: answer(fields)?,
        })
    }

    /// Names the draws of one choice.
    pub(super) fn key_of(&self, prompt: usize, choice: u32) -> Key {
        let Key { task, sample, .. } = self.key;
        Key {
            task: task.wrapping_add(prompt as u64),
            sample: sample.wrapping_add(choice),
            ..self.key
        }
    }
}

fn choices(fields: &mut Fields) -> Result<u32, ApiError> {
    let choices = fields.take::<u32>("n")?.unwrap_or(1);
    if choices == 0 || choices as usize > MAX_CHOICES {
        return Err(ApiError::invalid("n", format_args!("must be from 1 to {MAX_CHOICES}")));
    }
    Ok(choices)
}

/// The rest of a draw's name, for callers that keep one for each rollout.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DrawName {
    step: u32,
    task: u64,
    sample: u32,
    turn: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Extension {
    draw: DrawName,
}

fn key(fields: &mut Fields) -> Result<Key, ApiError> {
    let seed = match fields.take::<serde_json::Number>("seed")? {
        // Any 64 bits name a stream, with or without a sign.
        Some(seed) => seed
            .as_i64()
            .map(i64::cast_unsigned)
            .or_else(|| seed.as_u64())
            .ok_or_else(|| ApiError::invalid("seed", "must be a whole number of 64 bits"))?,
        None => uuid::Uuid::new_v4().as_u64_pair().1 & ((1 << DRAWN_SEED_BITS) - 1),
    };
    let DrawName { step, task, sample, turn } =
        fields.take::<Extension>("rocstar")?.unwrap_or_default().draw;
    Ok(Key { step, task, sample, turn, ..Key::new(seed, Purpose::Sampling) })
}

fn draw(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let temperature = fields.take::<f32>("temperature")?.unwrap_or(1.0);
    if !(0.0..=MAX_TEMPERATURE).contains(&temperature) {
        let problem = format_args!("must be from 0 to {MAX_TEMPERATURE}");
        return Err(ApiError::invalid("temperature", problem));
    }
    let top_p = fields.take::<f32>("top_p")?.unwrap_or(1.0);
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(ApiError::invalid("top_p", "must be above 0 and at most 1"));
    }
    let min_p = fields.take::<f32>("min_p")?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&min_p) {
        return Err(ApiError::invalid("min_p", "must be from 0 to 1"));
    }
    // Clients write both 0 and -1 for "all".
    let top_k = match fields.take::<i64>("top_k")?.unwrap_or(0) {
        -1 | 0 => None,
        top_k => match usize::try_from(top_k) {
            Ok(top_k) => Some(top_k),
            Err(_) => return Err(ApiError::invalid("top_k", "must be -1, 0 or more")),
        },
    };
    Ok(Sampling { temperature, top_k, top_p, min_p })
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "must be a string or a list of strings")]
enum Stop {
    One(String),
    Many(Vec<String>),
}

fn stop_strings(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let strings = match fields.take::<Stop>("stop")? {
        None => Vec::new(),
        Some(Stop::One(one)) => vec![one],
        Some(Stop::Many(many)) => many,
    };
    if strings.len() > MAX_STOP_STRINGS {
        let problem = format_args!("may hold at most {MAX_STOP_STRINGS} strings");
        return Err(ApiError::invalid("stop", problem));
    }
    if strings.iter().any(|text| text.is_empty() || text.len() > MAX_STOP_STRING_BYTES) {
        let problem = format_args!("must hold texts of 1 to {MAX_STOP_STRING_BYTES} bytes");
        return Err(ApiError::invalid("stop", problem));
    }
    Ok(strings)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StreamOptions {
    include_usage: bool,
    /// Padding against eavesdroppers on the sizes of pieces: there is none.
    #[serde(rename = "include_obfuscation")]
    _include_obfuscation: Option<bool>,
}

fn answer(fields: &mut Fields) -> Result<Answer, ApiError> {
    let stream = fields.take::<bool>("stream")?.unwrap_or(false);
    let options = fields.take::<StreamOptions>("stream_options")?;
    match (stream, options) {
        (false, Some(_)) => {
            Err(ApiError::invalid("stream_options", "is for requests with `stream: true` only"))
        }
        (false, None) => Ok(Answer::Whole),
        (true, options) => {
            Ok(Answer::Stream { include_usage: options.unwrap_or_default().include_usage })
        }
    }
}

/// Reads a bound on new tokens.
///
/// # Errors
/// It is zero where `least` is one, or no number.
pub(super) fn max_new_tokens(
    fields: &mut Fields,
    name: &'static str,
    least: usize,
) -> Result<Option<usize>, ApiError> {
    let bound = fields.take::<usize>(name)?;
    if bound.is_some_and(|bound| bound < least) {
        return Err(ApiError::invalid(name, format_args!("must be at least {least}")));
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::openai::error::Code;

    fn take(body: &serde_json::Value) -> Result<Ask, ApiError> {
        let mut fields = Fields::read(body.to_string().as_bytes())?;
        let ask = Ask::take(&mut fields, None)?;
        fields.finish()?;
        Ok(ask)
    }

    #[test]
    fn defaults_are_those_of_openai() {
        let ask = take(&json!({"seed": 3})).unwrap();
        let expected = Ask {
            choices: 1,
            key: Key::new(3, Purpose::Sampling),
            draw: Sampling::default(),
            max_new_tokens: None,
            stop_strings: Vec::new(),
            stop_tokens: Vec::new(),
            ignore_end: false,
            show_special: false,
            return_tokens: false,
            answer: Answer::Whole,
        };
        assert_eq!(ask, expected);
    }

    #[test]
    fn without_a_seed_each_request_draws_its_own() {
        let seed = || take(&json!({})).unwrap().key.seed;
        let (first, second) = (seed(), seed());
        assert_ne!(first, second);
        assert!(first < 1 << DRAWN_SEED_BITS);
    }

    #[test]
    fn each_choice_of_each_prompt_has_draws_of_its_own() {
        let ask =
            take(&json!({"seed": -1, "rocstar": {"draw": {"task": 5, "sample": 7}}})).unwrap();
        let key = ask.key_of(2, 3);
        assert_eq!((key.seed, key.task, key.sample), (u64::MAX, 7, 10));
        // The seed that an answer reports may be sent back.
        assert_eq!(take(&json!({"seed": u64::MAX})).unwrap().key.seed, u64::MAX);
        assert!(take(&json!({"seed": 1.5})).is_err());
    }

    #[test]
    fn what_asks_for_nothing_is_accepted() {
        take(&json!({
            "user": "me", "metadata": {"a": "b"}, "store": true, "logit_bias": {},
            "frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1, "top_k": -1
        }))
        .unwrap();
    }

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        let long = "x".repeat(MAX_STOP_STRING_BYTES + 1);
        for (name, value) in [
            ("n", json!(0)),
            ("n", json!(MAX_CHOICES + 1)),
            ("n", json!("two")),
            ("temperature", json!(-0.1)),
            ("temperature", json!(1e30)),
            ("top_p", json!(0)),
            ("top_p", json!(1.5)),
            ("min_p", json!(-1)),
            ("top_k", json!(-2)),
            ("seed", json!(1.5)),
            ("stop", json!([""])),
            ("stop", json!([long])),
            ("stop", json!(7)),
            ("stop", json!(vec!["a"; MAX_STOP_STRINGS + 1])),
            ("stream", json!("yes")),
            ("stream_options", json!({"include_usage": true})),
            ("frequency_penalty", json!(0.5)),
            ("logit_bias", json!({"7": 100})),
        ] {
            let mut body = json!({});
            body[name] = value.clone();
            let error = take(&body).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name), "{value}");
            assert!(matches!(error.code, Code::InvalidValue | Code::Unsupported), "{value}");
        }
    }
}
