//! What a submission asks of the queue: how many calls, of what size, in which lane.
//!
//! Invariant: the totals are those of the members. Made before the scheduler's lock is taken, since
//! a batch has many members.

use rocstar_jail::Kind;

/// A queue of its own with places of its own. Calls of different lanes don't wait for each other's
/// slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Calls for the bare interpreter.
    Bare,
    /// Calls for the scientific one.
    Scientific,
    /// Cells of sessions, which have an interpreter already.
    Session,
}

/// Number of lanes.
pub(crate) const LANES: usize = 3;

impl Lane {
    pub(crate) const ALL: [Self; LANES] = [Self::Bare, Self::Scientific, Self::Session];
}

impl From<Kind> for Lane {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Bare => Self::Bare,
            Kind::Scientific => Self::Scientific,
        }
    }
}

/// One call of a submission, as the queue sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) index: u32,
    pub(super) bytes: u32,
}

/// All calls of a submission, in the order in which they shall start.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    lanes: [Vec<Member>; LANES],
    calls: usize,
    bytes: u64,
}

impl Plan {
    /// A plan of one call, with index 0.
    pub(crate) fn single(lane: Lane, bytes: usize) -> Self {
        let mut plan = Self::default();
        plan.add(0, lane, bytes);
        plan
    }

    /// Adds the call that its submission knows as `index`. Sizes above 4 GiB count as 4 GiB;
    /// requests are far smaller.
    pub(crate) fn add(&mut self, index: u32, lane: Lane, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.lanes[lane as usize].push(Member { index, bytes });
        self.calls += 1;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn into_lanes(self) -> [Vec<Member>; LANES] {
        self.lanes
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
