//! Episodes put in order as they end, and what all of it took.

use std::sync::Arc;
use std::time::Duration;

use rocstar_record::episode::{DropCause, Episode, Lost, VerdictKind};

use super::{Progress, RolledOut, RolledOutAll, Usage};
use crate::counts::Counts;
use crate::meter::Phase;
use crate::sample::Surroundings;
use crate::task::Task;

/// What has ended so far.
pub(super) struct Results {
    groups: Vec<RolledOut>,
    pub(super) progress: Progress,
}

impl Results {
    pub(super) fn new(tasks: &[Arc<Task>], samples: usize) -> Self {
        let group = |task| RolledOut { task, episodes: Vec::new(), lost: Vec::new() };
        let groups: Vec<_> = tasks.iter().cloned().map(group).collect();
        let of = groups.len() * samples;
        let progress = Progress { ended: 0, of, right: 0, lost: 0, policy_tokens: 0 };
        Self { groups, progress }
    }

    /// Takes the result of a sample of a task, both by number.
    pub(super) fn take(&mut self, (task, sample): (usize, u32), result: Result<Episode, String>) {
        self.progress.ended += 1;
        match result {
            Ok(episode) => {
                self.progress.right += usize::from(episode.verdict.kind == VerdictKind::Right);
                self.progress.policy_tokens += episode.policy_tokens();
                self.groups[task].episodes.push(episode);
            }
            Err(what) => {
                self.progress.lost += 1;
                let cause = DropCause::Infrastructure { what };
                self.groups[task].lost.push(Lost { sample, cause });
            }
        }
    }

    pub(super) fn finish(mut self, surroundings: &Surroundings) -> RolledOutAll {
        for group in &mut self.groups {
            group.episodes.sort_by_key(|episode| episode.sample);
            group.lost.sort_by_key(|lost| lost.sample);
        }
        let episodes = self.groups.iter().flat_map(|group| &group.episodes);
        let response_tokens = episodes.map(Episode::response_tokens).sum();
        let usage = Usage { response_tokens, ..usage(surroundings) };
        RolledOutAll { groups: self.groups, usage }
    }
}

pub(super) fn usage(surroundings: &Surroundings) -> Usage {
    let counts = &surroundings.counts;
    let busy = |count| Duration::from_micros(Counts::get(count) as u64);
    surroundings.books.read(|scheduler, meter| Usage {
        total: meter.total(),
        generating: meter.time(Phase::Generates),
        waiting_for_tools: meter.time(Phase::WaitsForTool),
        waiting_for_verifier: meter.time(Phase::WaitsForVerifier),
        tool_busy: busy(&counts.tool_busy_us),
        verifier_busy: busy(&counts.verifier_busy_us),
        policy_tokens: Counts::get(&counts.policy_tokens),
        response_tokens: 0,
        tool_calls: Counts::get(&counts.tool_calls),
        most_at_once: scheduler.most_taken(),
        most_reserved_tokens: scheduler.most_reserved_tokens(),
        tried_again: Counts::get(&counts.tried_again),
    })
}
