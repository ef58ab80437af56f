//! A child on its way from `fork` to the program, and back to the report.
//!
//! The order matters: namespaces and mounts first (they need privileges), then the user, then the
//! filter; only then is the child reported ready, and only after that does anything of the request
//! reach it. Everything before the request is done ahead of time, off the caller's clock.

use std::ffi::{CString, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::enter::{drop_bounding_set, fault, map_ids, mount};
use crate::sys::{self, c_void, check, errno};
use crate::wire::{self, RequestBody, RequestHead, Said, Spawn};
use crate::{Failure, State, degraded};

/// The child's ends of a run's channels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) stdout: c_int,
    pub(crate) stderr: c_int,
    pub(crate) request: c_int,
}

/// The jail's ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JailEnds {
    stdout: c_int,
    stderr: c_int,
    request: c_int,
}

/// How a child talks: the slot's socket, its own ends, and the ends that it sends to the jail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channels {
    pub(crate) socket: c_int,
    /// Sessions: to the keeper; else -1.
    pub(crate) link: c_int,
    pub(crate) parts: Parts,
    pub(crate) jail_ends: JailEnds,
}

impl Parts {
    /// Fresh channels: nothing that a program did to its own (flags, sizes) outlives it.
    pub(crate) fn create() -> Result<(Self, JailEnds), Failure> {
        let mut pairs = [[-1; 2]; 3];
        // SAFETY: each array has room for two descriptors.
        unsafe {
            check("pipe", sys::pipe2(pairs[0].as_mut_ptr(), sys::O_CLOEXEC))?;
            check("pipe", sys::pipe2(pairs[1].as_mut_ptr(), sys::O_CLOEXEC))?;
            let kind = sys::SOCK_STREAM | sys::SOCK_CLOEXEC;
            check("socketpair", sys::socketpair(sys::AF_UNIX, kind, 0, pairs[2].as_mut_ptr()))?;
        }
        let [stdout, stderr, request] = pairs;
        Ok((
            Self { stdout: stdout[1], stderr: stderr[1], request: request[1] },
            JailEnds { stdout: stdout[0], stderr: stderr[0], request: request[0] },
        ))
    }

    pub(crate) fn close(&self) {
        close_all(&[self.stdout, self.stderr, self.request]);
    }
}

impl JailEnds {
    pub(crate) fn close(&self) {
        close_all(&[self.stdout, self.stderr, self.request]);
    }
}

pub(crate) fn close_all(descriptors: &[c_int]) {
    for &descriptor in descriptors {
        // SAFETY: closing a descriptor that we own.
        unsafe { sys::close(descriptor) };
    }
}

/// One run, in the child that will be the program.
pub(crate) struct Run {
    spawn: Spawn,
    socket: c_int,
    /// Sessions: to the keeper.
    link: c_int,
    pub(crate) page: *mut u8,
    pub(crate) parts: Parts,
    jail_ends: JailEnds,
    /// Its number among the keeper's children.
    number: u32,
    /// The private directory, where it is on the host's disk (see `degraded.rs`).
    pub(crate) directory: Option<std::path::PathBuf>,
    /// The process that may report.
    pub(crate) pid: sys::pid_t,
    nonce: [u8; 16],
    /// The mapped body of the request.
    body: *const u8,
    body_bytes: usize,
    /// Inodes of the pipes for stdout and stderr.
    pub(crate) streams: [u64; 2],
    /// What came with a request to branch.
    pub(crate) branch_ends: [c_int; wire::BRANCH_DESCRIPTORS],
    /// The flags of the request.
    pub(crate) flags: u32,
}

impl Run {
    pub(crate) const NONE: Self = Self {
        spawn: Spawn { uid: 0, session: 0, tmp_bytes: 0 },
        socket: -1,
        link: -1,
        page: std::ptr::null_mut(),
        parts: Parts { stdout: -1, stderr: -1, request: -1 },
        jail_ends: JailEnds { stdout: -1, stderr: -1, request: -1 },
        number: 0,
        directory: None,
        pid: 0,
        nonce: [0; 16],
        body: std::ptr::null(),
        body_bytes: 0,
        streams: [0; 2],
        branch_ends: [-1; wire::BRANCH_DESCRIPTORS],
        flags: 0,
    };

