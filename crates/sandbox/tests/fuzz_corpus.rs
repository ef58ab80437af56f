//! Replays the fuzz corpora of this crate's parsers, so that what fuzzing once found stays found
//! with a stable compiler.

#![cfg(test)]

use std::path::Path;

#[path = "../../../fuzz/checks/native_bodies.rs"]
mod native_bodies;
#[path = "../../../fuzz/checks/peer_bodies.rs"]
mod peer_bodies;

#[test]
fn native_bodies() {
    replay("native_bodies", native_bodies::check);
}

#[test]
fn peer_bodies() {
    replay("peer_bodies", peer_bodies::check);
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
