//! Live interpreters keep their state and hold their limits.

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, Control, Error, Kind, Limits, Outcome, Report, Request, Session};

use super::{jail, start};

fn open(jail: &rocstar_jail::Jail) -> Session {
    jail.open_session(Kind::Bare, &Request::default()).expect("a session")
}

fn cell(session: &mut Session, program: &str) -> Report {
    let request = Request { last_expression: true, ..Request::new(program) };
    session.execute(&request, &Control::default()).expect("a live session")
}

fn short(session: &mut Session, program: &str) -> Report {
    let limits = Limits { wall_ms: Some(300), ..Limits::default() };
    let request = Request { limits, ..Request::new(program) };
    session.execute(&request, &Control::default()).expect("a live session")
}

#[test]
fn state_stays_between_cells() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    assert_eq!(cell(&mut session, "x = 20\nimport math").outcome, Outcome::Ok);
    assert_eq!(cell(&mut session, "def f(y): return x + y + math.floor(1.5)").outcome, Outcome::Ok);
    let report = cell(&mut session, "print('out')\nf(21)");
    assert_eq!((report.value.as_deref(), report.stdout.text.as_str()), (Some("42"), "out\n"));
    let report = cell(&mut session, "open('a', 'w').write('z'); open('a').read()");
    assert_eq!(report.value.as_deref(), Some("'z'"));
    assert_eq!(cell(&mut session, "open('a').read()").value.as_deref(), Some("'z'"));
}

#[test]
fn an_exception_ends_the_cell_only() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    cell(&mut session, "x = 1");
    let report = cell(&mut session, "x = 2\n1 / 0\nx = 3");
    let Outcome::Exception { name, line, .. } = report.outcome else { panic!("{report:?}") };
    assert_eq!((name.as_str(), line), ("ZeroDivisionError", Some(2)));
    assert_eq!(cell(&mut session, "x").value.as_deref(), Some("2"));
}

#[test]
fn a_time_out_interrupts_and_keeps_the_state() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    cell(&mut session, "x = 'kept'");
    assert_eq!(short(&mut session, "while True: pass").outcome, Outcome::Timeout);
    assert_eq!(short(&mut session, "import time; time.sleep(60)").outcome, Outcome::Timeout);
    assert_eq!(cell(&mut session, "x").value.as_deref(), Some("'kept'"));
}

#[test]
fn a_cell_that_refuses_the_interrupt_ends_the_session() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    let stubborn =
        "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass";
    assert_eq!(short(&mut session, stubborn).outcome, Outcome::Timeout);
    assert!(!session.is_alive());
    let error = session.execute(&Request::new("1"), &Control::default()).expect_err("ended");
    assert!(matches!(error, Error::SessionEnded { .. }), "{error}");
}

#[test]
fn leaving_ends_the_session_with_its_outcome() {
    let Some(jail) = jail() else { return };
    for (program, outcome) in [
        ("import sys; sys.exit(4)", Outcome::Exit { code: 4 }),
        (
            "import os; os.kill(os.getpid(), 9)",
            Outcome::Signal { number: 9, name: "SIGKILL".to_owned() },
        ),
    ] {
        let mut session = open(jail);
        assert_eq!(cell(&mut session, program).outcome, outcome);
        assert!(!session.is_alive());
    }
}

#[test]
fn output_left_by_a_thread_comes_with_a_later_cell() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    cell(
        &mut session,
        "import threading, time\nt = threading.Thread(target=lambda: (time.sleep(0.05), print('late')))\nt.start()",
    );
    assert_eq!(cell(&mut session, "t.join()").stdout.text, "late\n");
}

#[test]
fn places_are_counted_and_given_back() {
    let Some(jail) = start(Config { sessions: 2, ..Config::default() }) else { return };
    let (first, _second) = (open(&jail), open(&jail));
    let error = jail.open_session(Kind::Bare, &Request::default()).expect_err("full");
    assert!(matches!(error, Error::SessionsFull { limit: 2 }), "{error}");
    drop(first);
    open(&jail);
}

