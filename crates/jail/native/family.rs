//! What a keeper watches: one program, or a live session with its branches.
//!
//! A branch shares the process id namespace of the session it came from (a process can be born only
//! into its maker's), so the kernel's own way to end "everything in there" ends all of them. What
//! tells the members of a family apart is the **mount namespace**: each branch gets its own, every
//! process that it starts inherits it, and no program can leave it. So one member is ended by
//! killing all processes that live in its mount namespace ([`Family::sweep`]); the last one goes
//! with the namespace's first process, as any program does.
//!
//! Branching, step by step. The system call filter of a session hands the few calls that it takes
//! to this process ([`Family::decide`]), which lets them pass only here:
//!
//! 1. the jail asks (`wire::BRANCH`) and sends the branch's own socket;
//! 2. the session makes the branch: one `clone` into new user, mount and ipc namespaces, as a child
//!    of this process;
//! 3. the branch maps its user, gives up its new capabilities, and waits in `unshare(0)`;
//! 4. a copier (see `copy.rs`) mounts a fresh `/tmp` in the branch's mount namespace and copies the
//!    files; the jail moves the branch into its own control groups, checks it, and says go.
//!
//! Invariant: nothing that a hostile session does on its side of these steps gives it a process
//! that is not watched here, and an end is reported only after all that belonged to it is gone.

use std::ffi::{CString, c_int};

use crate::copy::{self, Order};
use crate::keeper::{end_all, kill_all};
use crate::sys::{self, check, errno};
use crate::wire::{self, Exit, Spawn};
use crate::{Failure, child, say};

/// How a branch is made: nothing else that the filter stops is ever let through.
pub(crate) const BRANCH_FLAGS: c_int = sys::CLONE_PARENT
    | sys::CLONE_NEWUSER
    | sys::CLONE_NEWNS
    | sys::CLONE_NEWIPC
    | sys::CLONE_CHILD_SETTID
    | sys::CLONE_CHILD_CLEARTID
    | sys::SIGCHLD;

/// What only a session's keeper holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    /// Where the kernel asks about calls that the filter stopped.
    pub(crate) listener: c_int,
    /// The session's own `/proc`, as a directory.
    pub(crate) processes: c_int,
}

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

/// A branch that is not yet a member.
struct Branching {
    socket: c_int,
    origin: sys::pid_t,
    stage: Stage,
}

enum Stage {
    /// The session has not made it yet.
    Asked,
    /// It exists; its process id is not known yet.
    Born,
    /// It waits for its surroundings.
    Copying { branch: Newborn, copier: sys::pid_t, copier_end: c_int },
    /// It waits for the jail's word.
    Copied(Newborn),
}

#[derive(Clone, Copy)]
struct Newborn {
    pid: sys::pid_t,
    pidfd: c_int,
    /// The call that it waits in, by the kernel's number.
    waits_in: u64,
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

