//! What a keeper watches: one program, or a live session with its branches.
//!
//! A branch shares the process id namespace of the session it came from (a process can be born only
//! into its maker's), so the kernel's own way to end "everything in there" ends all of them. What
//! tells the members of a family apart is the **mount namespace**: each branch gets its own, every
//! process that it starts inherits it, and no program can leave it. So one member is ended by
//! killing all processes that live in its mount namespace ([`Family::sweep`]); the last one goes
//! with the namespace's first process, as any program does.
//!
//! How a branch comes to be is in `family/gate.rs`.
//!
//! Invariant: an end is reported only after every process that belonged to the member is gone, and
//! no other member's is touched. A branch that makes processes faster than they can be killed for
//! seconds takes its whole family with it; the limit on its processes makes that hard.

mod gate;

use std::ffi::{CString, c_int};

use crate::keeper::{end_all, kill_all};
use crate::sys::{self, check};
use crate::wire::{self, Exit, Spawn};
use crate::{Failure, child, say};

use gate::Branching;
pub(crate) use gate::{BRANCH_FLAGS, Gate};

/// A program, a session or a branch: a child of the keeper.
struct Member {
    pid: sys::pid_t,
    pidfd: c_int,
    socket: c_int,
    /// The jail still holds the other end of `socket`.
    listening: bool,
    /// Unknown before the first branching.
    home: Option<Home>,
}

/// A member's mount namespace. Kept open: its inode number would go to another one otherwise, as
/// soon as the member's last process is gone.
#[derive(Clone, Copy)]
struct Home {
    descriptor: c_int,
    inode: u64,
}

/// See the module.
pub(crate) struct Family<'a> {
    spawn: &'a mut Spawn,
    /// The number that orders for any of its members name.
    child: u32,
    privileged: bool,
    sentinel: sys::pid_t,
    gate: Option<Gate>,
    members: Vec<Member>,
    /// Sockets of branches that are over, until the jail lets go of them: a socket that is closed
    /// here may lose the last message, or fail an order that crosses with it.
    over: Vec<c_int>,
    branching: Option<Branching>,
}

impl<'a> Family<'a> {
    /// Nobody yet.
    pub(crate) fn new(
        spawn: &'a mut Spawn,
        child: u32,
        privileged: bool,
        sentinel: sys::pid_t,
        gate: Option<Gate>,
    ) -> Self {
        let members = Vec::with_capacity(1);
        let over = Vec::new();
        Self { spawn, child, privileged, sentinel, gate, members, over, branching: None }
    }

    /// Stays with the program, and whatever branches off it, until all of them are over. Each end
    /// is reported on its member's own socket. False: the jail let go of the program's.
    pub(crate) fn watch(mut self, pid: sys::pid_t, socket: c_int) -> Result<bool, Failure> {
        let pidfd = open_pidfd(pid)?;
        self.members.push(Member { pid, pidfd, socket, listening: true, home: None });
        let mut fds = Vec::new();
        let mut jail_listens = true;
        while !self.members.is_empty() || !self.over.is_empty() {
            for (ended, reported) in self.turn(&mut fds) {
                if ended == socket {
                    jail_listens = reported;
                } else {
                    self.over.push(ended);
                }
            }
        }
        if let Some(gate) = self.gate {
            child::close_all(&[gate.listener, gate.processes]);
        }
        Ok(jail_listens)
    }

    /// Waits for whatever comes first, and deals with all that came. Gives the sockets of members
    /// that ended, and whether the jail was there to hear of it.
    fn turn(&mut self, fds: &mut Vec<sys::pollfd>) -> Vec<(c_int, bool)> {
        let wait_for = |fd| sys::pollfd { fd, events: sys::POLLIN, revents: 0 };
        fds.clear();
        fds.push(wait_for(self.gate.map_or(-1, |gate| gate.listener)));
        fds.push(wait_for(self.branching.as_ref().map_or(-1, Branching::waits_for)));
        for member in &self.members {
            fds.push(wait_for(member.pidfd));
            fds.push(wait_for(if member.listening { member.socket } else { -1 }));
        }
        fds.extend(self.over.iter().map(|&socket| wait_for(socket)));
        // SAFETY: a valid array of the length given; negative descriptors are left out.
        if unsafe { sys::poll(fds.as_mut_ptr(), fds.len() as u64, -1) } < 0 {
            return Vec::new();
        }
        let came = |index: usize| fds.get(index).is_some_and(|fd| fd.revents != 0);
        let members = self.members.len();
        for index in (0..members).filter(|index| came(3 + 2 * index)) {
            self.obey(index);
        }
        if came(0) {
            self.decide();
        }
        if came(1) {
            self.advance();
        }
        let mut at = 2 + 2 * members;
        self.over.retain(|&socket| {
            at += 1;
            !came(at - 1) || !is_closed(socket)
        });
        let ended = (0..members).rev().filter(|index| came(2 + 2 * index));
        ended.map(|index| self.bury(index)).collect()
    }

    /// Does what one message of the jail asks.
    fn obey(&mut self, index: usize) {
        let mut message = [0_u8; wire::MAX_MESSAGE_BYTES];
        let mut descriptors = [-1];
        let member = &mut self.members[index];
        let pid = member.pid;
        let length = child::receive(member.socket, &mut message, &mut descriptors);
        if length <= 0 {
            member.listening = false;
            return self.kill(pid);
        }
        let order = message.get(..length as usize).and_then(wire::Order::decode);
        // An order that crossed with the end of its child is not for this one.
        let Some(order) = order.filter(|order| order.child == self.child) else {
            return child::close_all(&descriptors);
        };
        match order.kind {
            wire::KILL => self.kill(pid),
            // SAFETY: our own, unreaped child.
            wire::INTERRUPT => unsafe {
                sys::kill(pid, sys::SIGINT);
            },
            wire::DEMOTE => self.demote(pid),
            wire::BRANCH => self.begin_branching(index, descriptors[0]),
            _ => {
                self.spawn.tmp_bytes = order.value;
                self.kill(pid);
            }
        }
    }

