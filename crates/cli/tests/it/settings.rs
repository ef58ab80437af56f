//! The layers of the configuration, seen through `serve --dry-run`.

use insta::assert_snapshot;

use crate::harness::{Harness, show};

#[test]
fn the_defaults() {
    let harness = Harness::new();
    let mut command = harness.command(&["sandbox", "serve", "--dry-run"]);
    assert_snapshot!(show(&command.env_remove("ROCSTAR_PYTHON").output().unwrap()));
}

#[test]
fn later_layers_win() {
    let harness = Harness::new();
    let write = |name: &str, text: &str| std::fs::write(harness.path().join(name), text).unwrap();
    write("one.toml", "listen = \"127.0.0.1:1\"\n[service.jail]\nslots = 1\nsessions = 1\n");
    write("two.toml", "[service.jail]\nslots = 2\npython = \"from-file\"\n");
    let mut command = harness.command(&["sandbox", "serve", "--dry-run"]);
    command
        .args(["--config", "one.toml", "--config", "two.toml", "--slots", "3"])
        .args(["--set", "service.jail.turn_ms=20"])
        .env("ROCSTAR_PYTHON", "from-environment")
        .env("ROCSTAR_LISTEN", "127.0.0.1:2");
    let text = show(&command.output().unwrap());
    for line in [
        "listen = \"127.0.0.1:2\"",
        "python = \"from-environment\"",
        "slots = 3",
        "sessions = 1",
        "turn_ms = 20",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn the_printed_configuration_reads_back() {
    let harness = Harness::new();
    let dry_run = ["sandbox", "serve", "--dry-run"];
    let first = harness.command(&dry_run).output().unwrap();
    std::fs::write(harness.path().join("resolved.toml"), &first.stdout).unwrap();
    let again = harness.command(&dry_run).args(["--config", "resolved.toml"]).output().unwrap();
    assert!(again.status.success(), "{}", show(&again));
    assert_eq!(first.stdout, again.stdout);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest() {
    let harness = Harness::new();
    std::fs::write(harness.path().join("rocstar.toml"), "[service.jail]\nslot = 3\n").unwrap();
    assert_snapshot!(harness.run(&["sandbox", "serve", "--config", "rocstar.toml"]));
}

#[test]
fn a_wrong_assignment_is_refused() {
    let harness = Harness::new();
    assert_snapshot!(harness.run(&["sandbox", "serve", "--set", "service.queue_call=3"]));
}

#[test]
fn values_that_cannot_work_are_all_told() {
    let harness = Harness::new();
    let zeros = ["--set", "service.jail.turn_ms=0", "--set", "service.queue_calls=0"];
    let arguments = [&["sandbox", "serve"][..], &zeros[..]].concat();
    assert_snapshot!(harness.run(&arguments));
}

#[test]
fn a_public_address_needs_a_token() {
    let harness = Harness::new();
    assert_snapshot!(harness.run(&["sandbox", "serve", "--listen", "0.0.0.0:0"]));
}

#[test]
fn the_token_is_never_shown() {
    let harness = Harness::new();
    let mut command = harness.command(&["sandbox", "serve", "--dry-run"]);
    let output = command.env("ROCSTAR_TOKEN", "a-secret").output().unwrap();
    assert!(output.status.success());
    assert!(!show(&output).contains("a-secret"));
}
