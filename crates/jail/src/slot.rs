//! One place for one program at a time: a keeper, its socket, its status page, its control group.
//!
//! Invariant: a slot is either ready (an isolated child is parked in it and has seen nothing of
//! any request), running, or on its way back to ready; a slot whose keeper is gone is never used
//! again. After a run, every process of it is gone before the run is reported.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::cgroup::{Directories, Group};
use crate::socket::{Socket, timespec};
use crate::wire::{self, Exit, Order, Spawn};
use crate::zygote::Zygote;

/// Longest time that a keeper or a child may take to get ready on a machine that is overloaded.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What the jail holds of a parked child.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Carries requests to the child, and (sessions) a byte back for each finished cell.
    pub(crate) request: OwnedFd,
    /// The private directory: stays readable when the child is gone.
    pub(crate) directory: OwnedFd,
    /// Its process id, in the jail's own namespace.
    pub(crate) pid: u32,
    /// Its number among the keeper's children; a branch goes by that of its session.
    pub(crate) number: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) socket: Socket,
    /// Wakes whoever watches a run here.
    pub(crate) wake: Arc<OwnedFd>,
    page: File,
    pub(crate) group: Group,
    /// The keeper's process id.
    pub(crate) keeper: u32,
    /// Address space and resident memory of the keeper when it was born: what a program starts with.
    pub(crate) base_address_space_bytes: u64,
    pub(crate) base_resident_kib: u64,
    tmp_bytes: u64,
    parked: Option<Parked>,
    /// The keeper's own group, which lasts as long as any branch that it keeps.
    keeper_group: Arc<Directories>,
    /// Processes of others that the kernel counts against a program's limit here.
    pub(crate) foreign_processes: u64,
}

/// What the keeper said.
#[derive(Debug)]
pub(crate) enum Event {
    Ready(Parked),
    Exit(Exit),
}

impl Slot {
    /// Forks a keeper off the zygote and puts it in its place. `group` is consumed.
    pub(crate) fn spawn(zygote: &Zygote, spawn: &Spawn, group: Group) -> io::Result<Self> {
        let (socket, theirs) = Socket::pair()?;
        let page = status_page()?;
        zygote.spawn(spawn, &theirs, &page)?;
        drop(theirs);
        let hello = socket.receive_before(Instant::now() + READY_WITHIN)?;
        let keeper = match (hello.bytes.first(), hello.sender) {
            (Some(&wire::HELLO), Some(pid)) => pid,
            _ => return Err(io::Error::other("the zygote did not fork a keeper")),
        };
        group.enter(keeper)?;
        let keeper_group = group.directories();
        let (base_address_space_bytes, base_resident_kib) = memory_of(keeper)?;
        socket.send(&[wire::HELLO], &[])?;
        Ok(Self {
            socket,
            wake: wake()?,
            page,
            group,
            keeper,
            base_address_space_bytes,
            base_resident_kib,
            tmp_bytes: spawn.tmp_bytes,
            foreign_processes: 0,
            parked: None,
            keeper_group,
        })
    }

    /// The place of a branch, with the same keeper.
    pub(crate) fn of_branch(&self, socket: Socket, page: File, group: Group) -> io::Result<Self> {
        Ok(Self {
            socket,
            wake: wake()?,
            page,
            group,
            keeper: self.keeper,
            base_address_space_bytes: self.base_address_space_bytes,
            base_resident_kib: self.base_resident_kib,
            tmp_bytes: self.tmp_bytes,
            foreign_processes: 0,
            parked: None,
            keeper_group: Arc::clone(&self.keeper_group),
        })
    }

    /// Whether a child is parked, without waiting.
    pub(crate) fn is_ready(&mut self) -> bool {
        if self.parked.is_none() && matches!(self.socket.readable_within(Duration::ZERO), Ok(true))
        {
            self.parked = match self.next_event(Instant::now()) {
                Ok(Event::Ready(parked)) => Some(parked),
                _ => None,
            };
        }
        self.parked.is_some()
    }

    /// Waits for a parked child with a private directory of `tmp_bytes`, and takes it.
    pub(crate) fn take(&mut self, tmp_bytes: u64) -> io::Result<Parked> {
        let deadline = Instant::now() + READY_WITHIN;
        if self.tmp_bytes != tmp_bytes {
            self.wait_until_parked(deadline)?;
            if let Some(parked) = self.parked.take() {
                let (kind, child) = (wire::RESPAWN, parked.number);
                self.socket.send(&Order { kind, child, value: tmp_bytes }.encode(), &[])?;
            }
            self.tmp_bytes = tmp_bytes;
        }
        self.wait_until_parked(deadline)?;
        self.parked.take().ok_or_else(|| io::Error::other("no child is parked"))
    }

