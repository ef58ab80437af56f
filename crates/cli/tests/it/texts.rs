//! What the binary says when it is asked for help or used wrongly, and its generated reference.

use std::path::Path;

use insta::assert_snapshot;
use pretty_assertions::assert_eq;

use crate::harness::Harness;

#[test]
fn without_a_command_it_shows_help() {
    assert_snapshot!(Harness::new().run(&[]));
}

#[test]
fn an_unknown_command_is_wrong_use() {
    assert_snapshot!(Harness::new().run(&["sandbox", "severe"]));
}

#[test]
fn run_needs_a_program() {
    assert_snapshot!(Harness::new().run(&["sandbox", "run"]));
}

#[test]
fn a_missing_program_is_told_with_its_path() {
    assert_snapshot!(Harness::new().run(&["sandbox", "run", "no-such.py"]));
}

#[test]
fn a_limit_without_a_unit_is_wrong_use() {
    assert_snapshot!(Harness::new().run(&["sandbox", "run", "--sample", "--wall", "5"]));
}

#[test]
fn a_peer_without_batches_can_take_no_burst() {
    let burst = ["sandbox", "bench", "--api", "sandbox-fusion", "--burst", "10"];
    assert_snapshot!(Harness::new().run(&burst));
}

#[test]
fn only_plain_http_can_be_measured() {
    assert_snapshot!(Harness::new().run(&["sandbox", "bench", "--url", "https://example.org"]));
}

/// `docs/cli.md` is what the binary itself says.
#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let output = Harness::new().command(&["reference"]).output().unwrap();
    assert!(output.status.success());
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written,
        String::from_utf8(output.stdout).unwrap(),
        "refresh it: cargo run -p rocstar -- reference > docs/cli.md"
    );
}
