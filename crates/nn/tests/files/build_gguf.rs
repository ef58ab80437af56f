//! A writer of GGUF files, as small as the tests need it.

use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::parameters::Parameters;

/// A value of the metadata, by the format's types.
#[derive(Debug, Clone)]
pub(crate) enum Meta {
    U32(u32),
    I32(i32),
    F32(f32),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Integers(Vec<i32>),
}

impl From<&str> for Meta {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A tensor: name, dimensions as the file has them (fastest first), ggml type, bytes.
#[derive(Debug, Clone)]
pub(crate) struct RawTensor {
    pub(crate) name: String,
    pub(crate) dimensions: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A file in the making.
#[derive(Debug, Clone)]
pub(crate) struct GgufFile {
    pub(crate) metadata: Vec<(String, Meta)>,
    pub(crate) tensors: Vec<RawTensor>,
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn put_meta(bytes: &mut Vec<u8>, value: &Meta) {
    let list = |bytes: &mut Vec<u8>, kind: u32, length: usize| {
        bytes.extend(9_u32.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend((length as u64).to_le_bytes());
    };
    match value {
        Meta::U32(value) => {
            bytes.extend(4_u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        Meta::I32(value) => {
            bytes.extend(5_u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        Meta::F32(value) => {
            bytes.extend(6_u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        Meta::Flag(value) => {
            bytes.extend(7_u32.to_le_bytes());
            bytes.push(u8::from(*value));
        }
        Meta::Text(text) => {
            bytes.extend(8_u32.to_le_bytes());
            put_text(bytes, text);
        }
        Meta::Texts(texts) => {
            list(bytes, 8, texts.len());
            texts.iter().for_each(|text| put_text(bytes, text));
        }
        Meta::Integers(integers) => {
            list(bytes, 5, integers.len());
            integers.iter().for_each(|integer| bytes.extend(integer.to_le_bytes()));
        }
    }
}

impl GgufFile {
    /// The file of a model, in F32, as llama.cpp's converter lays it out.
    pub(crate) fn of(config: &ModelConfig, parameters: &Parameters) -> Self {
        let prefix = match config.architecture {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
        };
        let size = |value: usize| Meta::U32(u32::try_from(value).unwrap());
        let own = |name: &str| format!("{prefix}.{name}");
        let metadata = vec![
            ("general.architecture".to_owned(), Meta::from(prefix)),
            (own("block_count"), size(config.layers)),
            (own("context_length"), size(config.context_tokens)),
            (own("embedding_length"), size(config.hidden_size)),
            (own("feed_forward_length"), size(config.feed_forward_size)),
            (own("attention.head_count"), size(config.heads)),
            (own("attention.head_count_kv"), size(config.key_value_heads)),
            (own("attention.key_length"), size(config.head_size)),
            (own("attention.value_length"), size(config.head_size)),
            (own("attention.layer_norm_rms_epsilon"), Meta::F32(config.norm_epsilon)),
            (own("rope.freq_base"), Meta::F32(config.rope.theta as f32)),
            ("tokenizer.ggml.model".to_owned(), Meta::from("gpt2")),
            ("tokenizer.ggml.bos_token_id".to_owned(), Meta::U32(1)),
            ("tokenizer.ggml.eos_token_id".to_owned(), Meta::U32(2)),
            ("tokenizer.ggml.eot_token_id".to_owned(), Meta::I32(5)),
        ];
        let tensors = parameters.layout().tensors().iter().map(|tensor| {
            let mut values = parameters.values()[tensor.range.clone()].to_vec();
            let is_rotated =
                tensor.name.ends_with("q_proj.weight") || tensor.name.ends_with("k_proj.weight");
            if config.architecture == Architecture::Llama && is_rotated {
                values = interleaved(&values, config.head_size, config.hidden_size);
            }
            RawTensor {
                name: gguf_name(&tensor.name),
                dimensions: tensor.shape.iter().rev().map(|size| *size as u64).collect(),
                kind: 0,
                bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            }
        });
        Self { metadata, tensors: tensors.collect() }
    }

    pub(crate) fn set(&mut self, key: &str, value: Meta) {
        self.metadata.retain(|(known, _)| known != key);
        self.metadata.push((key.to_owned(), value));
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut RawTensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut bytes, key);
            put_meta(&mut bytes, value);
        }
        let mut offset = 0_usize;
        for tensor in &self.tensors {
            put_text(&mut bytes, &tensor.name);
            bytes.extend((tensor.dimensions.len() as u32).to_le_bytes());
            tensor.dimensions.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            offset = (offset + tensor.bytes.len()).next_multiple_of(32);
        }
        for tensor in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(32), 0);
            bytes.extend(&tensor.bytes);
        }
        bytes
    }
}

/// The converter's reordering: a head's rows seen as (2, half), transposed.
fn interleaved(values: &[f32], head_size: usize, columns: usize) -> Vec<f32> {
    let half = head_size / 2;
    let heads = values.chunks(head_size * columns);
    let rows = heads.flat_map(|head| {
        (0..half)
            .flat_map(move |row| [row, row + half])
            .map(move |row| &head[row * columns..(row + 1) * columns])
    });
    rows.flatten().copied().collect()
}

fn gguf_name(name: &str) -> String {
    let Some(rest) = name.strip_prefix("model.layers.") else {
        return match name {
            "model.embed_tokens.weight" => "token_embd.weight",
            "model.norm.weight" => "output_norm.weight",
            "lm_head.weight" => "output.weight",
            other => panic!("no such tensor: {other}"),
        }
        .to_owned();
    };
    let (layer, name) = rest.split_once('.').unwrap();
    let name = [
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ]
    .into_iter()
    .fold(name.to_owned(), |name, (theirs, ours)| name.replace(theirs, ours));
    format!("blk.{layer}.{name}")
}
