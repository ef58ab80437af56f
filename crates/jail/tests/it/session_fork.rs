//! Branches of live sessions: same state, then nothing in common.

use std::time::Instant;

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, Control, Error, Jail, Kind, Limits, Outcome, Report, Request, Session};

use super::{jail, start};

/// A session to branch, or nothing (after a printed reason) where the kernel can't keep branches
/// apart.
fn open(jail: &Jail) -> Option<Session> {
    let mut session = jail.open_session(Kind::Bare, &Request::default()).expect("a session");
    match session.fork() {
        Ok(_) => jail.open_session(Kind::Bare, &Request::default()).ok(),
        Err(Error::System { source, .. }) if source.to_string().contains("(needs ") => {
            println!("SKIP: {source}");
            None
        }
        Err(error) => panic!("no branch: {error}"),
    }
}

fn cell(session: &mut Session, program: &str) -> Report {
    let request = Request { last_expression: true, ..Request::new(program) };
    session.execute(&request, &Control::default()).expect("a live session")
}

fn value(session: &mut Session, program: &str) -> String {
    let report = cell(session, program);
    report.value.clone().unwrap_or_else(|| panic!("no value: {report:?}"))
}

fn killed() -> Outcome {
    Outcome::Signal { number: 9, name: "SIGKILL".to_owned() }
}

#[test]
fn both_sides_go_on_alone() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(&mut session, "import random\nrandom.seed(7)\nx = [1]\ndef f(y): return x + [y]");
    let mut branch = session.fork().expect("a branch");
    assert_eq!(value(&mut branch, "x.append(2); f(3)"), "[1, 2, 3]");
    assert_eq!(value(&mut session, "f(9)"), "[1, 9]");
    assert_eq!(value(&mut session, "x = 'own'; x"), "'own'");
    assert_eq!(value(&mut branch, "x"), "[1, 2]");
    let drawn = value(&mut session, "random.random()");
    assert_eq!(value(&mut branch, "random.random()"), drawn, "the state of `random` is copied");
    let report = cell(&mut branch, "import sys; print('out'); print('err', file=sys.stderr)");
    assert_eq!((report.stdout.text.as_str(), report.stderr.text.as_str()), ("out\n", "err\n"));
}

#[test]
fn files_are_copied_and_then_separate() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import os, tempfile
os.makedirs('a/b'); open('a/b/data', 'w').write('both'); os.link('a/b/data', 'a/second')
os.symlink('a/b/data', 'link'); os.symlink('/etc/passwd', 'out'); os.mkfifo('pipe')
open('run', 'w').write('#!/bin/sh'); os.chmod('run', 0o750); os.truncate('run', 50 << 20)
log = open('log', 'w+'); log.write('one '); log.flush()
gone = tempfile.TemporaryFile(); gone.write(b'unnamed'); gone.flush()
os.chdir('a')",
    );
    let mut branch = session.fork().expect("a branch");
    let look = "sorted(os.listdir('/tmp')), os.getcwd(), open('b/data').read(), \
                os.stat('second').st_nlink, os.readlink('/tmp/out'), \
                oct(os.stat('/tmp/run').st_mode), os.stat('/tmp/run').st_size, \
                os.stat('/tmp/run').st_blocks < 100, open('/tmp/link').read()";
    let expected = "(['a', 'link', 'log', 'out', 'pipe', 'run'], '/tmp/a', 'both', 2, \
                    '/etc/passwd', '0o100750', 52428800, True, 'both')";
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(flat(value(&mut branch, look)), expected);
    cell(&mut branch, "open('b/data', 'w').write('branch'); log.write('branch'); log.flush()");
    cell(&mut session, "log.write('session'); log.flush(); os.remove('/tmp/run')");
    assert_eq!(
        value(&mut session, "open('b/data').read(), open('second').read()"),
        "('both', 'both')"
    );
    assert_eq!(value(&mut branch, "open('/tmp/log').read()"), "'one branch'");
    assert_eq!(value(&mut session, "open('/tmp/log').read()"), "'one session'");
    assert_eq!(value(&mut branch, "os.path.exists('/tmp/run')"), "True");
    cell(&mut branch, "gone.write(b' branch'); gone.seek(0)");
    assert_eq!(value(&mut branch, "gone.read()"), "b'unnamed branch'");
    assert_eq!(value(&mut session, "gone.seek(0); gone.read()"), "b'unnamed'");
}

