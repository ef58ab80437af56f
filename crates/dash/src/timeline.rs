//! What engine, tools, verifier and trainer did within a step.
//!
//! Invariant: drawn from the times that are written down; where an older run wrote none, that is told
//! and nothing is made up. The work is bounded by `BINS` and by what a step may hold.

use rocstar_record::episode::{Activity, Doing};
use serde::Serialize;

use crate::Error;
use crate::run::Run;
use crate::sketch::EpisodeSketch;
use crate::step::Step;

/// Parts of the time axis.
const BINS: usize = 240;
/// Episodes that are drawn one by one.
const MOST_EPISODES: usize = 80;

/// A step on a time axis that begins with it.
#[derive(Debug, Serialize)]
pub struct Timeline {
    step: u64,
    /// Length of the axis.
    total_us: u64,
    /// The run wrote down when things began.
    has_starts: bool,
    /// Length of a part of the axis.
    part_us: f64,
    /// Episodes that the engine generated for, on the mean of each part.
    generating: Vec<f64>,
    /// Calls that ran or waited for a place, on the mean of each part.
    tools: Vec<f64>,
    /// Answers that were checked, on the mean of each part.
    verifying: Vec<f64>,
    /// What the trainer did, one after the other.
    trainer: Vec<Part>,
    /// Most episodes at once.
    episodes_at_once: usize,
    /// Time at the end of the rollouts in which at most a quarter of these still ran.
    tail_us: u64,
    /// Episodes of the step, and of these the longest ones, by their start.
    all_episodes: usize,
    episodes: Vec<Line>,
    notices: Vec<String>,
}

/// Something that the trainer did.
#[derive(Debug, Clone, Copy, Serialize)]
struct Part {
    what: &'static str,
    from_us: u64,
    us: u64,
}

/// An episode.
#[derive(Debug, Serialize)]
struct Line {
    group: usize,
    sample: u32,
    right: bool,
    from_us: u64,
    us: u64,
    activities: Vec<Activity>,
}

impl Timeline {
    /// Of a step of `run`.
    ///
    /// # Errors
    /// The metrics can't be read.
    pub fn of(run: &Run, step: &Step) -> Result<Self, Error> {
        let trainer = trainer(run, step.step)?;
        let mut lines: Vec<Line> = Vec::new();
        for (number, group) in step.groups.iter().enumerate() {
            lines.extend(group.episodes().filter_map(|episode| line(number, episode)));
        }
        let all_episodes = step.groups.iter().map(|group| group.episodes().count()).sum();
        let ends = lines.iter().map(|line| line.from_us.saturating_add(line.us));
        let of_trainer = trainer.iter().map(|part| part.from_us.saturating_add(part.us));
        let total_us = ends.chain(of_trainer).max().unwrap_or(0);
        let part_us = (total_us as f64 / BINS as f64).max(1e-9);
        let activities = || lines.iter().flat_map(|line| &line.activities);
        let of = |doing: Doing| {
            let chosen = activities().filter(move |it| it.what == doing);
            parts(chosen.map(|it| (it.from_us, it.us)), part_us)
        };
        let (generating, tools) = (of(Doing::Generating), of(Doing::Tool));
        let verifying = of(Doing::Verifying);
        let (episodes_at_once, tail_us) = crowd(&lines);
        let has_starts = !lines.is_empty();
        lines.sort_by_key(|line| std::cmp::Reverse(line.us));
        lines.truncate(MOST_EPISODES);
        lines.sort_by_key(|line| (line.from_us, line.group, line.sample));
        Ok(Self {
            step: step.step,
            total_us,
            has_starts,
            part_us,
            generating,
            tools,
            verifying,
            trainer,
            episodes_at_once,
            tail_us,
            all_episodes,
            episodes: lines,
            notices: step.notices.clone(),
        })
    }
}

/// From the first to the last thing that an episode did; `None` where nothing is known.
fn line(group: usize, episode: &EpisodeSketch) -> Option<Line> {
    let activities = &episode.timing.activities;
    let from_us = activities.iter().map(|it| it.from_us).min()?;
    let end = activities.iter().map(|it| it.from_us.saturating_add(it.us)).max()?;
    Some(Line {
        group,
        sample: episode.sample,
        right: episode.is_right(),
        from_us,
        us: end - from_us,
        activities: activities.clone(),
    })
}

