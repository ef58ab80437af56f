//! A model from a GGUF file: its shape from metadata, its weights under Hugging Face's names.

use std::collections::BTreeMap;

use super::{Gguf, TensorInfo, TensorType};
use crate::config::{Architecture, ModelConfig, Rope, RopeScaling};
use crate::files::read::{self, RowOrder, Stored};
use crate::files::{Error, Format, Inspection, Loaded, Progress, Source, TensorEntry, sizes};
use crate::parameters::{LayerSlot, Layout, Slot};

/// Divisors of the rotary frequencies, one for each pair of a head; not a weight.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Reads the whole model.
pub(in crate::files) fn load(gguf: &Gguf, progress: Progress<'_>) -> Result<Loaded, Error> {
    let config = config(gguf)?;
    let layout = Layout::new(&config);
    let tensors = layout.tensors().iter();
    let names: BTreeMap<String, (String, RowOrder)> = tensors
        .map(|tensor| (name(tensor.slot), (tensor.name.clone(), row_order(&config, tensor.slot))))
        .collect();
    let mut stored = BTreeMap::new();
    for tensor in gguf.tensors() {
        if tensor.name == ROPE_FACTORS {
            continue;
        }
        // A name that is unknown here stays as it is, and is refused as no part of the model.
        let known = names.get(&tensor.name).cloned();
        let (name, rows) = known.unwrap_or_else(|| (tensor.name.clone(), RowOrder::Same));
        if stored.insert(name, gguf.stored(tensor, rows)).is_some() {
            return Err(Error::Header {
                path: gguf.path().into(),
                field: format!("tensor \"{}\"", tensor.name),
                problem: "stands there twice".into(),
            });
        }
    }
    let parameters = read::parameters(gguf.path(), &config, &stored, progress)?;
    let source = Source { path: gguf.path().into(), format: Format::Gguf };
    Ok(Loaded { config, parameters, source })
}

/// Reads the header.
pub(in crate::files) fn inspect(gguf: &Gguf) -> Result<Inspection, Error> {
    let tensors = gguf.tensors().iter().map(|tensor| TensorEntry {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        stored_as: tensor.format.name(),
        bytes: tensor.range.len() as u64,
    });
    Ok(Inspection {
        source: Source { path: gguf.path().into(), format: Format::Gguf },
        config: config(gguf)?,
        tensors: tensors.collect(),
        has_tokenizer: gguf.metadata("tokenizer.ggml.tokens").is_some(),
        has_chat_template: gguf.metadata("tokenizer.chat_template").is_some(),
    })
}

impl Gguf {
    fn stored<'a>(&'a self, tensor: &'a TensorInfo, rows: RowOrder) -> Stored<'a> {
        Stored {
            path: self.path(),
            name: &tensor.name,
            shape: &tensor.shape,
            format: match tensor.format {
                TensorType::Known(format) => Ok(format),
                TensorType::Unknown(_) => Err(tensor.format.name()),
            },
            bytes: &self.mapped.bytes()[tensor.range.clone()],
            rows,
        }
    }
}

/// The name of a weight in GGUF.
fn name(slot: Slot) -> String {
    let (layer, slot) = match slot {
        Slot::Embedding => return "token_embd.weight".into(),
        Slot::FinalNorm => return "output_norm.weight".into(),
        Slot::Head => return "output.weight".into(),
        Slot::Layer(layer, slot) => (layer, slot),
    };
    let name = match slot {
        LayerSlot::AttentionNorm => "attn_norm.weight",
        LayerSlot::Query => "attn_q.weight",
        LayerSlot::Key => "attn_k.weight",
        LayerSlot::Value => "attn_v.weight",
        LayerSlot::QueryBias => "attn_q.bias",
        LayerSlot::KeyBias => "attn_k.bias",
        LayerSlot::ValueBias => "attn_v.bias",
        LayerSlot::QueryNorm => "attn_q_norm.weight",
        LayerSlot::KeyNorm => "attn_k_norm.weight",
        LayerSlot::Output => "attn_output.weight",
        LayerSlot::FeedForwardNorm => "ffn_norm.weight",
        LayerSlot::Gate => "ffn_gate.weight",
        LayerSlot::Up => "ffn_up.weight",
        LayerSlot::Down => "ffn_down.weight",
    };
    format!("blk.{layer}.{name}")
}

