//! All samples of all tasks, from a policy and its surroundings to finished episodes.
//!
//! Invariant: each sample of each task ends in exactly one of [`RolledOut::episodes`] and
//! [`RolledOut::lost`], and what an episode holds, times apart, depends on policy, task, settings and
//! [`At`] alone.

mod crowd;
mod results;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocstar_chat::{Family, Tokenizer, Transcript};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::episode::{Episode, Lost, TaskId};
use serde::Serialize;

use crate::books::Books;
use crate::counts::Counts;
use crate::episode::Rules;
use crate::generator::{Generator, GeneratorError};
use crate::player::Assignment;
use crate::sample::Surroundings;
use crate::scheduler::Scheduler;
use crate::settings::{RolloutOptions, ToolMode};
use crate::task::Task;
use crate::tool::Tool;
use crate::verifier::Verifier;
use crowd::{Crowd, Ended, Wanted};
use results::Results;

/// How messages become tokens and back.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// How the model's turns are written.
    pub family: Family,
}

/// Which draws a call of [`Rollouts::roll_out`] makes, and what its episodes are numbered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// The run's seed.
    pub seed: u64,
    /// The training step, counted over the whole run.
    pub step: u32,
    /// Number of the first task within the stage; the others follow it.
    pub first_task: u64,
}

/// A sample that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Samples that ended so far.
    pub ended: usize,
    /// All samples.
    pub of: usize,
    /// Of those that ended, right ones.
    pub right: usize,
    /// Of those that ended, lost ones.
    pub lost: usize,
    /// Tokens that the policy sampled so far, in episodes that ended.
    pub policy_tokens: usize,
}

/// What became of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct RolledOut {
    /// The task.
    pub task: Arc<Task>,
    /// Its episodes, by sample number.
    pub episodes: Vec<Episode>,
    /// Samples that came to no episode, by sample number.
    pub lost: Vec<Lost>,
}

/// What became of all tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct RolledOutAll {
    /// The tasks in their order.
    pub groups: Vec<RolledOut>,
    /// What it took.
    pub usage: Usage,
}

/// What a rollout took. Times are of the wall clock unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// From the first admission to the last end.
    pub total: Duration,
    /// While any episode generated.
    pub generating: Duration,
    /// While none generated and any waited for a tool: what tools cost the whole.
    pub waiting_for_tools: Duration,
    /// While none generated nor waited for a tool, and any for the verifier.
    pub waiting_for_verifier: Duration,
    /// Wall time of all tool calls, added up.
    pub tool_busy: Duration,
    /// Wall time of all verifications, added up.
    pub verifier_busy: Duration,
    /// Tokens that the policy sampled, those of lost samples included.
    pub policy_tokens: usize,
    /// Tokens after the prompts, tools' answers included, in episodes.
    pub response_tokens: usize,
    /// Tool calls that were run.
    pub tool_calls: usize,
    /// Most episodes at once.
    pub most_at_once: usize,
    /// Most tokens of the cache that were reserved at once.
    pub most_reserved_tokens: usize,
    /// Failures of ours that were tried again.
    pub tried_again: usize,
}

/// Why rolling out can't start or go on. A single sample's failure is not one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// The settings.
    #[error("the rollout's settings can't work: {}", .0.join("; "))]
    Options(Vec<String>),
    /// The family has no way to write tool calls.
    #[error(
        "models of the family `{family}` know no tools: set `tool = \"none\"`, or give the model a \
         template with tools"
    )]
    NoTools {
        /// The family.
        family: &'static str,
    },
    /// A tool was given and the settings want none, or the other way round.
    #[error("`tool` is set to {wanted}, but {given}")]
    ToolMismatch {
        /// What the settings say.
        wanted: &'static str,
        /// What was given.
        given: &'static str,
    },
    /// A task whose messages can't be written.
    #[error("task `{}`: messages: {source}", task.0)]
    Render {
        /// Which.
        task: TaskId,
        /// Why not.
        source: Box<rocstar_chat::Error>,
    },
    /// A task that leaves no room for a response.
    #[error(
        "task `{}`: its prompt has {prompt_tokens} tokens, and a sequence holds {longest_tokens}: \
         leave the task out, or give the model more context",
        task.0
    )]
    PromptTooLong {
        /// Which.
        task: TaskId,
        /// Tokens of its prompt.
        prompt_tokens: usize,
        /// Most tokens of a sequence.
        longest_tokens: usize,
    },
    /// The generator takes no asks, or refuses ours.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
}

