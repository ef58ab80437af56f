//! Several servers as one: what is known of each, and who gets the next request.
//!
//! Invariants: a place at a server is given back however the request ends, also when nobody waits
//! for it any more; a server that is slow to tell its load holds up nobody.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ask::{ChatAsk, ChatReply};
use super::balance::{Balance, Choice, Ending, Limits};
use super::client::{Client, Reading};
use super::error::{Fault, RemoteError};
use super::load::{Load, MOST_METRICS_BYTES};
use super::options::{EndpointKind, EndpointOptions};
use super::probe::probe;
use super::requests::{chat_body, expected_tokens};
use super::wire::{ChatReading, Reach, WireError};

/// How often servers are asked for their load.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a server takes to tell its load, all of it.
const LOAD_WAIT: Duration = Duration::from_secs(2);

/// Servers that serve the same model.
#[derive(Debug)]
pub struct Endpoints {
    shared: Arc<Shared>,
    /// Asks for loads, until it is dropped.
    _loads: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    endpoints: Vec<Endpoint>,
    balance: Mutex<Balance>,
    freed: Notify,
}

/// One server, known.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) options: EndpointOptions,
    pub(super) client: Client,
    pub(super) kind: EndpointKind,
    pub(super) model: String,
    pub(super) longest_tokens: Option<usize>,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointFacts {
    /// Its address.
    pub url: String,
    /// What it is.
    pub kind: EndpointKind,
    /// The model that it is asked for.
    pub model: String,
    /// Longest sequence, where it tells.
    pub longest_tokens: Option<usize>,
    /// The format of calls where we find them; `None` where the server does.
    pub own_call_format: Option<String>,
    /// [`EndpointOptions::facts_of_figures`].
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// What is heard while an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatHeard<'a> {
    /// More of the text.
    Text(&'a str),
    /// The answer broke off and is asked for again: what was heard is void.
    Again,
}

/// Something that a server can be asked, as often as needed.
pub(super) trait Job: Send {
    type Answer: Send;

    fn run<'job>(
        &'job mut self,
        endpoint: &'job Endpoint,
    ) -> BoxFuture<'job, Result<Self::Answer, Fault>>;
}

impl Endpoints {
    /// Gets to know all servers. Each must answer now: a wrong address should not go unnoticed.
    ///
    /// # Errors
    /// The settings, a key that is missing, a server that can't be reached or serves another model.
    pub async fn connect(options: Vec<EndpointOptions>) -> Result<Self, RemoteError> {
        if options.is_empty() {
            return Err(RemoteError::None);
        }
        let known = futures::future::try_join_all(options.into_iter().map(Endpoint::connect));
        let endpoints = known.await?;
        let limits = endpoints.iter().map(|endpoint| Limits {
            max_concurrent: endpoint.options.max_concurrent,
            interval: match endpoint.options.requests_per_minute {
                0 => Duration::ZERO,
                most => Duration::from_secs(60) / u32::try_from(most).unwrap_or(u32::MAX),
            },
            rounds_until_gone: endpoint.options.tries,
        });
        let balance = Mutex::new(Balance::new(limits));
        let shared = Arc::new(Shared { endpoints, balance, freed: Notify::new() });
        let tell = (0..shared.endpoints.len()).map(|index| shared.ask_for_load(index));
        futures::future::join_all(tell).await;
        let mut loads = JoinSet::new();
        if shared.balance().loads().any(|(load, _)| load.is_some()) {
            for index in 0..shared.endpoints.len() {
                let shared = Arc::clone(&shared);
                loads.spawn(async move {
                    loop {
                        tokio::time::sleep(LOAD_INTERVAL).await;
                        shared.ask_for_load(index).await;
                    }
                });
            }
        }
        Ok(Self { shared, _loads: loads })
    }

    /// What is known of each.
    pub fn facts(&self) -> Vec<EndpointFacts> {
        let all = self.shared.endpoints.iter();
        all.map(|endpoint| EndpointFacts {
            url: endpoint.options.url.clone(),
            kind: endpoint.kind,
            model: endpoint.model.clone(),
            longest_tokens: endpoint.longest_tokens,
            own_call_format: endpoint.options.own_call_format().map(str::to_owned),
            settings: endpoint.options.facts_of_figures(),
        })
        .collect()
    }

    /// The model and where it is served, as results name it.
    pub(super) fn name(&self) -> String {
        let endpoints = &self.shared.endpoints;
        let model = endpoints.first().map_or("", |endpoint| endpoint.model.as_str());
        let urls: Vec<&str> = endpoints.iter().map(|it| it.options.url.as_str()).collect();
        format!("{model} at {}", urls.join(", "))
    }

    /// Most requests at once, over all servers.
    pub(super) fn max_concurrent(&self) -> usize {
        let all = self.shared.endpoints.iter();
        all.fold(0, |sum, it| sum.saturating_add(it.options.max_concurrent))
    }

    /// Longest sequence that all of them take, as far as they tell.
    pub(super) fn longest_tokens(&self) -> Option<usize> {
        self.all().iter().filter_map(|endpoint| endpoint.longest_tokens).min()
    }

    pub(super) fn all(&self) -> &[Endpoint] {
        &self.shared.endpoints
    }

