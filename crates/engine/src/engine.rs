//! The handle: accepts requests, takes new weights, and owns the compute thread.
//!
//! Invariant: no call here waits for longer than a step, and none hangs when the compute thread has
//! ended, for whichever reason: requests are then refused, and those accepted end with
//! [`FinishReason::EngineFailed`](crate::FinishReason::EngineFailed).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{BLOCK_TOKENS, DecodeError, DecodeWeights};
use rocstar_nn::parameters::{Layout, Parameters};

use crate::error::{EngineError, Refusal};
use crate::generation::{Generation, WeightVersion};
use crate::mailbox::{Mailbox, Writer};
use crate::options::EngineOptions;
use crate::request::{Bounds, Request};
use crate::stats::Stats;
use crate::worker::Worker;

/// A running engine. Clones are handles to the same one; it stops when the last is dropped, and
/// what runs then ends as cancelled.
#[derive(Debug, Clone)]
pub struct Engine {
    owner: Arc<Owner>,
}

/// What [`Engine::load_weights`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightsLoaded {
    /// Weights now in use.
    pub version: WeightVersion,
    /// Time until the present step had ended.
    pub waited: Duration,
    /// Time that the engine stood still.
    pub stood_still: Duration,
}

impl Engine {
    /// Starts an engine with weights of version 0. Returns when it is ready.
    ///
    /// # Errors
    /// Options that can't be met, weights that don't fit the model or aren't finite, no thread.
    pub fn start(
        config: ModelConfig,
        parameters: &Parameters,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let problems = options.validate(&config);
        if !problems.is_empty() {
            return Err(EngineError::Options(problems));
        }
        check_weights(parameters, &Layout::new(&config))?;
        let weights = DecodeWeights::new(&config, parameters, options.storage)?;
        let shared = Arc::new(Shared::new(config, options, weights));
        let threads = shared.options.threads.unwrap_or_else(rayon::current_num_threads);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("rocstar-engine-{index}"))
            .build()
            .map_err(|source| EngineError::Threads { threads, source })?;
        let worker = Worker::new(Arc::clone(&shared));
        let ended = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("rocstar-engine".to_owned())
            .spawn(move || run(worker, &pool, &ended))
            .map_err(EngineError::Thread)?;
        Ok(Self { owner: Arc::new(Owner { shared, thread: Some(thread) }) })
    }

    /// Accepts a request; it runs from the next step that has room.
    ///
    /// # Errors
    /// Why it can't be carried out, or that too many wait.
    pub fn generate(&self, request: Request) -> Result<Generation, Refusal> {
        let mut generations = self.generate_together(vec![request])?;
        // One request gives one generation.
        generations.pop().ok_or(Refusal::PromptEmpty)
    }

    /// Accepts all requests or none, so that all of them begin in the same step: what their prompts
    /// share is then computed once.
    ///
    /// # Errors
    /// Why one of them can't be carried out, or that too many wait.
    pub fn generate_together(&self, requests: Vec<Request>) -> Result<Vec<Generation>, Refusal> {
        let shared = &self.owner.shared;
        requests.iter().try_for_each(|request| request.check(&shared.bounds))?;
        let mut inbox = shared.inbox();
        if let Door::Closed { cause } = &inbox.door {
            return Err(Refusal::Stopped { cause: cause.clone() });
        }
        let most = shared.options.max_running.saturating_add(shared.options.max_waiting);
        if requests.len() > most {
            return Err(Refusal::TooManyTogether { asked: requests.len(), most });
        }
        if inbox.in_flight.saturating_add(requests.len()) > most {
            inbox.refused += requests.len() as u64;
            let waiting = inbox.in_flight.saturating_sub(shared.options.max_running);
            return Err(Refusal::QueueFull { asked: requests.len(), waiting });
        }
        inbox.in_flight += requests.len();
        let accepted = Instant::now();
        let generations = requests.into_iter().map(|request| {
            let mailbox = Arc::new(Mailbox::default());
            let writer = Writer::new(Arc::clone(&mailbox));
            inbox.jobs.push(Job { request, writer, accepted });
            Generation::new(mailbox)
        });
        let generations = generations.collect();
        drop(inbox);
        shared.arrived.notify_one();
        Ok(generations)
    }

    /// Replaces the weights in place between two steps. Sequences in flight go on: their keys and
    /// values are computed again with the new weights, and each token says by which version it was
    /// computed. Prefixes cached for the old weights are dropped. Blocks the thread for the copy.
    ///
    /// # Errors
    /// Weights of another shape or not finite, a version that isn't newer, a stopped engine. The
    /// present weights stay in use then.
    pub fn load_weights(
        &self,
        parameters: &Parameters,
        version: WeightVersion,
    ) -> Result<WeightsLoaded, EngineError> {
        let shared = &self.owner.shared;
        check_weights(parameters, &Layout::new(&shared.config))?;
        shared.load(parameters, version)
    }

    /// Figures as of the last step.
    pub fn stats(&self) -> Stats {
        self.owner.shared.stats_now()
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.owner.shared.config
    }

    /// What the engine was started with.
    pub fn options(&self) -> &EngineOptions {
        &self.owner.shared.options
    }

    /// Most tokens of a sequence, prompt and new ones: the context, or all of the cache if that is
    /// less.
    pub fn longest_tokens(&self) -> usize {
        self.owner.shared.bounds.longest_tokens()
    }
}