    pub(crate) fn begin(&mut self, spawn: &Spawn, number: u32, channels: &Channels, page: *mut u8) {
        // SAFETY: a plain system call.
        let pid = unsafe { sys::getpid() };
        *self = Self {
            spawn: *spawn,
            socket: channels.socket,
            link: channels.link,
            page,
            parts: channels.parts,
            jail_ends: channels.jail_ends,
            number,
            pid,
            directory: self.directory.take(),
            ..Self::NONE
        };
    }

    /// Unmaps the request's body: it would count against the program's memory.
    pub(crate) fn release_body(&mut self) {
        if !self.body.is_null() {
            // SAFETY: `receive_request` mapped it, and no reference to it is left.
            unsafe { sys::munmap(self.body.cast_mut().cast(), self.body_bytes) };
            self.body = std::ptr::null();
        }
    }

    fn body(&self) -> &[u8] {
        if self.body.is_null() {
            return &[];
        }
        // SAFETY: `receive_request` mapped that many bytes.
        unsafe { std::slice::from_raw_parts(self.body, self.body_bytes) }
    }

    /// The request's program and its NUL-ended arguments.
    pub(crate) fn texts(&self) -> (&[u8], &[u8]) {
        RequestBody::decode(self.body()).map_or((&[], &[]), |body| (body.program, body.arguments))
    }

    /// Takes another status page, in a process that became a run of its own.
    pub(crate) fn map_page(&mut self, page: c_int) -> Result<(), Failure> {
        let protection = sys::PROT_READ | sys::PROT_WRITE;
        let nowhere = std::ptr::null_mut();
        // SAFETY: maps a descriptor of the jail's, checked before use.
        unsafe {
            let address =
                sys::mmap(nowhere, wire::STATUS_BYTES, protection, sys::MAP_SHARED, page, 0);
            sys::close(page);
            if address as isize == -1 {
                return Err(("map the status page", errno()));
            }
            sys::madvise(address, wire::STATUS_BYTES, sys::MADV_DONTFORK);
            self.page = address.cast();
            self.pid = sys::getpid();
        }
        Ok(())
    }

    /// See `report` in `python.rs`.
    pub(crate) fn report(&self, said: &Said<'_>) {
        // SAFETY: a plain system call.
        if unsafe { sys::getpid() } != self.pid || self.page.is_null() {
            return;
        }
        // SAFETY: the page is `STATUS_BYTES` long; the jail reads it when this process is gone, or
        // (sessions) after the message that follows.
        let page = unsafe { std::slice::from_raw_parts_mut(self.page, wire::STATUS_BYTES) };
        if said.encode(&mut page[wire::STATUS_SAID..]).is_some() {
            page[wire::STATUS_NONCE..wire::STATUS_SAID].copy_from_slice(&self.nonce);
        }
    }
}

/// See `park` in `python.rs`.
pub(crate) fn park(state: &mut State) -> c_int {
    if let Err((what, error)) = isolate(state) {
        send_failure(state.run.socket, what, error);
        // SAFETY: ends this process before any program saw it.
        unsafe { sys::_exit(125) };
    }
    wait_for_request(state, true)
}

/// See `next_cell` in `python.rs`.
pub(crate) fn next_cell(state: &mut State) -> c_int {
    // SAFETY: plain system calls.
    unsafe {
        // A process that a cell forked, and that ran on to the cell's end.
        if sys::getpid() != state.run.pid {
            sys::_exit(0);
        }
    }
    let done = [wire::CELL_DONE];
    // SAFETY: valid buffers; our own descriptor. A failure shows as a closed channel below. The
    // last request's body is not looked at any more.
    unsafe {
        // A program may have made the channel non-blocking.
        sys::fcntl(state.run.parts.request, sys::F_SETFL, 0);
        sys::write(state.run.parts.request, done.as_ptr().cast(), done.len());
        if !state.run.body.is_null() {
            sys::munmap(state.run.body.cast_mut().cast(), state.run.body_bytes);
        }
    }
    (state.run.body, state.run.body_bytes) = (std::ptr::null(), 0);
    wait_for_request(state, false)
}

fn wait_for_request(state: &mut State, first: bool) -> c_int {
    match receive_request(&mut state.run, first) {
        Ok(flags) => flags,
        // The jail gave the slot up, or is gone. Nothing ran.
        Err(_) => {
            // SAFETY: ends this process.
            unsafe { sys::_exit(126) }
        }
    }
}

