//! What goes wrong, and when.

use std::fmt;
use std::sync::Arc;

/// What a server does to a request instead of answering it well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// 429, with `Retry-After` where it is given, in seconds.
    TooMany {
        /// When to come again.
        retry_after_s: Option<f64>,
    },
    /// 429 for good: what was paid for is used up.
    QuotaUsedUp,
    /// Another status, with an error in OpenAI's form.
    Status(u16),
    /// The connection breaks after so many pieces.
    Cut {
        /// Pieces that still go out.
        after_pieces: usize,
    },
    /// The stream ends cleanly after so many pieces, without the rest: what a proxy does whose
    /// server died.
    CutQuietly {
        /// Pieces that still go out.
        after_pieces: usize,
    },
    /// An error within the stream after so many pieces.
    ErrorWithin {
        /// Pieces that still go out.
        after_pieces: usize,
    },
    /// After so many pieces nothing more comes; the connection stays.
    Silent {
        /// Pieces that still go out.
        after_pieces: usize,
    },
    /// Nothing ever comes, not even a status.
    Dead,
    /// The answer goes out whole, but byte by byte: no fault, but a test of whoever reads.
    ByteByByte,
    /// The bound on tokens is not looked at.
    IgnoresLimit,
    /// The model never stops.
    NeverStops,
    /// The answer is no JSON.
    Garbage,
    /// Its usage says so many tokens.
    Usage(u64),
    /// The answer ends with `abort`.
    Aborted,
    /// The answer says that it ends with calls, and has none; in tokens, that it ends at a stop token,
    /// and the last one is none.
    FalseEnd,
    /// 400 with words that steer a terminal.
    Escapes,
}

impl Fault {
    /// Whether the answer arrives whole all the same.
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::ByteByByte)
    }
}

/// A request that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number over all requests for answers, from 0.
    pub number: usize,
    /// Its seed.
    pub seed: u64,
    /// How often the same question came before.
    pub before: usize,
}

type Decide = dyn Fn(Arrival) -> Option<Fault> + Send + Sync;

/// Which requests meet which fault.
#[derive(Clone)]
pub struct Faults(Arc<Decide>);

impl Faults {
    /// None.
    pub fn none() -> Self {
        Self::new(|_| None)
    }

    /// By a function.
    pub fn new(decide: impl Fn(Arrival) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Every request meets it.
    pub fn always(fault: Fault) -> Self {
        Self::new(move |_| Some(fault))
    }

    /// The first requests meet these, in order.
    pub fn first(faults: Vec<Fault>) -> Self {
        Self::new(move |arrival| faults.get(arrival.number).copied())
    }

    /// Each question meets one of these, chosen by its seed, the first `times` times that it comes.
    pub fn each_question(times: usize, faults: Vec<Fault>) -> Self {
        Self::new(move |arrival| {
            let index = (arrival.seed as usize).wrapping_add(arrival.before);
            let fault = faults.get(index.checked_rem(faults.len())?).copied();
            fault.filter(|_| arrival.before < times)
        })
    }

    pub(crate) fn decide(&self, arrival: Arrival) -> Option<Fault> {
        (self.0)(arrival)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Faults").finish_non_exhaustive()
    }
}
