//! Which sequence uses which block of keys and values, and which prefixes are kept for later ones.
//!
//! A block that holds the keys and values of known tokens is a node of a tree: its parent holds the
//! tokens before it. A new sequence walks the tree along its prompt, shares the full blocks that it
//! finds, and copies the part that it needs of a block that fits only at its beginning. A node is
//! named by its block, for each has exactly one.
//!
//! Invariants:
//! - a block is free, used (some sequence refers to it), or idle (a node that no sequence uses):
//!   the three add up to all;
//! - only full nodes are shared between sequences, and nobody writes to them: a sequence writes only
//!   behind the tokens of its last block, which it alone uses;
//! - a sequence that uses a node uses its ancestors, so idle nodes can always be given up from the
//!   leaves, longest unused first.
//!
//! What it does not do: hold or copy values. It trusts its caller to compute what it commits.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rocstar_nn::decode::BlockId;

/// Blocks of one sequence, in order.
#[derive(Debug, Default)]
pub(crate) struct Table {
    blocks: Vec<BlockId>,
    /// The first blocks, full and in the tree.
    committed: usize,
}

impl Table {
    pub(crate) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }
}

/// Values to copy before the next step computes: the first `tokens` tokens of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyPrefix {
    pub(crate) from: BlockId,
    pub(crate) to: BlockId,
    pub(crate) tokens: usize,
}

/// What the tree holds of a sequence's beginning.
#[derive(Debug, Default)]
pub(crate) struct Found {
    full: Vec<BlockId>,
    partial: Option<(BlockId, usize)>,
    tokens: usize,
}

impl Found {
    /// Tokens that need not be computed.
    pub(crate) const fn tokens(&self) -> usize {
        self.tokens
    }
}

#[derive(Debug, Default)]
struct Slot {
    /// Sequences whose table holds the block.
    users: u32,
    node: Option<Node>,
}

#[derive(Debug)]
struct Node {
    parent: Option<BlockId>,
    children: Vec<BlockId>,
    tokens: Vec<u32>,
    depth: u32,
    /// When it was last given back or copied from. No node was used later than its parent.
    used: u64,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    block_tokens: usize,
    share: bool,
    slots: Vec<Slot>,
    roots: Vec<BlockId>,
    free: Vec<BlockId>,
    /// Idle nodes, the first to be given up first.
    idle: BTreeSet<(u64, Reverse<u32>, BlockId)>,
    clock: u64,
}

impl Blocks {
    /// `count` free blocks of `block_tokens` tokens. Without `share` nothing enters the tree.
    pub(crate) fn new(count: u32, block_tokens: usize, share: bool) -> Self {
        Self {
            block_tokens,
            share,
            slots: (0..count).map(|_| Slot::default()).collect(),
            roots: Vec::new(),
            free: (0..count).rev().map(BlockId).collect(),
            idle: BTreeSet::new(),
            clock: 0,
        }
    }

    pub(crate) const fn share(&self) -> bool {
        self.share
    }

    pub(crate) const fn block_tokens(&self) -> usize {
        self.block_tokens
    }

    pub(crate) const fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// The longest beginning of `tokens` that the tree holds.
    pub(crate) fn find(&self, tokens: &[u32]) -> Found {
        let mut found = Found::default();
        loop {
            let rest = &tokens[found.tokens..];
            let children = self.children(found.full.last().copied());
            let common = |child: &BlockId| (common(self.tokens(*child), rest), *child);
            // Of equals the oldest block id, so that nothing depends on the order of insertion.
            let best =
                children.iter().map(common).max_by_key(|(common, id)| (*common, Reverse(*id)));
            match best {
                Some((length, block)) if length == self.block_tokens => {
                    found.full.push(block);
                    found.tokens += length;
                }
                Some((length, block)) if length > 0 => {
                    found.partial = Some((block, length));
                    found.tokens += length;
                    return found;
                }
                Some(_) | None => return found,
            }
        }
    }

