//! Conversations as tokens: which of them are learnt, and what became of each row.
//!
//! Invariant: an [`Example`] has at most the recipe's longest sequence of tokens and at least one to
//! learn, and the first token is never learnt: nothing comes before it. The counts of a set add up
//! to its rows, so nothing is left out unseen.

use std::collections::HashSet;
use std::fmt::Write as _;

use rocstar_record::draw::{Key, Purpose};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::data::Conversation;
use crate::error::Error;
use crate::recipe::{Duplicates, Longer};

/// A sequence to learn from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Example {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// For each token, whether the model should learn to say it.
    pub learnt: Vec<bool>,
}

impl Example {
    /// Tokens to learn: each is predicted from those before it, so the first is none.
    pub fn learnt_tokens(&self) -> usize {
        self.learnt.iter().skip(1).filter(|learnt| **learnt).count()
    }
}

/// What became of the rows of a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Rows that were read.
    pub rows: usize,
    /// Sequences that are used.
    pub sequences: usize,
    /// Rows whose tokens were there already.
    pub duplicates: usize,
    /// Of these, rows left out for it.
    pub duplicates_dropped: usize,
    /// Longer rows whose end was cut off.
    pub cut: usize,
    /// Longer rows that were left out.
    pub skipped: usize,
    /// Rows left out because the cut left nothing to learn.
    pub emptied: usize,
    /// Tokens of the sequences.
    pub tokens: u64,
    /// Of these, tokens to learn.
    pub learnt_tokens: u64,
    /// Tokens of the longest sequence.
    pub longest_tokens: usize,
}

/// The sequences of a data set, and what became of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examples {
    all: Vec<Example>,
    counts: Counts,
}

/// How conversations become sequences of a set.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest sequence.
    pub sequence_tokens: usize,
    /// What happens to longer ones.
    pub longer: Longer,
    /// What happens to those that are there already.
    pub duplicates: Duplicates,
}

impl Examples {
    /// Renders each conversation; `purpose` is what the set is for (`learn from`, `evaluate on`).
    ///
    /// # Errors
    /// A conversation can't be rendered or is too long, or nothing is left.
    pub fn new(
        conversations: &[Conversation],
        limits: Limits,
        purpose: &'static str,
        mut render: impl FnMut(&Conversation) -> Result<Example, Error>,
    ) -> Result<Self, Error> {
        let mut set = Self { all: Vec::new(), counts: Counts::default() };
        let mut seen = HashSet::new();
        for conversation in conversations {
            set.counts.rows += 1;
            let mut example = render(conversation)?;
            if let Some(first) = example.learnt.first_mut() {
                *first = false;
            }
            if !set.fit(&mut example, conversation, limits)? {
                continue;
            }
            if !seen.insert(Sha256::digest(bytes(&example))) {
                set.counts.duplicates += 1;
                if limits.duplicates == Duplicates::Drop {
                    set.counts.duplicates_dropped += 1;
                    continue;
                }
            }
            set.all.push(example);
        }
        set.count();
        if set.all.is_empty() {
            return Err(Error::NoExamples { purpose, reason: reason(&set.counts) });
        }
        Ok(set)
    }

    /// Whether `example` is used, after a cut where that is asked for.
    fn fit(
        &mut self,
        example: &mut Example,
        conversation: &Conversation,
        limits: Limits,
    ) -> Result<bool, Error> {
        let (tokens, most) = (example.tokens.len(), limits.sequence_tokens);
        if tokens > most {
            match limits.longer {
                Longer::Error => {
                    return Err(Error::Row {
                        place: conversation.place.clone(),
                        field: "messages".to_owned(),
                        problem: format!(
                            "{tokens} tokens, and `sequence_tokens` is {most}; raise it, or set \
                             `longer_sequences` to \"cut\" or \"skip\""
                        ),
                    });
                }
                Longer::Skip => {
                    self.counts.skipped += 1;
                    return Ok(false);
                }
                Longer::Cut => {
                    example.tokens.truncate(most);
                    example.learnt.truncate(most);
                }
            }
        }
        if example.learnt_tokens() == 0 {
            self.counts.emptied += 1;
            return Ok(false);
        }
        self.counts.cut += usize::from(tokens > most);
        Ok(true)
    }

    fn count(&mut self) {
        let counts = &mut self.counts;
        counts.sequences = self.all.len();
        counts.tokens = self.all.iter().map(|example| example.tokens.len() as u64).sum();
        counts.learnt_tokens = self.all.iter().map(|one| one.learnt_tokens() as u64).sum();
        counts.longest_tokens = self.all.iter().map(|one| one.tokens.len()).max().unwrap_or(0);
    }

