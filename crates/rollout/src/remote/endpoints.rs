//! Several servers as one: who answers, how often is tried, how long is paused.
//!
//! Invariants: a request is answered once or ends in one error; a place at a server is given back
//! however the request ends, also when nobody waits for it any more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use rocstar_record::draw::Key;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::ask::{ChatAsk, ChatReply};
use super::balance::{Balance, Choice, Ending, Limits};
use super::client::{Client, Reading};
use super::error::{Fault, RemoteError, pause_ms};
use super::load::{Load, MOST_METRICS_BYTES};
use super::options::{EndpointKind, EndpointOptions};
use super::probe::probe;
use super::requests::{chat_body, expected_tokens};
use super::wire::{ChatReading, Reach, WireError};

/// How often servers are asked for their load.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);

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
        shared.ask_for_loads().await;
        let mut loads = JoinSet::new();
        if shared.balance().loads().any(|(load, _)| load.is_some()) {
            let shared = Arc::clone(&shared);
            loads.spawn(async move {
                loop {
                    tokio::time::sleep(LOAD_INTERVAL).await;
                    shared.ask_for_loads().await;
                }
            });
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
        })
        .collect()
    }

    /// The model and where it is served, as results name it.
    pub fn name(&self) -> String {
        let endpoints = &self.shared.endpoints;
        let model = endpoints.first().map_or("", |endpoint| endpoint.model.as_str());
        let urls: Vec<&str> = endpoints.iter().map(|it| it.options.url.as_str()).collect();
        format!("{model} at {}", urls.join(", "))
    }

    /// Most requests at once, over all servers.
    pub fn max_concurrent(&self) -> usize {
        let all = self.shared.endpoints.iter();
        all.fold(0, |sum, it| sum.saturating_add(it.options.max_concurrent))
    }

    pub(super) fn all(&self) -> &[Endpoint] {
        &self.shared.endpoints
    }

    /// Tokens that the caches hold and that are free in them, as far as servers tell.
    pub(super) fn room(&self) -> Option<(usize, usize)> {
        let balance = self.shared.balance();
        let mut room = (0, 0);
        for (load, _) in balance.loads() {
            let load = load?;
            room = (room.0 + load.total_tokens?, room.1 + load.free_tokens());
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

    /// Runs a job of about so many tokens at one of the servers, as often as it is worth it.
    pub(super) async fn send<J: Job>(
        &self,
        tokens: usize,
        draw: Key,
        job: &mut J,
    ) -> Result<J::Answer, RemoteError> {
        let (mut tries, mut waits, mut avoid) = (0, 0, None);
        let servers = self.shared.endpoints.len();
        let mut busy_since = None;
        loop {
            let place = self.shared.take(tokens, avoid).await?;
            let index = place.index;
            let endpoint = &self.shared.endpoints[index];
            let options = &endpoint.options;
            let url = || options.url.clone();
            let pause = |failures| {
                let pause =
                    pause_ms(options.first_pause_ms, options.longest_pause_ms, failures, draw);
                Duration::from_millis(pause)
            };
            match job.run(endpoint).await {
                Ok(answer) => {
                    place.end(Ending::Answered);
                    return Ok(answer);
                }
                Err(Fault::Refused { status, code, message }) => {
                    place.end(Ending::Answered);
                    return Err(RemoteError::Refused { url: url(), status, code, message });
                }
                Err(Fault::Withheld { cause }) => {
                    place.end(Ending::Answered);
                    return Err(RemoteError::Withheld { url: url(), cause });
                }
                Err(Fault::Busy { retry_after_ms, cause }) => {
                    let now = Instant::now();
                    let waited = now - *busy_since.get_or_insert(now);
                    let most = Duration::from_millis(options.busy_ms);
                    let told = retry_after_ms.map(Duration::from_millis);
                    place.end(Ending::Busy {
                        pause: told.unwrap_or_else(|| pause(waits)).min(most),
                    });
                    waits += 1;
                    if waited >= most {
                        return Err(RemoteError::Failed {
                            url: url(),
                            tries: tries + waits,
                            cause,
                        });
                    }
                }
                Err(Fault::Broken { retry_after_ms, cause }) => {
                    let rounds = self.shared.balance().rounds_aside(index);
                    let aside = format!("`{}`: {cause}", options.url);
                    place.end(Ending::Broken { cause: aside, pause: pause(rounds) });
                    tries += 1;
                    if tries >= options.tries.saturating_mul(servers) {
                        return Err(RemoteError::Failed {
                            url: url(),
                            tries: tries + waits,
                            cause,
                        });
                    }
                    avoid = Some(index);
                    let told = retry_after_ms.map(Duration::from_millis);
                    let longest = Duration::from_millis(options.longest_pause_ms);
                    let told = told.unwrap_or_default().min(longest);
                    tokio::time::sleep(pause(tries - 1).max(told)).await;
                }
            }
        }
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

    async fn ask_for_loads(&self) {
        let all = self.endpoints.iter().enumerate().map(async |(index, endpoint)| {
            if !endpoint.kind.has_tokens() {
                return;
            }
            let url = format!("{}/metrics", endpoint.client.address.root);
            let page = endpoint.client.get(&url, MOST_METRICS_BYTES).await.ok();
            // A server that doesn't tell is balanced by what is outstanding.
            let load = page.and_then(|page| Load::read(&String::from_utf8_lossy(&page)));
            self.balance().tell(index, load);
        });
        futures::future::join_all(all).await;
    }
}

/// A place at a server.
struct Place<'a> {
    shared: &'a Shared,
    index: usize,
    tokens: usize,
    begun: Instant,
    has_ended: bool,
}

impl Place<'_> {
    fn end(mut self, ending: Ending) {
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
            heard.reading.finish().map_err(fault)
        })
    }
}

/// What a server ended on its own grounds is not asked for again.
pub(super) fn fault(error: WireError) -> Fault {
    match error {
        WireError::Ended { reason } if reason == "content_filter" => Fault::Withheld {
            cause: "its filter of contents took it (`content_filter`)".to_owned(),
        },
        error => Fault::broken(error.to_string()),
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
