//! Another server's code environment, behind the same trait, over its native HTTP API.
//!
//! Invariant: an error that the server gave comes out as the error that it had; what it could not
//! give (no connection, a foreign answer, a stream that breaks off) is [`Error::Transport`]. Dropping
//! a future or stream closes its connection, by which the server frees the work.

use std::fmt;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header};
use rocstar_jail::{Effective, Report, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::bytes::{Buf as _, Bytes, BytesMut};

use crate::http::{CLIENT_HEADER, Envelope, HttpError, NDJSON, Opened, scrape};
use crate::stats::Now;
use crate::{
    Batch, ClientId, Error, JudgeRequest, Judgement, Reports, Result, Sandbox, Schedule, SessionId,
    SessionOptions,
};

/// Longest line of a streamed answer: a report with both streams at the largest `kept_bytes`, each
/// byte escaped.
const MAX_LINE_BYTES: usize = 256 << 20;

/// A code environment behind HTTP. Cloning shares its connections.
#[derive(Clone)]
pub struct HttpClient {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HttpClient")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

/// Begins an HTTP client for `url`, with its cryptography chosen.
pub fn client_builder(url: &str) -> reqwest::ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Someone else's may have come first meanwhile: either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = reqwest::Client::builder();
    if url.starts_with("http:") {
        // Without encryption no certificate is looked for, and a machine needs to have none.
        builder.tls_certs_only([])
    } else {
        builder
    }
}

impl HttpClient {
    /// A client of the server at `url`, for example `http://127.0.0.1:8088`. Connects on first use.
    ///
    /// # Errors
    /// The URL is not one of a server.
    pub fn new(url: &str, token: Option<String>) -> Result<Self> {
        let transport = |cause: String| Error::Transport { url: url.to_owned(), cause };
        let mut base = Url::parse(url).map_err(|error| transport(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(transport("is not an http:// address".to_owned()));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let builder = client_builder(url).tcp_nodelay(true);
        let http = builder.build().map_err(|error| transport(chain(&error)))?;
        Ok(Self { base, token, http })
    }

    /// What the server does at this moment.
    ///
    /// # Errors
    /// It can't be reached, or refuses.
    pub async fn look(&self) -> Result<Now> {
        let response = self.send(self.request(Method::GET, "metrics", None)?).await?;
        let text = response.text().await.map_err(|error| self.transport(chain(&error)))?;
        let Effective { layers, degraded, .. } = self.effective().await?;
        Ok(Now { layers, degraded, ..scrape::now(&text) })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        client: Option<&ClientId>,
    ) -> Result<RequestBuilder> {
        let url = self.base.join(path).map_err(|error| self.transport(error.to_string()))?;
        let mut request = self.http.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        match client.map(ClientId::to_string) {
            Some(client) if !client.is_empty() => request = request.header(CLIENT_HEADER, client),
            Some(_) | None => {}
        }
        Ok(request)
    }

    /// Sends a request and gives the response if it is a success.
    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.transport(chain(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.transport(chain(&error)))?;
        Err(match serde_json::from_slice::<Envelope>(&body) {
            Ok(Envelope { error }) => error.into_error(self.base.as_str()),
            Err(_) => self.foreign(status, &body),
        })
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = self.send(request).await?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.transport(chain(&error)))?;
        serde_json::from_slice(&body).map_err(|_| self.foreign(status, &body))
    }

    async fn post<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        client: &ClientId,
        body: &B,
    ) -> Result<T> {
        self.json(self.request(Method::POST, path, Some(client))?.json(body)).await
    }

    fn transport(&self, cause: String) -> Error {
        Error::Transport { url: self.base.to_string(), cause }
    }

    /// An answer that no rocstar server gives.
    fn foreign(&self, status: StatusCode, body: &[u8]) -> Error {
        let start = String::from_utf8_lossy(&body[..body.len().min(200)]);
        self.transport(format!("answered {status} with what is not rocstar's: {start:?}"))
    }

    async fn batch(&self, client: ClientId, batch: Batch, schedule: Schedule) -> Result<Reports> {
        let calls = batch.calls.len();
        let path = with_schedule("v1/execute/batch", &schedule);
        let request = self.request(Method::POST, &path, Some(&client))?;
        let request = request.header(header::ACCEPT, NDJSON).json(&batch);
        drop(batch);
        let response = self.send(request).await?;
        Ok(Answers::new(self.clone(), calls, response).into_stream())
    }
}

/// The cause of an error with its causes: reqwest's own text leaves them out.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn with_schedule(path: &str, schedule: &Schedule) -> String {
    match schedule.start_within {
        Some(wait) => format!("{path}?start_within_ms={}", wait.as_millis()),
        None => path.to_owned(),
    }
}

/// The path of a session. A name with other characters than servers give must not reach another
/// route.
fn session_path(session: &SessionId, rest: &str) -> Result<String> {
    let name = &session.0;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let cause = "no server gives such a name".to_owned();
        return Err(Error::NoSession { id: name.clone(), cause });
    }
    Ok(format!("v1/sessions/{name}{rest}"))
}

