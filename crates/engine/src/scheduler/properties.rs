//! The scheduler and its blocks over random histories, with a cache of real contents: each place
//! holds a hash of the tokens up to it, as keys and values do in effect.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rocstar_nn::decode::{BlockId, Logits};

use super::{Limits, Part, Plan, Scheduler};
use crate::blocks::Blocks;

const BLOCK: usize = 4;
const ALPHABET: u64 = 2;

/// A request of the model world.
#[derive(Debug, Clone)]
struct Ask {
    prompt: Vec<u32>,
    new_tokens: usize,
    all_rows: bool,
}

#[derive(Debug, Clone)]
enum Move {
    Submit(Ask),
    Step,
    Cancel(prop::sample::Index),
    NewWeights,
}

#[derive(Debug, Clone)]
struct World {
    blocks: u32,
    limits: Limits,
    share: bool,
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_add(value)
}

/// What the cache holds at the last of `tokens`.
fn history(tokens: &[u32], version: u64) -> u64 {
    tokens.iter().fold(version + 1, |hash, token| mix(hash, u64::from(*token) + 7))
}

/// The model's next token: of the tokens alone, so that new weights don't change what is expected.
fn next(tokens: &[u32]) -> u32 {
    (history(tokens, 0) >> 17) as u32 % ALPHABET as u32
}

/// Ids with what they asked for.
type Payload = usize;

#[derive(Debug)]
struct Simulation {
    world: World,
    scheduler: Scheduler<Payload>,
    asks: BTreeMap<Payload, Ask>,
    cache: Vec<[Option<u64>; BLOCK]>,
    version: u64,
    submitted: usize,
    finished: BTreeMap<Payload, Vec<u32>>,
    computed_tokens: usize,
}

impl Simulation {
    fn new(world: World) -> Self {
        let blocks = Blocks::new(world.blocks, BLOCK, world.share);
        Self {
            scheduler: Scheduler::new(world.limits, blocks),
            cache: vec![[None; BLOCK]; world.blocks as usize],
            world,
            asks: BTreeMap::new(),
            version: 0,
            submitted: 0,
            finished: BTreeMap::new(),
            computed_tokens: 0,
        }
    }

    fn longest(&self) -> usize {
        self.world.blocks as usize * BLOCK
    }

    fn submit(&mut self, mut ask: Ask) {
        ask.prompt.truncate(self.longest() - 1);
        ask.new_tokens = ask.new_tokens.min(self.longest() - ask.prompt.len());
        self.scheduler.submit(ask.prompt.clone(), ask.all_rows, self.submitted);
        self.asks.insert(self.submitted, ask);
        self.submitted += 1;
    }

    fn cancel(&mut self, index: prop::sample::Index) {
        if !self.asks.is_empty() {
            let id = *self.asks.keys().nth(index.index(self.asks.len())).unwrap();
            let removed = self.scheduler.remove_where(|payload| *payload == id);
            assert_eq!(removed.len(), 1);
            self.asks.remove(&id);
        }
    }

    fn new_weights(&mut self) {
        self.version += 1;
        self.scheduler.restart();
        assert_eq!(self.scheduler.blocks().free(), self.world.blocks as usize);
    }

    fn step(&mut self) {
        let mut plan = Plan::default();
        self.scheduler.plan(&mut plan);
        for copy in &plan.copies {
            // As the cache does: all of the block, of which `tokens` count.
            self.cache[copy.to.0 as usize] = self.cache[copy.from.0 as usize];
        }
        self.check_bounds(&plan);
        let mut written = BTreeSet::new();
        for part in &plan.parts {
            self.compute(*part, &mut written);
        }
        let mut ended = Vec::new();
        for part in &plan.parts {
            self.scheduler.computed(*part);
            let sequence = &mut self.scheduler.running_mut()[part.index];
            if sequence.pending() == 0 {
                sequence.tokens.push(next(&sequence.tokens));
                sequence.all_rows = false;
                let ask = &self.asks[&sequence.payload];
                if sequence.tokens.len() == ask.prompt.len() + ask.new_tokens {
                    ended.push(part.index);
                }
            }
        }
        self.check_blocks();
        ended.sort_unstable();
        for index in ended.into_iter().rev() {
            let sequence = self.scheduler.remove(index);
            self.asks.remove(&sequence.payload);
            self.finished.insert(sequence.payload, sequence.tokens);
        }
        self.check_blocks();
    }

