//! The slots of one kind, and the zygotes that they come from.
//!
//! Slots are made as they are needed and kept. The one that was used last and is ready again goes
//! first: its memory is still in the caches. Invariant: at most `most` slots are alive; a slot
//! that failed is thrown away, and a zygote that is gone is replaced before the next slot is made.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::cgroup::Group;
use crate::host::Host;
use crate::kind::Kind;
use crate::request::ResolvedLimits;
use crate::slot::{Parked, Slot};
use crate::wire::Spawn;
use crate::zygote::Zygote;

#[derive(Debug)]
pub(crate) struct Pool {
    kind: Kind,
    most: usize,
    next_zygote: AtomicUsize,
    freed: Condvar,
    // The order is that of dropping: the slots' control groups lie inside the host's.
    slots: Mutex<Slots>,
    zygotes: Vec<Mutex<Zygote>>,
    host: Arc<Host>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Not in use; the most recently used last.
    idle: Vec<Slot>,
    /// Idle and in use.
    alive: usize,
}

/// Where a slot was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Idle,
    Fresh,
}

/// New slots that may fail one after another before the failure is reported.
const FRESH_ATTEMPTS: usize = 3;

impl Pool {
    pub(crate) fn start(
        host: Arc<Host>,
        kind: Kind,
        zygotes: usize,
        most: usize,
    ) -> Result<Self, Error> {
        let start = || Zygote::start(&host.blueprint, kind).map(Mutex::new);
        let zygotes = (0..zygotes.max(1)).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
        let slots = Mutex::default();
        let (next_zygote, freed) = (AtomicUsize::new(0), Condvar::new());
        Ok(Self { host, kind, most: most.max(1), zygotes, next_zygote, slots, freed })
    }

    /// Runs `work` in a slot with a parked child. The slot is thrown away if `work` fails.
    pub(crate) fn with_slot<T>(
        &self,
        tmp_bytes: u64,
        work: impl FnOnce(&mut Slot, &Parked) -> io::Result<T>,
    ) -> io::Result<T> {
        let (mut slot, parked) = self.ready_slot(tmp_bytes)?;
        let result = work(&mut slot, &parked);
        // Its private directory is charged to the slot as long as a descriptor of it is open.
        drop(parked);
        if result.is_ok() {
            self.lock().idle.push(slot);
            self.freed.notify_one();
        } else {
            self.discard(slot);
        }
        result
    }

    /// A slot whose child waits. Slots that broke while they lay idle are thrown away on the way:
    /// no request has been near them.
    fn ready_slot(&self, tmp_bytes: u64) -> io::Result<(Slot, Parked)> {
        let mut fresh_failures = 0;
        loop {
            let (mut slot, origin) = self.acquire()?;
            match slot.take(tmp_bytes) {
                Ok(parked) => return Ok((slot, parked)),
                Err(error) => {
                    self.discard(slot);
                    fresh_failures += usize::from(origin == Origin::Fresh);
                    if fresh_failures == FRESH_ATTEMPTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn discard(&self, slot: Slot) {
        self.lock().alive -= 1;
        self.freed.notify_one();
        drop(slot);
    }

    fn acquire(&self) -> io::Result<(Slot, Origin)> {
        let mut slots = self.lock();
        loop {
            if let Some(index) = slots.idle.iter_mut().rposition(Slot::is_ready) {
                return Ok((slots.idle.remove(index), Origin::Idle));
            }
            if !slots.idle.is_empty() {
                // Not ready yet: the one that has had the longest time will be first.
                return Ok((slots.idle.remove(0), Origin::Idle));
            }
            if slots.alive < self.most {
                slots.alive += 1;
                drop(slots);
                return self.make_or_give_back().map(|slot| (slot, Origin::Fresh));
            }
            slots = self.freed.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make_or_give_back(&self) -> io::Result<Slot> {
        let made = self.make(0, ResolvedLimits::default().tmp_bytes);
        if made.is_err() {
            self.lock().alive -= 1;
            self.freed.notify_one();
        }
        made
    }

    /// A new slot; `session` 1 for a live session. Replaces its zygote if that is gone.
    pub(crate) fn make(&self, session: u32, tmp_bytes: u64) -> io::Result<Slot> {
        let index = self.next_zygote.fetch_add(1, Ordering::Relaxed) % self.zygotes.len();
        let mut zygote = self.zygotes[index].lock().unwrap_or_else(PoisonError::into_inner);
        let (number, uid) = self.host.next_slot();
        let spawn = Spawn { uid, session, tmp_bytes };
        let group = self.host.groups.slot(&format!("slot-{number}"))?;
        let mut slot = Slot::spawn(&zygote, &spawn, group).or_else(|_| {
            *zygote = Zygote::start(&self.host.blueprint, self.kind).map_err(io::Error::other)?;
            let group = self.host.groups.slot(&format!("slot-{number}"))?;
            Slot::spawn(&zygote, &spawn, group)
        })?;
        slot.foreign_processes = self.host.foreign_processes();
        Ok(slot)
    }

    /// A control group for a branch of a session, whose slot is made elsewhere.
    pub(crate) fn branch_group(&self) -> io::Result<Group> {
        let (number, _) = self.host.next_slot();
        self.host.groups.slot(&format!("slot-{number}"))
    }

    pub(crate) fn helper_pids(&self) -> Vec<u32> {
        let zygote_pid =
            |zygote: &Mutex<Zygote>| zygote.lock().unwrap_or_else(PoisonError::into_inner).pid();
        let mut pids: Vec<u32> = self.zygotes.iter().map(zygote_pid).collect();
        pids.extend(self.lock().idle.iter().map(|slot| slot.keeper));
        pids
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // The list is whole at every point where a thread could have died.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