/// Only the `llama` architecture reorders, and only queries and keys.
fn row_order(config: &ModelConfig, slot: Slot) -> RowOrder {
    match (config.architecture, slot) {
        (Architecture::Llama, Slot::Layer(_, LayerSlot::Query | LayerSlot::Key)) => {
            RowOrder::Interleaved { head_size: config.head_size }
        }
        _ => RowOrder::Same,
    }
}

/// The shape, from the metadata.
pub(super) fn config(gguf: &Gguf) -> Result<ModelConfig, Error> {
    let (architecture, prefix) = architecture(gguf)?;
    let keys = Keys { gguf, prefix };
    keys.refuse_unsupported()?;
    let hidden_size = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let head_size = keys.head_size(hidden_size, heads)?;
    let config = ModelConfig {
        architecture,
        vocabulary_size: keys.vocabulary_size()?,
        hidden_size,
        layers: keys.size("block_count")?,
        heads,
        key_value_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(heads),
        head_size,
        feed_forward_size: keys.size("feed_forward_length")?,
        norm_epsilon: keys.required("attention.layer_norm_rms_epsilon", Gguf::number)? as f32,
        rope: keys.rope(head_size)?,
        tied_embeddings: gguf.tensors().iter().all(|tensor| tensor.name != "output.weight"),
        context_tokens: keys.size("context_length")?,
        begin_token: keys.token("bos_token_id")?,
        end_tokens: keys.end_tokens()?,
        initializer_range: 0.02,
    };
    sizes::check(&config).map_err(|(field, problem)| gguf.wrong(&keys.spelled(field), problem))?;
    Ok(config)
}

fn architecture(gguf: &Gguf) -> Result<(Architecture, &'static str), Error> {
    let key = "general.architecture";
    let Some(name) = gguf.text(key)? else { return Err(gguf.wrong(key, "is missing")) };
    match name {
        "llama" => Ok((Architecture::Llama, "llama")),
        "qwen2" => Ok((Architecture::Qwen2, "qwen2")),
        "qwen3" => Ok((Architecture::Qwen3, "qwen3")),
        other => Err(Error::Architecture {
            path: gguf.path().into(),
            found: other.into(),
            supported: "llama, qwen2, qwen3",
        }),
    }
}

