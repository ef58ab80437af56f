//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

use std::path::Path;

#[path = "../../../fuzz/checks/gguf_header.rs"]
mod gguf_header;
#[path = "../../../fuzz/checks/safetensors_header.rs"]
mod safetensors_header;

#[test]
fn gguf_header() {
    replay("gguf_header", gguf_header::check);
}

#[test]
fn safetensors_header() {
    replay("safetensors_header", safetensors_header::check);
}

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("the corpus folder is part of the repository");
    let mut replayed = 0;
    for entry in entries {
        let path = entry.expect("a folder entry").path();
        // The test's output is shown only when it fails: the last line then names the input.
        println!("{}", path.display());
        check(&std::fs::read(&path).expect("a corpus file"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", folder.display());
}
