//! Limits hold against programs that fight them, and each gives its own outcome.

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, InvalidRequest, Limits, Outcome, Request, ResolvedLimits, Stream};

use super::{jail, run_with};

const SHORT: Limits = Limits {
    wall_ms: Some(300),
    cpu_ms: None,
    memory_bytes: None,
    processes: None,
    file_bytes: None,
    tmp_bytes: None,
    output_bytes: None,
    kept_bytes: None,
};

#[test]
fn wall_time_ends_everything() {
    let Some(jail) = jail() else { return };
    for program in [
        "while True: pass",
        "import time; time.sleep(60)",
        "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "import os, time\nif os.fork() == 0: os.setsid()\nos.fork()\ntime.sleep(60)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    ] {
        let report = run_with(jail, program, SHORT);
        assert_eq!(report.outcome, Outcome::Timeout, "{program}");
        assert!(report.wall_us >= 300_000, "{}", report.wall_us);
    }
}

#[test]
fn output_before_a_time_out_is_kept() {
    let Some(jail) = jail() else { return };
    let report = run_with(jail, "print('before')\nwhile True: pass", SHORT);
    assert_eq!((report.outcome, report.stdout.text.as_str()), (Outcome::Timeout, "before\n"));
}

#[test]
fn cpu_time_counts_and_sleep_does_not() {
    let Some(jail) = jail() else { return };
    let limits = Limits { cpu_ms: Some(200), ..Limits::default() };
    assert_eq!(run_with(jail, "while True: pass", limits).outcome, Outcome::CpuLimit);
    assert_eq!(run_with(jail, "import time; time.sleep(0.4)", limits).outcome, Outcome::Ok);
}

#[test]
fn memory_is_bounded() {
    let Some(jail) = jail() else { return };
    let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let report = run_with(jail, "x = bytearray(32 << 20); print(len(x))", limits);
    assert_eq!(report.outcome, Outcome::Ok);
    assert!(report.peak_memory_bytes >= 32 << 20, "{}", report.peak_memory_bytes);
    for program in [
        "x = bytearray(200 << 20)",
        "x = []\nwhile True: x.append(bytes(1 << 20))",
        "import mmap\nx = [mmap.mmap(-1, 16 << 20) for _ in range(64)]",
    ] {
        let outcome = run_with(jail, program, limits).outcome;
        let is_memory = outcome == Outcome::MemoryLimit
            || matches!(&outcome, Outcome::Exception { name, .. } if name == "OSError");
        assert!(is_memory, "{program}: {outcome:?}");
    }
}

#[test]
fn a_hard_limit_cannot_be_raised() {
    let Some(jail) = jail() else { return };
    let program = "import resource\nfor name in ('AS', 'CPU', 'FSIZE', 'NPROC', 'NOFILE', 'CORE'):\n    r = getattr(resource, 'RLIMIT_' + name)\n    soft, hard = resource.getrlimit(r)\n    try:\n        resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); print('raised', name)\n    except (ValueError, OSError): pass\nprint('done')";
    assert_eq!(super::outcome(jail, program), (Outcome::Ok, "done\n".to_owned()));
}

#[test]
fn processes_are_bounded() {
    let Some(jail) = jail() else { return };
    let limits = Limits { processes: Some(8), wall_ms: Some(5_000), ..Limits::default() };
    let bomb = "import os, time\nn = 0\nwhile True:\n    if os.fork() == 0:\n        time.sleep(30)\n    n += 1";
    assert_eq!(run_with(jail, bomb, limits).outcome, Outcome::ProcessLimit);
    let few = "import os\nfor _ in range(3):\n    if os.fork() == 0: os._exit(0)\nfor _ in range(3): os.wait()\nprint('ok')";
    assert_eq!(run_with(jail, few, limits).outcome, Outcome::Ok);
}

