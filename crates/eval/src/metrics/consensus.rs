//! cons@k: is the answer that most of k samples give the right one?
//!
//! Answers that are equal vote together. A sample without an answer doesn't vote. Of answers with the
//! same number of votes one is drawn, each alike. cons@k is what that comes to on average over all
//! sets of k of the samples there are: no set is preferred, and no draw is made. Taking the first k
//! samples was rejected: it is the same on average, and noisier.
//!
//! Invariant: exact, not sampled. The sets are counted, by the number of votes that wins.

use std::collections::BTreeMap;

/// Samples that gave one answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Votes {
    /// How many.
    pub samples: usize,
    /// What the answer is worth: 1 where it is right.
    pub value: f64,
}

/// cons@k of one problem for k from 1 to the number of its samples. `answers` are those that were
/// given, `silent` counts samples without one.
pub fn cons_at(answers: &[Votes], silent: usize) -> Vec<f64> {
    let samples = silent + answers.iter().map(|votes| votes.samples).sum::<usize>();
    let choose = Binomials::up_to(samples);
    // Answers with as many votes win as often; only their values differ.
    let mut values: BTreeMap<usize, f64> = BTreeMap::new();
    for votes in answers.iter().filter(|votes| votes.samples > 0) {
        *values.entry(votes.samples).or_default() += votes.value;
    }
    let mut won = vec![0.0; samples + 1];
    for (&size, &value) in values.iter().filter(|(_, value)| **value != 0.0) {
        let mut others: Vec<usize> = answers.iter().map(|votes| votes.samples).collect();
        if let Some(own) = others.iter().position(|other| *other == size) {
            others.swap_remove(own);
        }
        for votes in 1..=size {
            let shares = winning_shares(&others, silent, votes, &choose);
            let ways = choose.of(size, votes);
            for (rest, share) in shares.into_iter().enumerate() {
                won[votes + rest] += value * ways * share;
            }
        }
    }
    (1..=samples).map(|k| won[k] / choose.of(samples, k)).collect()
}

/// For each number of samples beside an answer's `votes`: in how many ways they can be drawn from the
/// others and the silent ones so that the answer wins, a tie of t + 1 answers counting 1/(t + 1).
fn winning_shares(others: &[usize], silent: usize, votes: usize, choose: &Binomials) -> Vec<f64> {
    let all = silent + others.iter().sum::<usize>();
    // ways[ties][drawn], answer by answer.
    let mut ways = vec![vec![0.0; all + 1]];
    ways[0][0] = 1.0;
    let mut most_drawn = 0;
    for &size in others {
        let ties = ways.len() + usize::from(size >= votes);
        let mut next = vec![vec![0.0; all + 1]; ties];
        for (tied, row) in ways.iter().enumerate() {
            for (drawn, &way) in row.iter().enumerate().take(most_drawn + 1) {
                for more in 0..=size.min(votes) {
                    next[tied + usize::from(more == votes)][drawn + more] +=
                        way * choose.of(size, more);
                }
            }
        }
        most_drawn += size.min(votes);
        ways = next;
    }
    let mut shares = vec![0.0; all + 1];
    for (tied, row) in ways.iter().enumerate() {
        for (drawn, way) in row.iter().enumerate().take(most_drawn + 1) {
            for quiet in 0..=silent {
                shares[drawn + quiet] += way * choose.of(silent, quiet) / (tied + 1) as f64;
            }
        }
    }
    shares
}

/// Binomial coefficients; those of up to a thousand things fit into a double.
struct Binomials(Vec<Vec<f64>>);

impl Binomials {
    fn up_to(things: usize) -> Self {
        let mut rows: Vec<Vec<f64>> = vec![vec![1.0]];
        for n in 1..=things {
            let above = &rows[n - 1];
            let inner = above.windows(2).map(|pair| pair[0] + pair[1]);
            let row = [1.0].into_iter().chain(inner).chain([1.0]).collect();
            rows.push(row);
        }
        Self(rows)
    }