/// Why a sample came to no episode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoEpisode {
    /// We failed, and may not another time.
    #[error("{cause}")]
    Lost {
        /// How.
        cause: String,
    },
    /// The model can't read the whole prompt.
    #[error("the prompt of {prompt_tokens} tokens leaves no room for a response")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt_tokens: usize,
    },
}

/// Makes episodes.
#[derive(Debug)]
pub struct Rollouts {
    rules: Arc<Rules>,
    generator: Arc<dyn Generator>,
    tool: Option<Arc<dyn Tool>>,
    verifier: Arc<dyn Verifier>,
}

impl Rollouts {
    /// Puts policy and surroundings together.
    ///
    /// # Errors
    /// Settings that can't work, or that don't fit the tool or the family.
    pub fn new(
        policy: Policy,
        generator: Arc<dyn Generator>,
        tool: Option<Arc<dyn Tool>>,
        verifier: Arc<dyn Verifier>,
        options: RolloutOptions,
    ) -> Result<Self, RolloutError> {
        let rules = Arc::new(rules(policy, &*generator, tool.as_deref(), options)?);
        Ok(Self { rules, generator, tool, verifier })
    }

    /// What the settings are.
    pub fn options(&self) -> &RolloutOptions {
        &self.rules.options
    }

    /// Tokens of a task's prompt, the opening of the first turn included.
    ///
    /// # Errors
    /// A task whose messages the family can't write.
    pub fn prompt_tokens(&self, task: &Task) -> Result<usize, RolloutError> {
        Ok(self.prompt(task)?.tokens().len())
    }

    fn prompt(&self, task: &Task) -> Result<Transcript, RolloutError> {
        self.rules.prompt(&task.messages, &task.functions).map_err(|source| RolloutError::Render {
            task: task.id.clone(),
            source: Box::new(source),
        })
    }

    /// The prompt of a task, if a response has room behind it.
    fn fitting_prompt(&self, task: &Task) -> Result<Arc<Transcript>, RolloutError> {
        let prompt = self.prompt(task)?;
        let (prompt_tokens, longest_tokens) = (prompt.tokens().len(), self.rules.longest_tokens);
        if prompt_tokens >= longest_tokens {
            let task = task.id.clone();
            return Err(RolloutError::PromptTooLong { task, prompt_tokens, longest_tokens });
        }
        Ok(Arc::new(prompt))
    }

