//! Input, and files in both directions, all inside the private directory.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_jail::{FetchedFile, InputFile, Outcome, Request, inside_private_directory};

use super::{jail, run};

fn file(path: &str, content: &[u8]) -> InputFile {
    InputFile { path: path.to_owned(), content: content.to_vec() }
}

#[test]
fn stdin_is_what_was_given() {
    let Some(jail) = jail() else { return };
    let large = "line\n".repeat(200_000);
    for (stdin, expected) in
        [(None, "0\n"), (Some(""), "0\n"), (Some("a\nb\n"), "4\n"), (Some(&*large), "1000000\n")]
    {
        let request = Request {
            stdin: stdin.map(|text| text.as_bytes().to_vec()),
            ..Request::new("import sys; print(len(sys.stdin.read()))")
        };
        assert_eq!(run(jail, &request).stdout.text, expected);
    }
    let request = Request {
        stdin: Some(b"7\n8\n".to_vec()),
        ..Request::new("print(int(input()) + int(input()))")
    };
    assert_eq!(run(jail, &request).stdout.text, "15\n");
}

#[test]
fn files_go_in_and_come_back() {
    let Some(jail) = jail() else { return };
    let request = Request {
        files: vec![file("a.txt", b"alpha"), file("deep/er/b.bin", &[0, 255]), file("/tmp/c", b"")],
        fetch: ["out/x", "a.txt", "missing", "link", "directory", "/tmp/c"]
            .map(str::to_owned)
            .to_vec(),
        ..Request::new(
            "import os\nprint(open('a.txt').read(), open('deep/er/b.bin', 'rb').read(), os.getcwd())\nos.mkdir('out'); open('out/x', 'w').write('made')\nos.symlink('/etc/passwd', 'link'); os.mkdir('directory')",
        )
    };
    let report = run(jail, &request);
    assert_eq!(
        (report.outcome, report.stdout.text.as_str()),
        (Outcome::Ok, "alpha b'\\x00\\xff' /tmp\n")
    );
    let found = |path: &str, content: &[u8]| FetchedFile {
        path: path.to_owned(),
        content: Some(content.to_vec()),
        problem: None,
    };
    let lost = |path: &str, problem: &str| FetchedFile {
        path: path.to_owned(),
        content: None,
        problem: Some(problem.to_owned()),
    };
    assert_eq!(
        report.files,
        [
            found("out/x", b"made"),
            found("a.txt", b"alpha"),
            lost("missing", "no such file"),
            lost("link", "a link is not followed"),
            lost("directory", "not a plain file"),
            found("/tmp/c", b""),
        ]
    );
}

#[test]
fn modules_beside_the_program_are_imported() {
    let Some(jail) = jail() else { return };
    let request = Request {
        files: vec![file("helper.py", b"VALUE = 6"), file("package/__init__.py", b"VALUE = 7")],
        ..Request::new("import helper\nfrom package import VALUE\nprint(helper.VALUE * VALUE)")
    };
    let report = run(jail, &request);
    assert_eq!(report.stdout.text, "42\n", "{}", report.stderr.text);
}

#[test]
fn files_come_back_after_a_time_out_too() {
    let Some(jail) = jail() else { return };
    let limits = rocstar_jail::Limits { wall_ms: Some(200), ..Default::default() };
    let request = Request {
        fetch: vec!["x".to_owned()],
        limits,
        ..Request::new("open('x', 'w').write('kept')\nwhile True: pass")
    };
    let report = run(jail, &request);
    assert_eq!(report.outcome, Outcome::Timeout);
    assert_eq!(report.files[0].content.as_deref(), Some(&b"kept"[..]));
}

#[test]
fn path_tricks_are_refused() {
    let Some(jail) = jail() else { return };
    let control = rocstar_jail::Control::default();
    for path in
        ["../x", "a/../../x", "/etc/passwd", "", "/", "a/", ".", "x\0y", "/tmp/../etc/x", "/tmpx"]
    {
        let into = Request { files: vec![file(path, b"")], ..Request::new("") };
        let back = Request { fetch: vec![path.to_owned()], ..Request::new("") };
        let field = |request| jail.run(request, &control).expect_err(path).to_string();
        assert!(field(&into).starts_with("files[0].path: "), "{path:?}");
        assert!(field(&back).starts_with("fetch[0]: "), "{path:?}");
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let Some(jail) = jail() else { return };
    let refusal = |files: &[(&str, usize)], tmp_bytes| {
        let request = Request {
            files: files.iter().map(|(path, size)| file(path, &vec![b'x'; *size])).collect(),
            limits: rocstar_jail::Limits { tmp_bytes, ..Default::default() },
            ..Request::new("")
        };
        let control = rocstar_jail::Control::default();
        jail.run(&request, &control).expect_err("refused").to_string()
    };
    let second = "files[1].path: names a file a second time";
    assert_eq!(refusal(&[("a", 1), ("./a", 1)], None), second);
    let below = "files[0].path: lies below `a`, which is a file of this request";
    assert_eq!(refusal(&[("a/b", 1), ("a-c", 1), ("a", 1)], None), below);
    let large = "files: need 102400 bytes, limits.tmp_bytes gives 8192";
    assert_eq!(refusal(&[("a", 100_000)], Some(8192)), large);
}

#[test]
fn a_fifo_or_a_large_file_does_not_hold_the_service_up() {
    let Some(jail) = jail() else { return };
    let request = Request {
        fetch: vec!["fifo".to_owned(), "sparse".to_owned()],
        ..Request::new(
            "import os\nos.mkfifo('fifo')\nos.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 60 << 20)",
        )
    };
    let report = run(jail, &request);
    assert_eq!(report.outcome, Outcome::Ok, "{}", report.stderr.text);
    assert_eq!(report.files[0].problem.as_deref(), Some("not a plain file"));
}

proptest! {
    #[test]
    fn an_accepted_path_stays_inside(path in "[a./\\\\~ \u{e9}\0-]{0,24}") {
        if let Ok(relative) = inside_private_directory(&path) {
            prop_assert!(!relative.starts_with('/'));
            prop_assert!(relative.split('/').all(|part| !part.is_empty() && part != ".." && part != "."));
            prop_assert!(!relative.contains('\0'));
        }
    }
}
