//! The zygote's loop, and the keepers: one for each slot, each with at most one program.
//!
//! A keeper is a fork of the warmed zygote that stays in its slot's control group and forks the
//! slot's programs, one after another, ahead of time: while one program ends, the next child is
//! already being isolated. It waits for its child with `wait4` (so that the cost is known), ends
//! it when told to, and reports its end only after every process of the child's namespace is gone.
//!
//! Each program gets a fresh process id namespace. Its first process is a sentinel that shares the
//! keeper's memory and does nothing: were the program itself process 1, the kernel would not let
//! it kill or abort itself, and its orphans would become its own children. When the sentinel is
//! killed, the kernel kills everything else in the namespace.

use std::ffi::c_int;
use std::path::PathBuf;

use crate::child::{self, Parts};
use crate::family::{Family, Gate};
use crate::sys::{self, c_void, check, errno};
use crate::wire::{self, Spawn};
use crate::{Failure, State, degraded, say};

const SENTINEL_STACK: usize = 16 << 10;

/// See `serve` in `python.rs`.
pub(crate) fn serve(state: &mut State, control: c_int) -> c_int {
    child::send(control, &[wire::HELLO], &[]);
    loop {
        let mut bytes = [0_u8; 64];
        let mut descriptors = [-1; 2];
        let length = child::receive(control, &mut bytes, &mut descriptors);
        reap();
        if length == 0 || (length < 0 && errno() != sys::EINTR) {
            // The jail is gone.
            // SAFETY: ends this process.
            unsafe { sys::_exit(0) };
        }
        let spawn = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
        let Some(spawn) = spawn.and_then(Spawn::decode) else { continue };
        // SAFETY: single-threaded. `serve` in `python.rs` sees to the interpreter.
        unsafe {
            let pid = sys::fork();
            if pid == 0 {
                sys::close(control);
                return keep(state, &spawn, descriptors[0], descriptors[1]);
            }
            if pid < 0 {
                say("fork a keeper", errno());
            }
            sys::close(descriptors[0]);
            sys::close(descriptors[1]);
        }
    }
}

/// Takes the exit status of keepers that are gone.
fn reap() {
    const WNOHANG: c_int = 1;
    // SAFETY: a plain system call.
    while unsafe { sys::wait4(-1, std::ptr::null_mut(), WNOHANG, std::ptr::null_mut()) } > 0 {}
}

/// What the keeper knows of its slot.
struct Keeper {
    spawn: Spawn,
    /// The slot's socket.
    socket: c_int,
    /// The slot's status page.
    page: *mut u8,
    sentinel_stack: *mut c_void,
    /// Number of the child that is there now.
    child: u32,
    /// Private directories on the host's disk, where there is no view of its own to hold them: the
    /// last two children's. The jail may still read from the older one.
    directories: [Option<PathBuf>; 2],
}

/// Why the keeper's loop went on.
enum Ended {
    /// In the new child.
    InChild(c_int),
    /// The child and its namespace are gone.
    Reaped,
}

