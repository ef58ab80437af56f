//! Output arrives whole, in order, and whatever its bytes are.

use pretty_assertions::assert_eq;
use rocstar_jail::{Outcome, Request};

use super::{jail, outcome, run};

#[test]
fn large_output_is_not_lost() {
    let Some(jail) = jail() else { return };
    let limits = rocstar_jail::Limits { kept_bytes: Some(8 << 20), ..Default::default() };
    let request = Request { limits, ..Request::new("for i in range(500_000): print(i)") };
    let report = run(jail, &request);
    let expected: String = (0..500_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(report.outcome, Outcome::Ok);
    assert!(report.stdout.text == expected, "{} bytes", report.stdout.text.len());
}

#[test]
fn bytes_that_are_no_text_are_flagged_and_kept() {
    let Some(jail) = jail() else { return };
    let report = run(jail, &Request::new("import os; os.write(1, b'ok \\xff\\xfe\\n')"));
    assert_eq!(report.outcome, Outcome::Ok);
    assert_eq!(report.stdout.text, "ok \\xff\\xfe\n");
    assert_eq!(report.stdout.base64.as_deref(), Some("b2sg//4K"));
}

#[test]
fn text_that_has_no_bytes_is_escaped() {
    let Some(jail) = jail() else { return };
    assert_eq!(outcome(jail, "print('\\ud800')"), (Outcome::Ok, "\\ud800\n".to_owned()));
}

#[test]
fn closed_streams_hurt_nobody() {
    let Some(jail) = jail() else { return };
    for program in [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import os\nfor fd in range(3): os.close(fd)",
        "import sys; sys.stdout = None; sys.stderr = None",
        "import os; os.closerange(0, 4096)",
    ] {
        let (outcome, _) = outcome(jail, program);
        assert!(matches!(outcome, Outcome::Ok | Outcome::Exit { .. }), "{program}: {outcome:?}");
    }
}

#[test]
fn what_a_child_process_prints_is_captured() {
    let Some(jail) = jail() else { return };
    let program = "import subprocess, sys\nprint('a', flush=True)\nsubprocess.run([sys.executable, '-c', 'print(\"b\")'], check=True)\nsubprocess.run('echo c', shell=True, check=True)";
    assert_eq!(outcome(jail, program), (Outcome::Ok, "a\nb\nc\n".to_owned()));
}

#[test]
fn a_daemon_that_holds_the_pipe_does_not_hold_the_call() {
    let Some(jail) = jail() else { return };
    let program = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n    os._exit(0)\nprint('done')";
    let report = run(jail, &Request::new(program));
    assert_eq!((report.outcome, report.stdout.text.as_str()), (Outcome::Ok, "done\n"));
    assert!(report.wall_us < 5_000_000, "{}", report.wall_us);
}

#[test]
fn streams_are_those_of_a_pipe() {
    let Some(jail) = jail() else { return };
    let program = "import sys, io\nsys.stdout.reconfigure(encoding='utf-8')\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('é', sys.stdout.seekable(), sys.__stdout__.name)\nsys.stderr.reconfigure(encoding='utf-8')";
    assert_eq!(outcome(jail, program), (Outcome::Ok, "é False <stdout>\n".to_owned()));
}

#[test]
fn files_that_are_open_at_the_end_are_written_out() {
    let Some(jail) = jail() else { return };
    let request = Request {
        fetch: vec!["out.txt".to_owned()],
        ..Request::new(
            "f = open('out.txt', 'w'); f.write('hello')\nout = open(1, 'w'); out.write('42')\ndef g():\n    h = open('out.txt', 'a')\n    1 / 0\ng()",
        )
    };
    let report = run(jail, &request);
    assert_eq!(report.stdout.text, "42");
    assert_eq!(report.files[0].content.as_deref(), Some(&b"hello"[..]));
}
