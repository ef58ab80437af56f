//! The attacks, one row each: what is tried, what must be seen, and which layer answers for it.
//!
//! A flat table on purpose: a reader goes through it from top to bottom.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rocstar_jail::{Layer, Limits, Outcome, Report};

use super::evidence::{Expected, describe};
use Expected::{Denied, Ends, Held, HeldOrEnds, Refused, Seen, Signal, Survived};

/// One attack.
#[derive(Debug)]
pub(super) struct Attack {
    /// Also the name of its program, where it has one of its own.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// The layer or limit that is expected to stop it.
    pub(super) by: &'static str,
    pub(super) plan: Plan,
}

/// How its programs are run.
#[derive(Debug)]
pub(super) enum Plan {
    /// One after another.
    Steps(&'static [Try]),
    /// The same program several times at once.
    Together { copies: usize, attempt: &'static Try },
    /// Cells of one session.
    Session(&'static [Try]),
}

/// One run of one program.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) program: &'static str,
    pub(super) limits: Limits,
    pub(super) stdin_bytes: usize,
    /// Path and content.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) fetch: &'static [&'static str],
    /// How many times, one after another. More than one looks into several of the host's places.
    pub(super) times: usize,
    pub(super) expected: Expected,
}

/// Small limits: the whole suite takes seconds.
const SMALL: Limits = Limits {
    wall_ms: Some(8_000),
    cpu_ms: Some(6_000),
    memory_bytes: Some(128 << 20),
    processes: Some(32),
    file_bytes: Some(16 << 20),
    tmp_bytes: Some(16 << 20),
    output_bytes: Some(1 << 20),
    kept_bytes: None,
};
const ONE_SECOND: Limits = Limits { wall_ms: Some(1_000), ..SMALL };
const HALF_A_CPU_SECOND: Limits = Limits { cpu_ms: Some(500), ..SMALL };
/// The address space of threads counts as memory; here their number is to be the limit.
const FIVE_THREADS: Limits = Limits { processes: Some(6), memory_bytes: Some(512 << 20), ..SMALL };
const ROOM_FOR_BIG_FILES: Limits = Limits { tmp_bytes: Some(64 << 20), ..SMALL };

const fn run(program: &'static str, expected: Expected) -> Try {
    Try { program, limits: SMALL, stdin_bytes: 0, files: &[], fetch: &[], times: 1, expected }
}

impl Try {
    const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    const fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    const fn fetch(mut self, fetch: &'static [&'static str]) -> Self {
        self.fetch = fetch;
        self
    }

    const fn file(mut self, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files = files;
        self
    }

    const fn stdin_bytes(mut self, bytes: usize) -> Self {
        self.stdin_bytes = bytes;
        self
    }
}

/// The text of `programs/NAME.py`.
macro_rules! program {
    ($name:ident) => {
        include_str!(concat!("programs/", stringify!($name), ".py"))
    };
}

/// A row: `name`, title, layer, and one run of its own program or the steps given.
macro_rules! attack {
    ($id:ident, $title:literal, $by:expr, steps [$($step:expr),+ $(,)?]) => {
        Attack { id: stringify!($id), title: $title, by: $by, plan: Plan::Steps(&[$($step),+]) }
    };
    ($id:ident, $title:literal, $by:expr, cells [$($cell:expr),+ $(,)?]) => {
        Attack { id: stringify!($id), title: $title, by: $by, plan: Plan::Session(&[$($cell),+]) }
    };
    ($id:ident, $title:literal, $by:expr, $expected:expr) => {
        attack!($id, $title, $by, steps [run(program!($id), $expected)])
    };
    ($id:ident, $title:literal, $by:expr, $limits:expr, $expected:expr) => {
        attack!($id, $title, $by, steps [run(program!($id), $expected).limits($limits)])
    };
}

const MOUNTS: &str = Layer::MountNamespace.name();
const PIDS: &str = Layer::PidNamespace.name();
const NETWORK: &str = Layer::NetworkNamespace.name();
const USER: &str = Layer::UnprivilegedUser.name();
const CAPABILITIES: &str = Layer::NoCapabilities.name();
const PRIVILEGES: &str = Layer::NoNewPrivileges.name();
const SECCOMP: &str = Layer::Seccomp.name();
const RESOURCES: &str = Layer::ResourceLimits.name();
const MEMORY: &str = Layer::MemoryCgroup.name();
const CPU: &str = Layer::CpuCgroup.name();
const CHECKS: &str = "request checks";
const OUTSIDE: &str = "outcome seen from outside";
const OUTPUT: &str = "output kept apart";
const FRESH: &str = "a fresh process for each call";
const KILL: &str = "the whole process tree is killed";
const CHANNEL: &str = "checked messages";

/// Every attack.
pub(super) const ATTACKS: &[Attack] = &[
    // Files.
    attack!(read_secrets, "read the host's secrets", MOUNTS, Held),
    attack!(read_server_environment, "read the server's environment", MOUNTS, Held),
    attack!(write_everywhere, "write outside the private directory", MOUNTS, Held),
    attack!(remount_flags, "find a writable or set-uid mount", MOUNTS, Held),
    attack!(shared_page_cache, "change a library for everyone", MOUNTS, steps [
        run(program!(shared_page_cache), Held),
        run(program!(shared_page_cache_look), Held).times(4),
    ]),
    attack!(links_out, "leave through links and `..`", MOUNTS, Held),
    attack!(device_nodes, "make and open device nodes", MOUNTS, Held),
    attack!(proc_writes, "write to /proc and /sys", MOUNTS, Held),
    attack!(other_programs, "start another program to get out", MOUNTS, Held),
    attack!(input_file_names, "bring files in under hostile names", CHECKS, steps [
        run("", Refused("files[0].path")).file(&[("../../etc/planted", "x")]),
        run("", Refused("files[0].path")).file(&[("/etc/planted", "x")]),
        run("", Refused("files[0].path")).file(&[("/tmp/../etc/planted", "x")]),
        run("", Refused("files[0].path")).file(&[("a/./../../planted", "x")]),
        run("", Refused("files[0].path")).file(&[("planted\0.txt", "x")]),
        run("", Refused("files[0].path")).file(&[("", "x")]),
    ]),
    attack!(fetched_file_names, "ask files back under hostile names", CHECKS, steps [
        run("", Refused("fetch[0]")).fetch(&["../../etc/shadow"]),
        run("", Refused("fetch[0]")).fetch(&["/etc/shadow"]),
        run("", Refused("fetch[0]")).fetch(&["/proc/self/environ"]),
        run("", Refused("fetch[0]")).fetch(&["/tmp/x/../../etc/shadow"]),
    ]),
    attack!(links_to_fetch, "have links, pipes and folders fetched", CHECKS, steps [
        run(program!(links_to_fetch), Seen(only_plain_files_fetched)).fetch(&[
            "plain", "link", "folder/passwd", "environment", "pipe", "directory", "missing",
        ]),
    ]),
    // Users and privileges.
    attack!(set_uid, "become another user", PRIVILEGES, Held),
    attack!(capabilities, "gain capabilities", CAPABILITIES, Held),
    attack!(raise_limits, "raise its own limits", RESOURCES, Held),
    attack!(raise_priority, "raise its own priority", RESOURCES, Held),
    // Processes and signals.
    attack!(other_processes, "see other processes", PIDS, Held),
    attack!(process_one, "signal and read process 1", USER, Held),
    attack!(kill_everything, "kill(-1) and killpg", PIDS, Signal(9)),
    attack!(kill_parent, "kill its parent and its group", PIDS, Signal(15)),
    attack!(zombies, "leave zombies and stopped children", KILL, Held),
    attack!(stopped, "stop itself for ever", "limits.wall_ms", ONE_SECOND, Ends(&["timeout"])),
    attack!(daemon, "leave a daemon behind", KILL, steps [
        run(program!(daemon), Held),
        run(program!(daemon_look), Held).times(4),
    ]),
    // The network.
    attack!(inet, "open internet sockets", SECCOMP, Held),
    attack!(names, "resolve a host name", SECCOMP, Held),
    attack!(other_families, "open sockets of every other family", SECCOMP, Held),
    attack!(netlink, "talk to the kernel by netlink", SECCOMP, Held),
    attack!(vsock, "reach the hypervisor by vsock", SECCOMP, Held),
    attack!(crypto_sockets, "use the kernel's crypto sockets", SECCOMP, Held),
    attack!(unix_sockets, "reach the host's services by unix sockets", NETWORK, Held),
    // System calls.
    attack!(trap_ptrace, "trace another process", SECCOMP, Denied("ptrace")),
    attack!(
        trap_process_memory,
        "read another process's memory",
        SECCOMP,
        Denied("process_vm_readv")
    ),
    attack!(look_into_processes, "look into processes by descriptor", SECCOMP, Held),
    attack!(trap_namespaces, "enter new namespaces", SECCOMP, Denied("unshare")),
    attack!(trap_clone, "clone into new namespaces", SECCOMP, Denied("clone")),
    attack!(trap_mount, "rebuild the file tree", SECCOMP, Denied("mount")),
    attack!(trap_io_uring, "use io_uring", SECCOMP, Denied("io_uring_setup")),
    attack!(trap_keyrings, "keep state in the kernel's keyrings", SECCOMP, Denied("keyctl")),
    attack!(trap_kernel_code, "load BPF, perf and userfaultfd", SECCOMP, Denied("bpf")),
    attack!(trap_machine, "load modules, restart the machine", SECCOMP, Denied("reboot")),
    attack!(trap_file_handles, "open files by handle", SECCOMP, Denied("open_by_handle_at")),
    attack!(thirty_two_bit_calls, "make 32-bit system calls", SECCOMP, Ends(&["denied", "signal"])),
    attack!(x32_calls, "make x32 system calls", SECCOMP, Denied("getpid (x32)")),
    attack!(caught_trap, "catch the trap and go on", SECCOMP, Held),
    attack!(change_filter, "loosen its own restrictions", SECCOMP, Held),
    attack!(terminal_input, "type into the server's terminal", SECCOMP, Held),
    attack!(kernel_objects, "leave System V and other kernel objects", SECCOMP, Held),
    attack!(machine_settings, "change the machine's settings", SECCOMP, Held),
    // Exhaustion.
    attack!(fork_bomb, "fork until refused", "limits.processes", steps [
        run(program!(fork_bomb), Held).times(2),
    ]),
    attack!(
        fork_bomb_exponential,
        "fork in every process",
        "limits.processes",
        ONE_SECOND,
        Ends(&["process_limit", "timeout"])
    ),
    attack!(
        fork_bomb_in_shell,
        "fork from a shell",
        "limits.processes",
        ONE_SECOND,
        Ends(&["timeout", "process_limit", "exit"])
    ),
    attack!(thread_bomb, "start threads until refused", "limits.processes", FIVE_THREADS, Held),
    attack!(
        memory_hog,
        "write to ever more memory",
        "limits.memory_bytes",
        Ends(&["memory_limit"])
    ),
    attack!(memory_in_one_piece, "ask for all memory there is", "limits.memory_bytes", Held),
    attack!(
        memory_in_children,
        "spread memory over children",
        MEMORY,
        HeldOrEnds(&["memory_limit"])
    ),
    attack!(memory_in_files, "hide memory in unnamed files", MEMORY, HeldOrEnds(&["memory_limit"])),
    attack!(memory_in_pipes, "hide memory in pipes", RESOURCES, HeldOrEnds(&["memory_limit"])),
    attack!(disk_fill, "fill the private directory", "limits.tmp_bytes", Held),
    attack!(inodes, "use up inodes", "limits.tmp_bytes", Held),
    attack!(deep_directories, "leave a very deep tree", FRESH, Held),
    attack!(big_file, "write a file past its limit", "limits.file_bytes", Held),
    attack!(
        big_file_unhandled,
        "fail at the file limit",
        "limits.file_bytes",
        ROOM_FOR_BIG_FILES,
        Ends(&["file_limit"])
    ),
    attack!(descriptors, "use up descriptors", RESOURCES, Held),
    attack!(timers, "use up timers", RESOURCES, Held),
    attack!(infinite_loop, "loop for ever", "limits.wall_ms", ONE_SECOND, Ends(&["timeout"])),
    attack!(
        infinite_sleep,
        "sleep for ever, ignoring every signal",
        "limits.wall_ms",
        ONE_SECOND,
        Ends(&["timeout"])
    ),
    attack!(
        cpu_signal_ignored,
        "ignore the CPU limit",
        "limits.cpu_ms",
        HALF_A_CPU_SECOND,
        Ends(&["cpu_limit"])
    ),
    attack!(
        cpu_in_children,
        "spend CPU time in children",
        CPU,
        HALF_A_CPU_SECOND,
        Ends(&["cpu_limit"])
    ),
    attack!(
        huge_integer,
        "turn a huge integer into text",
        "limits.wall_ms",
        ONE_SECOND,
        Ends(&["timeout"])
    ),
    attack!(
        regex_bomb,
        "match a hostile regular expression",
        "limits.wall_ms",
        ONE_SECOND,
        Ends(&["timeout"])
    ),
    // Output and endings.
    attack!(output_flood, "flood standard output", "limits.output_bytes", Ends(&["output_limit"])),
    attack!(error_flood, "flood standard error", "limits.output_bytes", Ends(&["output_limit"])),
    attack!(
        output_by_children,
        "flood from children that stay",
        "limits.output_bytes",
        Ends(&["output_limit", "exit"])
    ),
    attack!(not_text, "write bytes that are not UTF-8", OUTPUT, Seen(bytes_kept)),
    attack!(closed_streams, "close all streams", OUTPUT, Held),
    attack!(streams, "find another end behind its streams", OUTPUT, Held),
    attack!(unread_input, "leave a large input unread", OUTPUT, steps [
        run(program!(unread_input), Held).stdin_bytes(4 << 20),
    ]),
    attack!(native_crash, "crash in native code", OUTSIDE, Signal(11)),
    attack!(native_abort, "abort", OUTSIDE, Signal(6)),
    attack!(
        stack_overflow,
        "overflow the C stack",
        OUTSIDE,
        Ends(&["signal", "exception", "memory_limit"])
    ),
    attack!(core_dump, "leave a core dump", RESOURCES, steps [
        run(program!(core_dump), Seen(crashed_without_core)).fetch(&["core"]),
    ]),
    // The result and the supervisor.
    attack!(inherited_descriptors, "write to inherited descriptors", FRESH, Held),
    attack!(
        write_to_all_descriptors,
        "forge a result on every descriptor",
        OUTSIDE,
        Seen(failure_reported)
    ),
    attack!(forged_markers, "print other systems' end markers", OUTSIDE, Seen(failure_reported)),
    attack!(forged_exit, "leave with status 0 in the middle", OUTSIDE, Seen(exit_is_not_ok)),
    attack!(forged_by_child, "have a child end well", OUTSIDE, Seen(failure_reported)),
    attack!(session_descriptors, "write garbage to a session's channel", CHANNEL, cells [
        run(program!(session_descriptors), Survived),
        run("tried('a cell after the garbage')", Survived),
    ]),
    attack!(session_interrupt, "swallow a session's interrupt", "limits.wall_ms", cells [
        run(program!(session_interrupt), Ends(&["timeout"])).limits(ONE_SECOND),
        run("tried('a cell after the interrupt')", Survived),
    ]),
    // State from call to call.
    attack!(plant_state, "leave state for the next call", FRESH, steps [
        run(program!(plant_state), Held),
        run(program!(plant_state_look), Held).times(8),
    ]),
    attack!(memory_of_earlier_calls, "find an earlier call's memory", FRESH, steps [
        run(program!(memory_of_earlier_calls), Held),
        run(program!(memory_of_earlier_calls_look), Held).times(4),
    ]),
    Attack {
        id: "neighbours",
        title: "find calls that run at the same time",
        by: NETWORK,
        plan: Plan::Together { copies: 6, attempt: &run(program!(neighbours), Held) },
    },
];

fn only_plain_files_fetched(report: &Report) -> Result<String, String> {
    let mut problems = Vec::new();
    for file in &report.files {
        match (file.path.as_str(), &file.content, &file.problem) {
            ("plain", Some(content), None) if content == b"text" => {}
            ("plain", ..) => return Err(format!("a plain file did not come back: {file:?}")),
            (path, None, Some(problem)) => problems.push(format!("{path}: {problem}")),
            (path, ..) => return Err(format!("`{path}` came back: {file:?}")),
        }
    }
    match problems.len() {
        6 => Ok(problems.join("\n")),
        count => Err(format!("{count} of 6 refusals, {}", describe(report))),
    }
}

fn bytes_kept(report: &Report) -> Result<String, String> {
    let decode = |encoded: &Option<String>| STANDARD.decode(encoded.as_deref()?).ok();
    let kept = [decode(&report.stdout.base64), decode(&report.stderr.base64)];
    let all_bytes: Vec<u8> = (0..=255).collect();
    let not_text = b"\xff\xfe\x00\xc3\x28\xed\xa0\x80".to_vec();
    if kept == [Some(all_bytes), Some(not_text)] && report.outcome == Outcome::Ok {
        Ok("every byte came back, marked as not UTF-8".to_owned())
    } else {
        Err(format!("{}, {:?}, {:?}", describe(report), report.stdout, report.stderr))
    }
}

fn crashed_without_core(report: &Report) -> Result<String, String> {
    let core = report.files.first().and_then(|file| file.problem.as_deref());
    match (&report.outcome, core) {
        (Outcome::Signal { number: 11, .. }, Some(problem)) => Ok(format!("core: {problem}")),
        _ => Err(format!("{}, core: {core:?}", describe(report))),
    }
}

fn failure_reported(report: &Report) -> Result<String, String> {
    match &report.outcome {
        Outcome::Exception { name, message, .. }
            if name == "ValueError" && message == "really failed" =>
        {
            Ok(format!("{}, and the forged text is only text", describe(report)))
        }
        _ => Err(describe(report)),
    }
}

fn exit_is_not_ok(report: &Report) -> Result<String, String> {
    match report.outcome {
        Outcome::Exit { code: 0 } if report.stdout.text == "ok\n" => Ok(describe(report)),
        _ => Err(describe(report)),
    }
}
