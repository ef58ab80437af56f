//! A live session makes a branch of itself: the steps of both processes.
//!
//! A program's memory can be copied only by its own process, and that process has long given up
//! its privileges and runs whatever the program left in it. So the session makes the branch with
//! what an ordinary process may do, a `clone` into new user, mount and ipc namespaces, and the
//! keeper, which the kernel asks about that call, sees to the rest (see `family/gate.rs`). It is a raw
//! `clone` because `fork` has no way to make the child a child of the keeper.
//!
//! What makes both sides independent:
//! - own files: everything of the branch that leads to something that the session can still touch
//!   is reopened on the branch's own copy, copied, or cut off (`detach.rs`);
//! - own domain: each side enters a Landlock domain that the other is not in. From then on neither
//!   can signal the other, look into its memory, or reach its abstract sockets, although both live
//!   in one process id namespace under one user id.
//!
//! Invariant: a branch goes on only after all of this is in place; whatever fails ends the branch
//! and is told, and the session goes on. What does not hold: a thread or child process that the
//! session started before keeps its old domain, so it can still reach the branch (the branch can't
//! reach it), and the session can't signal it any more. Either side can slow the other down by
//! lowering its priority. glibc's locks are not put right as `fork` does: a thread that is inside
//! `malloc` at this moment leaves the branch hanging, which the jail notices and ends.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

use crate::child::{self, REQUEST_CHANNEL, Run};
use crate::enter::{drop_bounding_set, fault, map_ids};
use crate::family::BRANCH_FLAGS;
use crate::python::{PyOS_AfterFork_Child, PyOS_AfterFork_Parent, PyOS_BeforeFork};
use crate::sys::{self, check};
use crate::{Failure, State, detach, wire};

/// Which of the two processes this is.
enum Side {
    Origin,
    Branch,
}

/// See `branch` in `python.rs`.
pub(crate) fn branch(state: &mut State) {
    let ends = state.run.branch_ends;
    let signals = block_signals();
    let flags = state.run.flags;
    // SAFETY: plain system calls.
    let user = unsafe { (sys::getuid(), sys::getgid()) };
    match split() {
        Ok(Side::Origin) => {
            let scoped = scope_if(flags & wire::FLAG_SCOPE_ORIGIN != 0);
            if let Err((what, error)) = scoped {
                child::send_failure(state.run.parts.request, what, error);
            }
            child::close_all(&ends);
        }
        Ok(Side::Branch) => {
            if let Err((what, error)) = become_branch(&mut state.run, user) {
                child::send_failure(ends[2], what, error);
                // SAFETY: ends this process before any program saw it.
                unsafe { sys::_exit(125) };
            }
            // SAFETY: the counterpart of `PyOS_BeforeFork` in `split`.
            unsafe { PyOS_AfterFork_Child() };
        }
        Err((what, error)) => {
            child::send_failure(state.run.parts.request, what, error);
            child::close_all(&ends);
        }
    }
    // SAFETY: a valid set.
    unsafe { sys::sigprocmask(sys::SIG_SETMASK, &raw const signals, std::ptr::null_mut()) };
}

/// Blocks all signals, so that none interrupts a step or runs a handler half way. Gives the old
/// mask.
fn block_signals() -> [u64; 16] {
    let (mut all, mut old) = ([0; 16], [0; 16]);
    // SAFETY: valid sets.
    unsafe {
        sys::sigfillset(&raw mut all);
        sys::sigprocmask(sys::SIG_SETMASK, &raw const all, &raw mut old);
    }
    old
}

