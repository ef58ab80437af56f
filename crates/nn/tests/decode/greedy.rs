//! Greedy continuations of SmolLM2-135M-Instruct equal transformers' on the same weights.
//! `tests/reference/greedy.py` made the values.

use std::path::PathBuf;

use rocstar_nn::decode::{BlockId, Logits, Segment, Storage};
use rocstar_nn::files;

use crate::support::{Model, blocks_for};

#[derive(serde::Deserialize)]
struct Case {
    text: String,
    prompt: Vec<u32>,
    new: Vec<u32>,
}

/// Where the environment says, or where `rocstar model fetch` puts it.
fn model_file() -> PathBuf {
    if let Some(path) = std::env::var_os("ROCSTAR_SMOLLM2") {
        return PathBuf::from(path);
    }
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(home).join(".cache"), PathBuf::from);
    cache.join("rocstar/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf")
}

#[test]
fn greedy_continuations_equal_those_of_transformers() {
    let path = model_file();
    if !path.exists() {
        println!("SKIP {} is absent; `rocstar model fetch smollm2-135m-instruct`", path.display());
        return;
    }
    let cases: Vec<Case> = serde_json::from_str(include_str!("../reference/greedy.json")).unwrap();
    let loaded = files::load(&path).unwrap();
    let mut model = Model::new(&loaded.config, &loaded.parameters, Storage::F32);
    // All prompts together, each in blocks of its own.
    let mut next = 0;
    let blocks: Vec<Vec<BlockId>> = cases
        .iter()
        .map(|case| {
            let count = blocks_for(case.prompt.len() + case.new.len());
            next += count;
            (next - count..next).map(BlockId).collect()
        })
        .collect();
    let mut texts: Vec<Vec<u32>> = cases.iter().map(|case| case.prompt.clone()).collect();
    let mut done = vec![0; cases.len()];
    loop {
        let going: Vec<usize> = (0..cases.len())
            .filter(|index| {
                texts[*index].len() < cases[*index].prompt.len() + cases[*index].new.len()
            })
            .collect();
        if going.is_empty() {
            break;
        }
        let segments: Vec<Segment<'_>> = going
            .iter()
            .map(|&index| Segment {
                tokens: &texts[index][done[index]..],
                position: done[index],
                blocks: &blocks[index],
                logits: Logits::Last,
            })
            .collect();
        let logits = model.forward(&segments);
        let rows = logits.chunks(loaded.config.vocabulary_size);
        for (index, row) in going.into_iter().zip(rows) {
            let best = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
            done[index] = texts[index].len();
            texts[index].push(best as u32);
        }
    }
    for (case, tokens) in cases.iter().zip(texts) {
        assert_eq!(tokens[case.prompt.len()..], case.new, "{}", case.text);
    }
}