/// What the metrics say of the trainer: rollouts end, weights are updated, brought into the engine, and
/// all is written down.
fn trainer(run: &Run, step: u64) -> Result<Vec<Part>, Error> {
    let curves = run.curves()?;
    let Some(rows) = curves.rows("rl_step") else { return Ok(Vec::new()) };
    let Some(row) = rows.steps.iter().rposition(|known| *known == step) else {
        return Ok(Vec::new());
    };
    let us = |name: &str| rows.value(name, row).map(|seconds| (seconds.max(0.0) * 1e6) as u64);
    let Some(rolling) = us("seconds_rolling_out") else { return Ok(Vec::new()) };
    let updating = us("seconds_updating").unwrap_or(0);
    let loading = us("seconds_weights").unwrap_or(0);
    let total = us("seconds").unwrap_or(0);
    let mut from_us = rolling;
    let mut parts = vec![Part { what: "waiting", from_us: 0, us: rolling }];
    for (what, us) in [("updating", updating), ("loading weights", loading)] {
        parts.push(Part { what, from_us, us });
        from_us = from_us.saturating_add(us);
    }
    let rest = total.saturating_sub(from_us);
    parts.push(Part { what: "writing down", from_us, us: rest });
    Ok(parts)
}

/// How many of the intervals, each with its start and its length, there were on the mean of each part.
fn parts(intervals: impl Iterator<Item = (u64, u64)>, part_us: f64) -> Vec<f64> {
    // Whole parts are counted by where they begin and end, so an interval costs the same however long.
    let mut edges = vec![0.0; BINS + 1];
    let mut shares = vec![0.0; BINS];
    for (from_us, us) in intervals {
        let from = (from_us as f64 / part_us).min(BINS as f64);
        let to = (from_us.saturating_add(us) as f64 / part_us).min(BINS as f64);
        let (first, last) = ((from as usize).min(BINS - 1), (to as usize).min(BINS - 1));
        if first == last {
            shares[first] += to - from;
            continue;
        }
        shares[first] += (first + 1) as f64 - from;
        shares[last] += to - last as f64;
        edges[first + 1] += 1.0;
        edges[last] -= 1.0;
    }
    let mut whole = 0.0;
    let sum = |(edge, share): (&f64, f64)| {
        whole += edge;
        share + whole
    };
    edges.iter().zip(shares).map(sum).collect()
}

/// Most episodes at once, and how long at the end at most a quarter of these ran.
fn crowd(lines: &[Line]) -> (usize, u64) {
    let mut edges: Vec<(u64, bool)> = Vec::with_capacity(2 * lines.len());
    for line in lines {
        edges.push((line.from_us, true));
        edges.push((line.from_us.saturating_add(line.us), false));
    }
    // Ends come before starts of the same moment.
    edges.sort_unstable();
    let (mut now, mut most) = (0_usize, 0_usize);
    for (_, begins) in &edges {
        now = if *begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    let end = edges.last().map_or(0, |(at, _)| *at);
    let few = most / 4;
    // Backwards from the end, until more than a quarter ran.
    let mut running = 0_usize;
    for (at, begins) in edges.iter().rev() {
        running = if *begins { running.saturating_sub(1) } else { running + 1 };
        if running > few {
            return (most, end - at);
        }
    }
    (most, 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn intervals_are_spread_over_the_parts_that_they_cover() {
        let part_us = 10.0;
        let all = parts([(0, 10), (5, 30), (2_399, 1)].into_iter(), part_us);
        assert_eq!(all.len(), BINS);
        let rounded: Vec<f64> = all[..5].iter().map(|it| (it * 100.0).round() / 100.0).collect();
        assert_eq!(rounded, [1.5, 1.0, 1.0, 0.5, 0.0]);
        assert!((all[BINS - 1] - 0.1).abs() < 1e-9);
        let sum: f64 = all.iter().sum::<f64>() * part_us;
        assert!((sum - 41.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn the_tail_is_the_time_in_which_few_are_left() {
        let line = |from_us, us| Line {
            group: 0,
            sample: 0,
            right: false,
            from_us,
            us,
            activities: Vec::new(),
        };
        let lines = [line(0, 10), line(0, 10), line(1, 10), line(2, 98)];
        assert_eq!(crowd(&lines), (4, 89));
        assert_eq!(crowd(&[]), (0, 0));
        assert_eq!(crowd(&lines[..1]), (1, 0));
    }
}
