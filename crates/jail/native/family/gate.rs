//! The keeper's part in branching a session.
//!
//! The system call filter of a session hands the few calls that a branch takes to the keeper, which
//! lets them pass only as these steps, in this order:
//!
//! 1. the jail asks (`wire::BRANCH`) and sends the branch's own socket;
//! 2. the session makes the branch: one `clone` into new user, mount and ipc namespaces, as a child
//!    of this process;
//! 3. the branch maps its user, gives up its new capabilities, and waits in `unshare(0)`;
//! 4. a copier (see `copy.rs`) mounts a fresh `/tmp` in the branch's mount namespace and copies the
//!    files; the jail moves the branch into its own control groups, checks it, and says go.
//!
//! Invariant: nothing that a hostile session does on its side of these steps gives it a process
//! that is not watched here.

use std::ffi::c_int;

use super::{Family, Home, Member, open_pidfd};
use crate::copy::{self, Order};
use crate::sys::{self, errno};
use crate::{child, wire};

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

/// A branch that is not yet a member.
pub(super) struct Branching {
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

impl Family<'_> {
    /// The jail asks for a branch of this member.
    pub(super) fn begin_branching(&mut self, index: usize, socket: c_int) {
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

    /// Answers one question of the kernel about a call that the session's filter stopped.
    pub(super) fn decide(&mut self) {
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
    pub(super) fn advance(&mut self) {
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
    pub(super) fn give_up_branching(&mut self) {
        let Some(Branching { socket, stage, .. }) = self.branching.take() else { return };
        let end = |pid| {
            // SAFETY: our own, unreaped child.
            unsafe {
                sys::kill(pid, sys::SIGKILL);
                sys::wait4(pid, std::ptr::null_mut(), 0, std::ptr::null_mut());
            }
        };
        match stage {
            Stage::Asked => return child::close_all(&[socket]),
            Stage::Born => {}
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
        // Whatever else it made, and itself where its process id is not known: who lives nowhere
        // that a member does.
        let homes: Option<Vec<u64>> =
            self.members.iter().map(|member| member.home.map(|home| home.inode)).collect();
        if let Some(homes) = homes {
            self.sweep(&|inode| !homes.contains(&inode));
        }
        child::close_all(&[socket]);
    }
}

impl Branching {
    /// What shows that it can go on, or must end.
    pub(super) const fn waits_for(&self) -> c_int {
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
