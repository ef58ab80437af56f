//! Headers from bytes that may say anything: a value within its file, or an error with a field.

use std::sync::LazyLock;

use proptest::prelude::*;
use rocstar_nn::config::Architecture;
use rocstar_nn::files::{DEFAULT_SHARD_BYTES, StoreAs, gguf, safetensors, save};

use super::build_gguf::GgufFile;
use super::{random, small};

#[path = "../../../../fuzz/checks/gguf_header.rs"]
mod gguf_header;
#[path = "../../../../fuzz/checks/safetensors_header.rs"]
mod safetensors_header;

static GGUF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let config = small(Architecture::Llama, true);
    GgufFile::of(&config, &random(&config)).bytes()
});

static SAFETENSORS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let config = small(Architecture::Llama, true);
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &config, &random(&config), StoreAs::Bf16, DEFAULT_SHARD_BYTES).unwrap();
    std::fs::read(folder.path().join("model.safetensors")).unwrap()
});

/// A good file with a few bytes changed, most of them in its header, and perhaps cut.
fn damaged(bytes: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let header = bytes.len().min(3000);
    let changes = prop::collection::vec((0..header, any::<u8>()), 1..4);
    (changes, prop::option::of(0..bytes.len())).prop_map(move |(changes, cut)| {
        let mut damaged = bytes.to_vec();
        for (place, byte) in changes {
            damaged[place] = byte;
        }
        damaged.truncate(cut.unwrap_or(bytes.len()));
        damaged
    })
}

#[test]
fn good_headers_are_read() {
    gguf::Header::parse(&GGUF).unwrap();
    safetensors::Header::parse(&SAFETENSORS).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_gguf_headers(bytes in damaged(&GGUF)) {
        gguf_header::check(&bytes);
    }

    #[test]
    fn damaged_safetensors_headers(bytes in damaged(&SAFETENSORS)) {
        safetensors_header::check(&bytes);
        // Nothing is read here that the format's own reader would refuse, except that a number
        // format which is unknown is refused only where the tensor is needed.
        let known = |header: &safetensors::Header| {
            header.tensors.iter().all(|tensor| tensor.format().is_ok())
        };
        if safetensors::Header::parse(&bytes).is_ok_and(|header| known(&header)) {
            prop_assert!(::safetensors::SafeTensors::deserialize(&bytes).is_ok());
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        gguf_header::check(&bytes);
        safetensors_header::check(&bytes);
    }
}