#[test]
fn threads_are_bounded() {
    let Some(jail) = jail() else { return };
    let limits = Limits { processes: Some(8), wall_ms: Some(5_000), ..Limits::default() };
    let bomb = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()";
    let outcome = run_with(jail, bomb, limits).outcome;
    let is_refusal = outcome == Outcome::ProcessLimit
        || matches!(&outcome, Outcome::Exception { name, .. } if name == "RuntimeError");
    assert!(is_refusal, "{outcome:?}");
}

#[test]
fn an_honest_thread_pool_fits_the_default_memory() {
    let Some(jail) = jail() else { return };
    let program = "from concurrent.futures import ThreadPoolExecutor\nimport threading\nbarrier = threading.Barrier(32)\nwith ThreadPoolExecutor(32) as pool: print(sum(pool.map(lambda i: (barrier.wait(), bytearray(1 << 20), i)[2], range(32))))";
    assert_eq!(super::outcome(jail, program), (Outcome::Ok, "496\n".to_owned()));
}

#[test]
fn files_are_bounded() {
    let Some(jail) = jail() else { return };
    let big_file = Limits { file_bytes: Some(1 << 20), ..Limits::default() };
    let program = "f = open('x', 'wb')\nfor _ in range(64): f.write(bytes(1 << 20))";
    assert_eq!(run_with(jail, program, big_file).outcome, Outcome::FileLimit);
    let full = Limits { tmp_bytes: Some(4 << 20), ..Limits::default() };
    let program = "for i in range(64): open(f'x{i}', 'wb').write(bytes(1 << 20))";
    assert_eq!(run_with(jail, program, full).outcome, Outcome::TmpLimit);
    // The next call has its own, empty directory of the usual size.
    let program = "import os\nprint(os.listdir('.'))\nopen('y', 'wb').write(bytes(32 << 20))";
    assert_eq!(super::outcome(jail, program), (Outcome::Ok, "[]\n".to_owned()));
}

#[test]
fn a_flood_of_output_is_stopped_and_head_and_tail_are_kept() {
    let Some(jail) = jail() else { return };
    let limits =
        Limits { output_bytes: Some(1 << 20), kept_bytes: Some(1000), ..Limits::default() };
    for (name, stream) in [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)] {
        let program = format!("import sys\nwhile True: sys.{name}.write('x' * 1000 + '\\n')");
        let report = run_with(jail, &program, limits);
        assert_eq!(report.outcome, Outcome::OutputLimit { stream });
        let captured = if stream == Stream::Stdout { report.stdout } else { report.stderr };
        assert!(captured.total_bytes > 1 << 20 && captured.cut_bytes > 0, "{captured:?}");
        assert!(captured.text.contains("bytes cut"), "{}", captured.text);
    }
    // Much output below the limit only is cut.
    let report = run_with(jail, "print('y' * 100_000)", limits);
    assert_eq!(report.outcome, Outcome::Ok);
    assert_eq!((report.stdout.total_bytes, report.stdout.cut_bytes), (100_001, 99_001));
}

#[test]
fn limits_out_of_range_name_their_field() {
    let Some(jail) = jail() else { return };
    let maximum = Config::default().maximum_limits.wall_ms;
    for (asked, problem) in [
        (0, format!("must be between 1 and {maximum}, is 0")),
        (u64::MAX, format!("must be between 1 and {maximum}, is {}", u64::MAX)),
    ] {
        let limits = Limits { wall_ms: Some(asked), ..Limits::default() };
        let request = Request { limits, ..Request::new("") };
        let error = jail.run(&request, &rocstar_jail::Control::default()).expect_err("refused");
        let expected = InvalidRequest { field: "limits.wall_ms".to_owned(), problem };
        assert_eq!(error.to_string(), expected.to_string());
    }
}

#[test]
fn defaults_never_exceed_the_maximum() {
    let maximum = ResolvedLimits { wall_ms: 50, ..ResolvedLimits::MAXIMUM };
    let resolved = Limits::default().resolve(&ResolvedLimits::default(), &maximum);
    assert_eq!(resolved.map(|limits| limits.wall_ms), Ok(50));
}