#[test]
fn descriptors_and_shared_memory_are_no_way_across() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import mmap, os, socket
read_end, write_end = os.pipe()
left, right = socket.socketpair()
copy = os.dup(1)
memory = os.open('/proc/self/mem', os.O_RDWR)
own = os.open('/proc/self', os.O_RDONLY)
null = os.open('/dev/null', os.O_RDWR)
shared = mmap.mmap(-1, 100_000); shared[:4] = b'both'
open('mapped', 'wb').write(b'both'); file = open('mapped', 'r+b'); mapped = mmap.mmap(file.fileno(), 4)
memfd = os.memfd_create('x'); os.write(memfd, b'both')
def works(call):
    try:
        call()
        return True
    except OSError as error:
        return error.errno",
    );
    let mut branch = session.fork().expect("a branch");
    let tries = "[works(lambda: os.write(write_end, b'x')), works(lambda: left.send(b'x')), \
                 works(lambda: os.pread(memory, 1, id(works))), \
                 works(lambda: os.open('mem', os.O_RDWR, dir_fd=own)), \
                 works(lambda: os.write(null, b'x'))]";
    assert_eq!(value(&mut branch, tries), "[9, 9, 9, 20, True]");
    assert_eq!(value(&mut session, tries), "[True, True, True, True, True]");
    let report = cell(&mut branch, "os.write(copy, b'via a copy') and None");
    assert_eq!(report.stdout.text, "via a copy");
    cell(&mut branch, "shared[:4] = mapped[:4] = b'mine'; os.pwrite(memfd, b'mine', 0)");
    let look = "shared[:4], mapped[:4], os.pread(memfd, 9, 0), open('mapped').read()";
    assert_eq!(value(&mut session, look), "(b'both', b'both', b'both', 'both')");
    cell(&mut session, "shared[:4] = mapped[:4] = b'home'");
    assert_eq!(value(&mut branch, look), "(b'mine', b'mine', b'mine', 'both')");
}

#[test]
fn branches_branch_and_outlive_what_they_came_from() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(&mut session, "path = ['root']");
    let mut child = session.fork().expect("a branch");
    cell(&mut child, "path.append('child')");
    let mut grandchild = child.fork().expect("a branch of a branch");
    cell(&mut grandchild, "path.append('grandchild'); open('note', 'w').write('here')");
    drop(session);
    assert_eq!(value(&mut child, "path"), "['root', 'child']");
    drop(child);
    assert_eq!(value(&mut grandchild, "path"), "['root', 'child', 'grandchild']");
    let mut last = grandchild.fork().expect("a branch of an orphan");
    drop(grandchild);
    assert_eq!(
        value(&mut last, "path, open('note').read()"),
        "(['root', 'child', 'grandchild'], 'here')"
    );
}

#[test]
fn each_has_its_own_end() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(&mut session, "import os, sys, signal, time");
    let endings = [
        ("os.kill(os.getpid(), signal.SIGKILL)", killed()),
        (
            "signal.raise_signal(signal.SIGABRT)",
            Outcome::Signal { number: 6, name: "SIGABRT".to_owned() },
        ),
        ("os.abort()", Outcome::Signal { number: 6, name: "SIGABRT".to_owned() }),
        ("sys.exit(3)", Outcome::Exit { code: 3 }),
        ("os._exit(0)", Outcome::Exit { code: 0 }),
    ];
    for (program, outcome) in endings {
        let mut branch = session.fork().expect("a branch");
        assert_eq!(cell(&mut branch, program).outcome, outcome, "{program}");
        assert!(!branch.is_alive());
        assert_eq!(value(&mut session, "1 + 1"), "2");
    }
    let mut branch = session.fork().expect("a branch");
    assert_eq!(cell(&mut session, "sys.exit(4)").outcome, Outcome::Exit { code: 4 });
    assert_eq!(value(&mut branch, "2 + 2"), "4");
}

