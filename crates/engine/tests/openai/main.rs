//! The server over real connections, with small models that really compute.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the helpers of tests are tests: they fail by panicking and say why they skip"
)]

mod chat;
mod completions;
mod models;
mod operations;
mod python;
mod refusals;

use std::net::SocketAddr;

use reqwest::{Method, StatusCode};
use rocstar_engine::openai::{self, Model, ServerOptions};
use rocstar_engine::{Engine, Stats};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A server on a free port of loopback. Dropping it stops it.
struct Server {
    address: SocketAddr,
    engine: Engine,
    stop: CancellationToken,
    serving: JoinSet<()>,
    http: reqwest::Client,
}

impl Server {
    async fn start(model: Model) -> Self {
        Self::with(model, ServerOptions::default()).await
    }

    async fn with(model: Model, options: ServerOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let engine = model.engine().clone();
        let mut serving = JoinSet::new();
        serving.spawn(openai::serve(listener, model, options, stop.clone()));
        // Other crates of a build may have asked for encryption: then a client wants to know whose.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { address, engine, stop, serving, http: reqwest::Client::new() }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address))
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.request(Method::GET, path).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Posts JSON and reads JSON, whatever the status.
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.request(Method::POST, path).json(body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Posts what has to be answered.
    async fn answer(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer:#}");
        answer
    }

    /// Posts with `stream: true`: all pieces before `[DONE]`.
    async fn pieces(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut body = body.clone();
        body["stream"] = true.into();
        let response = self.request(Method::POST, path).json(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.text().await.unwrap();
        let mut data: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the engine's figures are as wanted.
    async fn until(&self, wanted: impl Fn(&Stats) -> bool) -> Stats {
        loop {
            let stats = self.engine.stats();
            if wanted(&stats) {
                return stats;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Tells it to stop, and waits until it has.
    async fn stop(mut self) {
        self.stop.cancel();
        while self.serving.join_next().await.is_some() {}
    }
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
