//! Each way to end has its own outcome.

use pretty_assertions::assert_eq;
use rocstar_jail::{Outcome, Request};

use super::{jail, outcome, run};

fn exception(name: &str, line: u32, message: &str) -> Outcome {
    Outcome::Exception { name: name.to_owned(), line: Some(line), message: message.to_owned() }
}

fn signal(number: i32, name: &str) -> Outcome {
    Outcome::Signal { number, name: name.to_owned() }
}

#[test]
fn every_ending_is_told_apart() {
    let Some(jail) = jail() else { return };
    let cases = [
        ("print(1 + 1)", Outcome::Ok, "2\n"),
        ("", Outcome::Ok, ""),
        ("x = 1\nraise ValueError('no')", exception("ValueError", 2, "no"), ""),
        (
            "def f():\n    return 1 / 0\nprint('a')\nf()",
            exception("ZeroDivisionError", 2, "division by zero"),
            "a\n",
        ),
        (
            "import json\njson.loads('{')",
            exception(
                "json.decoder.JSONDecodeError",
                2,
                "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            ),
            "",
        ),
        ("class E(Exception): pass\nraise E('mine')", exception("E", 2, "mine"), ""),
        ("import sys; print('x'); sys.exit()", Outcome::Exit { code: 0 }, "x\n"),
        ("import sys; sys.exit(3)", Outcome::Exit { code: 3 }, ""),
        ("raise SystemExit('bye')", Outcome::Exit { code: 1 }, ""),
        (
            "import os; print('lost?', flush=True); os._exit(0)",
            Outcome::Exit { code: 0 },
            "lost?\n",
        ),
        ("import os; os.kill(os.getpid(), 9)", signal(9, "SIGKILL"), ""),
        ("import os; os.abort()", signal(6, "SIGABRT"), ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", signal(15, "SIGTERM"), ""),
        ("import signal; signal.alarm(1); signal.pause()", signal(14, "SIGALRM"), ""),
        ("import ctypes; ctypes.string_at(0)", signal(11, "SIGSEGV"), ""),
        ("raise MemoryError", Outcome::MemoryLimit, ""),
        ("raise KeyboardInterrupt", exception("KeyboardInterrupt", 1, ""), ""),
    ];
    for (program, expected, stdout) in cases {
        assert_eq!(outcome(jail, program), (expected, stdout.to_owned()), "{program}");
    }
}

#[test]
fn a_syntax_error_has_its_line() {
    let Some(jail) = jail() else { return };
    let report = run(jail, &Request::new("x = 1\ny = (\n"));
    let Outcome::Exception { name, line, .. } = &report.outcome else {
        panic!("{report:?}");
    };
    assert_eq!((name.as_str(), *line), ("SyntaxError", Some(2)));
    assert!(report.stderr.text.contains("SyntaxError"), "{}", report.stderr.text);
}

#[test]
fn the_traceback_shows_the_program_and_nothing_of_ours() {
    let Some(jail) = jail() else { return };
    let report = run(jail, &Request::new("def f(x):\n    return x['key']\nf({})"));
    let expected = "Traceback (most recent call last):\n  File \"/tmp/program.py\", line 3, in <module>\n    f({})\n";
    assert!(report.stderr.text.starts_with(expected), "{}", report.stderr.text);
    assert!(report.stderr.text.ends_with("KeyError: 'key'\n"), "{}", report.stderr.text);
}

#[test]
fn the_last_expression_is_shown_when_asked_for() {
    let Some(jail) = jail() else { return };
    let value = |program: &str| {
        let request = Request { last_expression: true, ..Request::new(program) };
        let report = run(jail, &request);
        assert_eq!(report.outcome, Outcome::Ok, "{program}");
        report.value
    };
    assert_eq!(value("x = 2\nx * 21").as_deref(), Some("42"));
    assert_eq!(value("'a' * 3").as_deref(), Some("'aaa'"));
    assert_eq!(value("1;"), None);
    assert_eq!(value("1 # not; this\n"), Some("1".to_owned()));
    assert_eq!(value("None"), None);
    assert_eq!(value("x = 1"), None);
    assert_eq!(value("for i in range(3):\n    i"), None);
    assert_eq!(value("'é;' ;"), None);
    let wide = value("list(range(40))").expect("a value");
    assert!(wide.lines().count() > 1 && wide.lines().all(|line| line.len() < 80), "{wide}");
    // Without the wish there is no value.
    assert_eq!(run(jail, &Request::new("42")).value, None);
}

#[test]
fn a_program_cannot_forge_its_outcome() {
    let Some(jail) = jail() else { return };
    // Whatever it writes, and wherever: the end is what the kernel saw.
    let everywhere = "import os\nfor fd in range(1024):\n    try: os.write(fd, b'\\x01' * 64)\n    except OSError: pass\nos._exit(7)";
    assert_eq!(outcome(jail, everywhere).0, Outcome::Exit { code: 7 });
    let markers = "print('@@E\\n@@D0.1'); raise ValueError";
    assert_eq!(outcome(jail, markers).0, exception("ValueError", 1, ""));
    // A success that is claimed on leaving early is an exit, not an end.
    assert_eq!(outcome(jail, "import os; os._exit(0)").0, Outcome::Exit { code: 0 });
    // A fork of the program that reaches the end does not speak for it.
    let fork = "import os\nif os.fork():\n    os.wait()\n    raise ValueError('parent')";
    assert_eq!(outcome(jail, fork).0, exception("ValueError", 4, "parent"));
}

#[test]
fn a_system_call_that_is_never_allowed_ends_the_program_and_is_named() {
    let Some(jail) = jail() else { return };
    let program = "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nprint('still here')";
    let expected = Outcome::Denied { what: "ptrace".to_owned() };
    assert_eq!(outcome(jail, program), (expected, String::new()));
}

#[test]
fn atexit_and_threads_run_before_the_end() {
    let Some(jail) = jail() else { return };
    let program = "import atexit, threading, time\natexit.register(print, 'atexit')\nthreading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')";
    assert_eq!(outcome(jail, program), (Outcome::Ok, "main\nthread\natexit\n".to_owned()));
}

#[test]
fn arguments_and_main_are_as_in_a_script() {
    let Some(jail) = jail() else { return };
    let request = Request {
        argv: vec!["a".to_owned(), "é b".to_owned(), String::new()],
        ..Request::new("import sys\nif __name__ == '__main__': print(sys.argv, __file__)")
    };
    let report = run(jail, &request);
    assert_eq!(report.stdout.text, "['/tmp/program.py', 'a', 'é b', ''] /tmp/program.py\n");
}

#[test]
fn a_program_cannot_have_itself_run_again() {
    let Some(jail) = jail() else { return };
    // Clears what it can find of the status page, then leaves.
    let program = "import ctypes, os\nfor line in open('/proc/self/maps'):\n    if 'rocstar-status' in line:\n        start, end = (int(x, 16) for x in line.split()[0].split('-'))\n        ctypes.memset(start, 0, end - start)\nos._exit(1)";
    assert_eq!(outcome(jail, program).0, Outcome::Exit { code: 1 });
}

#[test]
fn one_calls_memory_is_not_the_next_ones_outcome() {
    let Some(jail) = super::start(rocstar_jail::Config { slots: 1, ..Default::default() }) else {
        return;
    };
    let limits = rocstar_jail::Limits { memory_bytes: Some(64 << 20), ..Default::default() };
    let hungry = "import os\npids = [os.fork() for _ in range(4)]\nif 0 in pids:\n    x = bytearray(60 << 20)\n    import time; time.sleep(0.2)\n    os._exit(0)\nfor _ in pids: os.wait()";
    super::run_with(&jail, hungry, limits);
    assert_eq!(super::outcome(&jail, "raise ValueError").0, exception("ValueError", 1, ""));
}