#[test]
fn limits_hold_for_each() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(&mut session, "import subprocess, time");
    let with = |limits: Limits, program: &str, session: &mut Session| {
        let request = Request { limits, ..Request::new(program) };
        session.execute(&request, &Control::default()).expect("a live session").outcome
    };
    let short = Limits { wall_ms: Some(300), ..Limits::default() };
    let mut branch = session.fork().expect("a branch");
    assert_eq!(with(short, "while True: pass", &mut branch), Outcome::Timeout);
    assert_eq!(value(&mut branch, "1"), "1", "interrupted, and goes on");
    let memory = with(Limits::default(), "x = bytearray(4 << 30)", &mut branch);
    assert_eq!(memory, Outcome::MemoryLimit);
    let cpu = Limits { cpu_ms: Some(200), ..Limits::default() };
    assert_eq!(with(cpu, "while True: pass", &mut branch), Outcome::CpuLimit);
    let flood = Limits { output_bytes: Some(1000), ..Limits::default() };
    let outcome = with(flood, "while True: print('x' * 100)", &mut branch);
    assert_eq!(outcome, Outcome::OutputLimit { stream: rocstar_jail::Stream::Stdout });
    let full = "open('big', 'wb').write(bytes(200 << 20))";
    let outcome = with(Limits::default(), full, &mut branch);
    assert!(
        matches!(outcome, Outcome::TmpLimit | Outcome::FileLimit | Outcome::MemoryLimit),
        "{outcome:?}"
    );
    let stubborn = "while True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass";
    assert_eq!(with(short, stubborn, &mut branch), Outcome::Timeout);
    assert!(!branch.is_alive());
    assert_eq!(value(&mut session, "2"), "2");
}

#[test]
fn neither_can_reach_the_other() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import ctypes, os, signal, socket
secret, first = bytearray(b'secret'), os.getpid()
def attempt(call):
    try:
        return repr(call())
    except OSError as error:
        return type(error).__name__
def attacks(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    queued = (ctypes.c_int * 32)(9, 0, -1)
    def call(number, *arguments):
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), 'refused')
    tries = {
        'kill': lambda: os.kill(pid, signal.SIGKILL),
        'exists': lambda: os.kill(pid, 0),
        'interrupt': lambda: os.kill(pid, signal.SIGINT),
        'pidfd': lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL),
        'tkill': lambda: call(200 if os.uname().machine == 'x86_64' else 130, pid, 9),
        'sigqueue': lambda: call(129 if os.uname().machine == 'x86_64' else 138, pid, 9, queued),
        'group': lambda: os.killpg(pid, signal.SIGKILL),
    }
    for name in ('mem', 'environ', 'maps', 'fd/1', 'root/tmp', 'cwd', 'auxv'):
        tries[name] = lambda name=name: os.open(f'/proc/{pid}/{name}', os.O_RDONLY)
    tries['write'] = lambda: open(f'/proc/{pid}/mem', 'r+b')
    return sorted(name for name in tries if attempt(tries[name]) not in ('PermissionError', 'FileNotFoundError', 'ProcessLookupError'))
listener = socket.socket(socket.AF_UNIX); listener.bind('\\0here'); listener.listen()
def connect():
    with socket.socket(socket.AF_UNIX) as other:
        other.connect('\\0here')",
    );
    let mut one = session.fork().expect("a branch");
    let mut two = session.fork().expect("a branch");
    let other = value(&mut two, "os.getpid()");
    assert_eq!(value(&mut one, &format!("attacks(first), attacks({other})")), "([], [])");
    assert_eq!(value(&mut one, "attempt(connect)"), "'PermissionError'");
    // The session's own turn, on a branch.
    let branch = value(&mut one, "os.getpid()");
    assert_eq!(value(&mut session, &format!("attacks({branch})")), "[]");
    // Everything that a process may signal: the branch itself only.
    let everything = "pid = os.fork()