    /// Takes what was found, and fresh blocks up to `needed` in all. `None`, and nothing changed,
    /// where less than `reserve` blocks would be left.
    pub(crate) fn acquire(
        &mut self,
        found: Found,
        needed: usize,
        reserve: usize,
    ) -> Option<(Table, Option<CopyPrefix>)> {
        let idle_found = found.full.iter().filter(|block| self.slot(**block).users == 0).count();
        let available = self.free.len() + self.idle.len() - idle_found;
        if needed - found.full.len() + reserve > available {
            return None;
        }
        for block in &found.full {
            self.take(*block);
        }
        if let Some((block, _)) = found.partial {
            self.touch(block);
        }
        let fresh = found.full.len();
        let mut table = Table { blocks: found.full, committed: fresh };
        let grown = self.grow(&mut table, needed);
        debug_assert!(grown, "what was counted as available is there");
        // The copy is made before anything is written, so it is right even where the source itself
        // was just given up and taken.
        let copy = found.partial.zip(table.blocks.get(fresh));
        let copy = copy.map(|((from, tokens), to)| CopyPrefix { from, to: *to, tokens });
        Some((table, copy))
    }

    /// Adds fresh blocks to a table up to `needed`; false where there are none left, with those
    /// there were added.
    pub(crate) fn grow(&mut self, table: &mut Table, needed: usize) -> bool {
        while table.blocks.len() < needed {
            let Some(block) = self.free.pop().or_else(|| self.give_up_one()) else {
                return false;
            };
            self.slot_mut(block).users = 1;
            table.blocks.push(block);
        }
        true
    }

    /// The first `computed` of the sequence's `tokens` have their keys and values now: its full
    /// blocks enter the tree. Where the tree holds the same tokens already, the sequence goes on
    /// with the block there, whose values are the same.
    pub(crate) fn commit(&mut self, table: &mut Table, tokens: &[u32], computed: usize) {
        if !self.share {
            return;
        }
        let size = self.block_tokens;
        while (table.committed + 1) * size <= computed {
            let index = table.committed;
            let own = table.blocks[index];
            let chunk = &tokens[index * size..(index + 1) * size];
            let parent = index.checked_sub(1).map(|before| table.blocks[before]);
            self.remove_node(own);
            let same = |child: &&BlockId| self.tokens(**child) == chunk;
            if let Some(twin) = self.children(parent).iter().find(same).copied() {
                self.take(twin);
                self.put_back(own);
                table.blocks[index] = twin;
            } else {
                self.insert_node(own, parent, chunk, index);
            }
            table.committed += 1;
        }
    }

    /// Puts the last block into the tree, which is not full: its tokens can be copied from it, and
    /// the sequence goes on to write behind them.
    pub(crate) fn commit_tail(&mut self, table: &Table, tokens: &[u32], computed: usize) {
        let index = table.committed;
        let start = index * self.block_tokens;
        let Some(own) = table.blocks.get(index).filter(|_| self.share && start < computed) else {
            return;
        };
        let chunk = &tokens[start..computed];
        if let Some(node) = &mut self.slot_mut(*own).node {
            node.tokens = chunk.to_vec();
            return;
        }
        let parent = index.checked_sub(1).map(|before| table.blocks[before]);
        let covers = |child: &BlockId| self.tokens(*child).starts_with(chunk);
        if !self.children(parent).iter().any(covers) {
            self.insert_node(*own, parent, chunk, index);
        }
    }

    /// Takes a sequence's blocks back; what it computed stays for others while there is room.
    pub(crate) fn release(&mut self, mut table: Table, tokens: &[u32], computed: usize) {
        self.commit(&mut table, tokens, computed);
        self.commit_tail(&table, tokens, computed);
        self.clock += 1;
        for block in table.blocks {
            self.put_back(block);
        }
    }

    /// Gives up all idle nodes.
    pub(crate) fn forget(&mut self) {
        while let Some(block) = self.give_up_one() {
            self.free.push(block);
        }
    }

    fn slot(&self, block: BlockId) -> &Slot {
        &self.slots[block.0 as usize]
    }

    fn slot_mut(&mut self, block: BlockId) -> &mut Slot {
        &mut self.slots[block.0 as usize]
    }

    fn tokens(&self, block: BlockId) -> &[u32] {
        self.slot(block).node.as_ref().map_or(&[], |node| &node.tokens)
    }

    fn children(&self, parent: Option<BlockId>) -> &[BlockId] {
        match parent {
            Some(parent) => self.slot(parent).node.as_ref().map_or(&[], |node| &node.children),
            None => &self.roots,
        }
    }

