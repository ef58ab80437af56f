//! `config.json` and `generation_config.json`, both ways.
//!
//! Invariant: a field that would change the arithmetic and isn't supported is an error that names
//! it. Fields that change nothing here are passed over, as `transformers` does. Defaults for absent
//! fields are those of the family's class in `transformers`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Error, StoreAs, sizes};
use crate::config::{Architecture, ModelConfig, Rope, RopeScaling};

/// The file's name in a folder.
pub(super) const FILE: &str = "config.json";
const GENERATION_FILE: &str = "generation_config.json";

const SUPPORTED: &str = "LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM";

/// Class and `model_type` of each family.
const FAMILIES: [(Architecture, &str, &str); 3] = [
    (Architecture::Llama, "LlamaForCausalLM", "llama"),
    (Architecture::Qwen2, "Qwen2ForCausalLM", "qwen2"),
    (Architecture::Qwen3, "Qwen3ForCausalLM", "qwen3"),
];

/// Reads the configuration of a folder.
pub(super) fn read(folder: &Path) -> Result<ModelConfig, Error> {
    let path = folder.join(FILE);
    let mut config = Fields::open(&path)?.config()?;
    let generation = folder.join(GENERATION_FILE);
    if generation.exists() {
        let fields = Fields::open(&generation)?;
        for token in fields.tokens("eos_token_id")?.unwrap_or_default() {
            if !config.end_tokens.contains(&token) {
                config.end_tokens.push(token);
            }
        }
        sizes::check(&config).map_err(|(field, problem)| fields.wrong(field, problem))?;
    }
    Ok(config)
}

