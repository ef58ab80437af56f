// Runs a check over the corpus of its fuzz target. Included by path into the tests of each crate
// that has one, as the checks are.

/// Hands each file of the target's corpus to `check`.
pub(crate) fn replay(target: &str, check: fn(&[u8])) {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crates.join("../../fuzz/corpus").join(target);
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
