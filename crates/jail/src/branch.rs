//! Branching a live session, the jail's side. How the processes do it: `native/family/gate.rs`
//! and `native/branch.rs`.
//!
//! A branch is a slot of its own (socket, status page, control group) whose keeper is the one of
//! the session that it came from, so cells run in it as in any other.
//!
//! Invariant: [`branch`] gives a branch only after its process stood still behind every layer, was
//! looked at from here, and has come back for its first cell. Whatever fails before ends it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use crate::cgroup::Group;
use crate::request::ResolvedLimits;
use crate::slot::{Parked, Slot, readable, status_page};
use crate::socket::{Message, Socket, send_on};
use crate::wire::{self, Order, RequestHead};

/// The copy of a large `/tmp` takes longest; a session that keeps its branch from coming up gets no
/// more than this.
const BRANCH_WITHIN: Duration = Duration::from_secs(10);

/// Which of the two shuts itself off from the other (a Landlock domain of its own).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Origin,
    Branch,
}

/// Why there is no branch.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cause: io::Error,
    /// The session itself can't go on either.
    pub(crate) origin_is_lost: bool,
}

/// Makes a branch of the session that waits in `slot` between two cells.
pub(crate) fn branch(
    slot: &Slot,
    parked: &Parked,
    mut group: Group,
    scope: Scope,
    limits: &ResolvedLimits,
) -> Result<(Slot, Parked), Failed> {
    let mut origin = Channel::new(&parked.request);
    let deadline = Instant::now() + BRANCH_WITHIN;
    let made = group
        .prepare(limits.memory_bytes + limits.tmp_bytes, limits.processes)
        .and_then(|()| Birth::begin(slot, parked, group, scope))
        .and_then(|birth| birth.finish(&mut origin, deadline));
    made.map_err(|cause| {
        // Its answer must not be taken for the end of a later cell.
        let answered = origin.wait_until_done(deadline);
        Failed { cause, origin_is_lost: answered.is_err() }
    })
}

/// A branch on its way.
struct Birth {
    slot: Slot,
    stdout: OwnedFd,
    stderr: OwnedFd,
    request: OwnedFd,
    number: u32,
    /// What the copier sent, once the branch may go on.
    furnished: Option<Furnished>,
}

struct Furnished {
    directory: OwnedFd,
    pid: u32,
}

impl Birth {
    fn begin(origin: &Slot, parked: &Parked, group: Group, scope: Scope) -> io::Result<Self> {
        let (socket, keeper_end) = Socket::pair()?;
        let page = status_page()?;
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let flags = SocketFlags::CLOEXEC;
        let (request, request_end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let order = Order { kind: wire::BRANCH, child: parked.number, value: 0 };
        origin.socket.send(&order.encode(), &[keeper_end.as_fd()])?;
        let scope = match scope {
            Scope::Origin => wire::FLAG_SCOPE_ORIGIN,
            Scope::Branch => wire::FLAG_SCOPE_BRANCH,
        };
        let head = RequestHead {
            body_bytes: 0,
            nonce: [0; 16],
            cpu_seconds: 0,
            address_space_bytes: 0,
            file_bytes: 0,
            processes: 0,
            flags: wire::FLAG_BRANCH | scope,
        };
        let ends = [stdout_end.as_fd(), stderr_end.as_fd(), request_end.as_fd(), page.as_fd()];
        send_on(&parked.request, &head.encode(), &ends)?;
        let slot = origin.of_branch(socket, page, group)?;
        let (stdout, stderr) = (stdout.into(), stderr.into());
        Ok(Self { slot, stdout, stderr, request, number: parked.number, furnished: None })
    }

    /// Sees the branch through to its first wait for a cell.
    fn finish(mut self, origin: &mut Channel<'_>, deadline: Instant) -> io::Result<(Slot, Parked)> {
        let request = self.request.try_clone()?;
        let mut branch = Channel::new(&request);
        while self.furnished.is_none() || !origin.is_done() || !branch.is_done() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let [message, from_origin, from_branch] = readable(
                [
                    self.furnished.is_none().then_some(&self.slot.socket as &dyn AsFd),
                    (!origin.is_done()).then_some(origin.descriptor as &dyn AsFd),
                    (!branch.is_done()).then_some(branch.descriptor as &dyn AsFd),
                ],
                left,
            )?;
            if message {
                self.obey(self.slot.socket.receive()?)?;
            }
            if from_origin {
                origin.read("the session")?;
            }
            // The copier's own word, where there is one, says more than the end that follows it.
            if from_branch && !message {
                branch.read("the branch")?;
            }
        }
        let Some(Furnished { directory, pid }) = self.furnished else {
            return Err(io::Error::other("the branch has no files"));
        };
        let Self { slot, stdout, stderr, request, number, .. } = self;
        Ok((slot, Parked { stdout, stderr, request, directory, pid, number }))
    }