    fn wait_until_parked(&mut self, deadline: Instant) -> io::Result<()> {
        while self.parked.is_none() {
            match self.next_event(deadline)? {
                Event::Ready(parked) => self.parked = Some(parked),
                // A parked child that was replaced, or died (the machine was out of memory).
                Event::Exit(_) => {}
            }
        }
        Ok(())
    }

    /// Tells the keeper what to do with a child; too late is no error.
    pub(crate) fn order(&self, kind: u8, parked: &Parked) -> io::Result<()> {
        self.socket.send(&Order { kind, child: parked.number, value: 0 }.encode(), &[])
    }

    /// The next message of keeper or child.
    pub(crate) fn next_event(&self, deadline: Instant) -> io::Result<Event> {
        loop {
            let message = self.socket.receive_before(deadline)?;
            match message.bytes.first() {
                None => return Err(io::Error::other("the keeper is gone")),
                Some(&wire::READY) => {
                    let pid = message.sender.unwrap_or(0);
                    let number = message.bytes.get(1..5).and_then(|bytes| bytes.try_into().ok());
                    let number = u32::from_le_bytes(number.unwrap_or_default());
                    let descriptors: Result<[OwnedFd; wire::READY_DESCRIPTORS], _> =
                        message.descriptors.try_into();
                    let [stdout, stderr, request, directory] = descriptors
                        .map_err(|_| io::Error::other("a child came without its channels"))?;
                    return Ok(Event::Ready(Parked {
                        stdout,
                        stderr,
                        request,
                        directory,
                        pid,
                        number,
                    }));
                }
                Some(&wire::FAILED) => {
                    let text = String::from_utf8_lossy(&message.bytes[1..]);
                    return Err(io::Error::other(format!("isolation failed: {text}")));
                }
                Some(_) => {
                    if let Some(exit) = Exit::decode(&message.bytes) {
                        return Ok(Event::Exit(exit));
                    }
                }
            }
        }
    }

    /// Clears what the last run left on the status page.
    pub(crate) fn clear_page(&self) -> io::Result<()> {
        self.page.write_all_at(&[0; wire::STATUS_SAID + 8], 0)
    }

    /// A copy of the beginning of the status page, enough for everything said.
    pub(crate) fn read_page(&self) -> io::Result<Vec<u8>> {
        let mut page = vec![0; 4096];
        self.page.read_exact_at(&mut page, 0)?;
        if wire::Said::decode(&page[wire::STATUS_SAID..]).is_none() && page[wire::STATUS_SAID] != 0
        {
            page.resize(wire::STATUS_BYTES, 0);
            self.page.read_exact_at(&mut page, 0)?;
        }
        Ok(page)
    }
}

/// A fresh status page.
pub(crate) fn status_page() -> io::Result<File> {
    let page = File::from(memfd_create("rocstar-status", MemfdFlags::CLOEXEC)?);
    ftruncate(&page, wire::STATUS_BYTES as u64)?;
    Ok(page)
}

fn wake() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// Size and resident set of a process: bytes and KiB.
fn memory_of(pid: u32) -> io::Result<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let mut pages = text.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
    let page_bytes = rustix::param::page_size() as u64;
    let (size, resident) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    Ok((size * page_bytes, resident * page_bytes / 1024))
}

/// Whether any of `descriptors` can be read within `time`, one by one.
pub(crate) fn readable<const COUNT: usize>(
    descriptors: [Option<&dyn AsFd>; COUNT],
    time: Duration,
) -> io::Result<[bool; COUNT]> {
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(COUNT);
    fds.extend(
        descriptors
            .iter()
            .flatten()
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)),
    );
    match poll(&mut fds, Some(&timespec(time))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut results = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(descriptors.map(|descriptor| descriptor.is_some() && results.next().unwrap_or(false)))
}

/// Waits until `descriptor` takes more, or `time` is over.
pub(crate) fn writable_within(descriptor: &impl AsFd, time: Duration) -> io::Result<()> {
    match poll(&mut [PollFd::new(descriptor, PollFlags::OUT)], Some(&timespec(time))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
