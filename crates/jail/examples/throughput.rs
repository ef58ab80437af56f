//! How many calls a second the jail itself does, without any service around it:
//! `cargo run --release -p rocstar-jail --example throughput -- PYTHON THREADS CALLS [FILE]`.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rocstar_jail::{Config, Control, Jail, Request};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let allow_degraded = std::env::var_os("ALLOW_DEGRADED").is_some();
    let config =
        Config { python: arguments[1].clone().into(), allow_degraded, ..Config::default() };
    let threads: usize = arguments[2].parse().unwrap();
    let calls: usize = arguments[3].parse().unwrap();
    let program = arguments
        .get(4)
        .map_or_else(|| "print(1+1)".to_owned(), |path| std::fs::read_to_string(path).unwrap());
    let start = Instant::now();
    let jail = Jail::start(config).unwrap();
    println!("started in {:?}", start.elapsed());
    println!("{:?}", jail.effective());
    let request = Request::new(program);
    println!("{:#?}", jail.run(&request, &Control::default()).unwrap());
    let left = AtomicUsize::new(calls);
    let before = busy_ms();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    let report = jail.run(&request, &Control::default()).unwrap();
                    assert!(report.outcome.is_success(), "{report:?}");
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{calls} calls, {:.0} calls/s, {:.2} ms a call and thread, {:.2} ms CPU (whole machine) a call",
        calls as f64 / seconds,
        seconds * 1e3 * threads as f64 / calls as f64,
        (busy_ms() - before) / calls as f64
    );
}

/// CPU time that the whole machine was busy for, in milliseconds.
fn busy_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * 10.0
}