    /// A message of the copier (or of the keeper, on a failure).
    fn obey(&mut self, message: Message) -> io::Result<()> {
        match message.bytes.first() {
            Some(&wire::HELLO) => {
                let copier = message.sender.ok_or_else(|| io::Error::other("nobody's message"))?;
                self.slot.group.enter(copier)?;
                self.slot.socket.send(&[wire::HELLO], &[])
            }
            Some(&wire::BRANCHED) => {
                let descriptors: Result<[OwnedFd; 2], _> = message.descriptors.try_into();
                let [directory, process] =
                    descriptors.map_err(|_| io::Error::other("a branch came without its files"))?;
                let pid = pid_of(&process)?;
                check_confined(pid)?;
                self.slot.group.enter(pid)?;
                self.furnished = Some(Furnished { directory, pid });
                self.slot.socket.send(&[wire::HELLO], &[])
            }
            Some(&wire::FAILED) => Err(failure(&message.bytes)),
            None => Err(io::Error::other("the keeper gave the branch up")),
            Some(_) => Err(io::Error::other("an unexpected message about a branch")),
        }
    }
}

/// A channel for requests, while an answer is due: what failed, if anything did, and then the byte
/// that ends a cell.
struct Channel<'a> {
    descriptor: &'a OwnedFd,
    said: Vec<u8>,
}

impl<'a> Channel<'a> {
    const fn new(descriptor: &'a OwnedFd) -> Self {
        Self { descriptor, said: Vec::new() }
    }

    fn is_done(&self) -> bool {
        self.said.contains(&wire::CELL_DONE)
    }

    /// Takes what is there. An error: `who` failed, or is gone.
    fn read(&mut self, who: &str) -> io::Result<()> {
        let mut bytes = [0; wire::MAX_MESSAGE_BYTES];
        let count = match recv(self.descriptor, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((count, _)) => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        self.said.extend_from_slice(&bytes[..count]);
        match self.said.first() {
            Some(&wire::FAILED) => Err(failure(&self.said)),
            _ if count == 0 => Err(io::Error::other(format!("{who} has ended"))),
            // Nothing else is ever due; a program that writes here must not fill our memory.
            _ if self.said.len() > wire::MAX_MESSAGE_BYTES => {
                Err(io::Error::other(format!("{who} says what it must not")))
            }
            _ => Ok(()),
        }
    }

    fn wait_until_done(&mut self, deadline: Instant) -> io::Result<()> {
        while !self.is_done() {
            let left = deadline.saturating_duration_since(Instant::now());
            let [came] = readable([Some(self.descriptor as &dyn AsFd)], left)?;
            if !came {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let before = self.said.len();
            if self.read("the session").is_err() && self.said.len() == before {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }
}

/// The text of a `FAILED` message, without the byte that may follow it on a channel.
fn failure(message: &[u8]) -> io::Error {
    let text: Vec<u8> =
        message.iter().skip(1).copied().take_while(|it| !it.is_ascii_control()).collect();
    io::Error::other(String::from_utf8_lossy(&text).into_owned())
}

/// The process that a descriptor stands for, in this process's own namespace.
fn pid_of(process: &OwnedFd) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.ok_or_else(|| io::Error::other("the branch has ended"))
}

/// Whether a branch gave up what its user namespace brought: no capabilities, and the filter on.
fn check_confined(pid: u32) -> io::Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap_or_default()
    };
    let empty = |set| !field(set).is_empty() && field(set).bytes().all(|digit| digit == b'0');
    let confined = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().all(empty)
        && field("NoNewPrivs") == "1"
        && field("Seccomp") == "2";
    if confined { Ok(()) } else { Err(io::Error::other("the branch is not confined")) }
}