/// Puts every layer around this process.
fn isolate(state: &mut State) -> Result<(), Failure> {
    // SAFETY: plain system calls.
    unsafe {
        sys::setsid();
        // The zygote's is off; without it, this process's own files in /proc belong to root.
        sys::prctl(sys::PR_SET_DUMPABLE, 1);
    }
    let private_directory = match state.run.directory.take() {
        Some(path) => degraded::enter(&path)?,
        None => enter_own_view(state)?,
    };
    // The kernel's first choice when memory is short.
    fs::write("/proc/self/oom_score_adj", "800")
        .map_err(|error| fault("write oom_score_adj", &error))?;
    let processes = if state.run.link < 0 { None } else { Some(open_processes()?) };
    become_nobody(state)?;
    let listener = install_filter(state)?;
    if let Some(processes) = processes {
        let sent = send(state.run.link, &[wire::HELLO], &[listener, processes]);
        check("give the keeper its gate", sent)?;
        close_all(&[state.run.link, listener, processes]);
    }
    let ends = &state.run.jail_ends;
    let descriptors = [ends.stdout, ends.stderr, ends.request, private_directory];
    let mut ready = [wire::READY; 5];
    ready[1..].copy_from_slice(&state.run.number.to_le_bytes());
    let sent = send(state.run.socket, &ready, &descriptors);
    check("report ready", sent)?;
    ends.close();
    close_all(&[state.run.socket, private_directory]);
    state.run.socket = -1;
    Ok(())
}

/// Own namespaces, and in them an own `/tmp`, which is entered, and `/proc`. Gives a descriptor of
/// `/tmp`.
fn enter_own_view(state: &State) -> Result<c_int, Failure> {
    let run = &state.run;
    let flags = sys::CLONE_NEWNS | sys::CLONE_NEWIPC | sys::CLONE_NEWUTS;
    // SAFETY: a plain system call.
    check("new mount, ipc and uts namespaces", unsafe { sys::unshare(flags) })?;
    let (uid, gid) = if state.privileged { (run.spawn.uid, run.spawn.uid) } else { (0, 0) };
    let options = format!(
        "mode=0700,size={},nr_inodes={},uid={uid},gid={gid}",
        run.spawn.tmp_bytes,
        inodes(run.spawn.tmp_bytes)
    );
    let flags = sys::MS_NOSUID | sys::MS_NODEV;
    mount(Some("tmp"), "/tmp", Some("tmpfs"), flags, Some(&options))?;
    let flags = flags | sys::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, Some("subset=pid"))?;
    // SAFETY: valid paths.
    unsafe {
        check("enter /tmp", sys::chdir(c"/tmp".as_ptr()))?;
        let flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC;
        check("open /tmp", sys::open(c"/tmp".as_ptr(), flags))
    }
}

/// This namespace's `/proc`, for the keeper.
fn open_processes() -> Result<c_int, Failure> {
    let flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC;
    // SAFETY: a valid path.
    check("open /proc", unsafe { sys::open(c"/proc".as_ptr(), flags) })
}

/// A file needs about one KiB of kernel memory however small it is.
pub(crate) fn inodes(tmp_bytes: u64) -> u64 {
    (tmp_bytes / 4096).clamp(256, 65_536)
}

