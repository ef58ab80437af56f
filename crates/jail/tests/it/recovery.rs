//! A helper process that dies loses no call; a caller that goes away frees its slot.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use rocstar_jail::{Cancel, Config, Control, Jail, Outcome, Request};

use super::start;

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id");
    // It may be gone already: the burst goes on meanwhile.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn burst(jail: &Jail, calls: usize, meanwhile: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= calls {
                        break;
                    }
                    meanwhile(number);
                    let request = Request::new(format!("print({number})"));
                    let report = jail.run(&request, &Control::default()).expect("a report");
                    assert_eq!(report.outcome, Outcome::Ok, "call {number}");
                    assert_eq!(report.stdout.text, format!("{number}\n"));
                }
            });
        }
    });
}

#[test]
fn killing_helpers_in_the_middle_of_a_burst_loses_no_call() {
    let Some(jail) = start(Config::default()) else { return };
    burst(&jail, 200, |number| {
        if number % 40 == 20 {
            jail.helper_pids().into_iter().for_each(kill);
        }
    });
}

#[test]
fn a_cancelled_call_ends_and_its_slot_serves_on() {
    let Some(jail) = start(Config { slots: 1, ..Config::default() }) else { return };
    let cancel = Cancel::default();
    let control = Control { cancel: cancel.clone(), turn_over: None };
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| jail.run(&Request::new("while True: pass"), &control));
        cancel.cancel();
        run.join().expect("no panic").expect("a report")
    });
    assert_eq!(report.outcome, Outcome::Cancelled);
    burst(&jail, 3, |_| {});
}

#[test]
fn a_long_call_gives_its_turn_away_once() {
    let Some(jail) = super::jail() else { return };
    let turns = AtomicUsize::new(0);
    let over = || {
        turns.fetch_add(1, Ordering::Relaxed);
    };
    let control = Control { cancel: Cancel::default(), turn_over: Some(&over) };
    let program = "import time, os\ntime.sleep(0.3)\nprint(os.nice(0))";
    let report = jail.run(&Request::new(program), &control).expect("a report");
    assert_eq!((report.stdout.text.as_str(), turns.load(Ordering::Relaxed)), ("19\n", 1));
    let short = jail.run(&Request::new("print(1)"), &Control::default()).expect("a report");
    assert_eq!(short.outcome, Outcome::Ok);
}

#[test]
fn dropping_the_jail_ends_every_helper() {
    let Some(jail) = start(Config::default()) else { return };
    burst(&jail, 8, |_| {});
    let pids = jail.helper_pids();
    drop(jail);
    let gone = AtomicBool::new(false);
    // They end by themselves when their sockets close; the kernel needs a moment.
    for _ in 0..2_000 {
        let alive = pids.iter().any(|pid| {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.contains("python") && !state.contains(") Z ")
        });
        if !alive {
            gone.store(true, Ordering::Relaxed);
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    assert!(gone.load(Ordering::Relaxed), "helpers {pids:?} are still there");
}
