//! What runs in the next step: who is admitted, who gives way, which tokens are computed.
//!
//! Each step takes one token of every sequence that decodes, then pieces of prompts up to the step's
//! budget, oldest first. First come, first served: a request is overtaken only while it waits for
//! another that is computing the prompt they share. Where blocks run out, the newest sequence gives
//! way: it keeps its tokens, and its keys and values are computed again when there is room.
//!
//! Invariant: the oldest running sequence always goes on, so every request ends. What a sequence
//! yields doesn't depend on anything decided here.
//!
//! What it does not do: arithmetic, sampling, talking to callers; those hang on the payload.

use std::collections::VecDeque;

use rocstar_nn::decode::Logits;

use crate::blocks::{Blocks, CopyPrefix, Found, Table, common};

#[cfg(test)]
mod properties;

/// Bounds of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Sequences at once.
    pub(crate) max_running: usize,
    /// Tokens computed in a step.
    pub(crate) step_tokens: usize,
    /// Of these, tokens whose logits are wanted though nothing is sampled from them.
    pub(crate) row_tokens: usize,
}

/// A prompt and what was sampled after it.
#[derive(Debug)]
pub(crate) struct Sequence<P> {
    /// Order of arrival.
    arrival: u64,
    /// All tokens; the last one isn't computed yet, except for an instant within a step.
    pub(crate) tokens: Vec<u32>,
    /// Tokens whose keys and values are there.
    pub(crate) computed: usize,
    /// The logits of every token are wanted, so none may come from the tree.
    pub(crate) all_rows: bool,
    /// Tokens that were there when it first ran.
    pub(crate) cached_tokens: Option<usize>,
    /// How often it gave way.
    pub(crate) pre_emptions: usize,
    /// Admitted, and its end not reached since.
    prefilling: bool,
    table: Table,
    /// Its caller's.
    pub(crate) payload: P,
}

impl<P> Sequence<P> {
    /// Tokens to compute until the next one can be sampled.
    pub(crate) const fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub(crate) const fn table(&self) -> &Table {
        &self.table
    }

    /// Admitted, and not sampled from since.
    pub(crate) const fn is_prefilling(&self) -> bool {
        self.prefilling
    }
}

/// Tokens of one sequence that the step computes: the next `tokens` after its `computed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Index among the running.
    pub(crate) index: usize,
    pub(crate) tokens: usize,
    pub(crate) logits: Logits,
}

/// One step.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// To be carried out in order, before anything is computed.
    pub(crate) copies: Vec<CopyPrefix>,
    pub(crate) parts: Vec<Part>,
}

/// All sequences, with their blocks.
#[derive(Debug)]
pub(crate) struct Scheduler<P> {
    limits: Limits,
    blocks: Blocks,
    /// Oldest first.
    running: Vec<Sequence<P>>,
    /// Oldest first.
    waiting: VecDeque<Sequence<P>>,
    arrivals: u64,
    pre_emptions: u64,
}

impl<P> Scheduler<P> {
    pub(crate) const fn new(limits: Limits, blocks: Blocks) -> Self {
        Self {
            limits,
            blocks,
            running: Vec::new(),
            waiting: VecDeque::new(),
            arrivals: 0,
            pre_emptions: 0,
        }
    }