    fn check_bounds(&self, plan: &Plan) {
        let limits = self.world.limits;
        assert!(self.scheduler.running().len() <= limits.max_running);
        assert!(plan.parts.iter().map(|part| part.tokens).sum::<usize>() <= limits.step_tokens);
        let all_rows = plan.parts.iter().filter(|part| part.logits == Logits::All);
        assert!(all_rows.map(|part| part.tokens).sum::<usize>() <= limits.row_tokens);
        let oldest = self.scheduler.running().first();
        assert!(oldest.is_none() || plan.parts.iter().any(|part| part.index == 0));
    }

    /// Reads the cache before the part's tokens, then writes theirs.
    fn compute(&mut self, part: Part, written: &mut BTreeSet<BlockId>) {
        let sequence = &self.scheduler.running()[part.index];
        let blocks = sequence.table().blocks().to_vec();
        for position in 0..sequence.computed {
            let held = self.cache[blocks[position / BLOCK].0 as usize][position % BLOCK];
            assert_eq!(held, Some(history(&sequence.tokens[..=position], self.version)));
        }
        let end = sequence.computed + part.tokens;
        assert_eq!(
            part.logits == Logits::Last,
            end == sequence.tokens.len() && { part.logits != Logits::All }
        );
        let mut own = BTreeSet::new();
        for position in sequence.computed..end {
            let block = blocks[position / BLOCK];
            own.insert(block);
            let value = history(&sequence.tokens[..=position], self.version);
            self.cache[block.0 as usize][position % BLOCK] = Some(value);
        }
        for block in own {
            assert!(written.insert(block), "two sequences write one block");
            let users = self.scheduler.running().iter();
            let users = users.filter(|other| other.table().blocks().contains(&block)).count();
            assert_eq!(users, 1, "a block that is written is shared");
        }
        self.computed_tokens += part.tokens;
    }

    fn check_blocks(&self) {
        let tables = self.scheduler.running().iter().map(|sequence| sequence.table());
        self.scheduler.blocks().verify(tables);
    }

    fn finish(&mut self) {
        // The oldest goes on in each step, so this many do for all.
        let most: usize =
            self.asks.values().map(|ask| ask.prompt.len() + ask.new_tokens).sum::<usize>() * 2;
        for _ in 0..most {
            if self.scheduler.is_empty() {
                break;
            }
            self.step();
        }
        assert!(self.scheduler.is_empty() && self.asks.is_empty());
        let blocks = self.scheduler.blocks();
        assert_eq!(blocks.free() + blocks.idle(), self.world.blocks as usize);
    }
}

fn alone(ask: &Ask) -> Vec<u32> {
    let mut tokens = ask.prompt.clone();
    for _ in 0..ask.new_tokens {
        tokens.push(next(&tokens));
    }
    tokens
}

fn ask() -> impl Strategy<Value = Ask> {
    let prompt = prop::collection::vec(0..ALPHABET as u32, 1..22);
    (prompt, 1..12_usize, prop::bool::weighted(0.15))
        .prop_map(|(prompt, new_tokens, all_rows)| Ask { prompt, new_tokens, all_rows })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => ask().prop_map(Move::Submit),
        12 => Just(Move::Step),
        2 => any::<prop::sample::Index>().prop_map(Move::Cancel),
        1 => Just(Move::NewWeights),
    ];
    prop::collection::vec(one, 1..80)
}

