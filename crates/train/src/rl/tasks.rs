//! Which tasks a step rolls out, and which a stage leaves out.
//!
//! Invariant: the tasks of a step follow from the seed and from how many tasks the stage has taken
//! before, so a checkpoint needs no more than that number. Each task is there once a pass.

use std::sync::Arc;

use rocstar_record::draw::{Key, Purpose};
use rocstar_rollout::Task;

/// The tasks of a stage in the order in which they are taken.
#[derive(Debug, Clone)]
pub(crate) struct TaskOrder {
    tasks: Vec<Arc<Task>>,
    /// What the orders are drawn with; `None` where each pass has the data's.
    draws: Option<(u64, usize)>,
    /// The pass whose order is known, with it.
    pass: Option<(u64, Vec<usize>)>,
}

impl TaskOrder {
    /// The tasks of a stage without those at the indices `left_out`, which ascend. `draws` is seed
    /// and stage, where each pass has an order of its own.
    pub(crate) fn new(all: &[Arc<Task>], left_out: &[usize], draws: Option<(u64, usize)>) -> Self {
        let stays = |index: &usize| left_out.binary_search(index).is_err();
        let tasks = (0..all.len()).filter(stays).map(|index| Arc::clone(&all[index])).collect();
        Self { tasks, draws, pass: None }
    }

    /// The pass over the tasks in which task `number` is.
    pub(crate) fn pass_of(&self, number: u64) -> u64 {
        number / (self.tasks.len() as u64).max(1)
    }

    /// `count` tasks from number `first` on.
    pub(crate) fn take(&mut self, first: u64, count: usize) -> Vec<Arc<Task>> {
        (first..first + count as u64).filter_map(|number| self.task(number)).collect()
    }

    fn task(&mut self, number: u64) -> Option<Arc<Task>> {
        let of_pass = self.tasks.len() as u64;
        let (pass, index) = (number.checked_div(of_pass)?, number.checked_rem(of_pass)?);
        if self.pass.as_ref().is_none_or(|(known, _)| *known != pass) {
            self.pass = Some((pass, self.order(pass)));
        }
        let (_, order) = self.pass.as_ref()?;
        self.tasks.get(*order.get(index as usize)?).cloned()
    }

    fn order(&self, pass: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        if let Some((seed, stage)) = self.draws {
            let key = Key {
                // A pass number beyond 32 bits would take longer than any run.
                step: u32::try_from(pass).unwrap_or(u32::MAX),
                task: stage as u64,
                ..Key::new(seed, Purpose::Shuffle)
            };
            key.at(0).shuffle(&mut order);
        }
        order
    }
}
