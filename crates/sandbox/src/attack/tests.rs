//! The suite itself: its table is sound, and its programs do report what they get away with.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use rocstar_jail::{Captured, Outcome, Report};

use super::catalogue::{ATTACKS, Plan, Try};
use super::evidence::{Verdict, judge};
use super::request;

#[test]
fn every_attack_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = ATTACKS.iter().map(|attack| attack.id).collect();
    assert_eq!(names.len(), ATTACKS.len());
    assert!(ATTACKS.len() >= 50, "{} attacks", ATTACKS.len());
}

/// The only step of an attack.
fn program_of(id: &str) -> &'static Try {
    let attack = ATTACKS.iter().find(|attack| attack.id == id).unwrap();
    match attack.plan {
        Plan::Steps([step]) => step,
        Plan::Steps(_) | Plan::Together { .. } | Plan::Session(_) => panic!("{id} has more steps"),
    }
}

/// Runs an attack's program in a plain Python, with a secret in its environment.
fn run_without_isolation(step: &Try) -> Report {
    let output = Command::new("python3")
        .arg("-c")
        .arg(request(step).program)
        .env("SERVER_TOKEN", "secret")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let outcome = match output.status.code() {
        Some(0) => Outcome::Ok,
        code => Outcome::Exit { code: code.unwrap_or(1) },
    };
    let text = |bytes: &[u8]| Captured {
        text: String::from_utf8_lossy(bytes).into_owned(),
        ..Captured::default()
    };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Report { stdout, stderr, ..Report::without_run(outcome) }
}

/// If the attacks held anywhere, their holding here would mean nothing. These only look.
#[test]
fn attacks_succeed_where_nothing_isolates() {
    for id in [
        "read_secrets",
        "read_server_environment",
        "remount_flags",
        "capabilities",
        "raise_limits",
        "other_processes",
        "netlink",
        "vsock",
    ] {
        let step = program_of(id);
        let report = run_without_isolation(step);
        let verdict = judge(&step.expected, &Ok(report.clone()));
        assert!(matches!(verdict, Verdict::Broken(_)), "{id}: {verdict:?} {report:?}");
        assert!(report.stdout.text.contains("BROKEN: "), "{id} says nothing: {report:?}");
    }
}