fn world() -> impl Strategy<Value = World> {
    (2..16_u32, 1..6_usize, 0..10_usize, 1..5_usize, prop::bool::weighted(0.8)).prop_map(
        |(blocks, max_running, more_tokens, row_tokens, share)| World {
            blocks,
            limits: Limits { max_running, step_tokens: max_running + more_tokens, row_tokens },
            share,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_history_ends_with_the_tokens_of_each_request_alone(
        world in world(),
        moves in moves(),
    ) {
        let mut simulation = Simulation::new(world);
        let mut asks = BTreeMap::new();
        for one in moves {
            match one {
                Move::Submit(ask) => {
                    simulation.submit(ask);
                    let id = simulation.submitted - 1;
                    asks.insert(id, simulation.asks[&id].clone());
                }
                Move::Step => simulation.step(),
                Move::Cancel(index) => simulation.cancel(index),
                Move::NewWeights => simulation.new_weights(),
            }
        }
        simulation.finish();
        for (id, tokens) in &simulation.finished {
            prop_assert_eq!(tokens, &alone(&asks[id]));
        }
    }
}

fn wide() -> World {
    let limits = Limits { max_running: 8, step_tokens: 16, row_tokens: 16 };
    World { blocks: 64, limits, share: true }
}

fn asking(prompt: &[u32], new_tokens: usize) -> Ask {
    Ask { prompt: prompt.to_vec(), new_tokens, all_rows: false }
}

#[test]
fn equal_prompts_submitted_together_are_computed_once() {
    for length in [7, 8, 9, 21, 33] {
        let prompt: Vec<u32> = (0..length).map(|index| index * index % 3).collect();
        let mut simulation = Simulation::new(wide());
        for _ in 0..8 {
            simulation.submit(asking(&prompt, 1));
        }
        simulation.finish();
        // All of the prompt once, and for each other its last token, for the logits.
        assert_eq!(simulation.computed_tokens, length as usize + 7);
    }
}

#[test]
fn a_continuation_computes_only_what_is_new() {
    let prompt = [1, 2, 3, 4, 5, 6];
    let mut simulation = Simulation::new(wide());
    simulation.submit(asking(&prompt, 5));
    simulation.finish();
    let mut turn = simulation.finished[&0].clone();
    // The last sampled token was never computed; the tool's tokens neither.
    turn.extend([7, 8, 9]);
    let before = simulation.computed_tokens;
    simulation.submit(asking(&turn, 1));
    simulation.finish();
    assert_eq!(simulation.computed_tokens - before, 4);
}

#[test]
fn a_request_is_not_overtaken_for_lack_of_blocks() {
    let limits = Limits { max_running: 4, step_tokens: 64, row_tokens: 1 };
    let mut simulation = Simulation::new(World { blocks: 6, limits, share: true });
    simulation.submit(asking(&[1; 12], 8));
    simulation.step();
    simulation.submit(asking(&[0; 20], 2));
    simulation.submit(asking(&[2], 1));
    simulation.step();
    let running: Vec<usize> =
        simulation.scheduler.running().iter().map(|sequence| sequence.payload).collect();
    assert_eq!(running, [0]);
    simulation.finish();
}

#[test]
fn what_was_unused_for_longest_is_given_up_first() {
    let limits = Limits { max_running: 1, step_tokens: 64, row_tokens: 1 };
    let mut simulation = Simulation::new(World { blocks: 6, limits, share: true });
    let prompts = [[0; 9], [1; 9], [2; 9]];
    for prompt in [0, 1, 0, 2, 0] {
        simulation.submit(asking(&prompts[prompt], 1));
        simulation.finish();
    }
    // The first prompt was used again before the third pushed the second out.
    let before = simulation.computed_tokens;
    simulation.submit(asking(&prompts[0], 1));
    simulation.finish();
    assert_eq!(simulation.computed_tokens - before, 1);
}
