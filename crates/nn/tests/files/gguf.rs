//! GGUF files: every family comes in as it was, and everything that can be wrong is named.

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use rocstar_nn::config::{Architecture, ModelConfig, RopeScaling};
use rocstar_nn::files::gguf::{Header, TokenizerMetadata};
use rocstar_nn::files::{self, Format, Gguf, NumberFormat, load};
use rocstar_nn::parameters::Parameters;
use tempfile::TempDir;

use super::build_gguf::{GgufFile, Meta, RawTensor};
use super::{all_small, random, small};

fn written(file: &GgufFile) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, file.bytes()).unwrap();
    (folder, path)
}

fn example(architecture: Architecture, tied: bool) -> (ModelConfig, Parameters, GgufFile) {
    let config = ModelConfig { initializer_range: 0.02, ..small(architecture, tied) };
    let parameters = random(&config);
    let file = GgufFile::of(&config, &parameters);
    (config, parameters, file)
}

/// What `load` says about a file that it refuses, without the folder's name.
fn refusal(file: &GgufFile) -> String {
    refusal_of_bytes(&file.bytes())
}

fn refusal_of_bytes(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    let error = load(&path).expect_err("it is refused").to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn every_family_comes_in_as_it_was() {
    for config in all_small() {
        let (config, parameters, file) = example(config.architecture, config.tied_embeddings);
        let (_folder, path) = written(&file);
        let loaded = load(&path).unwrap();
        assert_eq!(loaded.config, config);
        assert!(loaded.parameters == parameters, "{config:?}");
        assert_eq!(loaded.source.format, Format::Gguf);
        assert_eq!(files::config(&path).unwrap(), config);
    }
}

/// Each row is decoded from its own blocks, whatever order the rows stand in.
#[test]
fn quantised_rows_are_found_in_their_order() {
    let (config, _, mut file) = example(Architecture::Llama, true);
    let quantise = |tensor: &mut RawTensor| {
        // Q8_0 by hand: a scale of 1/64 and integers that name their row and column.
        let rows = tensor.dimensions[1];
        let row = |row: u64| {
            let mut block = half::f16::from_f32(1.0 / 64.0).to_le_bytes().to_vec();
            block.extend((0..32).map(|column| (row * 3 + column) as u8));
            block
        };
        tensor.kind = 8;
        tensor.bytes = (0..rows).flat_map(row).collect();
    };
    quantise(file.tensor("blk.1.attn_q.weight"));
    quantise(file.tensor("blk.1.attn_v.weight"));
    let (_folder, path) = written(&file);
    let loaded = load(&path).unwrap();
    let value = |name: &str, row: usize, column: usize| {
        let layout = loaded.parameters.layout();
        let tensor = layout.tensors().iter().find(|tensor| tensor.name == name).unwrap();
        loaded.parameters.values()[tensor.range.start + row * config.hidden_size + column]
    };
    let query = "model.layers.1.self_attn.q_proj.weight";
    // Head 1, row 5 of 8: the second of the pair that is stored at places 2 and 3 of the head.
    assert_eq!(value(query, 13, 7), ((8 + 3) * 3 + 7) as f32 / 64.0);
    let values = "model.layers.1.self_attn.v_proj.weight";
    assert_eq!(value(values, 13, 7), (13 * 3 + 7) as f32 / 64.0);
}

#[test]
fn headers_are_read_without_weights() {
    let (config, _, mut file) = example(Architecture::Qwen3, false);
    file.set("tokenizer.chat_template", "{{ x }}".into());
    file.tensor("output.weight").kind = 1;
    file.tensor("output.weight").bytes.truncate(37 * 32 * 2);
    let (_folder, path) = written(&file);
    let inspection = files::inspect(&path).unwrap();
    assert_eq!(inspection.config, config);
    assert!(inspection.has_chat_template && !inspection.has_tokenizer);
    let head = inspection.tensors.iter().find(|tensor| tensor.name == "output.weight").unwrap();
    assert_eq!((head.stored_as.as_str(), head.bytes), ("F16", 37 * 32 * 2));
    assert_eq!(head.shape, [37, 32]);
}

#[test]
fn the_tokenizer_comes_as_it_stands() {
    let (_, _, mut file) = example(Architecture::Llama, true);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    file.set("tokenizer.ggml.pre", "smollm".into());
    file.set("tokenizer.ggml.tokens", Meta::Texts(texts(&["a", "b", "ab", "c", "d", "<end>"])));
    file.set("tokenizer.ggml.token_type", Meta::Integers(vec![1, 1, 1, 1, 1, 3]));
    file.set("tokenizer.ggml.merges", Meta::Texts(texts(&["a b"])));
    file.set("tokenizer.ggml.add_bos_token", Meta::Flag(false));
    let (_folder, path) = written(&file);
    let expected = TokenizerMetadata {
        model: "gpt2".into(),
        pre: Some("smollm".into()),
        tokens: texts(&["a", "b", "ab", "c", "d", "<end>"]),
        token_types: vec![1, 1, 1, 1, 1, 3],
        merges: texts(&["a b"]),
        begin_token: Some(1),
        end_token: Some(2),
        unknown_token: None,
        padding_token: None,
        add_begin_token: Some(false),
        add_space_prefix: None,
        chat_template: None,
    };
    assert_eq!(Gguf::open(&path).unwrap().tokenizer().unwrap(), Some(expected));

    file.set("tokenizer.ggml.token_type", Meta::Integers(vec![1, 1]));
    let (folder, path) = written(&file);
    let error = Gguf::open(&path).unwrap().tokenizer().unwrap_err().to_string();
    assert_eq!(
        error.replace(&format!("{}/", folder.path().display()), ""),
        "`model.gguf`: `tokenizer.ggml.token_type` has 2 entries for 6 tokens"
    );
}

#[test]
fn llama3_scaling_is_recovered_from_its_divisors() {
    let (config, parameters, mut file) = example(Architecture::Llama, true);
    // Pairs of a head of 8 at base 50,000 have wavelengths of 6, 94, 1,405 and 21,010 tokens.
    let divisors = [1.0_f32, 1.0, 1.0, 32.0];
    file.tensors.push(RawTensor {
        name: "rope_freqs.weight".into(),
        dimensions: vec![4],
        kind: 0,
        bytes: divisors.iter().flat_map(|divisor| divisor.to_le_bytes()).collect(),
    });
    let (_folder, path) = written(&file);
    let loaded = load(&path).unwrap();
    let expected = RopeScaling::Llama3 {
        factor: 32.0,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context_tokens: 8192,
    };
    assert_eq!(loaded.config.rope.scaling, expected);
    assert_eq!(loaded.config.rope.theta, config.rope.theta);
    assert!(loaded.parameters == parameters);

    file.tensor("rope_freqs.weight").bytes[..4].copy_from_slice(&2.0_f32.to_le_bytes());
    assert!(refusal(&file).contains("`rope_freqs.weight` does not follow from the constants"));
}

#[test]
fn what_is_not_supported_is_named() {
    let (_, _, file) = example(Architecture::Llama, true);
    let refused = |key: &str, value: Meta| {
        let mut file = file.clone();
        file.set(key, value);
        refusal(&file)
    };
    assert_eq!(
        refused("general.architecture", "mamba".into()),
        "`model.gguf`: architecture `mamba` is not supported; supported are llama, qwen2, qwen3"
    );
    assert_eq!(
        refused("llama.expert_count", Meta::U32(8)),
        "`model.gguf`: `llama.expert_count` is set; mixtures of experts are not supported"
    );
    assert_eq!(
        refused("llama.rope.dimension_count", Meta::U32(4)),
        "`model.gguf`: `llama.rope.dimension_count` is 4 of 8; partial rotation is not supported"
    );
    assert_eq!(
        refused("llama.rope.scaling.type", "yarn".into()),
        "`model.gguf`: `llama.rope.scaling.type` is `yarn`; supported are `none` and `linear`"
    );
    assert_eq!(
        refused("llama.attention.head_count", Meta::U32(3)),
        "`model.gguf`: `llama.attention.head_count_kv` is 2, which does not divide 3 heads"
    );
    assert_eq!(
        refused("llama.block_count", "two".into()),
        "`model.gguf`: `llama.block_count` is a text, expected a size"
    );
    assert_eq!(
        refused("llama.block_count", Meta::I32(-2)),
        "`model.gguf`: `llama.block_count` is -2, expected a size"
    );
    assert_eq!(
        refused("llama.block_count", Meta::U32(u32::MAX)),
        "`model.gguf`: `llama.block_count` is 4294967295; at most 4096 is supported"
    );
    assert_eq!(
        refused("tokenizer.ggml.eos_token_id", Meta::U32(37)),
        "`model.gguf`: `tokenizer.ggml.eos_token_id` is 37, but the embedding has 37 rows"
    );
    let many = (0..38).map(|index| index.to_string()).collect();
    assert_eq!(
        refused("tokenizer.ggml.tokens", Meta::Texts(many)),
        "`model.gguf`: `tokenizer.ggml.tokens` has 38 tokens, but the embedding has 37 rows"
    );
    let mut without = file.clone();
    without.metadata.retain(|(key, _)| key != "llama.embedding_length");
    assert_eq!(refusal(&without), "`model.gguf`: `llama.embedding_length` is missing");
    let mut codebook = file.clone();
    codebook.tensor("blk.0.ffn_up.weight").kind = 10;
    assert_eq!(
        refusal(&codebook),
        "`model.gguf`: tensor `blk.0.ffn_up.weight` is stored as Q2_K; supported are F32, F16, \
         BF16, and in GGUF Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"
    );
    let mut biased = file.clone();
    biased.tensors.push(RawTensor {
        name: "blk.0.attn_q.bias".into(),
        dimensions: vec![32],
        kind: 0,
        bytes: vec![0; 128],
    });
    assert_eq!(
        refusal(&biased),
        "`model.gguf`: 1 tensor not part of this architecture: `blk.0.attn_q.bias`"
    );
}

#[test]
fn lying_headers_are_named() {
    let (_, _, file) = example(Architecture::Llama, true);
    let bytes = file.bytes();
    let patched = |at: usize, patch: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + patch.len()].copy_from_slice(patch);
        refusal_of_bytes(&bytes)
    };
    let damaged = |field: &str| format!("`model.gguf`: damaged header: `{field}` ");
    assert_eq!(patched(0, b"GGML"), damaged("magic") + "is not `GGUF`: this is no GGUF file");
    assert_eq!(
        patched(4, &1_u32.to_le_bytes()),
        damaged("version") + "is 1; convert the file anew, versions 2 and 3 are read"
    );
    assert_eq!(
        patched(4, &3_u32.to_be_bytes()),
        damaged("version") + "is big-endian; convert the file for little-endian machines"
    );
    let many = patched(8, &u64::MAX.to_le_bytes());
    let expected = damaged("tensor_count") + "is 18446744073709551615, more than the ";
    assert!(many.starts_with(&expected), "{many}");
    let long_key = patched(24, &(1_u64 << 40).to_le_bytes());
    let expected = damaged("key 0 of the metadata") + "has a length that is 1099511627776, more";
    assert!(long_key.starts_with(&expected), "{long_key}");
    for length in [0, 3, 7, 20, 100, 500, bytes.len() - 1] {
        let refused = refusal_of_bytes(&bytes[..length]);
        assert!(refused.starts_with("`model.gguf`: damaged header: "), "{length}: {refused}");
    }

    let mut twice = file.clone();
    twice.metadata.push(("llama.block_count".into(), Meta::U32(2)));
    assert_eq!(refusal(&twice), damaged("llama.block_count") + "stands there twice");
    let mut alignment = file.clone();
    alignment.set("general.alignment", Meta::U32(48));
    assert_eq!(
        refusal(&alignment),
        damaged("general.alignment") + "is the integer 48, expected a power of two up to 65536"
    );
    let name = "tensor \"token_embd.weight\"";
    let mut larger = file.clone();
    larger.tensor("token_embd.weight").dimensions = vec![32, 1 << 40];
    let refused = refusal(&larger);
    let expected = damaged(&format!("{name} data")) + "of shape [1099511627776, 32] at offset 0 go";
    assert!(refused.starts_with(&expected), "{refused}");
    larger.tensor("token_embd.weight").dimensions = vec![1 << 62, 1 << 62];
    assert!(refusal(&larger).contains("go beyond the end of the file"));
    let mut blocks = file.clone();
    blocks.tensor("token_embd.weight").kind = 12;
    assert_eq!(
        refusal(&blocks),
        damaged(&format!("{name} dimensions"))
            + "are [37, 32], but rows of Q4_K come in blocks of 256 values"
    );
    let mut overlapping = file;
    overlapping.tensor("token_embd.weight").bytes.truncate(320);
    let refused = refusal(&overlapping);
    assert!(refused.contains("lies within tensor \"token_embd.weight\""), "{refused}");
}

#[test]
fn a_weight_that_is_no_number_is_named_with_its_place() {
    let (_, _, mut file) = example(Architecture::Llama, true);
    let bytes = &mut file.tensor("output_norm.weight").bytes;
    bytes[20..24].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    assert_eq!(refusal(&file), "`model.gguf`: tensor `output_norm.weight` has -inf at index 5");
}

#[test]
fn version_2_is_read() {
    let (_, _, file) = example(Architecture::Llama, true);
    let mut bytes = file.bytes();
    bytes[4..8].copy_from_slice(&2_u32.to_le_bytes());
    let header = Header::parse(&bytes).unwrap();
    assert_eq!(header.version, 2);
    assert_eq!(NumberFormat::ALL.len(), 11);
}