    /// A new sequence waits. Its caller has made sure that all of it fits into the blocks, with one
    /// more token where any is to be generated.
    pub(crate) fn submit(&mut self, tokens: Vec<u32>, all_rows: bool, payload: P) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.waiting.push_back(Sequence {
            arrival,
            tokens,
            computed: 0,
            all_rows,
            cached_tokens: None,
            pre_emptions: 0,
            prefilling: false,
            table: Table::default(),
            payload,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    pub(crate) const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) const fn pre_emptions(&self) -> u64 {
        self.pre_emptions
    }

    pub(crate) fn running(&self) -> &[Sequence<P>] {
        &self.running
    }

    pub(crate) fn running_mut(&mut self) -> &mut [Sequence<P>] {
        &mut self.running
    }

    /// Decides the next step.
    pub(crate) fn plan(&mut self, plan: &mut Plan) {
        plan.copies.clear();
        plan.parts.clear();
        self.grow();
        self.admit(&mut plan.copies);
        self.share_out(&mut plan.parts);
    }

    /// A part was computed.
    pub(crate) fn computed(&mut self, part: Part) {
        let sequence = &mut self.running[part.index];
        sequence.computed += part.tokens;
        let computed = sequence.computed;
        self.blocks.commit(&mut sequence.table, &sequence.tokens, computed);
        if computed == sequence.tokens.len() && sequence.prefilling {
            sequence.prefilling = false;
            // Who waits for this prompt finds all of it.
            self.blocks.commit_tail(&sequence.table, &sequence.tokens, computed);
        }
    }

    /// Takes a running sequence out. Indices behind it move by one.
    pub(crate) fn remove(&mut self, index: usize) -> Sequence<P> {
        let mut sequence = self.running.remove(index);
        let table = std::mem::take(&mut sequence.table);
        // The newest token may be sampled and not computed.
        self.blocks.release(table, &sequence.tokens, sequence.computed);
        sequence
    }

    /// Takes out all sequences that meet a condition.
    pub(crate) fn remove_where(&mut self, condition: impl Fn(&P) -> bool) -> Vec<Sequence<P>> {
        let mut removed = Vec::new();
        for index in (0..self.running.len()).rev() {
            if condition(&self.running[index].payload) {
                removed.push(self.remove(index));
            }
        }
        if self.waiting.iter().any(|sequence| condition(&sequence.payload)) {
            let all = std::mem::take(&mut self.waiting).into_iter();
            let (out, stay) = all.partition::<VecDeque<_>, _>(|other| condition(&other.payload));
            self.waiting = stay;
            removed.extend(out);
        }
        removed
    }

    /// All keys and values are worth nothing any more: everyone computes again.
    pub(crate) fn restart(&mut self) {
        while !self.running.is_empty() {
            self.pre_empt_newest();
        }
        self.blocks.forget();
    }

    /// Every running sequence gets a block for its last token; the newest give way to that.
    fn grow(&mut self) {
        let mut index = 0;
        while index < self.running.len() {
            let sequence = &mut self.running[index];
            let needed = sequence.tokens.len().div_ceil(self.blocks.block_tokens());
            if self.blocks.grow(&mut sequence.table, needed) {
                index += 1;
            } else {
                self.pre_empt_newest();
            }
        }
    }

    fn pre_empt_newest(&mut self) {
        let Some(newest) = self.running.len().checked_sub(1) else {
            return;
        };
        let mut sequence = self.remove(newest);
        sequence.computed = 0;
        sequence.prefilling = false;
        sequence.pre_emptions += 1;
        self.pre_emptions += 1;
        let place = self.waiting.partition_point(|other| other.arrival < sequence.arrival);
        self.waiting.insert(place, sequence);
    }

    /// Starts who waits, in order, while a place, blocks and tokens of the step are left.
    fn admit(&mut self, copies: &mut Vec<CopyPrefix>) {
        let mut step_tokens: usize = self.running.iter().map(|it| self.next_tokens(it)).sum();
        let mut index = 0;
        while index < self.waiting.len()
            && self.running.len() < self.limits.max_running
            && step_tokens < self.limits.step_tokens
        {
            let sequence = &self.waiting[index];
            let found = self.find(sequence);
            if self.is_worth_waiting(sequence, found.tokens()) {
                index += 1;
                continue;
            }
            let computed = found.tokens();
            let needed = sequence.tokens.len().div_ceil(self.blocks.block_tokens());
            // One block each for those who run, or the newcomer would soon have to give way.
            let reserve = self.running.len();
            let Some((table, copy)) = self.blocks.acquire(found, needed, reserve) else {
                return;
            };
            copies.extend(copy);
            let Some(mut sequence) = self.waiting.remove(index) else {
                return;
            };
            sequence.table = table;
            sequence.computed = computed;
            sequence.prefilling = true;
            sequence.cached_tokens.get_or_insert(computed);
            step_tokens += self.next_tokens(&sequence);
            let place = self.running.partition_point(|other| other.arrival < sequence.arrival);
            self.running.insert(place, sequence);
        }
    }

    /// Tokens of a sequence that the next step computes at most: one that wants all its logits gets
    /// them in pieces.
    fn next_tokens(&self, sequence: &Sequence<P>) -> usize {
        let pending = sequence.pending();
        if sequence.all_rows { pending.min(self.limits.row_tokens) } else { pending }
    }

    /// What is there of a sequence. Its last token is always computed, for its logits.
    fn find(&self, sequence: &Sequence<P>) -> Found {
        if sequence.all_rows {
            return Found::default();
        }
        let last = sequence.tokens.len().saturating_sub(1);
        self.blocks.find(&sequence.tokens[..last])
    }

    /// Another sequence is computing what this one could share: all of it, or a block or more.
    fn is_worth_waiting(&self, sequence: &Sequence<P>, found_tokens: usize) -> bool {
        if sequence.all_rows || !self.blocks.share() {
            return false;
        }
        let usable = &sequence.tokens[..sequence.tokens.len().saturating_sub(1)];
        self.running.iter().filter(|other| other.prefilling).any(|other| {
            let common = common(&other.tokens, usable);
            let gain = common.saturating_sub(found_tokens);
            gain >= self.blocks.block_tokens() || (gain > 0 && common == usable.len())
        })
    }

    /// Shares out the tokens of the step: first to all that decode, then to prompts.
    fn share_out(&self, parts: &mut Vec<Part>) {
        for (index, sequence) in self.running.iter().enumerate() {
            if sequence.pending() == 1 {
                parts.push(Part { index, tokens: 1, logits: Logits::Last });
            }
        }
        let mut tokens_left = self.limits.step_tokens.saturating_sub(parts.len());
        let mut rows_left = self.limits.row_tokens;
        for (index, sequence) in self.running.iter().enumerate() {
            let pending = sequence.pending();
            let mut tokens = if pending == 1 { 0 } else { pending.min(tokens_left) };
            if sequence.all_rows {
                tokens = tokens.min(rows_left);
                rows_left -= tokens;
            }
            if tokens == 0 {
                continue;
            }
            tokens_left -= tokens;
            let logits = match (sequence.all_rows, tokens == pending) {
                (true, _) => Logits::All,
                (false, true) => Logits::Last,
                (false, false) => Logits::None,
            };
            parts.push(Part { index, tokens, logits });
        }
    }
}
