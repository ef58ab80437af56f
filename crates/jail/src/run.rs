//! One run in a slot: hand the request over, drain the streams, hold the limits, decide the outcome.
//!
//! Invariant: the outcome rests on what the kernel and this process saw; what the child said about
//! itself (see `wire::Said`) only refines an end that the kernel confirms, and only with the run's
//! nonce on it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};

use crate::capture::Capture;
use crate::jail::Control;
use crate::report::{Outcome, Report, Stream};
use crate::request::{Request, ResolvedLimits, inside_private_directory};
use crate::slot::{Event, Parked, Slot, readable, writable_within};
use crate::wire::{self, Exit, RequestHead, Said};
use crate::{fetch, seccomp};

/// After this, a program that was told to die is taken for lost, and its slot with it. The kernel
/// needs milliseconds; an overloaded machine more.
const DEAD_WITHIN: Duration = Duration::from_secs(30);
/// A session's cell that was interrupted may take this long to come back.
const INTERRUPT_WITHIN: Duration = Duration::from_secs(1);
/// The kernel counts the processes of a session and its branches as one user's; where a control
/// group counts each of them alone, the user's limit leaves room for this many.
const FAMILY: u64 = 64;
/// Whether used-up CPU time is looked for at most this often.
const CPU_CHECK_EVERY: Duration = Duration::from_millis(20);

/// Between two looks at time and cancellation while a child does not take its request.
const HAND_OVER_TURN: Duration = Duration::from_millis(20);

/// Why we ended a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Timeout,
    CpuLimit,
    OutputLimit(Stream),
    Cancelled,
}

/// How the watched part of a run ended.
#[derive(Debug)]
enum End {
    /// The child and all that it started are gone.
    Exit(Exit),
    /// A session's cell is over; the child lives.
    Cell,
}

/// What a session's child may say while a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Nothing,
    CellDone,
    Closed,
}

