//! `rocstar sandbox setup` where nothing can be downloaded, and where it must not write.

use std::process::Command;

use insta::assert_snapshot;

use crate::harness::{Harness, python, show};

/// The installer as it is without a network: no index, and no wheels either.
const OFFLINE: [(&str, &str); 2] = [("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "/nonexistent")];

/// Whether this host's Python is one that an environment can be built on.
fn can_build() -> bool {
    let script = "import ensurepip, venv, sys; assert (3, 11) <= sys.version_info[:2] <= (3, 14)";
    let output = Command::new(python()).args(["-c", script]).output().unwrap();
    if !output.status.success() {
        eprintln!("SKIP: no environment can be built: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

#[test]
fn without_packages_it_says_so_and_leaves_nothing() {
    if !can_build() {
        return;
    }
    let harness = Harness::new();
    let mut command = harness.command(&["sandbox", "setup", "--dir", "environments/new"]);
    let output = command.arg("--python").arg(python()).envs(OFFLINE).output();
    let text = show(&output.unwrap());
    let ending = text.split_once("error: ").unwrap().1;
    assert_snapshot!(ending);
    assert!(text.starts_with("exit status: 1"), "{text}");
    let left = std::fs::read_dir(harness.path().join("environments")).unwrap().count();
    assert_eq!(left, 0, "{text}");
}

#[test]
fn a_folder_that_is_something_else_is_kept() {
    if !can_build() {
        return;
    }
    let harness = Harness::new();
    std::fs::create_dir(harness.path().join("mine")).unwrap();
    std::fs::write(harness.path().join("mine/file"), "x").unwrap();
    let mut command = harness.command(&["sandbox", "setup", "--dir", "mine"]);
    let output = command.arg("--python").arg(python()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", show(&output));
    assert!(show(&output).contains("error: not a virtual environment: "), "{}", show(&output));
    assert!(harness.path().join("mine/file").exists());
}
