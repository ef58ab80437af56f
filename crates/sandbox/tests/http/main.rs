//! The HTTP server over real connections, with a live jail behind it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the helpers of tests are tests: they fail by panicking and say why they skip"
)]

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::{Method, RequestBuilder, StatusCode};
use rocstar_sandbox::http::{self, HttpConfig};
use rocstar_sandbox::jail::{self, Limits, Request};
use rocstar_sandbox::{Error, HttpClient, LocalSandbox, ServiceConfig, Stats};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

mod bad_input;
mod client;
mod code_judge;
mod connections;
mod native;
mod sandbox_fusion;

/// A server on a free port of loopback. Dropping it stops it.
struct Server {
    address: SocketAddr,
    sandbox: Arc<LocalSandbox>,
    stop: CancellationToken,
    serving: JoinSet<std::io::Result<()>>,
    http: reqwest::Client,
}

impl Server {
    /// Starts one, or says why this host can't.
    async fn start() -> Option<Self> {
        Self::with(small(), HttpConfig::default()).await
    }

    async fn with(service: ServiceConfig, config: HttpConfig) -> Option<Self> {
        let sandbox = match LocalSandbox::start(service) {
            Ok(sandbox) => Arc::new(sandbox),
            Err(Error::Jail(jail::Error::Isolation { lacks })) => {
                println!("SKIP: {lacks}");
                return None;
            }
            Err(error) => panic!("the service does not start: {error}"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(http::serve(listener, Arc::clone(&sandbox), config, stop.clone()));
        let http = rocstar_sandbox::client_builder("http:").build().unwrap();
        Some(Self { address, sandbox, stop, serving, http })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn client(&self) -> HttpClient {
        HttpClient::new(&self.url(""), None).unwrap()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.request(Method::GET, path).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Posts JSON and reads JSON.
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.post_text(path, body.to_string()).await
    }

    async fn post_text(&self, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
        (status, value)
    }

    /// Posts JSON to a route that answers 200.
    async fn answer(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {value}");
        value
    }

    /// Waits until the counts are as wanted. The runner of the tests limits how long that may take.
    async fn until(&self, wanted: impl Fn(&Stats) -> bool) -> Stats {
        loop {
            let stats = self.sandbox.stats();
            if wanted(&stats) {
                return stats;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// A configuration that starts quickly: no scientific interpreter, few slots.
fn small() -> ServiceConfig {
    ServiceConfig {
        jail: jail::Config { slots: 8, scientific: false, ..jail::Config::default() },
        ..ServiceConfig::default()
    }
}

/// A call that ends only when it is made to, with a limit that no test reaches.
fn endless() -> Request {
    let limits = Limits { wall_ms: Some(600_000), cpu_ms: Some(600_000), ..Limits::default() };
    Request { limits, ..Request::new("while True:\n    pass") }
}