    /// Tokens that the caches hold and that are free in them, as far as servers tell.
    pub(super) fn room(&self) -> Option<(usize, usize)> {
        let balance = self.shared.balance();
        let mut room = (0_usize, 0_usize);
        for (load, _) in balance.loads() {
            let load = load?;
            let (total, free) = (load.total_tokens?, load.free_tokens());
            room = (room.0.saturating_add(total), room.1.saturating_add(free));
        }
        Some(room)
    }

    /// Asks one question, and lets the answer's text be heard as it comes.
    ///
    /// # Errors
    /// [`RemoteError::is_final`] says whether other questions can still be answered.
    pub async fn ask(
        &self,
        ask: &ChatAsk,
        hear: &mut (dyn FnMut(ChatHeard<'_>) + Send),
    ) -> Result<ChatReply, RemoteError> {
        let mut job = ChatJob { ask, hear, has_heard: false };
        self.send(expected_tokens(ask), ask.draw, &mut job).await
    }

    /// Waits for a place at one of the servers, not at `avoid` where there is another.
    pub(super) async fn take(
        &self,
        tokens: usize,
        avoid: Option<usize>,
    ) -> Result<Place<'_>, RemoteError> {
        self.shared.take(tokens, avoid).await
    }

    /// Rounds of failures of a server beyond those that are borne.
    pub(super) fn rounds_aside(&self, index: usize) -> usize {
        self.shared.balance().rounds_aside(index)
    }
}

impl Endpoint {
    async fn connect(options: EndpointOptions) -> Result<Self, RemoteError> {
        let client = Client::new(&options)?;
        let found = probe(&client, &options).await?;
        let (kind, model, longest_tokens) = (found.kind, found.model, found.longest_tokens);
        Ok(Self { options, client, kind, model, longest_tokens })
    }
}

impl Shared {
    fn balance(&self) -> std::sync::MutexGuard<'_, Balance> {
        // Each change of it is complete in itself.
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    async fn take(&self, tokens: usize, avoid: Option<usize>) -> Result<Place<'_>, RemoteError> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on, whoever gives a place back wakes us.
            freed.as_mut().enable();
            let now = Instant::now();
            let choice = self.balance().choose(tokens, avoid, now);
            match choice {
                Choice::Take(index) => {
                    return Ok(Place { shared: self, index, tokens, begun: now, has_ended: false });
                }
                Choice::Gone(causes) => return Err(RemoteError::AllGone { causes }),
                Choice::Wait(None) => freed.await,
                Choice::Wait(Some(at)) => {
                    tokio::select! {
                        () = freed => {}
                        () = tokio::time::sleep_until(at.into()) => {}
                    }
                }
            }
        }
    }

    async fn ask_for_load(&self, index: usize) {
        let endpoint = &self.endpoints[index];
        if !endpoint.kind.has_tokens() {
            return;
        }
        let url = format!("{}/metrics", endpoint.client.address.root);
        let page = timeout(LOAD_WAIT, endpoint.client.get(&url, MOST_METRICS_BYTES)).await;
        // A server that doesn't tell, or not in time, is balanced by what is outstanding.
        let page = page.ok().and_then(Result::ok);
        let load = page.and_then(|page| Load::read(&String::from_utf8_lossy(&page)));
        self.balance().tell(index, load);
    }
}

/// A place at a server.
pub(super) struct Place<'a> {
    shared: &'a Shared,
    index: usize,
    tokens: usize,
    begun: Instant,
    has_ended: bool,
}

impl Place<'_> {
    pub(super) const fn index(&self) -> usize {
        self.index
    }

    pub(super) fn end(mut self, ending: Ending) {
        self.give_back(ending);
    }

    fn give_back(&mut self, ending: Ending) {
        self.has_ended = true;
        let (index, taken) = (self.index, (self.tokens, self.begun));
        let may_be_more = self.shared.balance().end(index, taken, ending, Instant::now());
        if may_be_more {
            // One who answers again has many places, and one who is gone has none for anybody.
            self.shared.freed.notify_waiters();
        }
        self.shared.freed.notify_one();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.give_back(Ending::Dropped);
        }
    }
}

struct ChatJob<'a> {
    ask: &'a ChatAsk,
    hear: &'a mut (dyn FnMut(ChatHeard<'_>) + Send),
    has_heard: bool,
}

impl Job for ChatJob<'_> {
    type Answer = ChatReply;

    fn run<'job>(
        &'job mut self,
        endpoint: &'job Endpoint,
    ) -> BoxFuture<'job, Result<ChatReply, Fault>> {
        Box::pin(async move {
            if std::mem::take(&mut self.has_heard) {
                (self.hear)(ChatHeard::Again);
            }
            let options = &endpoint.options;
            let body = chat_body(endpoint, self.ask)?;
            let url = format!("{}/chat/completions", endpoint.client.address.api);
            let most = self.ask.max_tokens;
            let reading = ChatReading::new(options.stream, most, options.answer_bytes);
            let mut heard =
                Heard { reading, hear: &mut *self.hear, has_heard: &mut self.has_heard };
            endpoint.client.post(&url, body, options.stream, &mut heard).await?;
            Ok(heard.reading.finish()?)
        })
    }
}

struct Heard<'a> {
    reading: ChatReading,
    hear: &'a mut (dyn FnMut(ChatHeard<'_>) + Send),
    has_heard: &'a mut bool,
}

impl Reading for Heard<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError> {
        let Self { reading, hear, has_heard } = self;
        reading.push(bytes, &mut |text| {
            **has_heard = true;
            hear(ChatHeard::Text(text));
        })
    }
}