/// The lines of a streamed batch answer.
struct Answers {
    client: HttpClient,
    chunks: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: BytesMut,
    answered: Vec<bool>,
    /// Indices without an answer after the stream broke off, and why it did.
    broken: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    index: usize,
    report: Option<Report>,
    error: Option<HttpError>,
}

impl Answers {
    fn new(client: HttpClient, calls: usize, response: Response) -> Self {
        Self {
            client,
            chunks: response.bytes_stream().boxed(),
            buffer: BytesMut::new(),
            answered: vec![false; calls],
            broken: None,
        }
    }

    /// Each index of the batch once: what the server did not answer is a transport error.
    fn into_stream(self) -> Reports {
        stream::unfold(self, |mut answers| async move {
            let next = answers.next().await?;
            Some((next, answers))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<(usize, Result<Report>)> {
        if self.broken.is_none() {
            match self.line().await {
                Ok(Some(answer)) => return Some(answer),
                Ok(None) => self.broken = Some("the answer ended early".to_owned()),
                Err(cause) => self.broken = Some(cause),
            }
        }
        let missing = self.answered.iter().position(|answered| !answered)?;
        self.answered[missing] = true;
        let cause = self.broken.clone().unwrap_or_default();
        Some((missing, Err(self.client.transport(cause))))
    }

    async fn line(&mut self) -> std::result::Result<Option<(usize, Result<Report>)>, String> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(searched + end);
                self.buffer.advance(1);
                return self.parse(&line).map(Some);
            }
            searched = self.buffer.len();
            if searched > MAX_LINE_BYTES {
                return Err(format!("a line is longer than {MAX_LINE_BYTES} bytes"));
            }
            match self.chunks.try_next().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) if self.buffer.is_empty() => return Ok(None),
                Ok(None) => return Err("the last line is not complete".to_owned()),
                Err(error) => return Err(chain(&error)),
            }
        }
    }

    fn parse(&mut self, line: &[u8]) -> std::result::Result<(usize, Result<Report>), String> {
        let Line { index, report, error } =
            serde_json::from_slice(line).map_err(|error| format!("a line is not ours: {error}"))?;
        match self.answered.get_mut(index) {
            Some(answered @ false) => *answered = true,
            Some(true) => return Err(format!("call {index} was answered twice")),
            None => return Err(format!("call {index} was not asked")),
        }
        match (report, error) {
            (Some(report), None) => Ok((index, Ok(report))),
            (None, Some(error)) => Ok((index, Err(error.into_error(self.client.base.as_str())))),
            (Some(_), Some(_)) | (None, None) => {
                Err(format!("call {index} has neither one report nor one error"))
            }
        }
    }
}

impl Sandbox for HttpClient {
    fn execute(
        &self,
        client: &ClientId,
        request: Request,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Report>> {
        let client = client.clone();
        async move { self.post(&with_schedule("v1/execute", &schedule), &client, &request).await }
            .boxed()
    }

    fn execute_batch(
        &self,
        client: &ClientId,
        batch: Batch,
        schedule: Schedule,
    ) -> BoxFuture<'_, Result<Reports>> {
        self.batch(client.clone(), batch, schedule).boxed()
    }

    fn open_session(
        &self,
        client: &ClientId,
        options: SessionOptions,
    ) -> BoxFuture<'_, Result<SessionId>> {
        let client = client.clone();
        async move {
            let opened: Opened = self.post("v1/sessions", &client, &options).await?;
            Ok(opened.id)
        }
        .boxed()
    }

    fn execute_in_session(
        &self,
        client: &ClientId,
        session: &SessionId,
        request: Request,
    ) -> BoxFuture<'_, Result<Report>> {
        let (client, path) = (client.clone(), session_path(session, "/execute"));
        async move { self.post(&path?, &client, &request).await }.boxed()
    }

    fn fork_session(
        &self,
        client: &ClientId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<SessionId>> {
        let (client, path) = (client.clone(), session_path(session, "/fork"));
        async move {
            let request = self.request(Method::POST, &path?, Some(&client))?;
            let opened: Opened = self.json(request).await?;
            Ok(opened.id)
        }
        .boxed()
    }

    fn close_session(&self, client: &ClientId, session: &SessionId) -> BoxFuture<'_, Result<()>> {
        let (client, path) = (client.clone(), session_path(session, ""));
        async move {
            let request = self.request(Method::DELETE, &path?, Some(&client))?;
            self.send(request).await.map(drop)
        }
        .boxed()
    }

    fn judge(&self, client: &ClientId, request: JudgeRequest) -> BoxFuture<'_, Result<Judgement>> {
        let client = client.clone();
        async move { self.post("v1/judge", &client, &request).await }.boxed()
    }

    fn effective(&self) -> BoxFuture<'_, Result<Effective>> {
        async move { self.json(self.request(Method::GET, "v1/effective", None)?).await }.boxed()
    }
}