if pid == 0:
    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); attempt(lambda: os.kill(-1, 9)); os._exit(0)
os.waitpid(pid, 0)";
    let report = cell(&mut one, everything);
    assert!(matches!(report.outcome, Outcome::Ok | Outcome::Signal { .. }), "{report:?}");
    assert_eq!(value(&mut session, "bytes(secret)"), "b'secret'");
    assert_eq!(value(&mut two, "bytes(secret)"), "b'secret'");
}

#[test]
fn what_a_branch_started_ends_with_it_alone() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import os, subprocess, time
def alive(pids):
    return [os.path.exists(f'/proc/{pid}') for pid in pids]
kept = subprocess.Popen(['tail', '-f', '/dev/null'])",
    );
    let mut branch = session.fork().expect("a branch");
    let daemons = value(
        &mut branch,
        "read_end, write_end = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write_end, b'%d ' % os.getpid())
            time.sleep(1000)
        os._exit(0)
    os.wait()
said = b''
while said.count(b' ') < 3:
    said += os.read(read_end, 100)
[int(pid) for pid in said.split()]",
    );
    assert_eq!(value(&mut session, &format!("alive({daemons})")), "[True, True, True]");
    assert_eq!(cell(&mut branch, "os.kill(os.getpid(), 9)").outcome, killed());
    assert_eq!(value(&mut session, &format!("alive({daemons})")), "[False, False, False]");
    assert_eq!(value(&mut session, "kept.poll(), alive([kept.pid])"), "(None, [True])");
}

#[test]
fn many_branches_of_one_state() {
    let Some(jail) = start(Config { sessions: 25, ..Config::default() }) else { return };
    let Some(mut session) = open(&jail) else { return };
    cell(&mut session, "x = list(range(1000)); open('data', 'wb').write(bytes(100_000))");
    let mut branches = Vec::new();
    for number in 0..20 {
        let begun = Instant::now();
        let mut branch = session.fork().expect("a branch");
        println!("branch {number}: {:?}", begun.elapsed());
        cell(&mut branch, &format!("x.append({number})"));
        branches.push(branch);
    }
    for (number, branch) in branches.iter_mut().enumerate() {
        assert_eq!(value(branch, "len(x), x[-1]"), format!("(1001, {number})"));
    }
    assert_eq!(value(&mut session, "len(x)"), "1000");
}

#[test]
fn branches_take_places_and_give_them_back() {
    let Some(jail) = start(Config { sessions: 2, ..Config::default() }) else { return };
    let Some(mut session) = open(&jail) else { return };
    for _ in 0..3 {
        let branch = session.fork().expect("a branch");
        let error = session.fork().expect_err("full");
        assert!(matches!(error, Error::SessionsFull { limit: 2 }), "{error}");
        drop(branch);
    }
}

#[test]
fn a_session_with_threads_branches_without_them() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import threading
stop = threading.Event(); count = 0
thread = threading.Thread(target=stop.wait, daemon=True); thread.start()",
    );
    let mut branch = session.fork().expect("a branch");
    assert_eq!(value(&mut branch, "threading.active_count()"), "1");
    assert_eq!(
        value(&mut session, "threading.active_count(), stop.set(), thread.join()"),
        "(2, None, None)"
    );
}

