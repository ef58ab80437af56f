//! Whether the sizes of a configuration can be those of a model: positive, divisible where they
//! must be, and small enough that products of them can't overflow.

use crate::config::{ModelConfig, Rope, RopeScaling};

/// A field, as `config.json` spells it, and what is wrong with it.
pub(super) type Problem = (&'static str, String);

/// A field, its largest value, and where it stands.
type Limit = (&'static str, usize, fn(&ModelConfig) -> usize);

/// Largest values; far beyond every known model, and their products fit 64 bits.
const LARGEST: [Limit; 8] = [
    ("vocab_size", 1 << 24, |config| config.vocabulary_size),
    ("hidden_size", 1 << 20, |config| config.hidden_size),
    ("num_hidden_layers", 1 << 12, |config| config.layers),
    ("num_attention_heads", 1 << 16, |config| config.heads),
    ("num_key_value_heads", 1 << 16, |config| config.key_value_heads),
    ("head_dim", 1 << 14, |config| config.head_size),
    ("intermediate_size", 1 << 22, |config| config.feed_forward_size),
    ("max_position_embeddings", 1 << 31, |config| config.context_tokens),
];

/// Finds the first problem.
pub(super) fn check(config: &ModelConfig) -> Result<(), Problem> {
    for (field, largest, size) in LARGEST {
        match size(config) {
            0 => return Err((field, "is 0, expected a positive number".into())),
            size if size > largest => {
                return Err((field, format!("is {size}; at most {largest} is supported")));
            }
            _ => {}
        }
    }
    if !config.heads.is_multiple_of(config.key_value_heads) {
        let problem =
            format!("is {}, which does not divide {} heads", config.key_value_heads, config.heads);
        return Err(("num_key_value_heads", problem));
    }
    if !config.head_size.is_multiple_of(2) {
        let problem = format!("is {}; rotary positions need an even number", config.head_size);
        return Err(("head_dim", problem));
    }
    positive("rms_norm_eps", config.norm_epsilon.into())?;
    if !(config.initializer_range.is_finite() && config.initializer_range >= 0.0) {
        let problem = format!("is {}, expected a number from 0", config.initializer_range);
        return Err(("initializer_range", problem));
    }
    rope(&config.rope)?;
    tokens(config)
}

fn positive(field: &'static str, value: f64) -> Result<(), Problem> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err((field, format!("is {value}, expected a positive number")))
}

fn rope(rope: &Rope) -> Result<(), Problem> {
    positive("rope_theta", rope.theta)?;
    match rope.scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor } => positive("rope_scaling.factor", factor),
        RopeScaling::Llama3 {
            factor,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_context_tokens,
        } => {
            positive("rope_scaling.factor", factor)?;
            positive("rope_scaling.low_freq_factor", low)?;
            positive("rope_scaling.high_freq_factor", high)?;
            if high <= low {
                let problem = format!("is {high}, not above low_freq_factor {low}");
                return Err(("rope_scaling.high_freq_factor", problem));
            }
            if original_context_tokens == 0 {
                let problem = "is 0, expected a positive number".into();
                return Err(("rope_scaling.original_max_position_embeddings", problem));
            }
            Ok(())
        }
    }
}

/// Tokens that the embedding has no row for.
fn tokens(config: &ModelConfig) -> Result<(), Problem> {
    let begin = config.begin_token.iter().map(|token| ("bos_token_id", *token));
    let end = config.end_tokens.iter().map(|token| ("eos_token_id", *token));
    for (field, token) in begin.chain(end) {
        if token as usize >= config.vocabulary_size {
            let problem =
                format!("is {token}, but the embedding has {} rows", config.vocabulary_size);
            return Err((field, problem));
        }
    }
    Ok(())
}