fn check_weights(parameters: &Parameters, layout: &Layout) -> Result<(), EngineError> {
    if **parameters.layout() != *layout {
        let (weights, model) = (parameters.layout().len(), layout.len());
        return Err(EngineError::OtherShape { weights, model });
    }
    match parameters.first_not_finite() {
        Some(tensor) => Err(EngineError::NotFinite { tensor: tensor.name.clone() }),
        None => Ok(()),
    }
}

/// The compute thread: the worker inside its own pool of threads, and the door closed behind it.
fn run(worker: Worker, pool: &rayon::ThreadPool, shared: &Shared) {
    let ended = catch_unwind(AssertUnwindSafe(|| pool.install(|| worker.run())));
    let cause = match ended {
        Ok(cause) => cause,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a fault in the engine: {}", text.unwrap_or("no message"))
        }
    };
    tracing::debug!(cause, "the compute thread ended");
    shared.close(cause);
}

/// Stops the compute thread with the last handle.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.inbox().door = Door::Closed { cause: STOPPED.to_owned() };
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // `run` catches panics; the result says nothing.
            let _ = thread.join();
        }
    }
}

const STOPPED: &str = "its last handle was dropped";

/// What handles and the compute thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ModelConfig,
    pub(crate) options: EngineOptions,
    pub(crate) bounds: Bounds,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    weights: Mutex<Loaded>,
    /// Loads that want the weights: the compute thread, which holds them during each step, lets
    /// them go first.
    loads_wanted: AtomicUsize,
    loaded: Condvar,
    stats: Mutex<Stats>,
}

/// The weights in use.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) weights: DecodeWeights,
    pub(crate) version: WeightVersion,
}

/// A request on its way to the compute thread.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) writer: Writer,
    pub(crate) accepted: Instant,
}

#[derive(Debug)]
struct Inbox {
    jobs: Vec<Job>,
    /// Requests accepted and not ended.
    in_flight: usize,
    refused: u64,
    door: Door,
}

#[derive(Debug)]
enum Door {
    Open,
    Closed { cause: String },
}

/// What the compute thread finds when it looks for work.
#[derive(Debug)]
pub(crate) enum Work {
    /// New requests, perhaps none.
    Jobs(Vec<Job>),
    /// The engine is to stop, and these requests came before that.
    Stop(Vec<Job>),
}