/// The metadata under an architecture's prefix.
struct Keys<'a> {
    gguf: &'a Gguf,
    prefix: &'static str,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Gguf, &str) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let key = self.key(name);
        read(self.gguf, &key)?.ok_or_else(|| self.gguf.wrong(&key, "is missing"))
    }

    fn size(&self, name: &str) -> Result<usize, Error> {
        self.required(name, |_, _| self.optional_size(name))
    }

    /// A size; a list of sizes, one a layer, counts if all are equal.
    fn optional_size(&self, name: &str) -> Result<Option<usize>, Error> {
        let key = self.key(name);
        if let Some(super::Value::Array(_)) = self.gguf.metadata(&key) {
            let sizes = self.gguf.integers(&key)?.unwrap_or_default();
            let equal = sizes.windows(2).all(|pair| pair[0] == pair[1]);
            let size = sizes.first().filter(|_| equal);
            let size = size.and_then(|size| usize::try_from(*size).ok());
            let problem = "differs from layer to layer, which is not supported";
            return size.map(Some).ok_or_else(|| self.gguf.wrong(&key, problem));
        }
        let Some(size) = self.gguf.typed(&key, "a size", super::Value::as_integer)? else {
            return Ok(None);
        };
        let problem = || format!("is {size}, expected a size");
        usize::try_from(size).map(Some).map_err(|_| self.gguf.wrong(&key, problem()))
    }

    /// Features that change the arithmetic and aren't built in.
    fn refuse_unsupported(&self) -> Result<(), Error> {
        let refused = [
            ("expert_count", "mixtures of experts are not supported"),
            ("attention.sliding_window", "sliding-window attention is not supported"),
            ("attention.clamp_kqv", "clamping is not supported"),
            ("logit_scale", "scaled logits are not supported"),
        ];
        for (name, problem) in refused {
            let key = self.key(name);
            if self.gguf.number(&key)?.is_some_and(|value| value != 0.0) {
                return Err(self.gguf.wrong(&key, format!("is set; {problem}")));
            }
        }
        let key = "split.count";
        if self.gguf.number(key)?.is_some_and(|count| count > 1.0) {
            let problem = "says that this is one of several files; merge them first with \
                           `llama-gguf-split --merge`";
            return Err(self.gguf.wrong(key, problem));
        }
        Ok(())
    }

    fn head_size(&self, hidden_size: usize, heads: usize) -> Result<usize, Error> {
        let split = hidden_size.checked_div(heads).unwrap_or(0);
        let key_size = self.optional_size("attention.key_length")?.unwrap_or(split);
        let value_size = self.optional_size("attention.value_length")?.unwrap_or(key_size);
        if value_size != key_size {
            let problem = format!("is {value_size}, but keys have {key_size}; not supported");
            return Err(self.gguf.wrong(&self.key("attention.value_length"), problem));
        }
        let rotated = self.optional_size("rope.dimension_count")?.unwrap_or(key_size);
        if rotated != key_size {
            let problem = format!("is {rotated} of {key_size}; partial rotation is not supported");
            return Err(self.gguf.wrong(&self.key("rope.dimension_count"), problem));
        }
        Ok(key_size)
    }

    /// Rows of the embedding, which has at least one for each token.
    fn vocabulary_size(&self) -> Result<usize, Error> {
        let tensor = self.gguf.tensors().iter().find(|tensor| tensor.name == name(Slot::Embedding));
        let Some(tensor) = tensor else {
            let names = vec![name(Slot::Embedding)];
            return Err(Error::MissingTensors { path: self.gguf.path().into(), names });
        };
        let rows = tensor.shape.first().and_then(|rows| usize::try_from(*rows).ok()).unwrap_or(0);
        let key = "tokenizer.ggml.tokens";
        let tokens = self.gguf.texts(key)?.map_or(0, <[String]>::len);
        if tokens > rows {
            let problem = format!("has {tokens} tokens, but the embedding has {rows} rows");
            return Err(self.gguf.wrong(key, problem));
        }
        Ok(rows)
    }

    fn token(&self, name: &str) -> Result<Option<u32>, Error> {
        self.gguf.token(&format!("tokenizer.ggml.{name}"), 0)
    }

    fn end_tokens(&self) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            tokens.extend(self.token(name)?.filter(|token| !tokens.contains(token)));
        }
        Ok(tokens)
    }

    fn rope(&self, head_size: usize) -> Result<Rope, Error> {
        let theta = self.gguf.number(&self.key("rope.freq_base"))?.unwrap_or(10_000.0);
        let kind_key = self.key("rope.scaling.type");
        let kind = self.gguf.text(&kind_key)?;
        let old = self.gguf.number(&self.key("rope.scale_linear"))?;
        let factor = self.gguf.number(&self.key("rope.scaling.factor"))?.or(old);
        let scaling = match (kind, factor) {
            // Older files have no type, and one factor that means linear.
            (Some("linear") | None, Some(factor)) if factor != 0.0 && factor != 1.0 => {
                RopeScaling::Linear { factor }
            }
            (Some("none" | "linear") | None, _) => RopeScaling::None,
            (Some(other), _) => {
                let problem = format!("is `{other}`; supported are `none` and `linear`");
                return Err(self.gguf.wrong(&kind_key, problem));
            }
        };
        let factors = self.gguf.tensors().iter().find(|tensor| tensor.name == ROPE_FACTORS);
        match (factors, scaling) {
            (None, scaling) => Ok(Rope { theta, scaling }),
            (Some(tensor), RopeScaling::None) => self.llama3(tensor, theta, head_size),
            (Some(_), _) => {
                Err(self.gguf.wrong(&kind_key, "is set, and so is `rope_freqs.weight`"))
            }
        }
    }

    /// Llama 3.1 and later store what the scaling comes to, not its constants. The models published
    /// so far differ in the factor only, which is the largest divisor; that is tried, and compared.
    fn llama3(&self, tensor: &TensorInfo, theta: f64, head_size: usize) -> Result<Rope, Error> {
        let stored = self.gguf.stored(tensor, RowOrder::Same);
        let format = read::check_one(&stored, &[head_size as u64 / 2])?;
        let mut divisors = vec![0.0; head_size / 2];
        format.decode(stored.bytes, &mut divisors);
        read::refuse_no_number(&stored, 0, &divisors)?;
        let factor = divisors.iter().fold(0.0_f32, |largest, divisor| largest.max(*divisor));
        let scaling = RopeScaling::Llama3 {
            factor: factor.into(),
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context_tokens: 8192,
        };
        let rope = Rope { theta, scaling };
        let fits = divisors.iter().enumerate().all(|(pair, divisor)| {
            let expected = llama3_divisor(&rope, factor.into(), pair, head_size);
            (f64::from(*divisor) - expected).abs() <= 1e-3 * expected
        });
        if fits {
            return Ok(rope);
        }
        let problem = "does not follow from the constants of Llama 3.1, 3.2 or 3.3; convert the \
                       Hugging Face folder, which states them";
        Err(self.gguf.wrong(ROPE_FACTORS, problem))
    }

    /// A field of `config.json`, as this file spells it.
    fn spelled(&self, field: &str) -> String {
        let name = match field {
            "vocab_size" => return name(Slot::Embedding),
            "bos_token_id" => return "tokenizer.ggml.bos_token_id".into(),
            "eos_token_id" => return "tokenizer.ggml.eos_token_id".into(),
            "hidden_size" => "embedding_length",
            "num_hidden_layers" => "block_count",
            "num_attention_heads" => "attention.head_count",
            "num_key_value_heads" => "attention.head_count_kv",
            "head_dim" => "attention.key_length",
            "intermediate_size" => "feed_forward_length",
            "max_position_embeddings" => "context_length",
            "rms_norm_eps" => "attention.layer_norm_rms_epsilon",
            "rope_theta" => "rope.freq_base",
            "rope_scaling.factor" => "rope.scaling.factor",
            other => other,
        };
        self.key(name)
    }
}

/// What Llama 3.1 divides the frequency of a pair by, with low factor 1, high factor 4 and an
/// original context of 8192 tokens.
fn llama3_divisor(rope: &Rope, factor: f64, pair: usize, head_size: usize) -> f64 {
    const ORIGINAL_CONTEXT: f64 = 8192.0;
    let frequency = rope.theta.powf(-2.0 * pair as f64 / head_size as f64);
    let wavelength = 2.0 * std::f64::consts::PI / frequency;
    if wavelength < ORIGINAL_CONTEXT / 4.0 {
        return 1.0;
    }
    if wavelength > ORIGINAL_CONTEXT {
        return factor;
    }
    let smooth = (ORIGINAL_CONTEXT / wavelength - 1.0) / (4.0 - 1.0);
    1.0 / ((1.0 - smooth) / factor + smooth)
}