    /// Takes `share` of the sequences out, at least one, drawn with `seed`; both parts keep their
    /// order.
    ///
    /// # Errors
    /// One of the parts would be empty.
    pub fn hold_out(mut self, share: f64, seed: u64, stage: usize) -> Result<(Self, Self), Error> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        let key = Key { task: stage as u64, ..Key::new(seed, Purpose::Evaluation) };
        key.at(0).shuffle(&mut order);
        let held = ((self.all.len() as f64 * share).round() as usize).max(1);
        if held >= self.all.len() {
            return Err(Error::NoExamples {
                purpose: "learn from",
                reason: format!("{held} of {} sequences are held out", self.all.len()),
            });
        }
        let held: HashSet<usize> = order.into_iter().take(held).collect();
        let mut out = Self { all: Vec::new(), counts: Counts::default() };
        let mut kept = Vec::new();
        for (index, example) in self.all.drain(..).enumerate() {
            if held.contains(&index) { &mut out.all } else { &mut kept }.push(example);
        }
        self.all = kept;
        out.counts.rows = out.all.len();
        out.count();
        self.count();
        Ok((self, out))
    }

    /// The first `limit` sequences.
    pub fn truncate(&mut self, limit: usize) {
        self.all.truncate(limit);
        self.count();
    }

    /// The sequences.
    pub fn all(&self) -> &[Example] {
        &self.all
    }

    /// What became of the rows.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tokens of each sequence.
    pub fn lengths(&self) -> Vec<usize> {
        self.all.iter().map(|example| example.tokens.len()).collect()
    }

    /// SHA-256 of all sequences: the same data, rendered in the same way, has the same.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for example in &self.all {
            hash.update(bytes(example));
        }
        hexadecimal(&hash.finalize())
    }
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A sequence as bytes: its length, then each token with its mark.
fn bytes(example: &Example) -> Vec<u8> {
    let mut bytes = (example.tokens.len() as u64).to_le_bytes().to_vec();
    for (token, learnt) in example.tokens.iter().zip(&example.learnt) {
        bytes.extend_from_slice(&token.to_le_bytes());
        bytes.push(u8::from(*learnt));
    }
    bytes
}

fn reason(counts: &Counts) -> String {
    format!(
        "{} rows were read, {} were too long, {} had nothing to learn within the longest sequence",
        counts.rows, counts.skipped, counts.emptied
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::error::Place;

    fn conversation(row: usize) -> Conversation {
        let place = Place { path: "data.jsonl".into(), row };
        Conversation { messages: Vec::new(), tools: Vec::new(), place }
    }

    /// Row n has n tokens, the last two learnt.
    fn render(conversation: &Conversation) -> Result<Example, Error> {
        let length = conversation.place.row;
        let learnt = (0..length).map(|index| index + 2 >= length).collect();
        Ok(Example { tokens: vec![7; length], learnt })
    }

    fn set(rows: &[usize], limits: Limits) -> Result<Examples, Error> {
        let conversations: Vec<_> = rows.iter().map(|row| conversation(*row)).collect();
        Examples::new(&conversations, limits, "learn from", render)
    }

    const LIMITS: Limits =
        Limits { sequence_tokens: 8, longer: Longer::Error, duplicates: Duplicates::Keep };

    #[test]
    fn longer_rows_stop_are_cut_or_left_out_and_counted() {
        let error = set(&[3, 9], LIMITS).unwrap_err().to_string();
        assert!(error.starts_with("data.jsonl:9: messages: 9 tokens"), "{error}");
        let skipped = set(&[3, 9], Limits { longer: Longer::Skip, ..LIMITS }).unwrap();
        assert_eq!((skipped.counts().skipped, skipped.all().len()), (1, 1));
        let cut = set(&[3, 9, 10], Limits { longer: Longer::Cut, ..LIMITS }).unwrap();
        let expected = Counts {
            rows: 3,
            sequences: 2,
            cut: 1,
            emptied: 1,
            tokens: 11,
            learnt_tokens: 3,
            longest_tokens: 8,
            ..Counts::default()
        };
        assert_eq!(*cut.counts(), expected);
    }

    #[test]
    fn duplicates_are_counted_and_dropped_where_asked() {
        let kept = set(&[3, 4, 3, 3], LIMITS).unwrap();
        assert_eq!((kept.counts().duplicates, kept.all().len()), (2, 4));
        let dropped =
            set(&[3, 4, 3, 3], Limits { duplicates: Duplicates::Drop, ..LIMITS }).unwrap();
        assert_eq!((dropped.counts().duplicates_dropped, dropped.all().len()), (2, 2));
    }

    #[test]
    fn an_empty_set_says_what_became_of_its_rows() {
        let error = set(&[9], Limits { longer: Longer::Skip, ..LIMITS }).unwrap_err().to_string();
        assert!(
            error.contains("nothing to learn from: 1 rows were read, 1 were too long"),
            "{error}"
        );
    }

    #[test]
    fn the_first_token_is_never_learnt() {
        let one = set(&[2], LIMITS).unwrap();
        assert_eq!(one.all()[0].learnt, [false, true]);
    }

    #[test]
    fn what_is_held_out_is_drawn_and_disjoint() {
        let all = set(&[2, 3, 4, 5, 6, 7, 8], LIMITS).unwrap();
        let (kept, held) = all.clone().hold_out(0.3, 1, 0).unwrap();
        assert_eq!((kept.all().len(), held.all().len()), (5, 2));
        let mut lengths = [kept.lengths(), held.lengths()].concat();
        lengths.sort_unstable();
        assert_eq!(lengths, all.lengths());
        assert_eq!(all.clone().hold_out(0.3, 1, 0).unwrap().1, held);
        assert!(set(&[2], LIMITS).unwrap().hold_out(0.1, 1, 0).is_err());
    }
}
