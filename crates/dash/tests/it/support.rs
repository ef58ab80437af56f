//! A served folder of runs, and a client that says what it got.

use std::net::SocketAddr;
use std::path::Path;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rocstar_dash::{Access, Environment, Folder, serve};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::synthetic::{self, Said, Size};

/// A served folder; it stops with its test.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

pub(crate) const SMALL: Size = Size { steps: 4, groups: 3, samples: 8 };

/// Serves a folder with one small synthetic run, `run`.
pub(crate) async fn served(said: Said) -> Served {
    let folder = tempfile::tempdir().unwrap();
    synthetic::write(&folder.path().join("run"), SMALL, said).unwrap();
    serve_folder(folder).await
}

/// Serves a folder, and a code environment.
pub(crate) async fn serve_with(folder: tempfile::TempDir, environment: Environment) -> Served {
    serve_both(folder, Some(environment)).await
}

pub(crate) async fn serve_folder(folder: tempfile::TempDir) -> Served {
    serve_both(folder, None).await
}

async fn serve_both(folder: tempfile::TempDir, environment: Option<Environment>) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let runs = Folder::open(folder.path()).unwrap();
    let mut tasks = JoinSet::new();
    let until = stop.clone();
    tasks.spawn(serve(listener, runs, Access::default(), environment, until));
    Served { address, folder, stop, tasks }
}

impl Served {
    pub(crate) fn run(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], String::new()).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        answer.json()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Answer {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let exchange = async {
            let response = client.send_request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let text = body.collect().await.unwrap().to_bytes();
            Answer {
                status: parts.status,
                headers: parts.headers,
                text: String::from_utf8_lossy(&text).into_owned(),
            }
        };
        tokio::select! {
            answer = exchange => answer,
            _ = async { connection.await.ok(); std::future::pending::<()>().await } => unreachable!(),
        }
    }

    /// Stops, and waits for the end.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Adds a line to a file.
pub(crate) fn append(path: &Path, text: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text).unwrap();
}