fn split() -> Result<Side, Failure> {
    // Where glibc keeps this thread's number: as in `fork`, the kernel puts the new one there.
    let mut thread_number: *mut c_int = std::ptr::null_mut();
    // SAFETY: a valid place for the address.
    let known = unsafe { sys::prctl(sys::PR_GET_TID_ADDRESS, &raw mut thread_number) };
    check("find the thread's number (needs CONFIG_CHECKPOINT_RESTORE)", known)?;
    // SAFETY: a copy of this process without shared memory, so both may go on from here; the
    // arguments that the two architectures order differently are null, or null but one.
    let pid = unsafe {
        PyOS_BeforeFork();
        #[cfg(target_arch = "x86_64")]
        let rest = [thread_number as usize, 0];
        #[cfg(target_arch = "aarch64")]
        let rest = [0, thread_number as usize];
        let none = 0_usize;
        sys::syscall(sys::number::CLONE, BRANCH_FLAGS, none, none, rest[0], rest[1])
    };
    if pid == 0 {
        return Ok(Side::Branch);
    }
    let made = check("make the branch", pid);
    // SAFETY: the counterpart of the call above.
    unsafe { PyOS_AfterFork_Parent() };
    made.map(|_| Side::Origin)
}

/// `user`: user and group id, which mean nothing in the new namespace before they are mapped.
fn become_branch(run: &mut Run, user: (u32, u32)) -> Result<(), Failure> {
    let [stdout, stderr, request, page] = run.branch_ends;
    // SAFETY: a plain system call.
    unsafe {
        sys::setsid();
    }
    map_ids(&user.0.to_string(), user.0, user.1)?;
    drop_bounding_set()?;
    child::drop_capabilities()?;
    scope_if(run.flags & wire::FLAG_SCOPE_BRANCH != 0)?;
    let directory = std::env::current_dir().ok();
    let old_tmp = tmp_device()?;
    // SAFETY: changes nothing; the keeper answers when the new `/tmp` is in place.
    let waited = unsafe { sys::unshare(0) };
    check("wait for the branch's surroundings", waited)?;
    if tmp_device()? == old_tmp {
        return Err(("no /tmp of its own", sys::EPERM));
    }
    let directory = directory.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    // SAFETY: valid paths; our own descriptors.
    unsafe {
        if directory.is_none_or(|path| sys::chdir(path.as_ptr()) < 0) {
            check("enter /tmp", sys::chdir(c"/tmp".as_ptr()))?;
        }
        check("dup3", sys::dup3(request, REQUEST_CHANNEL, sys::O_CLOEXEC))?;
    }
    child::close_all(&[request]);
    child::set_stdin(None)?;
    detach::mappings(old_tmp)?;
    let streams = [(run.streams[0], stdout), (run.streams[1], stderr)];
    detach::descriptors(old_tmp, streams, &[0, REQUEST_CHANNEL, page])?;
    run.streams = child::pipes(stdout, stderr);
    child::close_all(&[stdout, stderr]);
    run.parts.request = REQUEST_CHANNEL;
    run.map_page(page)?;
    child::note_traps(run.page);
    Ok(())
}

/// The device of the file system that is mounted on `/tmp`.
fn tmp_device() -> Result<u64, Failure> {
    std::fs::metadata("/tmp").map(|it| it.dev()).map_err(|error| fault("look at /tmp", &error))
}

/// Enters a new Landlock domain.
fn scope_if(wanted: bool) -> Result<(), Failure> {
    const NEEDS: &str = "enter a Landlock domain (needs Linux 6.12 with Landlock)";
    const NO_MORE: &str = "enter a Landlock domain (a session can branch in at most 16 states)";
    const E2BIG: c_int = 7;
    if !wanted {
        return Ok(());
    }
    let rules = sys::landlock_ruleset_attr {
        handled_access_fs: 0,
        handled_access_net: 0,
        scoped: sys::LANDLOCK_SCOPE_SIGNAL | sys::LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
    };
    // SAFETY: a valid structure, of the size given; the descriptor is ours.
    unsafe {
        let length = size_of_val(&rules);
        let ruleset = sys::syscall(sys::LANDLOCK_CREATE_RULESET, &raw const rules, length, 0_usize);
        let ruleset = check(NEEDS, ruleset)? as c_int;
        let entered = sys::syscall(sys::LANDLOCK_RESTRICT_SELF, ruleset, 0_usize);
        let entered = check(NEEDS, entered);
        sys::close(ruleset);
        match entered {
            Ok(_) => Ok(()),
            Err((_, E2BIG)) => Err((NO_MORE, E2BIG)),
            Err(other) => Err(other),
        }
    }
}
