//! Which sessions there are, whose they are, when they end, and why those that ended did.
//!
//! Plain values behind the manager's lock; time comes in, and `L` is whatever lives. Invariant: a session is found only by
//! the client that opened it; to any other it does not exist. Of ended sessions the latest
//! [`REMEMBERED`] are remembered, so that their clients learn the cause.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::stats::SessionStats;
use crate::{ClientId, Error, Result, SessionId};

/// Ended sessions whose cause is remembered.
const REMEMBERED: usize = 1_024;
/// Cells of one session that may wait or run; the queue bounds those of all sessions together.
const MAX_CELLS: usize = 64;

/// What ended a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Closed,
    Idle,
    Lifetime,
    Died { cause: String },
    ShutDown,
}

/// How long a session may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) idle: Duration,
    pub(super) lifetime: Duration,
}

/// What a session was opened with; its forks take it over.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) client: ClientId,
    pub(super) lease: Lease,
}

#[derive(Debug)]
pub(super) struct Entry<L> {
    pub(super) live: Arc<L>,
    pub(super) terms: Terms,
    /// Held by the cell or fork whose turn it is: they come one after another.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    opened: Instant,
    used: Instant,
    users: usize,
}

impl<L> Entry<L> {
    pub(super) fn new(live: Arc<L>, terms: Terms, now: Instant) -> Self {
        Self { live, terms, turn: Arc::default(), opened: now, used: now, users: 0 }
    }

    /// When it ends, and by which limit, if nothing happens before.
    fn end(&self) -> (Instant, Ending) {
        let lifetime = (self.opened + self.terms.lease.lifetime, Ending::Lifetime);
        let idle = (self.used + self.terms.lease.idle, Ending::Idle);
        if self.users > 0 || lifetime.0 <= idle.0 { lifetime } else { idle }
    }

    fn cause(&self, ending: &Ending) -> String {
        match ending {
            Ending::Closed => "it was closed".to_owned(),
            Ending::Idle => format!("it ended after {:?} without a cell", self.terms.lease.idle),
            Ending::Lifetime => format!("it ended after {:?}", self.terms.lease.lifetime),
            Ending::Died { cause } => cause.clone(),
            Ending::ShutDown => "the service shut down".to_owned(),
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Registry<L> {
    entries: HashMap<SessionId, Entry<L>>,
    ended: VecDeque<(SessionId, ClientId, String)>,
    counts: SessionStats,
    /// Nothing is opened any more.
    pub(super) closed: bool,
}

/// How a session came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Opened,
    Forked,
}

impl<L> Default for Registry<L> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            ended: VecDeque::new(),
            counts: SessionStats::default(),
            closed: false,
        }
    }
}

impl<L> Registry<L> {
    /// Takes a session in, unless the doors have closed.
    pub(super) fn insert(&mut self, id: SessionId, entry: Entry<L>, origin: Origin) -> Result<()> {
        if self.closed {
            return Err(Error::ShuttingDown);
        }
        self.counts.opened += 1;
        self.counts.forked += u64::from(origin == Origin::Forked);
        self.entries.insert(id, entry);
        Ok(())
    }

    /// The client's own session.
    pub(super) fn find(&mut self, client: &ClientId, id: &SessionId) -> Result<&mut Entry<L>> {
        match self.entries.get_mut(id) {
            Some(entry) if entry.terms.client == *client => Ok(entry),
            Some(_) | None => {
                let mut ended = self.ended.iter();
                let known = ended.find(|(ended, owner, _)| ended == id && owner == client);
                let cause = known.map_or("never opened, or ended long ago", |(.., cause)| cause);
                Err(Error::NoSession { id: id.0.clone(), cause: cause.to_owned() })
            }
        }
    }

    /// Registers a user of a session, which is not idle until [`Self::leave`].
    pub(super) fn enter(&mut self, client: &ClientId, id: &SessionId) -> Result<&Entry<L>> {
        let entry = self.find(client, id)?;
        if entry.users >= MAX_CELLS {
            let queued = entry.users;
            return Err(Error::Full { queued, capacity: MAX_CELLS, retry_after_s: 1 });
        }
        entry.users += 1;
        Ok(entry)
    }

