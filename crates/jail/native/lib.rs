//! The zygote's native half: everything between `fork` and the first line of the program.
//!
//! A warmed Python loads this library with `ctypes.PyDLL` and calls, in order: [`rocstar_enter`]
//! (own namespaces and file tree, before anything is warmed), [`rocstar_arenas`] (huge pages),
//! [`rocstar_settle`] (after warming) and [`rocstar_serve`], which returns only in a child that is
//! about to become a program. The child then calls [`rocstar_park`] (isolate, report ready, wait
//! for the request) and, when the program is over, [`rocstar_report`].
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
mod child;
mod enter;
mod keeper;
mod sys;
#[path = "../src/wire.rs"]
mod wire;

use std::cell::UnsafeCell;
use std::ffi::c_int;

/// What the functions of this library keep between calls.
pub(crate) struct State {
    /// Root server: user ids by `setresuid`. Otherwise: user namespaces.
    pub(crate) privileged: bool,
    /// The zygote's own process id namespace, to come back to.
    pub(crate) own_pid_namespace: c_int,
    /// The system call filter, as an array of `struct sock_filter`.
    pub(crate) filter: Vec<u8>,
    /// This child's run.
    pub(crate) run: child::Run,
}

struct Global(UnsafeCell<State>);

// SAFETY: the process has one thread when this library runs (the zygote starts none, and children
// call in before the program and, from the main thread only, after it).
unsafe impl Sync for Global {}

static STATE: Global = Global(UnsafeCell::new(State {
    privileged: false,
    own_pid_namespace: -1,
    filter: Vec::new(),
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

/// Enters the zygote's own namespaces and file tree, as the configuration says that the jail sends
/// over `control`.
/// 0, or -1 after a line on standard error.
///
/// # Safety
/// Called once, from Python's main thread, before any other thread exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_enter(control: c_int) -> c_int {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    match enter::enter(state, control) {
        Ok(()) => 0,
        Err((what, error)) => {
            say(what, error);
            -1
        }
    }
}

/// Makes CPython take its memory from huge pages from now on.
///
/// # Safety
/// Called from Python's main thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_arenas() {
    // SAFETY: the interpreter is initialised and this is its main thread.
    unsafe { arena::install() };
}

/// Ends the warming: hard limits that all children share, no new privileges, memory laid out.
///
/// # Safety
/// Called once, from Python's main thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_settle() -> c_int {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    arena::settle();
    match enter::settle(state) {
        Ok(()) => 0,
        Err((what, error)) => {
            say(what, error);
            -1
        }
    }
}

/// Gives every object in `objects` the reference count of `sample`, an immortal one, so that
/// children don't dirty the page when they use it.
///
/// # Safety
/// `objects` points to `count` addresses of live Python objects that are never freed, `sample` to
/// an immortal one (CPython 3.12 and 3.13, where the count is the object's first word).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_immortalize(objects: *const usize, count: usize, sample: usize) {
    // SAFETY: the caller's promise; the reference count is the first 64 bits of an object.
    unsafe {
        let immortal = *(sample as *const u64);
        for index in 0..count {
            let object = *objects.add(index) as *mut u64;
            if *object != immortal {
                *object = immortal;
            }
        }
    }
}

/// Serves the jail on `control` for ever. Returns 1 in a child that is to become a program, 2 in
/// one that is to become a live session; never returns in the zygote or a keeper.
///
/// # Safety
/// Called from Python's main thread, the only thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_serve(control: c_int) -> c_int {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    keeper::serve(state, control)
}

/// Isolates this child, reports it ready, and waits for its request. Returns the flags of the
/// request, or does not return.
///
/// # Safety
/// Called once, in a child that [`rocstar_serve`] returned in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_park() -> c_int {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    child::park(state)
}

/// Waits for the session's next cell. Returns its flags, or does not return.
///
/// # Safety
/// Called after [`rocstar_park`] and, between cells, after [`rocstar_report`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_next_cell() -> c_int {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    child::next_cell(state)
}

/// The request's program (`which` 0) or NUL-ended arguments (1): writes the length to `length`
/// and returns the address.
///
/// # Safety
/// `length` is valid for a write; called after [`rocstar_park`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_request(which: c_int, length: *mut usize) -> *const u8 {
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    let part = state.run.part(which);
    // SAFETY: the caller's promise.
    unsafe { *length = part.len() };
    part.as_ptr()
}

/// Says how the program ended. Ignored in a process that the program forked.
///
/// # Safety
/// Each pointer is valid for its length; `value` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocstar_report(
    kind: c_int,
    line: u32,
    name: *const u8,
    name_length: usize,
    message: *const u8,
    message_length: usize,
    value: *const u8,
    value_length: usize,
) {
    // SAFETY: the caller's promise.
    let (name, message, value) = unsafe {
        (
            std::slice::from_raw_parts(name, name_length),
            std::slice::from_raw_parts(message, message_length),
            (!value.is_null()).then(|| std::slice::from_raw_parts(value, value_length)),
        )
    };
    let said = wire::Said { kind: kind as u8, line, name, message, value };
    // SAFETY: no other reference is alive.
    let state = unsafe { state() };
    state.run.report(&said);
}

/// One line on standard error: the zygote's log.
pub(crate) fn say(what: &str, error: c_int) {
    let error = std::io::Error::from_raw_os_error(error);
    let line = format!("rocstar: {what}: {error}\n");
    // SAFETY: the buffer is valid; what standard error does with it does not matter.
    unsafe { sys::write(2, line.as_ptr().cast(), line.len()) };
}
