//! The zygote's native half: everything between `fork` and the first line of the program.
//!
//! A warmed Python imports this library as an extension module (see `python.rs`) and calls, in
//! order: `enter` (own namespaces and file tree, before anything is warmed), `settle` (after
//! warming) and `serve`, which returns only in a child that is about to become a program. The child
//! then calls `park` (isolate, report ready, wait for the request) and, when the program is over,
//! `report`.
//!
//! It is one small library without dependencies, built by `build.rs`, because it runs where
//! nothing else may: between `fork` and hostile code, in a process whose every dirtied page costs
//! time. Invariant: in a child, the program starts only after every layer was put in place;
//! anything that fails on the way is reported and ends the child.
//!
//! The process is single-threaded throughout, so state lives in one static cell.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod arena;
mod branch;
mod child;
mod copy;
mod degraded;
mod detach;
mod enter;
mod family;
mod keeper;
mod python;
mod sys;
mod text;
#[path = "../src/wire.rs"]
mod wire;

use std::cell::UnsafeCell;
use std::ffi::c_int;

/// What the functions of this library keep between calls.
pub(crate) struct State {
    /// Root server: user ids by `setresuid`. Otherwise: user namespaces.
    pub(crate) privileged: bool,
    /// The host gives no namespaces, and was told to go on without (see `degraded.rs`).
    pub(crate) degraded: bool,
    /// The zygote's own process id namespace, to come back to.
    pub(crate) own_pid_namespace: c_int,
    /// The system call filter, as an array of `struct sock_filter`.
    pub(crate) filter: Vec<u8>,
    /// The one for live sessions.
    pub(crate) session_filter: Vec<u8>,
    /// This child's run.
    pub(crate) run: child::Run,
}

struct Global(UnsafeCell<State>);

// SAFETY: the process has one thread when this library runs (the zygote starts none, and children
// call in before the program and, from the main thread only, after it).
unsafe impl Sync for Global {}

static STATE: Global = Global(UnsafeCell::new(State {
    privileged: false,
    degraded: false,
    own_pid_namespace: -1,
    filter: Vec::new(),
    session_filter: Vec::new(),
    run: child::Run::NONE,
}));

/// The library's state.
///
/// # Safety
/// No other reference to it may be alive: each exported function takes it once, at its start.
#[expect(clippy::mut_from_ref, reason = "the cell is the only owner; see `Sync` above")]
pub(crate) unsafe fn state() -> &'static mut State {
    // SAFETY: single-threaded (see `Global`), and the caller holds no other reference.
    unsafe { &mut *STATE.0.get() }
}

/// Where a step failed: what was tried, and the error number.
pub(crate) type Failure = (&'static str, c_int);

/// One line on standard error: the zygote's log.
pub(crate) fn say(what: &str, error: c_int) {
    let error = std::io::Error::from_raw_os_error(error);
    let line = format!("rocstar: {what}: {error}\n");
    // SAFETY: the buffer is valid; what standard error does with it does not matter.
    unsafe { sys::write(2, line.as_ptr().cast(), line.len()) };
}