impl Shared {
    fn new(config: ModelConfig, options: EngineOptions, weights: DecodeWeights) -> Self {
        let blocks = options.kv_blocks(&config);
        let bounds = Bounds {
            vocabulary: config.vocabulary_size,
            context_tokens: options.longest_tokens(&config),
            cache_tokens: blocks.saturating_mul(BLOCK_TOKENS),
        };
        let stats = Stats {
            kv_blocks: blocks,
            kv_blocks_free: blocks,
            block_tokens: BLOCK_TOKENS,
            weight_bytes: weights.bytes(),
            kv_bytes: blocks.saturating_mul(rocstar_nn::decode::KvPool::bytes_per_block(&config)),
            ..Stats::default()
        };
        Self {
            config,
            options,
            bounds,
            inbox: Mutex::new(Inbox {
                jobs: Vec::new(),
                in_flight: 0,
                refused: 0,
                door: Door::Open,
            }),
            arrived: Condvar::new(),
            weights: Mutex::new(Loaded { weights, version: WeightVersion(0) }),
            loads_wanted: AtomicUsize::new(0),
            loaded: Condvar::new(),
            stats: Mutex::new(stats),
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Nothing that can panic runs under this lock.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New work; waits for some where the caller has none of its own.
    pub(crate) fn work(&self, idle: bool) -> Work {
        let mut inbox = self.inbox();
        while idle && inbox.jobs.is_empty() && matches!(inbox.door, Door::Open) {
            inbox = self.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        let jobs = std::mem::take(&mut inbox.jobs);
        match inbox.door {
            Door::Open => Work::Jobs(jobs),
            Door::Closed { .. } => Work::Stop(jobs),
        }
    }

    /// The weights for one step, after loads that want them. `None` where a load broke them.
    pub(crate) fn weights(&self) -> Option<MutexGuard<'_, Loaded>> {
        let weights = self.weights.lock().ok()?;
        let wanted = |_: &mut Loaded| self.loads_wanted.load(Ordering::SeqCst) > 0;
        self.loaded.wait_while(weights, wanted).ok()
    }

    fn load(
        &self,
        parameters: &Parameters,
        version: WeightVersion,
    ) -> Result<WeightsLoaded, EngineError> {
        let began = Instant::now();
        // Dropped after the lock: the worker goes on, however this ends.
        let wanted = Wanted::new(self);
        let result = match self.weights.lock() {
            Ok(mut loaded) => {
                let waited = began.elapsed();
                let result = replace(&mut loaded, parameters, version);
                let stood_still = began.elapsed().saturating_sub(waited);
                if result.is_ok() {
                    let mut stats = self.stats();
                    stats.weight_loads += 1;
                    stats.version = version;
                }
                result.map(|()| WeightsLoaded { version, waited, stood_still })
            }
            Err(_) => Err(EngineError::Stopped { cause: "a fault in a step".to_owned() }),
        };
        drop(wanted);
        if let Door::Closed { cause } = &self.inbox().door {
            return Err(EngineError::Stopped { cause: cause.clone() });
        }
        result
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stats_now(&self) -> Stats {
        let (in_flight, refused) = {
            let inbox = self.inbox();
            (inbox.in_flight, inbox.refused)
        };
        let stats = *self.stats();
        Stats { refused, waiting: in_flight.saturating_sub(stats.running), ..stats }
    }

    /// Brings the figures up to date: `ended` requests are gone. To be called before their callers
    /// hear of it, so that they find the room that was made.
    pub(crate) fn settle(&self, ended: usize, change: impl FnOnce(&mut Stats)) {
        change(&mut self.stats());
        if ended > 0 {
            let mut inbox = self.inbox();
            inbox.in_flight = inbox.in_flight.saturating_sub(ended);
        }
    }

    /// No more requests; those that weren't fetched end as failed.
    fn close(&self, cause: String) {
        let jobs = {
            let mut inbox = self.inbox();
            if matches!(inbox.door, Door::Open) {
                inbox.door = Door::Closed { cause };
            }
            inbox.in_flight = 0;
            std::mem::take(&mut inbox.jobs)
        };
        drop(jobs);
    }
}

/// A load that waits for the weights, which the worker lets go first.
struct Wanted<'s> {
    shared: &'s Shared,
}

impl<'s> Wanted<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.loads_wanted.fetch_add(1, Ordering::SeqCst);
        Self { shared }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.shared.loads_wanted.fetch_sub(1, Ordering::SeqCst);
        self.shared.loaded.notify_all();
    }
}

fn replace(
    loaded: &mut Loaded,
    parameters: &Parameters,
    version: WeightVersion,
) -> Result<(), EngineError> {
    let present = loaded.version;
    if version <= present {
        return Err(EngineError::VersionNotNewer { offered: version, present });
    }
    loaded.weights.refill(parameters).map_err(|error: DecodeError| error)?;
    loaded.version = version;
    Ok(())
}