    /// Undoes [`Self::enter`].
    pub(super) fn leave(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.users -= 1;
            entry.used = now;
        }
    }

    /// Takes a session out. The caller ends it, outside of the lock, with the cause given.
    pub(super) fn remove(&mut self, id: &SessionId, ending: &Ending) -> Option<(Arc<L>, String)> {
        let entry = self.entries.remove(id)?;
        let count = match ending {
            Ending::Closed => &mut self.counts.closed,
            Ending::Idle => &mut self.counts.idle,
            Ending::Lifetime => &mut self.counts.lifetime,
            Ending::Died { .. } => &mut self.counts.died,
            Ending::ShutDown => &mut self.counts.shut_down,
        };
        *count += 1;
        let cause = entry.cause(ending);
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id.clone(), entry.terms.client, cause.clone()));
        Some((entry.live, cause))
    }

    /// Takes out the sessions that have reached a limit.
    pub(super) fn remove_overdue(&mut self, now: Instant) -> Vec<(Arc<L>, String)> {
        let overdue: Vec<(SessionId, Ending)> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| {
                let (at, ending) = entry.end();
                (at <= now).then(|| (id.clone(), ending))
            })
            .collect();
        overdue.into_iter().filter_map(|(id, ending)| self.remove(&id, &ending)).collect()
    }

    /// Takes all out.
    pub(super) fn remove_all(&mut self) -> Vec<(Arc<L>, String)> {
        let ids: Vec<SessionId> = self.entries.keys().cloned().collect();
        ids.iter().filter_map(|id| self.remove(id, &Ending::ShutDown)).collect()
    }

    /// When the next session reaches a limit.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.end().0).min()
    }

    pub(super) fn stats(&self) -> SessionStats {
        SessionStats { open: self.entries.len() as u64, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{Ending, Entry, Lease, MAX_CELLS, Origin, REMEMBERED, Registry, Terms};
    use crate::stats::SessionStats;
    use crate::{ClientId, Error, SessionId};
    use pretty_assertions::assert_eq;

    const SECOND: Duration = Duration::from_secs(1);

    fn id(name: &str) -> SessionId {
        SessionId(name.to_owned())
    }

    fn open(registry: &mut Registry<()>, name: &str, now: Instant) {
        let lease = Lease { idle: 10 * SECOND, lifetime: 60 * SECOND };
        let terms = Terms { client: ClientId::new("owner"), lease };
        registry.insert(id(name), Entry::new(Arc::new(()), terms, now), Origin::Opened).unwrap();
    }

    fn cause(registry: &mut Registry<()>, client: &str, name: &str) -> String {
        match registry.find(&ClientId::new(client), &id(name)) {
            Err(Error::NoSession { cause, .. }) => cause,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_exists_only_for_its_client() {
        let mut registry = Registry::default();
        open(&mut registry, "a", Instant::now());
        assert!(registry.find(&ClientId::new("owner"), &id("a")).is_ok());
        assert_eq!(cause(&mut registry, "other", "a"), cause(&mut registry, "other", "b"));
        registry.remove(&id("a"), &Ending::Died { cause: "killed".to_owned() });
        assert_eq!(cause(&mut registry, "owner", "a"), "killed");
        assert_eq!(cause(&mut registry, "other", "a"), cause(&mut registry, "other", "b"));
    }

    #[test]
    fn idle_time_runs_only_while_no_cell_does_and_lifetime_always() {
        let (mut registry, start) = (Registry::default(), Instant::now());
        open(&mut registry, "a", start);
        assert_eq!(registry.next_end(), Some(start + 10 * SECOND));
        registry.enter(&ClientId::new("owner"), &id("a")).unwrap();
        assert_eq!(registry.next_end(), Some(start + 60 * SECOND));
        assert_eq!(registry.remove_overdue(start + 59 * SECOND), []);
        registry.leave(&id("a"), start + 20 * SECOND);
        assert_eq!(registry.next_end(), Some(start + 30 * SECOND));
        assert_eq!(registry.remove_overdue(start + 30 * SECOND).len(), 1);
        open(&mut registry, "b", start);
        registry.enter(&ClientId::new("owner"), &id("b")).unwrap();
        assert_eq!(registry.remove_overdue(start + 60 * SECOND).len(), 1);
        let expected = SessionStats { opened: 2, idle: 1, lifetime: 1, ..Default::default() };
        assert_eq!(registry.stats(), expected);
    }

    #[test]
    fn waiting_cells_and_remembered_causes_are_bounded() {
        let (mut registry, now) = (Registry::default(), Instant::now());
        open(&mut registry, "a", now);
        let owner = ClientId::new("owner");
        for _ in 0..MAX_CELLS {
            registry.enter(&owner, &id("a")).unwrap();
        }
        assert!(matches!(registry.enter(&owner, &id("a")), Err(Error::Full { .. })));
        for number in 0..=REMEMBERED {
            open(&mut registry, &number.to_string(), now);
            registry.remove(&id(&number.to_string()), &Ending::Closed);
        }
        assert_eq!(cause(&mut registry, "owner", "0"), "never opened, or ended long ago");
        assert_eq!(cause(&mut registry, "owner", "1"), "it was closed");
    }
}