    /// Kills a member; `bury` sees to what it started.
    fn kill(&self, pid: sys::pid_t) {
        if self.members.len() == 1 && self.branching.is_none() {
            return kill_all(pid, self.sentinel);
        }
        // SAFETY: our own, unreaped child.
        unsafe { sys::kill(pid, sys::SIGKILL) };
    }

    /// Lowest priority for a member: by user id, which is the slot's own, or by process group where
    /// there are branches or no user ids.
    fn demote(&self, pid: sys::pid_t) {
        const LOWEST: c_int = 19;
        let by_user = self.spawn.uid != 0 && self.members.len() == 1;
        // SAFETY: plain system calls.
        unsafe {
            if by_user {
                sys::setpriority(sys::PRIO_USER, self.spawn.uid, LOWEST);
            } else {
                sys::setpriority(sys::PRIO_PGRP, pid as u32, LOWEST);
            }
        }
    }

    /// A member's first process is over: ends what is left of the member and reports it.
    fn bury(&mut self, index: usize) -> (c_int, bool) {
        let member = self.members.remove(index);
        let mut status = 0;
        let mut usage = sys::rusage::default();
        // SAFETY: valid pointers; our own, unreaped child.
        unsafe { sys::wait4(member.pid, &raw mut status, 0, &raw mut usage) };
        if self.members.is_empty() {
            self.give_up_branching();
            end_all(self.sentinel);
        } else {
            let home = member.home.map_or(0, |home| home.inode);
            self.sweep(&|inode| inode == home);
        }
        if let Some(home) = member.home {
            child::close_all(&[home.descriptor]);
        }
        let micros = |time: sys::timeval| (time.seconds * 1_000_000 + time.microseconds) as u64;
        let exit = Exit {
            status,
            cpu_us: micros(usage.user) + micros(usage.system),
            resident_kib: usage.max_resident_kib as u64,
            minor_faults: usage.minor_faults as u64,
        };
        let reported = child::send(member.socket, &exit.encode(), &[]) >= 0;
        child::close_all(&[member.pidfd]);
        (member.socket, reported)
    }

    /// Kills every process of the session whose mount namespace `is_meant`, and waits until none of
    /// them is left.
    fn sweep(&self, is_meant: &dyn Fn(u64) -> bool) {
        /// A killed process is gone within a millisecond or two; a busy machine needs more.
        const ROUNDS: usize = 5000;
        let Some(gate) = self.gate else { return };
        let mut killed: Vec<CString> = Vec::new();
        let mut alive = false;
        for _ in 0..ROUNDS {
            let mut dying = false;
            alive = false;
            sys::for_each_entry(gate.processes, &mut |name| {
                if kill_if(gate.processes, name, is_meant) {
                    alive = true;
                    killed.push(name.to_owned());
                } else {
                    // No namespace any more, but still in the list of processes.
                    dying |= killed.iter().any(|it| it.as_c_str() == name);
                }
            });
            if !alive && !dying {
                return;
            }
            // SAFETY: waits a millisecond for the kernel to do it.
            unsafe { sys::poll(std::ptr::null_mut(), 0, 1) };
        }
        if !alive {
            return;
        }
        // Processes that are born faster than they can be killed: the whole family goes.
        say("end a branch: ending its session", sys::EAGAIN);
        // SAFETY: our own, unreaped child.
        unsafe { sys::kill(self.sentinel, sys::SIGKILL) };
    }
}

/// Takes a message that comes too late. True, and closed here too: there was none, the other end is
/// closed.
fn is_closed(socket: c_int) -> bool {
    let closed = child::receive(socket, &mut [0; wire::MAX_MESSAGE_BYTES], &mut []) <= 0;
    if closed {
        child::close_all(&[socket]);
    }
    closed
}

pub(crate) fn open_pidfd(pid: sys::pid_t) -> Result<c_int, Failure> {
    // SAFETY: a plain system call on our own, unreaped child.
    Ok(check("pidfd_open", unsafe { sys::syscall(sys::PIDFD_OPEN, pid, 0) })? as c_int)
}

impl Home {
    /// That of a living process.
    fn of(pidfd: c_int) -> Option<Self> {
        // SAFETY: a plain system call.
        let descriptor = unsafe { sys::ioctl(pidfd, sys::PIDFD_GET_MNT_NAMESPACE, 0_usize) };
        if descriptor < 0 {
            return None;
        }
        sys::inode_at(descriptor, c"").map(|inode| Self { descriptor, inode })
    }
}

/// Kills the process with this entry in `/proc` if its mount namespace `is_meant`.
fn kill_if(processes: c_int, name: &std::ffi::CStr, is_meant: &dyn Fn(u64) -> bool) -> bool {
    // Number 1 is the sentinel.
    if name == c"1" || !name.to_bytes().iter().all(u8::is_ascii_digit) {
        return false;
    }
    // SAFETY: valid path; the descriptor is ours, and stands for this very process, whatever
    // becomes of its number.
    unsafe {
        let flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC;
        let process = sys::openat(processes, name.as_ptr(), flags);
        if process < 0 {
            return false;
        }
        // Of a process that is on its way out, there is no namespace to see any more.
        let meant = sys::inode_at(process, c"ns/mnt").is_some_and(is_meant);
        if meant {
            sys::syscall(sys::PIDFD_SEND_SIGNAL, process, sys::SIGKILL, 0_usize, 0_usize);
        }
        sys::close(process);
        meant
    }
}