fn keep(state: &mut State, spawn: &Spawn, socket: c_int, page: c_int) -> c_int {
    // SAFETY: maps the descriptor that the jail sent and a fresh stack; both are checked below.
    // All signals stay blocked in the keeper and its sentinel: a program in the sentinel's
    // namespace must not be able to run Python's handlers in here.
    let (page_address, stack) = unsafe {
        let mut all = [0_u64; 16];
        sys::sigfillset(&raw mut all);
        sys::sigprocmask(sys::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let protection = sys::PROT_READ | sys::PROT_WRITE;
        let nowhere = std::ptr::null_mut();
        let page_address =
            sys::mmap(nowhere, wire::STATUS_BYTES, protection, sys::MAP_SHARED, page, 0);
        sys::close(page);
        let private = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
        (page_address, sys::mmap(nowhere, SENTINEL_STACK, protection, private, -1, 0))
    };
    if page_address as isize == -1 || stack as isize == -1 {
        say("map the status page", errno());
        // SAFETY: ends this process.
        unsafe { sys::_exit(1) };
    }
    let mut keeper = Keeper {
        spawn: *spawn,
        socket,
        page: page_address.cast(),
        sentinel_stack: stack,
        child: 0,
        directories: [None, None],
    };
    if state.degraded {
        degraded::adopt_orphans();
    } else {
        enter_own_network(socket);
    }
    child::send(socket, &[wire::HELLO], &[]);
    if !wait_for_start(socket) {
        // SAFETY: ends this process.
        unsafe { sys::_exit(0) };
    }
    loop {
        match one_child(state, &mut keeper) {
            Ok(Ended::InChild(kind)) => return kind,
            Ok(Ended::Reaped) => {}
            Err((what, error)) => {
                child::send_failure(socket, what, error);
                // SAFETY: ends this process; the jail sees the closed socket.
                unsafe { sys::_exit(1) };
            }
        }
    }
}

fn enter_own_network(socket: c_int) {
    // An empty network of the slot's own: programs that run at the same time must not meet in
    // abstract socket names. Once per slot: making one takes a lock that the whole kernel shares.
    // SAFETY: a plain system call.
    if let Err((what, error)) =
        check("new network namespace", unsafe { sys::unshare(sys::CLONE_NEWNET) })
    {
        child::send_failure(socket, what, error);
        // SAFETY: ends this process.
        unsafe { sys::_exit(1) };
    }
}

/// Between the keeper's birth and this message the jail moves it into the slot's control groups.
fn wait_for_start(socket: c_int) -> bool {
    let mut message = [0_u8; wire::MAX_MESSAGE_BYTES];
    child::receive(socket, &mut message, &mut []) > 0
}

/// Forks one child, stays with it until it is over.
fn one_child(state: &mut State, keeper: &mut Keeper) -> Result<Ended, Failure> {
    keeper.child = keeper.child.wrapping_add(1);
    let (parts, jail_ends) = Parts::create()?;
    let sentinel = if state.degraded {
        let made = degraded::make_directory(state, keeper.spawn.uid, keeper.child)?;
        state.run.directory = Some(made.clone());
        keeper.directories.swap(0, 1);
        remove(keeper.directories[1].replace(made));
        NO_SENTINEL
    } else {
        enter_new_pid_namespace()?;
        start_sentinel(keeper)?
    };
    // Branches take namespaces.
    let is_gated = keeper.spawn.session != 0 && !state.degraded;
    let link = if is_gated { Some(Link::create()?) } else { None };
    // SAFETY: single-threaded. `serve` in `python.rs` sees to the interpreter.
    let pid = unsafe { sys::fork() };
    if pid == 0 {
        let link = link.map_or(-1, Link::child_end);
        let channels = child::Channels { socket: keeper.socket, link, parts, jail_ends };
        state.run.begin(&keeper.spawn, keeper.child, &channels, keeper.page);
        return Ok(Ended::InChild(1 + c_int::from(keeper.spawn.session != 0)));
    }
    let fork_error = errno();
    parts.close();
    jail_ends.close();
    if !state.degraded {
        leave_pid_namespace(state)?;
    }
    if pid < 0 {
        end_all(sentinel);
        return Err(("fork a child", fork_error));
    }
    let gate = link.and_then(Link::gate);
    let family = Family::new(&mut keeper.spawn, keeper.child, state.privileged, sentinel, gate);
    if !family.watch(pid, keeper.socket)? {
        // The jail is gone, and now so is all that ran here.
        keeper.directories.iter_mut().for_each(|directory| remove(directory.take()));
        // SAFETY: ends this process.
        unsafe { sys::_exit(0) };
    }
    Ok(Ended::Reaped)
}

/// How the keeper of a session gets the gate from its child, once that is behind its filter.
#[derive(Debug, Clone, Copy)]
struct Link([c_int; 2]);

impl Link {
    fn create() -> Result<Self, Failure> {
        let mut ends = [-1; 2];
        let kind = sys::SOCK_STREAM | sys::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        let made = unsafe { sys::socketpair(sys::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
        check("socketpair", made).map(|_| Self(ends))
    }

    fn child_end(self) -> c_int {
        child::close_all(&self.0[..1]);
        self.0[1]
    }

    /// Waits until the child is isolated; nothing if it failed before.
    fn gate(self) -> Option<Gate> {
        let mut descriptors = [-1; 2];
        child::close_all(&self.0[1..]);
        let length = child::receive(self.0[0], &mut [0], &mut descriptors);
        child::close_all(&self.0[..1]);
        (length > 0).then_some(Gate { listener: descriptors[0], processes: descriptors[1] })
    }
}

fn enter_new_pid_namespace() -> Result<(), Failure> {
    // SAFETY: a plain system call.
    check("new pid namespace", unsafe { sys::unshare(sys::CLONE_NEWPID) }).map(|_| ())
}

/// The next child's namespace must not nest in this one's.
fn leave_pid_namespace(state: &State) -> Result<(), Failure> {
    // SAFETY: a plain system call on a descriptor that stays open.
    let result = unsafe { sys::setns(state.own_pid_namespace, sys::CLONE_NEWPID) };
    check("leave the pid namespace", result).map(|_| ())
}

fn start_sentinel(keeper: &Keeper) -> Result<sys::pid_t, Failure> {
    let top = keeper.sentinel_stack.wrapping_byte_add(SENTINEL_STACK - 64);
    let flags = sys::CLONE_VM | sys::CLONE_FS | sys::CLONE_FILES | sys::SIGCHLD;
    // SAFETY: the stack is ours alone (the sentinel before this one is gone), and the sentinel
    // touches nothing but it.
    let pid = unsafe { sys::clone(sentinel, top, flags, std::ptr::null_mut()) };
    check("start the first process of the namespace", pid)
}

/// The body of the first process: takes the exit status of orphans, and waits for its end. It
/// shares memory with the keeper, so it makes raw system calls only.
extern "C" fn sentinel(_: *mut c_void) -> c_int {
    const SIGNAL_SET_BYTES: usize = 8;
    /// The kernel's `struct sigaction` (not glibc's): handler, flags, restorer, mask.
    static IGNORE: [usize; 4] = [sys::SIG_IGN, 0, 0, 0];
    raw::call(
        sys::number::RT_SIGACTION,
        [sys::SIGCHLD as usize, (&raw const IGNORE) as usize, 0, SIGNAL_SET_BYTES],
    );
    raw::call(sys::number::PRCTL, [sys::PR_SET_PDEATHSIG as usize, sys::SIGKILL as usize, 0, 0]);
    loop {
        raw::pause();
    }
}

/// In place of a sentinel's process id where there are no namespaces.
const NO_SENTINEL: sys::pid_t = 0;

fn remove(directory: Option<PathBuf>) {
    if let Some(path) = directory {
        // A program may have made what only root can remove; it stays on the host's disk.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Kills child and namespace; their end is waited for elsewhere.
pub(crate) fn kill_all(pid: sys::pid_t, sentinel: sys::pid_t) {
    // SAFETY: our own, unreaped children.
    unsafe {
        if sentinel != NO_SENTINEL {
            sys::kill(sentinel, sys::SIGKILL);
        }
        sys::kill(pid, sys::SIGKILL);
    }
}

/// Kills the namespace's first process, and with it whatever is left there, and waits until all
/// of it is gone.
pub(crate) fn end_all(sentinel: sys::pid_t) {
    if sentinel == NO_SENTINEL {
        return degraded::end_everything();
    }
    // SAFETY: our own, unreaped child.
    unsafe {
        sys::kill(sentinel, sys::SIGKILL);
        // It is over only when all of its namespace has been waited for, and what is left of a
        // branch that came to nothing may be a child of ours.
        loop {
            let ended = sys::wait4(-1, std::ptr::null_mut(), 0, std::ptr::null_mut());
            if ended == sentinel || ended < 0 && errno() != sys::EINTR {
                break;
            }
        }
    }
}

/// System calls that leave no trace in memory shared with the keeper, `errno` included.
mod raw {
    use std::ffi::c_long;

    #[cfg(target_arch = "x86_64")]
    pub(super) fn call(number: c_long, arguments: [usize; 4]) -> isize {
        let result: isize;
        // SAFETY: the kernel's calling convention; callers pass valid arguments.
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") number as isize => result,
                in("rdi") arguments[0],
                in("rsi") arguments[1],
                in("rdx") arguments[2],
                in("r10") arguments[3],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack)
            );
        }
        result
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn call(number: c_long, arguments: [usize; 4]) -> isize {
        let result: isize;
        // SAFETY: the kernel's calling convention; callers pass valid arguments.
        unsafe {
            std::arch::asm!(
                "svc 0",
                in("x8") number,
                inlateout("x0") arguments[0] as isize => result,
                in("x1") arguments[1],
                in("x2") arguments[2],
                in("x3") arguments[3],
                options(nostack)
            );
        }
        result
    }

    /// Sleeps until a signal.
    pub(super) fn pause() {
        #[cfg(target_arch = "x86_64")]
        call(crate::sys::number::PAUSE, [0; 4]);
        // `ppoll` of nothing, without a limit.
        #[cfg(target_arch = "aarch64")]
        call(73, [0; 4]);
    }
}