    /// Rolls out `options.samples` samples of each task. `progress` hears of each that ended.
    /// Dropping the future ends all work and frees what it holds. Needs a tokio runtime with time.
    ///
    /// # Errors
    /// A task that can't be posed (before anything is generated), or a generator that takes no asks.
    pub async fn roll_out(
        &self,
        at: At,
        tasks: &[Arc<Task>],
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RolledOutAll, RolloutError> {
        let prompts: Result<Vec<_>, _> =
            tasks.iter().map(|task| self.fitting_prompt(task)).collect();
        let prompts = prompts?;
        let samples = self.rules.options.samples;
        let of_task = |(number, (task, prompt)): (usize, (&Arc<Task>, &Arc<Transcript>))| {
            let draw = Key {
                step: at.step,
                task: at.first_task + number as u64,
                ..Key::new(at.seed, Purpose::Sampling)
            };
            let (task, prompt) = (Arc::clone(task), Arc::clone(prompt));
            (0..samples as u32).map(move |sample| Wanted {
                prompt_number: number,
                task: Arc::clone(&task),
                prompt: Arc::clone(&prompt),
                draw: Key { sample, ..draw },
            })
        };
        let wanted: Vec<Wanted> =
            tasks.iter().zip(&prompts).enumerate().flat_map(of_task).collect();
        let surroundings = self.surroundings();
        let mut crowd = Crowd::new(&surroundings, &wanted);
        let mut results = Results::new(tasks, samples);
        while let Some(ended) = crowd.next().await {
            let Ended { index, result } = ended?;
            results.take((index / samples, wanted[index].draw.sample), result);
            progress(results.progress);
        }
        drop(crowd);
        Ok(results.finish(&surroundings))
    }

    /// Rolls out single samples, and hands each over as it ends: its index among them, and the
    /// episode or why there is none. `options.samples` is not looked at; a sample's draws are those
    /// that [`Self::roll_out`] makes for step 0. Dropping the future ends all work; what was handed
    /// over stays. Needs a tokio runtime with time.
    ///
    /// # Errors
    /// A task whose messages can't be written, or a generator that takes no asks. A prompt that is
    /// too long is the cause of that sample alone.
    pub async fn roll_out_each(
        &self,
        seed: u64,
        samples: &[Assignment],
        ended: &(dyn Fn(usize, Result<Episode, NoEpisode>) + Sync),
    ) -> Result<Usage, RolloutError> {
        let (wanted, indexes) = self.wanted_each(seed, samples, ended)?;
        let surroundings = self.surroundings();
        let mut crowd = Crowd::new(&surroundings, &wanted);
        while let Some(one) = crowd.next().await {
            let Ended { index, result } = one?;
            ended(indexes[index], result.map_err(|cause| NoEpisode::Lost { cause }));
        }
        drop(crowd);
        Ok(results::usage(&surroundings))
    }

    /// What can be rolled out, and where each stands among `samples`; the rest is told of.
    fn wanted_each(
        &self,
        seed: u64,
        samples: &[Assignment],
        ended: &(dyn Fn(usize, Result<Episode, NoEpisode>) + Sync),
    ) -> Result<(Vec<Wanted>, Vec<usize>), RolloutError> {
        let mut prompts: BTreeMap<u64, Option<(usize, Arc<Transcript>)>> = BTreeMap::new();
        let (mut wanted, mut indexes) = (Vec::new(), Vec::new());
        for (index, Assignment { task, task_number, sample }) in samples.iter().enumerate() {
            let number = prompts.len();
            let prompt = match prompts.entry(*task_number) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    let prompt = self.prompt(task)?;
                    let fits = prompt.tokens().len() < self.rules.longest_tokens;
                    new.insert(fits.then(|| (number, Arc::new(prompt)))).clone()
                }
            };
            let Some((prompt_number, prompt)) = prompt else {
                let prompt_tokens = self.prompt_tokens(task)?;
                ended(index, Err(NoEpisode::PromptTooLong { prompt_tokens }));
                continue;
            };
            let key = Key::new(seed, Purpose::Sampling);
            let draw = Key { task: *task_number, sample: *sample, ..key };
            wanted.push(Wanted { prompt_number, task: Arc::clone(task), prompt, draw });
            indexes.push(index);
        }
        Ok((wanted, indexes))
    }

    fn surroundings(&self) -> Surroundings {
        let options = &self.rules.options;
        let (capacity, began) = (self.generator.capacity(), Instant::now());
        let scheduler = Scheduler::new(&capacity, options.response_tokens, options.most_running);
        Surroundings {
            rules: Arc::clone(&self.rules),
            generator: Arc::clone(&self.generator),
            tool: self.tool.clone(),
            verifier: Arc::clone(&self.verifier),
            books: Books::new(scheduler, began),
            began,
            counts: Counts::default(),
        }
    }
}

/// The rules by which policy and surroundings play together.
///
/// # Errors
/// Settings that can't work, or that don't fit the tool or the family.
pub(crate) fn rules(
    policy: Policy,
    generator: &dyn Generator,
    tool: Option<&dyn Tool>,
    options: RolloutOptions,
) -> Result<Rules, RolloutError> {
    let problems = options.validate();
    if !problems.is_empty() {
        return Err(RolloutError::Options(problems));
    }
    let spec = match (tool, options.tool) {
        (None, ToolMode::None) => None,
        (Some(tool), ToolMode::Stateless | ToolMode::Session) => {
            let format = policy.family.call_format();
            let family = policy.family.name();
            Some((tool.spec(), format.ok_or(RolloutError::NoTools { family })?))
        }
        (Some(_), ToolMode::None) => {
            return Err(RolloutError::ToolMismatch { wanted: "none", given: "a tool was given" });
        }
        (None, _) => {
            let (wanted, given) = ("a tool", "none was given");
            return Err(RolloutError::ToolMismatch { wanted, given });
        }
    };
    let longest_tokens = generator.capacity().longest_tokens;
    Ok(Rules { policy, options, tool: spec, longest_tokens })
}