/// A call or a cell on its way.
pub(crate) struct Run<'a> {
    slot: &'a mut Slot,
    parked: &'a Parked,
    request: &'a Request,
    limits: ResolvedLimits,
    control: &'a Control<'a>,
    turn: Duration,
    /// A cell of a live session; the child survives it.
    is_cell: bool,
    stop: Option<Stop>,
    stdout: Capture,
    stderr: Capture,
    cpu_before_us: Option<u64>,
    /// CPU time of the process in earlier cells, in microseconds, where there is no group to ask.
    earlier_cells_us: u64,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) report: Report,
    /// The child is gone (always so for a call).
    pub(crate) child_is_gone: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        slot: &'a mut Slot,
        parked: &'a Parked,
        request: &'a Request,
        limits: ResolvedLimits,
        control: &'a Control<'a>,
        turn: Duration,
    ) -> Self {
        Self {
            slot,
            parked,
            request,
            limits,
            control,
            turn,
            is_cell: false,
            stop: None,
            stdout: Capture::new(limits.kept_bytes),
            stderr: Capture::new(limits.kept_bytes),
            cpu_before_us: None,
            earlier_cells_us: 0,
        }
    }

    /// The same for a cell of a live session.
    pub(crate) fn cell(
        slot: &'a mut Slot,
        parked: &'a Parked,
        request: &'a Request,
        limits: ResolvedLimits,
        control: &'a Control<'a>,
        turn: Duration,
    ) -> Self {
        Self { is_cell: true, ..Self::new(slot, parked, request, limits, control, turn) }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The slot broke: nothing can be said about the program, and the slot must go.
    pub(crate) fn finish(mut self) -> io::Result<Finished> {
        let mut nonce = [0; 16];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        self.slot.clear_page()?;
        if self.is_cell {
            // What a program wrote there between cells says nothing about this one.
            while self.news() == News::CellDone {}
        }
        self.slot.group.prepare(
            self.limits.memory_bytes.saturating_add(self.limits.tmp_bytes),
            self.limits.processes,
        )?;
        self.cpu_before_us = self.slot.group.cpu_us();
        if self.is_cell && self.cpu_before_us.is_none() {
            self.earlier_cells_us = cpu_of(self.parked.pid).unwrap_or(0);
        }
        self.control.cancel.attach(&self.slot.wake);
        let started = Instant::now();
        let watched = self.hand_over(&nonce, started).and_then(|()| self.watch(started));
        self.control.cancel.detach();
        let end = watched?;
        let wall = started.elapsed();
        self.drain()?;
        self.conclude(&end, &nonce, wall)
    }

    /// Sends the request. A child that dies meanwhile is noticed by the watch that follows.
    fn hand_over(&self, nonce: &[u8; 16], started: Instant) -> io::Result<()> {
        let body = encode_body(self.request)?;
        let head = RequestHead {
            body_bytes: body.len() as u64,
            nonce: *nonce,
            // One second more than the limit that is watched from here, which knows milliseconds. A
            // session's process may live for many cells.
            cpu_seconds: if self.is_cell {
                wire::UNLIMITED
            } else {
                self.limits.cpu_ms.div_ceil(1000).saturating_add(1)
            },
            address_space_bytes: self
                .slot
                .base_address_space_bytes
                .saturating_add(self.limits.memory_bytes),
            file_bytes: self.limits.file_bytes,
            processes: if self.is_cell && self.slot.group.counts_processes() {
                self.limits.processes.saturating_mul(FAMILY)
            } else {
                self.limits.processes.saturating_add(self.slot.foreign_processes)
            },
            flags: if self.request.last_expression { wire::FLAG_LAST_EXPRESSION } else { 0 }
                | if self.request.stdin.is_some() { wire::FLAG_STDIN } else { 0 },
        };
        let mut message = head.encode().to_vec();
        message.extend_from_slice(&body);
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            match send(&self.parked.request, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                // A session's program may have stopped reading: the limit of time holds here too.
                Err(rustix::io::Errno::AGAIN) => {
                    if started.elapsed() >= Duration::from_millis(self.limits.wall_ms)
                        || self.control.cancel.is_cancelled()
                    {
                        return self.slot.order(wire::KILL, self.parked);
                    }
                    writable_within(&self.parked.request, HAND_OVER_TURN)?;
                }
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn watch(&mut self, started: Instant) -> io::Result<End> {
        let wall_deadline = started + Duration::from_millis(self.limits.wall_ms);
        let mut turn_deadline = Some(started + self.turn);
        let mut cpu_check = started + self.cpu_check_after(0);
        let mut interrupted: Option<Instant> = None;
        let mut killed: Option<Instant> = None;
        let mut open = (true, true);
        let mut channel_open = true;
        loop {
            let now = Instant::now();
            if turn_deadline.is_some_and(|deadline| now >= deadline) {
                turn_deadline = None;
                self.slot.order(wire::DEMOTE, self.parked)?;
                if let Some(turn_over) = self.control.turn_over {
                    turn_over();
                }
            }
            if self.stop.is_none() && self.control.cancel.is_cancelled() {
                self.stop = Some(Stop::Cancelled);
            }
            if self.stop.is_none() && now >= wall_deadline {
                self.stop = Some(Stop::Timeout);
            }
            if self.stop.is_none() && now >= cpu_check {
                let used_us = self.cpu_used_us();
                if used_us >= self.cpu_limit_us() {
                    self.stop = Some(Stop::CpuLimit);
                }
                cpu_check = now + self.cpu_check_after(used_us);
            }
            self.enforce(now, &mut interrupted, &mut killed)?;
            let next = [turn_deadline, interrupted.map(|at| at + INTERRUPT_WITHIN)]
                .into_iter()
                .flatten()
                .fold(wall_deadline.min(cpu_check), Instant::min);
            let wait = match (self.stop, killed) {
                (_, Some(at)) => (at + DEAD_WITHIN).saturating_duration_since(now),
                (Some(_), None) => Duration::from_millis(10),
                (None, None) => next.saturating_duration_since(now),
            };
            let cell_channel: Option<&dyn AsFd> =
                if self.is_cell && channel_open { Some(&self.parked.request) } else { None };
            let [out, err, message, cell, woken] = readable(
                [
                    open.0.then_some(&self.parked.stdout as &dyn AsFd),
                    open.1.then_some(&self.parked.stderr as &dyn AsFd),
                    Some(&self.slot.socket),
                    cell_channel,
                    Some(&*self.slot.wake),
                ],
                // Rounded up, so that the deadline has passed on waking.
                wait + Duration::from_micros(100),
            )?;
            if woken {
                // Empties the counter; the flag is looked at above.
                let _ = rustix::io::read(&*self.slot.wake, &mut [0; 8]);
            }
            if out {
                open.0 = self.read(Stream::Stdout)?;
            }
            if err {
                open.1 = self.read(Stream::Stderr)?;
            }
            if message {
                match self.slot.next_event(now + DEAD_WITHIN)? {
                    Event::Exit(exit) => return Ok(End::Exit(exit)),
                    Event::Ready(_) => {
                        return Err(io::Error::other("a child reported ready during a run"));
                    }
                }
            }
            if cell {
                match self.news() {
                    News::CellDone => return Ok(End::Cell),
                    News::Nothing => {}
                    // The program closed its session's channel: nothing can follow.
                    News::Closed => {
                        channel_open = false;
                        self.slot.order(wire::KILL, self.parked)?;
                    }
                }
            }
        }
    }

    /// Ends the program if it must end: at once, or (cells) by an interrupt first.
    fn enforce(
        &self,
        now: Instant,
        interrupted: &mut Option<Instant>,
        killed: &mut Option<Instant>,
    ) -> io::Result<()> {
        if self.stop.is_none() {
            return Ok(());
        }
        if let Some(at) = killed {
            if now > *at + DEAD_WITHIN {
                return Err(io::Error::other("the program did not die"));
            }
            return Ok(());
        }
        match interrupted {
            None if self.is_cell => {
                *interrupted = Some(now);
                self.slot.order(wire::INTERRUPT, self.parked)
            }
            Some(at) if now < *at + INTERRUPT_WITHIN => Ok(()),
            _ => {
                *killed = Some(now);
                self.slot.order(wire::KILL, self.parked)
            }
        }
    }

    /// What the child said on the channel for requests.
    fn news(&self) -> News {
        let mut bytes = [0; 256];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.parked.request, &mut bytes, flags) {
            Ok((0, _)) => News::Closed,
            Ok((count, _)) if bytes[..count].contains(&wire::CELL_DONE) => News::CellDone,
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => News::Nothing,
            Err(_) => News::Closed,
        }
    }

    /// Whether the child has sent `word` on the channel for requests.
    fn was_told(&self, word: u8) -> bool {
        let mut byte = [0];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.parked.request, &mut byte, flags), Ok((1, _)))
            && byte[0] == word
    }

    /// Reads what is there; false at the end of the stream.
    fn read(&mut self, stream: Stream) -> io::Result<bool> {
        let (descriptor, capture) = match stream {
            Stream::Stdout => (&self.parked.stdout, &mut self.stdout),
            Stream::Stderr => (&self.parked.stderr, &mut self.stderr),
        };
        let mut buffer = [MaybeUninit::uninit(); 64 << 10];
        match rustix::io::read(descriptor, &mut buffer) {
            Ok(([], _)) => Ok(false),
            Ok((bytes, _)) => {
                capture.push(bytes);
                if capture.total() > self.limits.output_bytes && self.stop.is_none() {
                    self.stop = Some(Stop::OutputLimit(stream));
                }
                Ok(true)
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what is left in the pipes. Never waits: a write end may live on in a socket's queue.
    fn drain(&mut self) -> io::Result<()> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            loop {
                let descriptor = match stream {
                    Stream::Stdout => &self.parked.stdout,
                    Stream::Stderr => &self.parked.stderr,
                };
                let [more] = readable([Some(descriptor as &dyn AsFd)], Duration::ZERO)?;
                // A thread that a session's cell left behind may write for ever.
                let full = self.stop.is_some_and(|stop| stop == Stop::OutputLimit(stream));
                if !more || full && self.is_cell || !self.read(stream)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// CPU time of the call so far, in microseconds.
    fn cpu_used_us(&self) -> u64 {
        match (self.cpu_before_us, self.slot.group.cpu_us()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => cpu_of(self.parked.pid).unwrap_or(0).saturating_sub(self.earlier_cells_us),
        }
    }

    const fn cpu_limit_us(&self) -> u64 {
        self.limits.cpu_ms.saturating_mul(1000)
    }

    /// When the limit can be reached at the earliest.
    fn cpu_check_after(&self, used_us: u64) -> Duration {
        // Asking costs a few system calls, and the answer stays.
        static CORES: LazyLock<u64> = LazyLock::new(|| {
            std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
        });
        let left_us = self.cpu_limit_us().saturating_sub(used_us);
        Duration::from_micros(left_us / *CORES).max(CPU_CHECK_EVERY)
    }

    fn conclude(mut self, end: &End, nonce: &[u8; 16], wall: Duration) -> io::Result<Finished> {
        let page = self.slot.read_page()?;
        // Asked in every case, so that the next run in this slot counts from here.
        let killed_for_memory = self.slot.group.was_killed_for_memory();
        let said = (page[wire::STATUS_NONCE..wire::STATUS_SAID] == *nonce)
            .then(|| Said::decode(&page[wire::STATUS_SAID..]))
            .flatten();
        let trapped = u32::from_le_bytes([
            page[wire::STATUS_TRAPPED],
            page[wire::STATUS_TRAPPED + 1],
            page[wire::STATUS_TRAPPED + 2],
            page[wire::STATUS_TRAPPED + 3],
        ]);
        if !self.is_cell && self.stop.is_none() && !self.was_told(wire::STARTED) {
            return Err(io::Error::other("the child ended before the program started"));
        }
        let group_us = self.cpu_before_us.zip(self.slot.group.cpu_us());
        let group_us = group_us.map(|(before, now)| now.saturating_sub(before));
        let (cpu_us, resident_kib) = match end {
            // The keeper's own work is in the group's figure; it shows as under a millisecond.
            End::Exit(exit) => {
                let group_us = group_us.filter(|us| *us > exit.cpu_us + 1000);
                (group_us.unwrap_or(exit.cpu_us), exit.resident_kib)
            }
            End::Cell => (group_us.unwrap_or_else(|| self.cpu_used_us()), 0),
        };
        let outcome = match end {
            End::Exit(exit) => {
                self.outcome_of_exit(exit, said.as_ref(), trapped, cpu_us, killed_for_memory)
            }
            End::Cell => self.outcome_of_cell(said.as_ref()),
        };
        // Its interpreter did not say that; the program wrote to the channel.
        let is_forged = matches!(end, End::Cell) && said.is_none() && self.stop.is_none();
        let refused = self.slot.group.was_refused_a_process();
        let outcome = match outcome {
            Outcome::Exception { .. } if refused => Outcome::ProcessLimit,
            other => other,
        };
        let peak = self
            .slot
            .group
            .peak_bytes()
            .unwrap_or_else(|| resident_kib.saturating_sub(self.slot.base_resident_kib) * 1024);
        let report = Report {
            outcome,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            value: said.and_then(|said| said.value).map(text),
            files: fetch::fetch(&self.parked.directory, &self.request.fetch),
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            cpu_us,
            peak_memory_bytes: peak,
            isolation: Vec::new(),
            degraded: false,
        };
        Ok(Finished { report, child_is_gone: matches!(end, End::Exit(_)) || is_forged })
    }

    fn outcome_of_cell(&self, said: Option<&Said<'_>>) -> Outcome {
        match (self.stop, said) {
            (Some(stop), _) => outcome_of_stop(stop),
            (None, Some(said)) => told(said, 0),
            (None, None) => Outcome::Denied { what: "writing to the session's channel".to_owned() },
        }
    }

    /// Kernel facts first, then what the child said where the two agree.
    fn outcome_of_exit(
        &mut self,
        exit: &Exit,
        said: Option<&Said<'_>>,
        trapped: u32,
        cpu_us: u64,
        killed_for_memory: bool,
    ) -> Outcome {
        const SIGKILL: i32 = 9;
        const SIGXCPU: i32 = 24;
        const SIGXFSZ: i32 = 25;
        const SIGSYS: i32 = 31;
        if let Some(stop) = self.stop {
            return outcome_of_stop(stop);
        }
        let (signal, code) = (exit.status & 0x7f, (exit.status >> 8) & 0xff);
        match signal {
            0 => {}
            _ if killed_for_memory => return Outcome::MemoryLimit,
            SIGSYS => return Outcome::Denied { what: denied(trapped) },
            SIGXCPU if cpu_us >= self.cpu_limit_us() => return Outcome::CpuLimit,
            SIGKILL if cpu_us >= self.cpu_limit_us() => return Outcome::CpuLimit,
            SIGXFSZ => return Outcome::FileLimit,
            number => return Outcome::Signal { number, name: signal_name(number) },
        }
        let outcome = said.map_or(Outcome::Exit { code }, |said| told(said, code));
        if killed_for_memory && !outcome.is_success() { Outcome::MemoryLimit } else { outcome }
    }
}

/// The child's own word, where it fits its exit status.
fn told(said: &Said<'_>, code: i32) -> Outcome {
    match (said.kind, code) {
        (wire::SAID_OK, 0) => Outcome::Ok,
        (wire::SAID_EXIT, code) => Outcome::Exit { code },
        // A cell's exception leaves no exit status.
        (wire::SAID_EXCEPTION, _) => Outcome::Exception {
            name: text(said.name),
            line: (said.line > 0).then_some(said.line),
            message: text(said.message),
        },
        (wire::SAID_MEMORY, _) => Outcome::MemoryLimit,
        (wire::SAID_TMP_FULL, _) => Outcome::TmpLimit,
        (wire::SAID_FILE_TOO_BIG, _) => Outcome::FileLimit,
        (wire::SAID_PROCESSES, _) => Outcome::ProcessLimit,
        (_, code) => Outcome::Exit { code },
    }
}

const fn outcome_of_stop(stop: Stop) -> Outcome {
    match stop {
        Stop::Timeout => Outcome::Timeout,
        Stop::CpuLimit => Outcome::CpuLimit,
        Stop::OutputLimit(stream) => Outcome::OutputLimit { stream },
        Stop::Cancelled => Outcome::Cancelled,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `trapped` is the call's number plus one; 0: the handler did not get to note it.
fn denied(trapped: u32) -> String {
    let known = trapped.checked_sub(1).and_then(seccomp::name_of);
    known.unwrap_or_else(|| "a system call that is not allowed".to_owned())
}

/// User plus system time of a process, in microseconds, to the kernel's tick.
fn cpu_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; fields count from behind it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks * (1_000_000 / rustix::param::clock_ticks_per_second()))
}

fn encode_body(request: &Request) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(request.program.len() + 64);
    let mut part = |bytes: &[u8]| -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(bytes);
        Ok(())
    };
    part(request.program.as_bytes())?;
    let arguments: Vec<u8> =
        request.argv.iter().flat_map(|text| text.bytes().chain(std::iter::once(0))).collect();
    part(&arguments)?;
    part(request.stdin.as_deref().unwrap_or_default())?;
    for file in &request.files {
        let path = inside_private_directory(&file.path).map_err(io::Error::other)?;
        part(path.as_bytes())?;
        part(&file.content)?;
    }
    Ok(body)
}

fn signal_name(number: i32) -> String {
    const NAMES: [&str; 32] = [
        "",
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    name.map_or_else(|| format!("SIGRTMIN+{}", number - 34), |name| (*name).to_owned())
}