    fn of(&self, things: usize, chosen: usize) -> f64 {
        self.0.get(things).and_then(|row| row.get(chosen)).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every way to split `n` samples into answers, the silent ones last.
    fn splits(n: usize, most: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let with_first = |first: usize| {
            let rest = splits(n - first, first).into_iter();
            rest.map(move |rest| [first].into_iter().chain(rest).collect::<Vec<usize>>())
        };
        (1..=n.min(most)).flat_map(with_first).collect()
    }

    /// The definition, set by set, for every k from 1.
    fn enumerated(answers: &[Votes], silent: usize) -> Vec<f64> {
        let mut of: Vec<Option<usize>> = vec![None; silent];
        for (answer, votes) in answers.iter().enumerate() {
            of.extend(std::iter::repeat_n(Some(answer), votes.samples));
        }
        let mut sums = vec![(0.0, 0); of.len()];
        for set in 1..1_u32 << of.len() {
            let mut counts = vec![0; answers.len()];
            for answer in (0..of.len()).filter(|bit| set >> bit & 1 == 1).filter_map(|bit| of[bit])
            {
                counts[answer] += 1;
            }
            let most = counts.iter().copied().max().unwrap_or(0);
            let (mut value, mut winners) = (0.0, 0);
            for (answer, _) in counts.iter().enumerate().filter(|(_, it)| **it == most && most > 0)
            {
                value += answers[answer].value;
                winners += 1;
            }
            let sum = &mut sums[set.count_ones() as usize - 1];
            *sum = (sum.0 + value / f64::from(winners.max(1)), sum.1 + 1);
        }
        sums.into_iter().map(|(sum, sets)| sum / f64::from(sets)).collect()
    }

    fn check(answers: &[Votes], silent: usize) {
        let found = cons_at(answers, silent);
        let expected = enumerated(answers, silent);
        assert_eq!(found.len(), expected.len());
        for (k, (found, expected)) in (1..).zip(found.iter().zip(&expected)) {
            assert!((found - expected).abs() < 1e-12, "{answers:?} {silent} k={k}: {found}");
        }
    }

    #[test]
    fn equals_the_enumeration_for_every_split_of_up_to_twelve_samples() {
        for n in 1..=12 {
            for silent in 0..=n {
                for sizes in splits(n - silent, n) {
                    // Answers with as many votes stand for each other.
                    let is_first = |at: &usize| *at == 0 || sizes[*at] != sizes[*at - 1];
                    for right in (0..sizes.len()).filter(is_first) {
                        let answers = sizes.iter().enumerate().map(|(index, &samples)| Votes {
                            samples,
                            value: if index == right { 1.0 } else { 0.0 },
                        });
                        check(&answers.collect::<Vec<_>>(), silent);
                    }
                }
            }
        }
    }

    #[test]
    fn equals_the_enumeration_where_several_answers_are_right() {
        let right = |samples| Votes { samples, value: 1.0 };
        let wrong = |samples| Votes { samples, value: 0.0 };
        check(&[right(4), wrong(4), wrong(3)], 1);
        check(&[right(3), wrong(3), right(3), wrong(3)], 0);
        check(&[right(5), wrong(7)], 0);
        check(&[right(1); 12], 0);
        check(&[right(2), wrong(1), wrong(1), wrong(1), wrong(1)], 6);
        check(&[Votes { samples: 6, value: 0.5 }, wrong(2), wrong(2)], 2);
    }

    #[test]
    fn values_worked_by_hand() {
        // Of 3 samples 2 are right: every pair holds a right one; {1,2} wins, {1,3} and {2,3} tie.
        let found =
            cons_at(&[Votes { samples: 2, value: 1.0 }, Votes { samples: 1, value: 0.0 }], 0);
        let expected = [2.0 / 3.0, 2.0 / 3.0, 1.0];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?}");
        assert_eq!(cons_at(&[], 3), [0.0, 0.0, 0.0]);
        assert_eq!(cons_at(&[], 0), Vec::<f64>::new());
    }

    proptest! {
        #[test]
        fn one_vote_is_the_mean_and_all_votes_are_one_count(
            sizes in prop::collection::vec((1_usize..20, any::<bool>()), 0..8),
            silent in 0_usize..10,
        ) {
            let answers: Vec<Votes> = sizes
                .iter()
                .map(|&(samples, right)| Votes { samples, value: if right { 1.0 } else { 0.0 } })
                .collect();
            let found = cons_at(&answers, silent);
            let samples = silent + sizes.iter().map(|size| size.0).sum::<usize>();
            prop_assert_eq!(found.len(), samples);
            prop_assert!(found.iter().all(|value| (-1e-9..=1.0 + 1e-9).contains(value)));
            if let (Some(first), Some(last)) = (found.first(), found.last()) {
                let right: usize = sizes.iter().filter(|size| size.1).map(|size| size.0).sum();
                prop_assert!((first - right as f64 / samples as f64).abs() < 1e-9);
                let most = sizes.iter().map(|size| size.0).max().unwrap_or(0);
                let winners: Vec<bool> =
                    sizes.iter().filter(|size| size.0 == most).map(|size| size.1).collect();
                let share = winners.iter().filter(|right| **right).count() as f64
                    / winners.len().max(1) as f64;
                prop_assert!((last - share).abs() < 1e-9, "{} {}", last, share);
            }
        }
    }
}