/// The object of a JSON file, with the file's name for messages.
pub(super) struct Fields<'a> {
    path: &'a Path,
    object: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let object = serde_json::from_slice(&bytes)
            .map_err(|source| Error::Json { path: path.into(), source })?;
        Ok(Self { path, object })
    }

    pub(super) fn wrong(&self, field: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Field { path: self.path.into(), field: field.into(), problem: problem.into() }
    }

    /// A field that is there and not null.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        field: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let problem = || format!("is {value}, expected {expected}");
        read(value).map(Some).ok_or_else(|| self.wrong(field, problem()))
    }

    fn size(&self, field: &str) -> Result<Option<usize>, Error> {
        let read = |value: &Value| usize::try_from(value.as_u64()?).ok();
        self.typed(field, "a whole number", read)
    }

    pub(super) fn required_size(&self, field: &str) -> Result<usize, Error> {
        self.size(field)?.ok_or_else(|| self.wrong(field, "is missing"))
    }

    pub(super) fn number(&self, field: &str) -> Result<Option<f64>, Error> {
        self.typed(field, "a number", Value::as_f64)
    }

    fn flag(&self, field: &str) -> Result<bool, Error> {
        Ok(self.typed(field, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&str>, Error> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let problem = || format!("is {value}, expected a text");
        value.as_str().map(Some).ok_or_else(|| self.wrong(field, problem()))
    }

    /// A token or a list of tokens.
    fn tokens(&self, field: &str) -> Result<Option<Vec<u32>>, Error> {
        let token = |value: &Value| u32::try_from(value.as_u64()?).ok();
        self.typed(field, "a token or a list of tokens", |value| match value {
            Value::Array(values) => values.iter().map(token).collect(),
            value => Some(vec![token(value)?]),
        })
    }

    fn architecture(&self) -> Result<Architecture, Error> {
        let unknown = |found: &str| Error::Architecture {
            path: self.path.into(),
            found: found.into(),
            supported: SUPPORTED,
        };
        if let Some(classes) = self.get("architectures").and_then(Value::as_array)
            && let Some(class) = classes.first()
        {
            let class = class.as_str().unwrap_or_default();
            let family = FAMILIES.iter().find(|(_, known, _)| *known == class);
            return family.map(|family| family.0).ok_or_else(|| unknown(class));
        }
        let Some(kind) = self.text("model_type")? else {
            return Err(self.wrong("architectures", "is missing, and so is `model_type`"));
        };
        let family = FAMILIES.iter().find(|(_, _, known)| *known == kind);
        family.map(|family| family.0).ok_or_else(|| unknown(kind))
    }

    fn config(&self) -> Result<ModelConfig, Error> {
        let architecture = self.architecture()?;
        self.refuse_unsupported()?;
        let hidden_size = self.required_size("hidden_size")?;
        let heads = self.required_size("num_attention_heads")?;
        let default_head_size = match architecture {
            Architecture::Llama | Architecture::Qwen2 => {
                hidden_size.checked_div(heads).unwrap_or(0)
            }
            Architecture::Qwen3 => 128,
        };
        let default_context = if architecture == Architecture::Llama { 2048 } else { 32_768 };
        let (begin_token, end_tokens) = self.begin_and_end(architecture)?;
        let config = ModelConfig {
            architecture,
            vocabulary_size: self.required_size("vocab_size")?,
            hidden_size,
            layers: self.required_size("num_hidden_layers")?,
            heads,
            key_value_heads: self.size("num_key_value_heads")?.unwrap_or(heads),
            head_size: self.size("head_dim")?.unwrap_or(default_head_size),
            feed_forward_size: self.required_size("intermediate_size")?,
            norm_epsilon: self.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope: self.rope()?,
            tied_embeddings: self.flag("tie_word_embeddings")?,
            context_tokens: self.size("max_position_embeddings")?.unwrap_or(default_context),
            begin_token,
            end_tokens,
            initializer_range: self.number("initializer_range")?.unwrap_or(0.02) as f32,
        };
        sizes::check(&config).map_err(|(field, problem)| self.wrong(field, problem))?;
        Ok(config)
    }

    /// Tokens that begin a text and end a generation. Only an absent field has a default; null says
    /// that there is none.
    fn begin_and_end(&self, architecture: Architecture) -> Result<(Option<u32>, Vec<u32>), Error> {
        let is_llama = architecture == Architecture::Llama;
        let tokens = |field: &str, of_llama: u32| match self.tokens(field)? {
            Some(tokens) => Ok(tokens),
            None if is_llama && !self.object.contains_key(field) => Ok(vec![of_llama]),
            None => Ok(Vec::new()),
        };
        Ok((tokens("bos_token_id", 1)?.first().copied(), tokens("eos_token_id", 2)?))
    }

    fn refuse_unsupported(&self) -> Result<(), Error> {
        for field in ["attention_bias", "mlp_bias", "use_sliding_window"] {
            if self.flag(field)? {
                return Err(self.wrong(field, "is true, which is not supported"));
            }
        }
        match self.text("hidden_act")? {
            None | Some("silu" | "swish") => {}
            Some(other) => {
                return Err(self.wrong("hidden_act", format!("is `{other}`; supported is `silu`")));
            }
        }
        for (field, neutral) in
            [("partial_rotary_factor", 1.0), ("attention_dropout", 0.0), ("pretraining_tp", 1.0)]
        {
            if let Some(value) = self.number(field)?
                && value != neutral
            {
                let problem = format!("is {value}; supported is {neutral}");
                return Err(self.wrong(field, problem));
            }
        }
        if self.get("quantization_config").is_some() {
            let problem = "is set; quantised safetensors are not supported (F32, F16 and BF16 are)";
            return Err(self.wrong("quantization_config", problem));
        }
        let kinds = self.get("layer_types").and_then(Value::as_array);
        let other = kinds.and_then(|kinds| kinds.iter().find(|kind| *kind != "full_attention"));
        if let Some(kind) = other {
            let problem = format!("has {kind}; supported is \"full_attention\"");
            return Err(self.wrong("layer_types", problem));
        }
        Ok(())
    }

    /// Rotation: `rope_theta` with `rope_scaling`, or both in `rope_parameters`.
    fn rope(&self) -> Result<Rope, Error> {
        let outer = self.number("rope_theta")?;
        let name =
            ["rope_parameters", "rope_scaling"].into_iter().find(|name| self.get(name).is_some());
        let Some(name) = name else {
            let theta = outer.unwrap_or(10_000.0);
            return Ok(Rope { theta, scaling: RopeScaling::None });
        };
        let Some(Value::Object(object)) = self.get(name) else {
            return Err(self.wrong(name, "is no object"));
        };
        let object = object.iter().map(|(key, value)| (format!("{name}.{key}"), value.clone()));
        let inner = Fields { path: self.path, object: object.collect() };
        let field = |key: &str| format!("{name}.{key}");
        let number = |key: &str| inner.number(&field(key));
        let required =
            |key: &str| number(key)?.ok_or_else(|| inner.wrong(field(key), "is missing"));
        if number("partial_rotary_factor")?.is_some_and(|factor| factor != 1.0) {
            let problem = "is not 1; partial rotation is not supported";
            return Err(inner.wrong(field("partial_rotary_factor"), problem));
        }
        let theta = number("rope_theta")?.or(outer).unwrap_or(10_000.0);
        // Before transformers 4.43 the key was `type`.
        let kind = match inner.text(&field("rope_type"))? {
            Some(kind) => Some(kind),
            None => inner.text(&field("type"))?,
        };
        let scaling = match kind {
            None | Some("default") => RopeScaling::None,
            Some("linear") => RopeScaling::Linear { factor: required("factor")? },
            Some("llama3") => RopeScaling::Llama3 {
                factor: required("factor")?,
                low_frequency_factor: required("low_freq_factor")?,
                high_frequency_factor: required("high_freq_factor")?,
                original_context_tokens: inner
                    .required_size(&field("original_max_position_embeddings"))?,
            },
            Some(other) => {
                let problem =
                    format!("is `{other}`; supported are `default`, `linear` and `llama3`");
                return Err(inner.wrong(field("rope_type"), problem));
            }
        };
        Ok(Rope { theta, scaling })
    }
}

/// `config.json` as it is written. Every field that a reader might default is stated.
#[derive(Serialize)]
struct Written {
    architectures: [&'static str; 1],
    model_type: &'static str,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    hidden_act: &'static str,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: f64,
    rope_scaling: Option<WrittenScaling>,
    tie_word_embeddings: bool,
    attention_bias: bool,
    attention_dropout: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    mlp_bias: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    use_sliding_window: Option<bool>,
    bos_token_id: Option<u32>,
    eos_token_id: Value,
    initializer_range: f32,
    use_cache: bool,
    torch_dtype: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "rope_type", rename_all = "snake_case")]
enum WrittenScaling {
    Linear {
        factor: f64,
    },
    Llama3 {
        factor: f64,
        low_freq_factor: f64,
        high_freq_factor: f64,
        original_max_position_embeddings: usize,
    },
}

/// The text of `config.json`.
pub(super) fn write(config: &ModelConfig, store: StoreAs) -> serde_json::Result<Vec<u8>> {
    let family = FAMILIES.iter().find(|(family, _, _)| *family == config.architecture);
    let (_, class, kind) = family.copied().unwrap_or(FAMILIES[0]);
    let is_llama = config.architecture == Architecture::Llama;
    let written = Written {
        architectures: [class],
        model_type: kind,
        vocab_size: config.vocabulary_size,
        hidden_size: config.hidden_size,
        intermediate_size: config.feed_forward_size,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        num_key_value_heads: config.key_value_heads,
        head_dim: config.head_size,
        hidden_act: "silu",
        max_position_embeddings: config.context_tokens,
        rms_norm_eps: config.norm_epsilon,
        rope_theta: config.rope.theta,
        rope_scaling: scaling(config.rope.scaling),
        tie_word_embeddings: config.tied_embeddings,
        attention_bias: false,
        attention_dropout: 0.0,
        mlp_bias: is_llama.then_some(false),
        use_sliding_window: (!is_llama).then_some(false),
        bos_token_id: config.begin_token,
        eos_token_id: match config.end_tokens.as_slice() {
            [] => Value::Null,
            [token] => (*token).into(),
            tokens => tokens.into(),
        },
        initializer_range: config.initializer_range,
        use_cache: true,
        torch_dtype: store.torch_name(),
    };
    let mut text = serde_json::to_vec_pretty(&written)?;
    text.push(b'\n');
    Ok(text)
}

const fn scaling(scaling: RopeScaling) -> Option<WrittenScaling> {
    match scaling {
        RopeScaling::None => None,
        RopeScaling::Linear { factor } => Some(WrittenScaling::Linear { factor }),
        RopeScaling::Llama3 {
            factor,
            low_frequency_factor,
            high_frequency_factor,
            original_context_tokens,
        } => Some(WrittenScaling::Llama3 {
            factor,
            low_freq_factor: low_frequency_factor,
            high_freq_factor: high_frequency_factor,
            original_max_position_embeddings: original_context_tokens,
        }),
    }
}
