//! From games to the share of battles that the model wins, and how sure that is.
//!
//! With one model against one baseline, the Bradley-Terry model's chance to win is this share, a tie
//! half a win, so no model is fitted.

use rocstar_record::draw::{Key, Purpose};
use serde::{Deserialize, Serialize};

use super::Judgement;
use crate::metrics::quantile;
use crate::suite::ArenaHardVersion;

/// Draws of questions for our own interval.
const DRAWS: usize = 1_000;
/// Draws of battles for the published one.
const PUBLISHED_DRAWS: usize = 100;

/// How often the model's answer is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WinRate {
    /// Share of the battles that are won, a tie half: the published score.
    pub value: f64,
    /// 95 % interval by drawing questions: battles of one question are not independent.
    pub interval: Interval,
    /// As the version's published tables have it, by drawing battles: 95 % for v0.1, 90 % for v2.0.
    /// It is too narrow.
    pub published_interval: Interval,
    /// Questions that were judged.
    pub questions: usize,
    /// Battles that they count as.
    pub battles: usize,
}

/// Two ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// The win rate over questions, each with the judgements of its games. `None` where there are none.
pub fn win_rate(
    questions: &[Vec<Judgement>],
    version: ArenaHardVersion,
    seed: u64,
) -> Option<WinRate> {
    let sums: Vec<Sum> = questions.iter().filter(|it| !it.is_empty()).map(|it| sum(it)).collect();
    let battles: Vec<Sum> = sums_of_battles(questions);
    let total = added(sums.iter().copied());
    if total.battles == 0 {
        return None;
    }
    let key = |sample| Key { sample, ..Key::new(seed, Purpose::Evaluation) };
    let tail = match version {
        ArenaHardVersion::V01 => 0.025,
        ArenaHardVersion::V20 => 0.05,
    };
    Some(WinRate {
        value: total.share(),
        interval: bootstrap(&sums, DRAWS, key(0), 0.025),
        published_interval: bootstrap(&battles, PUBLISHED_DRAWS, key(1), tail),
        questions: sums.len(),
        battles: total.battles,
    })
}

/// The share of battles that these games win.
pub(crate) fn share(judgements: &[Judgement]) -> f64 {
    sum(judgements).share()
}

/// Battles, and what they are worth together.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    battles: usize,
    won: f64,
}

impl Sum {
    fn share(self) -> f64 {
        self.won / self.battles as f64
    }
}

fn sum(judgements: &[Judgement]) -> Sum {
    added(judgements.iter().map(|it| {
        let (battles, worth) = it.battles();
        Sum { battles, won: battles as f64 * worth }
    }))
}

fn added(sums: impl Iterator<Item = Sum>) -> Sum {
    sums.fold(Sum::default(), |left, right| Sum {
        battles: left.battles + right.battles,
        won: left.won + right.won,
    })
}

/// One a battle.
fn sums_of_battles(questions: &[Vec<Judgement>]) -> Vec<Sum> {
    let battles = questions.iter().flatten().map(|it| it.battles());
    battles.flat_map(|(count, won)| std::iter::repeat_n(Sum { battles: 1, won }, count)).collect()
}

/// The interval between `tail` and 1 - `tail` of the shares of `draws` samples with replacement.
fn bootstrap(units: &[Sum], draws: usize, key: Key, tail: f64) -> Interval {
    let mut shares: Vec<f64> = (0..draws)
        .map(|draw| {
            let mut drawn = Key { task: draw as u64, ..key }.at(0);
            let one = |_| units[drawn.below(units.len() as u64) as usize];
            added((0..units.len()).map(one)).share()
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    Interval { lower: quantile(&shares, tail), upper: quantile(&shares, 1.0 - tail) }
}