#[test]
fn input_files_and_limits_hold_for_the_session() {
    let Some(jail) = jail() else { return };
    let request = Request {
        files: vec![rocstar_jail::InputFile { path: "data".to_owned(), content: b"d".to_vec() }],
        limits: Limits { memory_bytes: Some(64 << 20), ..Limits::default() },
        ..Request::default()
    };
    let mut session = jail.open_session(Kind::Bare, &request).expect("a session");
    assert_eq!(cell(&mut session, "open('data').read()").value.as_deref(), Some("'d'"));
    assert_eq!(cell(&mut session, "x = bytearray(300 << 20)").outcome, Outcome::MemoryLimit);
    assert_eq!(cell(&mut session, "1 + 1").value.as_deref(), Some("2"));
}

#[test]
fn cpu_time_is_each_cells_own() {
    let Some(jail) = jail() else { return };
    let limits = Limits { cpu_ms: Some(1000), ..Limits::default() };
    let request = Request { limits, ..Request::default() };
    let mut session = jail.open_session(Kind::Bare, &request).expect("a session");
    let busy =
        "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass";
    for _ in 0..5 {
        assert_eq!(cell(&mut session, busy).outcome, Outcome::Ok);
    }
}

#[test]
fn a_forked_process_that_runs_off_its_cell_ends_there() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    cell(&mut session, "import os\npid = os.fork()");
    assert_eq!(cell(&mut session, "os.waitpid(pid, 0)[0] == pid").value.as_deref(), Some("True"));
    assert_eq!(cell(&mut session, "pid > 0").value.as_deref(), Some("True"));
}

#[test]
fn a_cell_that_writes_to_the_channel_or_closes_it_ends_its_session() {
    let Some(jail) = jail() else { return };
    for (program, expected) in [
        ("import os; os.write(1000, b'\\x14' * 40)\nwhile True: pass", "denied"),
        ("import os, time; os.close(1000); time.sleep(60)", "signal"),
    ] {
        let mut session = open(jail);
        assert_eq!(cell(&mut session, program).outcome.name(), expected, "{program}");
        assert!(!session.is_alive(), "{program}");
    }
}

#[test]
fn a_program_that_does_not_read_its_request_runs_out_of_time() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    let begun = cell(
        &mut session,
        "import os, signal\nif os.fork() == 0:\n    os.kill(os.getppid(), signal.SIGSTOP)\n    os._exit(0)",
    );
    if begun.outcome == Outcome::Timeout {
        // Stopped within its own cell: that ran out of time, which is the rule too.
        return;
    }
    let limits = Limits { wall_ms: Some(300), ..Limits::default() };
    let request = Request { stdin: Some(vec![b'x'; 3 << 20]), limits, ..Request::new("1") };
    // The child stops it when it gets to run, which may be after a request or two.
    let outcomes = std::iter::repeat_with(|| {
        session.execute(&request, &Control::default()).expect("a report").outcome
    });
    let first_other = outcomes.take(1000).find(|outcome| *outcome != Outcome::Ok);
    assert_eq!(first_other, Some(Outcome::Timeout));
}

#[test]
fn an_interrupt_between_cells_does_not_lose_the_next_one() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    cell(&mut session, "x = 0\nimport os, signal, threading\npid = os.getpid()");
    for number in 1..20 {
        cell(
            &mut session,
            "import subprocess\n_ = subprocess.Popen(['sh', '-c', f'kill -INT {pid}'])",
        );
        // The interrupt falls into this cell, or between it and the one before.
        cell(&mut session, "_.wait()");
        assert_eq!(cell(&mut session, "x += 1; x").value, Some(number.to_string()));
    }
}

#[test]
fn garbage_on_a_non_blocking_channel_is_no_news() {
    let Some(jail) = jail() else { return };
    let mut session = open(jail);
    let program = "import os\nos.set_blocking(1000, False)\ntry:\n    while True: os.write(1000, b'\\xff\\x00garbage' * 512)\nexcept BlockingIOError: pass";
    assert_eq!(cell(&mut session, program).outcome, Outcome::Ok);
    assert_eq!(cell(&mut session, "1 + 1").value.as_deref(), Some("2"));
}