fn become_nobody(state: &State) -> Result<(), Failure> {
    // SAFETY: plain system calls on valid values; raw calls, since this process has one thread.
    unsafe {
        if state.privileged {
            let id = state.run.spawn.uid;
            let none: *const u32 = std::ptr::null();
            check("setgroups", sys::syscall(sys::number::SETGROUPS, 0_usize, none))?;
            check("setresgid", sys::syscall(sys::number::SETRESGID, id, id, id))?;
            // Leaving user 0 also empties the permitted and effective capability sets.
            check("setresuid", sys::syscall(sys::number::SETRESUID, id, id, id))?;
            // The change of user switched it off again.
            sys::prctl(sys::PR_SET_DUMPABLE, 1);
        } else if !state.degraded {
            check("new user namespace", sys::unshare(sys::CLONE_NEWUSER))?;
            map_ids("65534", 0, 0)?;
            drop_bounding_set()?;
            drop_capabilities()?;
        }
        // After the change of user, which clears it: the program ends with its keeper.
        check("pdeathsig", sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL))?;
        sys::prctl(sys::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
    Ok(())
}

/// Empties the capability sets of this process.
pub(crate) fn drop_capabilities() -> Result<(), Failure> {
    // Version 3 of the capability interface: two words of each set, all empty.
    let head: [u32; 2] = [0x2008_0522, 0];
    let empty = [0_u32; 6];
    // SAFETY: valid structures.
    let result = unsafe { sys::syscall(sys::number::CAPSET, head.as_ptr(), empty.as_ptr()) };
    check("drop capabilities", result).map(|_| ())
}

/// Gives the filter's listener in a session; -1 in a call.
fn install_filter(state: &State) -> Result<c_int, Failure> {
    let is_session = state.run.link >= 0;
    let filter = if is_session { &state.session_filter } else { &state.filter };
    // SAFETY: valid structures; the handler only writes one word and raises.
    unsafe {
        note_traps(state.run.page);
        let action = sys::sigaction_t {
            handler: on_trap as *const () as usize,
            mask: [0; 16],
            flags: sys::SA_SIGINFO | sys::SA_RESETHAND | sys::SA_NODEFER,
            restorer: 0,
        };
        check("SIGSYS", sys::sigaction(sys::SIGSYS, &raw const action, std::ptr::null_mut()))?;
        let none = [0_u64; 16];
        sys::sigprocmask(sys::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        let program = sys::sock_fprog {
            length: u16::try_from(filter.len() / 8).unwrap_or(0),
            filter: filter.as_ptr().cast(),
        };
        if is_session {
            let listener = sys::syscall(
                sys::number::SECCOMP,
                sys::SECCOMP_SET_MODE_FILTER,
                sys::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            );
            return check("seccomp", listener).map(|listener| listener as c_int);
        }
        let result = sys::prctl(
            sys::PR_SET_SECCOMP,
            sys::SECCOMP_MODE_FILTER,
            &raw const program,
            0_usize,
            0_usize,
        );
        check("seccomp", result)?;
    }
    Ok(-1)
}

/// Has trapped calls noted on this status page.
pub(crate) fn note_traps(page: *mut u8) {
    // SAFETY: the page is `STATUS_BYTES` long; written while nothing traps.
    unsafe { TRAP_WORD = page.add(wire::STATUS_TRAPPED).cast() };
}

/// Where the number of a trapped system call goes.
static mut TRAP_WORD: *mut u32 = std::ptr::null_mut();

/// `SIGSYS`: the filter trapped a call that no honest program makes. Notes which, and dies of the
/// same signal.
extern "C" fn on_trap(signal: c_int, information: *const c_int, _: *mut c_void) {
    // `si_syscall` follows si_signo, si_errno, si_code, padding and the address of the call.
    const SYSTEM_CALL_WORD: usize = 6;
    // SAFETY: the kernel passes a valid siginfo; the page is mapped in the program's process and
    // unmapped in its forks, which die of the fault instead.
    unsafe {
        let number = *information.add(SYSTEM_CALL_WORD);
        let word = TRAP_WORD;
        word.write_volatile((number as u32).wrapping_add(1));
        sys::raise(signal);
        sys::_exit(128 + signal);
    }
}

/// Reads one request and puts its limits, input and files in place.
fn receive_request(run: &mut Run, first: bool) -> Result<c_int, Failure> {
    let mut head = [0_u8; RequestHead::BYTES];
    run.branch_ends = [-1; wire::BRANCH_DESCRIPTORS];
    let got = loop {
        match receive(run.parts.request, &mut head, &mut run.branch_ends) {
            -1 if errno() == sys::EINTR => {}
            -1 => return Err(("read the request", errno())),
            0 => return Err(("the channel closed", 32)),
            got => break got as usize,
        }
    };
    read_exactly(run.parts.request, head[got..].as_mut_ptr(), head.len() - got)?;
    let head = RequestHead::decode(&head).ok_or(("request head", 22))?;
    run.flags = head.flags;
    if head.flags & wire::FLAG_BRANCH != 0 {
        return Ok(head.flags as c_int);
    }
    let length = usize::try_from(head.body_bytes).map_err(|_| ("request length", 22))?;
    // SAFETY: a fresh private mapping, checked before use.
    let body = unsafe {
        sys::mmap(
            std::ptr::null_mut(),
            length.max(1),
            sys::PROT_READ | sys::PROT_WRITE,
            sys::MAP_PRIVATE | sys::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if body as isize == -1 {
        return Err(("map the request", errno()));
    }
    read_exactly(run.parts.request, body.cast(), length)?;
    run.body = body.cast();
    run.body_bytes = length;
    run.nonce = head.nonce;
    if first {
        set_streams(run)?;
    }
    let body = RequestBody::decode(run.body()).ok_or(("request body", 22))?;
    let stdin = (head.flags & wire::FLAG_STDIN != 0).then_some(body.stdin);
    set_stdin(stdin)?;
    let mut files = body.files;
    while let Some((path, content)) = RequestBody::next_file(&mut files) {
        write_file(path, content)?;
    }
    if first {
        set_limits(&head)?;
    }
    if first && run.spawn.session == 0 {
        let started = [wire::STARTED];
        // SAFETY: a valid buffer; our own descriptors.
        unsafe {
            let request = run.parts.request;
            check("say that it starts", sys::write(request, started.as_ptr().cast(), 1))?;
            check("close_range", sys::syscall(sys::CLOSE_RANGE, 3_u32, u32::MAX, 0_u32))?;
        }
    }
    Ok(head.flags as c_int)
}

/// The channel for requests stays only in a session; it moves out of the low numbers.
pub(crate) const REQUEST_CHANNEL: c_int = 1000;

fn set_streams(run: &mut Run) -> Result<(), Failure> {
    // SAFETY: our own descriptors.
    unsafe {
        check("dup2", sys::dup2(run.parts.stdout, 1))?;
        check("dup2", sys::dup2(run.parts.stderr, 2))?;
        if run.spawn.session != 0 {
            run.streams = pipes(run.parts.stdout, run.parts.stderr);
            check("dup3", sys::dup3(run.parts.request, REQUEST_CHANNEL, sys::O_CLOEXEC))?;
            run.parts.request = REQUEST_CHANNEL;
            let last = REQUEST_CHANNEL as u32 - 1;
            check("close_range", sys::syscall(sys::CLOSE_RANGE, 3_u32, last, 0_u32))?;
        }
        // In processes that the program forks, the page is not there.
        sys::madvise(run.page.cast(), wire::STATUS_BYTES, sys::MADV_DONTFORK);
    }
    Ok(())
}

/// Inodes of two pipes.
pub(crate) fn pipes(stdout: c_int, stderr: c_int) -> [u64; 2] {
    [stdout, stderr].map(|pipe| sys::inode_at(pipe, c"").unwrap_or(0))
}

/// Standard input is a file that holds the whole of it: no one has to feed a pipe.
pub(crate) fn set_stdin(content: Option<&[u8]>) -> Result<(), Failure> {
    // SAFETY: valid paths and buffers; the descriptor is ours.
    unsafe {
        let fd = match content {
            None => sys::open(c"/dev/null".as_ptr(), sys::O_RDONLY | sys::O_CLOEXEC),
            Some(bytes) => {
                let fd = sys::memfd_create(c"stdin".as_ptr(), sys::MFD_CLOEXEC);
                write_all(check("memfd_create", fd)?, bytes)?;
                sys::lseek(fd, 0, 0);
                fd
            }
        };
        check("standard input", fd)?;
        check("dup2", sys::dup2(fd, 0))?;
        sys::close(fd);
    }
    Ok(())
}

/// Writes one input file below the private directory, following no link.
fn write_file(path: &[u8], content: &[u8]) -> Result<(), Failure> {
    let directory = std::path::Path::new(std::ffi::OsStr::from_bytes(path)).parent();
    if let Some(directory) = directory.filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(|error| fault("make a directory", &error))?;
    }
    let path = CString::new(path).map_err(|_| ("file name", 22))?;
    let how = sys::open_how {
        flags: (sys::O_WRONLY | sys::O_CREAT | sys::O_TRUNC | sys::O_CLOEXEC) as u64,
        mode: 0o644,
        resolve: sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,
    };
    // SAFETY: valid path and structure, of the size given; the descriptor is ours.
    unsafe {
        let fd = sys::syscall(
            sys::OPENAT2,
            sys::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<sys::open_how>(),
        );
        let fd = check("open an input file", fd)? as c_int;
        let written = write_all(fd, content);
        sys::close(fd);
        written
    }
}

fn set_limits(head: &RequestHead) -> Result<(), Failure> {
    let limits = [
        (sys::RLIMIT_CPU, head.cpu_seconds),
        (sys::RLIMIT_AS, head.address_space_bytes),
        (sys::RLIMIT_FSIZE, head.file_bytes),
        (sys::RLIMIT_NPROC, head.processes),
        // Only here: the kernel holds descriptors that are under way, of all processes of a user,
        // against the limit of the one that sends, and keepers must be able to send.
        (sys::RLIMIT_NOFILE, 1024),
    ];
    for (resource, value) in limits {
        let limit = sys::rlimit { soft: value, hard: value };
        // SAFETY: a valid structure.
        check("setrlimit", unsafe { sys::setrlimit(resource, &raw const limit) })?;
    }
    Ok(())
}

fn read_exactly(fd: c_int, into: *mut u8, count: usize) -> Result<(), Failure> {
    let mut done = 0;
    while done < count {
        // SAFETY: the caller's buffer holds `count` bytes.
        let got = unsafe { sys::read(fd, into.add(done).cast(), count - done) };
        match got {
            0 => return Err(("the channel closed", 32)),
            got if got > 0 => done += got as usize,
            _ if errno() == sys::EINTR => {}
            _ => return Err(("read the request", errno())),
        }
    }
    Ok(())
}

fn write_all(fd: c_int, mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        // SAFETY: a valid buffer.
        let put = unsafe { sys::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if put < 0 && errno() != sys::EINTR {
            return Err(("write an input file", errno()));
        }
        bytes = &bytes[usize::try_from(put).unwrap_or(0)..];
    }
    Ok(())
}

/// Sends one message, with descriptors.
pub(crate) fn send(socket: c_int, bytes: &[u8], descriptors: &[c_int]) -> isize {
    let mut part = sys::iovec { base: bytes.as_ptr().cast_mut().cast(), length: bytes.len() };
    let carried = size_of_val(descriptors);
    let mut rights = sys::Rights {
        length: sys::RIGHTS_HEAD + carried,
        level: sys::SOL_SOCKET,
        kind: sys::SCM_RIGHTS,
        descriptors: [-1; 8],
    };
    rights.descriptors[..descriptors.len()].copy_from_slice(descriptors);
    let (control, control_length) = if descriptors.is_empty() {
        (std::ptr::null_mut(), 0)
    } else {
        ((&raw mut rights).cast(), (sys::RIGHTS_HEAD + carried).next_multiple_of(8))
    };
    let message = sys::msghdr {
        name: std::ptr::null_mut(),
        name_length: 0,
        iov: &raw mut part,
        iov_length: 1,
        control,
        control_length,
        flags: 0,
    };
    // SAFETY: every pointer is valid for its length during the call.
    unsafe { sys::sendmsg(socket, &raw const message, sys::MSG_NOSIGNAL) }
}

/// Receives one message and its descriptors (missing ones stay -1).
pub(crate) fn receive(socket: c_int, bytes: &mut [u8], descriptors: &mut [c_int]) -> isize {
    let mut part = sys::iovec { base: bytes.as_mut_ptr().cast(), length: bytes.len() };
    let mut rights = sys::Rights { length: 0, level: 0, kind: 0, descriptors: [-1; 8] };
    let mut message = sys::msghdr {
        name: std::ptr::null_mut(),
        name_length: 0,
        iov: &raw mut part,
        iov_length: 1,
        control: (&raw mut rights).cast(),
        control_length: size_of::<sys::Rights>(),
        flags: 0,
    };
    // SAFETY: every pointer is valid for its length during the call.
    let length = unsafe { sys::recvmsg(socket, &raw mut message, sys::MSG_CMSG_CLOEXEC) };
    if length > 0 && rights.kind == sys::SCM_RIGHTS && rights.level == sys::SOL_SOCKET {
        let count = rights.length.saturating_sub(sys::RIGHTS_HEAD) / size_of::<c_int>();
        for (into, &descriptor) in descriptors.iter_mut().zip(rights.descriptors.iter().take(count))
        {
            *into = descriptor;
        }
    }
    length
}

/// Tells the jail that a step failed.
pub(crate) fn send_failure(socket: c_int, what: &str, error: c_int) {
    let error = std::io::Error::from_raw_os_error(error);
    let mut message = vec![wire::FAILED];
    message.extend_from_slice(format!("{what}: {error}").as_bytes());
    message.truncate(wire::MAX_MESSAGE_BYTES);
    send(socket, &message, &[]);
}