    fn begin_branching(&mut self, index: usize, socket: c_int) {
        let member = &mut self.members[index];
        let problem = if self.gate.is_none() {
            Some(("branch: this server runs without namespaces", sys::EPERM))
        } else if self.branching.is_some() {
            Some(("branch: another branch is not finished", sys::EAGAIN))
        } else {
            if member.home.is_none() {
                member.home = Home::of(member.pidfd);
            }
            let what = "tell mount namespaces apart (needs Linux 6.11)";
            member.home.is_none().then(|| (what, errno()))
        };
        if let Some((what, error)) = problem {
            child::send_failure(socket, what, error);
            return child::close_all(&[socket]);
        }
        self.branching = Some(Branching { socket, origin: member.pid, stage: Stage::Asked });
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

    /// Answers one question of the kernel about a call that the session's filter stopped.
    fn decide(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let mut asked = sys::seccomp_notif::default();
        // SAFETY: a valid structure, zeroed as the kernel wants it.
        if unsafe { sys::ioctl(gate.listener, sys::SECCOMP_NOTIF_RECV, &raw mut asked) } < 0 {
            if !matches!(errno(), sys::EINTR | sys::ENOENT) {
                gate.listener = -1;
            }
            return;
        }
        match self.judge(&asked) {
            Judgement::Pass => self.answer(asked.id, 0, sys::SECCOMP_CONTINUE),
            Judgement::Refuse => self.answer(asked.id, -sys::EPERM, 0),
            Judgement::Wait => {}
        }
    }

    /// All that is looked at are register values, which the caller can't change while it waits.
    fn judge(&mut self, asked: &sys::seccomp_notif) -> Judgement {
        let Some(branching) = &mut self.branching else { return Judgement::Refuse };
        let first = asked.arguments[0] as c_int;
        match (&branching.stage, sys::c_long::from(asked.number)) {
            (Stage::Asked, sys::number::CLONE)
                if asked.pid == branching.origin && first == BRANCH_FLAGS =>
            {
                branching.stage = Stage::Born;
                Judgement::Pass
            }
            (Stage::Born, sys::number::CAPSET) => Judgement::Pass,
            (Stage::Born, sys::number::PRCTL) if first == sys::PR_CAPBSET_DROP => Judgement::Pass,
            (Stage::Born, sys::number::UNSHARE) if first == 0 => self.furnish(asked),
            _ => Judgement::Refuse,
        }
    }

    fn answer(&self, id: u64, error: c_int, flags: u32) {
        let Some(gate) = self.gate else { return };
        let answer = sys::seccomp_notif_resp { id, value: 0, error, flags };
        // SAFETY: a valid structure. Fails where the asking process is gone.
        unsafe { sys::ioctl(gate.listener, sys::SECCOMP_NOTIF_SEND, &raw const answer) };
    }

    /// The newborn waits: has its surroundings made.
    fn furnish(&mut self, asked: &sys::seccomp_notif) -> Judgement {
        let pid = asked.pid;
        let is_member = self.members.iter().any(|member| member.pid == pid);
        let Some(branching) = &mut self.branching else { return Judgement::Refuse };
        if is_member || !sys::is_own_child(pid) {
            return Judgement::Refuse;
        }
        let Ok(pidfd) = open_pidfd(pid) else { return Judgement::Refuse };
        let (spawn, privileged) = (*self.spawn, self.privileged);
        let order = Order { spawn, privileged, branch: pidfd, socket: branching.socket };
        match copy::start(&order) {
            Ok((copier, copier_end)) => {
                let branch = Newborn { pid, pidfd, waits_in: asked.id };
                branching.stage = Stage::Copying { branch, copier, copier_end };
                Judgement::Wait
            }
            Err((what, error)) => {
                child::send_failure(branching.socket, what, error);
                child::close_all(&[pidfd]);
                Judgement::Refuse
            }
        }
    }

    /// The step that a branching waits for has come, or the jail gave it up.
    fn advance(&mut self) {
        let Some(Branching { socket, stage, .. }) = &mut self.branching else { return };
        let socket = *socket;
        match *stage {
            Stage::Asked | Stage::Born => self.give_up_branching(),
            Stage::Copying { branch, copier, copier_end } => {
                let mut status = 0;
                // SAFETY: our own, unreaped child.
                unsafe { sys::wait4(copier, &raw mut status, 0, std::ptr::null_mut()) };
                child::close_all(&[copier_end]);
                *stage = Stage::Copied(branch);
                if status != 0 {
                    self.give_up_branching();
                }
            }
            Stage::Copied(Newborn { pid, pidfd, waits_in }) => {
                let mut message = [0_u8; wire::MAX_MESSAGE_BYTES];
                if child::receive(socket, &mut message, &mut []) <= 0 || message[0] != wire::HELLO {
                    return self.give_up_branching();
                }
                let home = Home::of(pidfd);
                if home.is_none() {
                    return self.give_up_branching();
                }
                self.members.push(Member { pid, pidfd, socket, listening: true, home });
                self.branching = None;
                self.answer(waits_in, 0, sys::SECCOMP_CONTINUE);
            }
        }
    }

    /// Ends whatever there is of a branch that will not be.
    fn give_up_branching(&mut self) {
        let Some(Branching { socket, stage, .. }) = self.branching.take() else { return };
        let end = |pid| {
            // SAFETY: our own, unreaped child.
            unsafe {
                sys::kill(pid, sys::SIGKILL);
                sys::wait4(pid, std::ptr::null_mut(), 0, std::ptr::null_mut());
            }
        };
        match stage {
            Stage::Asked => {}
            // Who it is shows only where it lives.
            Stage::Born => {
                let homes: Option<Vec<u64>> =
                    self.members.iter().map(|it| it.home.map(|home| home.inode)).collect();
                if let Some(homes) = homes {
                    self.sweep(&|inode| !homes.contains(&inode));
                }
            }
            Stage::Copying { branch, copier, copier_end } => {
                end(copier);
                end(branch.pid);
                child::close_all(&[copier_end, branch.pidfd]);
            }
            Stage::Copied(branch) => {
                end(branch.pid);
                child::close_all(&[branch.pidfd]);
            }
        }
        child::close_all(&[socket]);
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

impl Branching {
    /// What shows that it can go on, or must end.
    const fn waits_for(&self) -> c_int {
        match self.stage {
            Stage::Asked | Stage::Born | Stage::Copied(_) => self.socket,
            Stage::Copying { copier_end, .. } => copier_end,
        }
    }
}

/// What to do about a call.
enum Judgement {
    Pass,
    Refuse,
    /// It is answered later.
    Wait,
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
