//! A promise in `SPEC.md` is worth something only while the test that it names exists.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn every_test_that_the_specification_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("SPEC.md")).expect("the specification");
    let named = named_tests(&text);
    assert!(named.len() > 10, "only {} tests are named: the format has changed", named.len());
    let mut sources = String::new();
    read_sources(&root.join("crates"), &mut sources);
    let missing: Vec<&str> =
        named.into_iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "SPEC.md names tests that don't exist: {missing:#?}");
}

/// In the last column of each table, what is set as code and is a function's name.
fn named_tests(text: &str) -> BTreeSet<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let cells = rows.filter_map(|row| row.rsplit('|').next());
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    code.filter(|word| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    })
    .collect()
}

fn read_sources(folder: &Path, sources: &mut String) {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    for path in entries.map(|entry| -> PathBuf { entry.expect("a folder entry").path() }) {
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&std::fs::read_to_string(&path).expect("a source file"));
        }
    }
}
