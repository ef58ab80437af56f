//! A host that gives no namespaces: refused, unless told to go on, and then said in each report.
//!
//! The kernel denies user namespaces to a process whose root directory was changed, so the tests
//! run themselves again there, as an ordinary user. That takes root; without it they print SKIP.

use std::process::Command;

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, Error, InputFile, Jail, Outcome, Request};

const INSIDE: &str = "ROCSTAR_TEST_INSIDE";

/// Runs the named test of this binary again in a changed root, as user 65534.
fn again_without_namespaces(test: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: needs root to change the root directory");
        return;
    }
    let directory =
        std::env::temp_dir().join(format!("rocstar-root-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // The binary may lie where that user can't reach it.
    let binary = std::env::temp_dir().join(format!("rocstar-it-{}-{test}", std::process::id()));
    std::fs::copy(std::env::current_exe().expect("a path"), &binary).expect("a copy");
    let script = format!(
        "mount --rbind / {root} && exec env {INSIDE}=1 chroot --userspec=65534:65534 --groups= {root} {binary} degraded::{test} --exact --nocapture",
        root = directory.display(),
        binary = binary.display(),
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let output = output.expect("util-linux's unshare");
    let _ = std::fs::remove_file(&binary);
    let _ = std::fs::remove_dir(&directory);
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
}

fn config(allow_degraded: bool) -> Config {
    let python = "/usr/bin/python3".into();
    Config { python, allow_degraded, zygotes: 1, scientific: false, ..Config::default() }
}

#[test]
fn refuses_to_start() {
    if std::env::var_os(INSIDE).is_none() {
        return again_without_namespaces("refuses_to_start");
    }
    let error = Jail::start(config(false)).expect_err("refused");
    assert!(matches!(error, Error::Isolation { .. }), "{error}");
    assert!(error.to_string().contains("namespaces"), "{error}");
}

#[test]
fn goes_on_when_told_to_and_says_so() {
    if std::env::var_os(INSIDE).is_none() {
        return again_without_namespaces("goes_on_when_told_to_and_says_so");
    }
    let jail = Jail::start(config(true)).expect("a degraded jail");
    let request = Request {
        files: vec![InputFile { path: "in".to_owned(), content: b"data".to_vec() }],
        fetch: vec!["out".to_owned()],
        ..Request::new(
            "import os, time\nopen('out', 'w').write(open('in').read())\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nprint(os.getpid() > 0)",
        )
    };
    let report = super::run(&jail, &request);
    assert_eq!((&report.outcome, report.stdout.text.as_str()), (&Outcome::Ok, "True\n"));
    assert_eq!(report.files[0].content.as_deref(), Some(&b"data"[..]));
    assert!(report.degraded);
    assert_eq!(report.isolation, ["no_new_privileges", "seccomp", "resource_limits"]);
    // What the first program left in its directory is not in the next one's.
    let report = super::run(&jail, &Request::new("import os; print(os.listdir('.'))"));
    assert_eq!(report.stdout.text, "[]\n");
}
