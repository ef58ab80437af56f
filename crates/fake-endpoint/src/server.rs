//! The server: routes, what it knows of its requests, how its bytes go out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::{self, Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use crate::behaviour::{Behaviour, Flavour, Metrics, Pace};
use crate::fault::{Arrival, Fault};

/// A request for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its seed.
    pub seed: u64,
    /// Its body.
    pub body: Value,
    /// What it met.
    pub fault: Option<Fault>,
    /// Whether its answer went out whole.
    pub was_answered: bool,
}

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct FakeEndpoint {
    address: SocketAddr,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) behaviour: Behaviour,
    seen: Mutex<Vec<Seen>>,
    /// How often each question came.
    came: Mutex<HashMap<String, usize>>,
    places: Arc<Semaphore>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl FakeEndpoint {
    /// Starts a server on a free port of this machine, on a thread of its own.
    ///
    /// # Errors
    /// No port can be had.
    pub fn start(behaviour: Behaviour) -> std::io::Result<Self> {
        Self::start_at(behaviour, 0)
    }

    /// Starts a server on this port.
    ///
    /// # Errors
    /// The port can't be had.
    pub fn start_at(behaviour: Behaviour, port: u16) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let app = Arc::new(App {
            places: Arc::new(Semaphore::new(behaviour.most_running)),
            behaviour,
            seen: Mutex::default(),
            came: Mutex::default(),
            running: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let router = router(Arc::clone(&app));
        let thread =
            std::thread::Builder::new().name("fake-endpoint".to_owned()).spawn(move || {
                runtime.block_on(async move {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                    let serve = axum::serve(listener, router);
                    tokio::select! {
                        _ = serve => {}
                        _ = stopped => {}
                    }
                });
                // Connections that say nothing would never end by themselves.
                runtime.shutdown_background();
            })?;
        Ok(Self { address, app, stop: Some(stop), thread: Some(thread) })
    }

    /// Its address, for settings.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests for answers so far, in the order in which they came.
    pub fn seen(&self) -> Vec<Seen> {
        self.app.seen().clone()
    }

    /// Most answers that were made at once.
    pub fn most_at_once(&self) -> usize {
        self.app.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for FakeEndpoint {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(app: Arc<App>) -> Router {
    let mut router = Router::new().route("/v1/chat/completions", post(crate::chat::complete));
    if app.behaviour.lists_models {
        router = router.route("/v1/models", get(models));
    }
    match app.behaviour.flavour {
        Flavour::Chat => {}
        Flavour::Vllm => {
            router = router
                .route("/version", get(async || Json(json!({"version": "0.30.0"}))))
                .route("/v1/completions", post(crate::tokens::vllm));
        }
        Flavour::Sglang => {
            let info = async || Json(json!({"model_path": "fake", "is_generation": true}));
            router = router
                .route("/get_model_info", get(info))
                .route("/generate", post(crate::tokens::sglang));
        }
    }
    if app.behaviour.metrics != Metrics::None {
        router = router.route("/metrics", get(metrics));
    }
    let guarded = axum::middleware::from_fn_with_state(Arc::clone(&app), guard);
    router.layer(guarded).with_state(app)
}

async fn guard(
    State(app): State<Arc<App>>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|key| key.to_str().ok());
    match &app.behaviour.key {
        Some(key) if sent != Some(&format!("Bearer {key}")) => {
            let said = format!("wrong key: {}", sent.unwrap_or("none"));
            refuse(StatusCode::UNAUTHORIZED, &said, "invalid_api_key")
        }
        _ => next.run(request).await,
    }
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    let mut card = json!({"id": app.behaviour.model, "object": "model"});
    match app.behaviour.flavour {
        Flavour::Chat => {}
        Flavour::Vllm => card["owned_by"] = json!("vllm"),
        Flavour::Sglang => card["owned_by"] = json!("sglang"),
    }
    if app.behaviour.flavour != Flavour::Chat {
        card["max_model_len"] = json!(32_768);
    }
    Json(json!({"object": "list", "data": [card]}))
}

async fn metrics(State(app): State<Arc<App>>) -> String {
    let used = match app.behaviour.metrics {
        Metrics::None => 0.0,
        Metrics::Used(share) => share,
        Metrics::Page(page) => return page.to_owned(),
        Metrics::Silent => std::future::pending().await,
    };
    match app.behaviour.flavour {
        Flavour::Sglang => format!("sglang:token_usage {used}\nsglang:num_queue_reqs 0\n"),
        Flavour::Chat | Flavour::Vllm => format!(
            "vllm:kv_cache_usage_perc{{engine=\"0\"}} {used}\n\
             vllm:num_requests_waiting{{engine=\"0\"}} 0\n\
             vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"65536\"}} 1.0\n"
        ),
    }
}

/// An error in OpenAI's form.
fn refuse(status: StatusCode, message: &str, code: &str) -> Response {
    let body = json!({"error": {"message": message, "type": "error", "code": code}});
    (status, Json(body)).into_response()
}

/// A refusal for the context.
pub(crate) fn refuse_length(message: &str) -> Response {
    refuse(StatusCode::BAD_REQUEST, message, "context_length_exceeded")
}

/// A request that is being answered.
pub(crate) struct Answering {
    pub(crate) app: Arc<App>,
    index: usize,
    pub(crate) fault: Option<Fault>,
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl App {
    fn seen(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a request down, waits for a place, and says what it meets.
    pub(crate) async fn admit(self: &Arc<Self>, seed: u64, body: Value) -> Answering {
        let question = body.to_string();
        let before = {
            let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
            let count = came.entry(question).or_default();
            *count += 1;
            *count - 1
        };
        let (index, fault) = {
            let mut seen = self.seen();
            let number = seen.len();
            let fault = self.behaviour.faults.decide(Arrival { number, seed, before });
            seen.push(Seen { seed, body, fault, was_answered: false });
            (number, fault)
        };
        // A request that meets silence must not keep others from being answered.
        let waits = !matches!(fault, Some(Fault::Dead | Fault::Silent { .. } | Fault::NeverStops));
        let places = Arc::clone(&self.places);
        let place = if waits { places.acquire_owned().await.ok() } else { None };
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(running, Ordering::Relaxed);
        Answering { app: Arc::clone(self), index, fault, _place: place }
    }
}

impl Answering {
    /// The whole answer went out.
    fn answered(&self) {
        if let Some(seen) = self.app.seen().get_mut(self.index) {
            seen.was_answered = true;
        }
    }

    /// A fault that needs no answer.
    pub(crate) async fn refusal(&self) -> Option<Response> {
        match self.fault? {
            Fault::TooMany { retry_after_s } => {
                let mut response = refuse(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many requests",
                    "rate_limit_exceeded",
                );
                let seconds = retry_after_s.and_then(|s| s.to_string().parse().ok());
                if let Some(seconds) = seconds {
                    response.headers_mut().insert(header::RETRY_AFTER, seconds);
                }
                Some(response)
            }
            Fault::QuotaUsedUp => Some(refuse(
                StatusCode::TOO_MANY_REQUESTS,
                "you exceeded your current quota",
                "insufficient_quota",
            )),
            Fault::Escapes => {
                let words = "\u{1b}[2Jno\u{202e}\r\n\u{9b}31m";
                Some(refuse(StatusCode::BAD_REQUEST, words, words))
            }
            Fault::Status(status) => {
                let status = StatusCode::from_u16(status);
                let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Some(refuse(status, "a fault on demand", "fault"))
            }
            Fault::Garbage => {
                let headers = [(header::CONTENT_TYPE, "application/json")];
                Some((headers, "{\"choices\": [").into_response())
            }
            Fault::Dead => std::future::pending().await,
            Fault::Cut { .. }
            | Fault::CutQuietly { .. }
            | Fault::ErrorWithin { .. }
            | Fault::Silent { .. }
            | Fault::ByteByByte
            | Fault::IgnoresLimit
            | Fault::NeverStops
            | Fault::Usage(_)
            | Fault::Aborted
            | Fault::FalseEnd => None,
        }
    }

    /// A whole body.
    pub(crate) fn whole(self, body: &Value) -> Response {
        self.send("application/json", stream::iter([body.to_string()]), false)
    }

    /// A body that comes in pieces, each a text; the end of it is the answer's.
    pub(crate) fn streamed(self, pieces: impl Stream<Item = String> + Send + 'static) -> Response {
        let events = pieces.map(|piece| format!("data: {piece}\n\n"));
        self.send("text/event-stream", events, true)
    }

    fn send(
        self,
        content_type: &'static str,
        pieces: impl Stream<Item = String> + Send + 'static,
        is_streamed: bool,
    ) -> Response {
        let pace = self.app.behaviour.pace;
        let fault = self.fault;
        let last = move || match fault {
            Some(Fault::Cut { .. }) => End::Break,
            Some(Fault::Silent { .. }) => End::Wait,
            _ => End::Good,
        };
        let after = match fault {
            Some(Fault::Cut { after_pieces } | Fault::Silent { after_pieces }) => after_pieces,
            Some(Fault::CutQuietly { after_pieces } | Fault::ErrorWithin { after_pieces }) => {
                after_pieces
            }
            _ => usize::MAX,
        };
        // A whole body is one piece: cut in the middle of it.
        let halved = move |piece: String| match after {
            usize::MAX => piece,
            _ if !is_streamed => piece.chars().take(piece.chars().count() / 2).collect(),
            _ => piece,
        };
        let after = if is_streamed { after } else { usize::MAX };
        let error = match fault {
            Some(Fault::ErrorWithin { .. }) => {
                let error = json!({"error": {"message": "a fault on demand"}});
                Some(format!("data: {error}\n\n"))
            }
            _ => None,
        };
        let bytes = pieces.take(after).map(halved).chain(stream::iter(error));
        let split = move |text: String| {
            let bytes = Bytes::from(text);
            let step = if fault == Some(Fault::ByteByByte) { 1 } else { bytes.len().max(1) };
            let starts = (0..bytes.len()).step_by(step);
            let parts: Vec<Bytes> =
                starts.map(|at| bytes.slice(at..(at + step).min(bytes.len()))).collect();
            stream::iter(parts)
        };
        let paced = bytes.flat_map(split).then(move |part| async move {
            match pace {
                Pace::AtOnce => {}
                Pace::OneByOne => tokio::task::yield_now().await,
                Pace::Every(time) => tokio::time::sleep(time).await,
            }
            Ok::<_, std::io::Error>(part)
        });
        let end = stream::once(async move {
            match last() {
                End::Good => {
                    if fault.is_none_or(Fault::is_harmless) {
                        self.answered();
                    }
                    Ok(Bytes::new())
                }
                End::Break => Err(std::io::Error::other("a fault on demand")),
                End::Wait => std::future::pending().await,
            }
        });
        let headers = [(header::CONTENT_TYPE, content_type)];
        (headers, Body::from_stream(paced.chain(end))).into_response()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.app.running.fetch_sub(1, Ordering::Relaxed);
    }
}

enum End {
    Good,
    Break,
    Wait,
}
