//! Kinds of questions: what each is called, how its files are named and what must be called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// One function, one call.
    Simple,
    /// Several functions, one call.
    Multiple,
    /// One function, several calls.
    Parallel,
    /// Several functions, several calls.
    ParallelMultiple,
    /// No function fits: no call.
    Irrelevance,
    /// As [`Self::Simple`], written by users.
    LiveSimple,
    /// As [`Self::Multiple`], written by users.
    LiveMultiple,
    /// As [`Self::Parallel`], written by users.
    LiveParallel,
    /// As [`Self::ParallelMultiple`], written by users.
    LiveParallelMultiple,
    /// As [`Self::Irrelevance`], written by users.
    LiveIrrelevance,
    /// A function fits: any call.
    LiveRelevance,
}

impl Category {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Simple,
        Self::Multiple,
        Self::Parallel,
        Self::ParallelMultiple,
        Self::Irrelevance,
        Self::LiveSimple,
        Self::LiveMultiple,
        Self::LiveParallel,
        Self::LiveParallelMultiple,
        Self::LiveIrrelevance,
        Self::LiveRelevance,
    ];

    /// The name, as in the names of the files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Multiple => "multiple",
            Self::Parallel => "parallel",
            Self::ParallelMultiple => "parallel_multiple",
            Self::Irrelevance => "irrelevance",
            Self::LiveSimple => "live_simple",
            Self::LiveMultiple => "live_multiple",
            Self::LiveParallel => "live_parallel",
            Self::LiveParallelMultiple => "live_parallel_multiple",
            Self::LiveIrrelevance => "live_irrelevance",
            Self::LiveRelevance => "live_relevance",
        }
    }

    /// The category of this name; `-` may stand for `_`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.replace('-', "_");
        Self::ALL.into_iter().find(|category| category.name() == name)
    }

    /// Questions that version 3 has of it.
    pub const fn questions(self) -> usize {
        match self {
            Self::Simple => 400,
            Self::Multiple | Self::Parallel | Self::ParallelMultiple => 200,
            Self::Irrelevance => 240,
            Self::LiveSimple => 258,
            Self::LiveMultiple => 1_053,
            Self::LiveParallel => 16,
            Self::LiveParallelMultiple => 24,
            Self::LiveIrrelevance => 882,
            Self::LiveRelevance => 18,
        }
    }

    /// Whether calls are compared with answers; where not, it counts whether there are calls.
    pub const fn compares_calls(self) -> bool {
        !matches!(self, Self::Irrelevance | Self::LiveIrrelevance | Self::LiveRelevance)
    }

    /// Whether any call is right.
    pub(super) const fn wants_a_call(self) -> bool {
        matches!(self, Self::LiveRelevance)
    }

    /// Whether the calls may be in any order; where not, there is one.
    pub(super) const fn is_parallel(self) -> bool {
        matches!(
            self,
            Self::Parallel
                | Self::ParallelMultiple
                | Self::LiveParallel
                | Self::LiveParallelMultiple
        )
    }

    /// Whether one function is offered, so that it is the one, whatever the answer calls it.
    pub(super) const fn has_one_function(self) -> bool {
        matches!(self, Self::Simple | Self::LiveSimple)
    }

    /// What is said of a right attempt.
    pub(super) const fn right(self) -> &'static str {
        match self {
            Self::Irrelevance | Self::LiveIrrelevance => "no call, as no function fits",
            Self::LiveRelevance => "a function is called, as one fits",
            Self::Simple
            | Self::Multiple
            | Self::Parallel
            | Self::ParallelMultiple
            | Self::LiveSimple
            | Self::LiveMultiple
            | Self::LiveParallel
            | Self::LiveParallelMultiple => "every call is among the right ones",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