#[test]
fn the_kernels_limit_of_states_is_told_and_harms_nobody() {
    let Some(mut session) = jail().and_then(open) else { return };
    let mut made = 0;
    let error = loop {
        cell(&mut session, "x = 1");
        match session.fork() {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    println!("{made} states; {error}");
    assert!((10..=16).contains(&made), "{made}");
    assert!(error.to_string().contains("16 states"), "{error}");
    assert_eq!(value(&mut session, "x"), "1");
}

/// Processes that descend from `root`.
fn descendants(root: u32) -> Vec<u32> {
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all = std::fs::read_dir("/proc").expect("a /proc");
    let all = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let descends = |pid: &u32| {
        std::iter::successors(parent_of(*pid), |&it| parent_of(it)).any(|it| it == root)
    };
    all.filter(descends).collect()
}

#[test]
fn nothing_is_left_of_branches_that_came_to_nothing() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let Some(jail) = start(Config::default()) else { return };
    if open(&jail).is_none() {
        return;
    }
    let zygote = jail.helper_pids()[0];
    let before = descendants(zygote);
    let mut session = jail.open_session(Kind::Bare, &Request::default()).expect("a session");
    loop {
        cell(&mut session, "x = 1");
        if session.fork().is_err() {
            break;
        }
    }
    let made = descendants(zygote).into_iter().filter(|pid| !before.contains(pid));
    let made: Vec<_> = made
        .filter_map(|pid| pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok())
        .collect();
    assert!(made.len() >= 3, "keeper, first process and session at least");
    drop(session);
    for process in made {
        let ten_seconds = Timespec { tv_sec: 10, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&ten_seconds));
        assert_eq!(ended.expect("poll"), 1, "a process is left");
    }
}

#[test]
fn a_program_can_take_no_step_of_branching_itself() {
    let Some(mut session) = jail().and_then(open) else { return };
    let tries = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    return libc.syscall(*arguments), ctypes.get_errno()
x86 = __import__('os').uname().machine == 'x86_64'
flags = 0x8000 | 0x10000000 | 0x20000 | 0x08000000 | 0x01000000 | 0x200000 | 17
result = [call(56 if x86 else 220, flags, 0, 0, 0, 0), call(272 if x86 else 97, 0),
          call(272 if x86 else 97, 0x10000000), call(126 if x86 else 91, 0, 0),
          call(157 if x86 else 167, 24, 0, 0, 0, 0)]
result";
    let refused = "[(-1, 1), (-1, 1), (-1, 1), (-1, 1), (-1, 1)]";
    assert_eq!(value(&mut session, tries), refused);
    let mut branch = session.fork().expect("a branch");
    assert_eq!(value(&mut branch, tries), refused);
    assert_eq!(value(&mut session, tries), refused);
}

#[test]
fn a_fork_bomb_in_a_branch_ends_with_it() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(&mut session, "import os, subprocess, sys\nx = 'kept'");
    let mut branch = session.fork().expect("a branch");
    let bomb = "import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass";
    let limits = Limits { wall_ms: Some(500), ..Limits::default() };
    let request = Request { limits, ..Request::new(bomb) };
    let report = branch.execute(&request, &Control::default()).expect("a live session");
    assert_eq!(report.outcome, Outcome::Timeout);
    assert!(!branch.is_alive());
    let left = "sum(pid.isdigit() for pid in os.listdir('/proc')) <= 3";
    assert_eq!(
        value(&mut session, &format!("{left}, subprocess.call(['true']), x")),
        "(True, 0, 'kept')"
    );
}

#[test]
fn a_session_that_spoils_its_channel_gets_no_branch_and_harms_nobody() {
    let Some(jail) = jail() else { return };
    if open(jail).is_none() {
        return;
    }
    for spoiled in
        ["import os; os.close(1000)", "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 1000)"]
    {
        let mut session = jail.open_session(Kind::Bare, &Request::default()).expect("a session");
        let report = session.execute(&Request::new(spoiled), &Control::default());
        let error = session.fork().expect_err("no branch");
        println!("{error} (the cell: {:?})", report.map(|report| report.outcome));
    }
    assert_eq!(value(&mut open(jail).expect("a session"), "1"), "1");
}

#[test]
fn a_directory_too_deep_to_copy_is_told_and_the_session_goes_on() {
    let Some(mut session) = jail().and_then(open) else { return };
    cell(
        &mut session,
        "import os
for _ in range(3000):
    os.mkdir('deep'); os.chdir('deep')
os.chdir('/tmp')",
    );
    let error = session.fork().expect_err("too deep");
    assert!(error.to_string().contains("copy the files of /tmp"), "{error}");
    assert_eq!(value(&mut session, "1 + 1"), "2");
    cell(&mut session, "import subprocess; subprocess.call(['rm', '-r', 'deep'])");
    assert_eq!(value(&mut session.fork().expect("a branch"), "os.listdir()"), "[]");
}