    fn children_mut(&mut self, parent: Option<BlockId>) -> Option<&mut Vec<BlockId>> {
        match parent {
            Some(parent) => self.slot_mut(parent).node.as_mut().map(|node| &mut node.children),
            None => Some(&mut self.roots),
        }
    }

    /// One more sequence uses a node.
    fn take(&mut self, block: BlockId) {
        let slot = self.slot_mut(block);
        slot.users += 1;
        if let (1, Some(node)) = (slot.users, &slot.node) {
            let key = (node.used, Reverse(node.depth), block);
            self.idle.remove(&key);
        }
    }

    /// One sequence less uses a block.
    fn put_back(&mut self, block: BlockId) {
        let clock = self.clock;
        let slot = self.slot_mut(block);
        slot.users -= 1;
        if slot.users > 0 {
            return;
        }
        match &mut slot.node {
            Some(node) => {
                node.used = clock;
                let key = (clock, Reverse(node.depth), block);
                self.idle.insert(key);
            }
            None => self.free.push(block),
        }
    }

    /// A node is of use: it is to be given up later than others.
    fn touch(&mut self, block: BlockId) {
        self.clock += 1;
        let clock = self.clock;
        let slot = self.slot_mut(block);
        let idle = slot.users == 0;
        if let Some(node) = &mut slot.node {
            let old = (node.used, Reverse(node.depth), block);
            node.used = clock;
            let new = (clock, Reverse(node.depth), block);
            if idle {
                self.idle.remove(&old);
                self.idle.insert(new);
            }
        }
    }

    /// The idle node that was unused for longest, out of the tree.
    fn give_up_one(&mut self) -> Option<BlockId> {
        let (_, _, block) = self.idle.pop_first()?;
        debug_assert!(self.children(Some(block)).is_empty(), "leaves go first");
        self.remove_node(block);
        Some(block)
    }

    fn insert_node(
        &mut self,
        block: BlockId,
        parent: Option<BlockId>,
        tokens: &[u32],
        depth: usize,
    ) {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let node =
            Node { parent, children: Vec::new(), tokens: tokens.to_vec(), depth, used: self.clock };
        self.slot_mut(block).node = Some(node);
        if let Some(children) = self.children_mut(parent) {
            children.push(block);
        }
    }

    fn remove_node(&mut self, block: BlockId) {
        if let Some(node) = self.slot_mut(block).node.take()
            && let Some(children) = self.children_mut(node.parent)
        {
            children.retain(|child| *child != block);
        }
    }
}

/// Length of the common beginning.
pub(crate) fn common(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
impl Blocks {
    /// Every invariant, against the tables in use.
    pub(crate) fn verify<'a>(&self, tables: impl Iterator<Item = &'a Table>) {
        let mut users = vec![0; self.slots.len()];
        for table in tables {
            for block in &table.blocks {
                users[block.0 as usize] += 1;
            }
            for shared in &table.blocks[..table.committed] {
                assert_eq!(self.tokens(*shared).len(), self.block_tokens);
            }
            for own in &table.blocks[table.committed..] {
                assert_eq!(self.slot(*own).users, 1, "a block not full is shared");
            }
        }
        let mut idle = BTreeSet::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let block = BlockId(index as u32);
            assert_eq!(slot.users, users[index], "users of block {index}");
            assert_eq!(self.free.contains(&block), slot.users == 0 && slot.node.is_none());
            let Some(node) = &slot.node else { continue };
            assert!(self.children(node.parent).contains(&block));
            assert!(!node.tokens.is_empty());
            if slot.users == 0 {
                idle.insert((node.used, Reverse(node.depth), block));
            }
            for child in &node.children {
                let child_slot = self.slot(*child);
                assert!(child_slot.users == 0 || slot.users > 0, "a child without its parent");
                assert_eq!(child_slot.node.as_ref().map(|child| child.parent), Some(Some(block)));
            }
        }
        assert_eq!(idle, self.idle);
        let used = users.iter().filter(|users| **users > 0).count();
        assert_eq!(self.free.len() + self.idle.len() + used, self.slots.len());
        let distinct: BTreeSet<_> = self.free.iter().collect();
        assert_eq!(distinct.len(), self.free.len(), "a block is free twice");
    }
}
