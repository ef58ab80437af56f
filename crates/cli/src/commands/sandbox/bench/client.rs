//! A light HTTP/1.1 client: one connection, kept alive, one request at a time.
//!
//! Invariant: it adds as little as it can to what is measured: bodies come ready-made, answers are
//! handed on as they arrive, no task is spawned, and everything runs on one thread.

use std::pin::Pin;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::{HintExt as _, WrongUse};

/// A server, and how to speak to it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    authority: String,
    /// What the URL has before the API's own routes.
    prefix: String,
    token: Option<String>,
}

impl Target {
    /// # Errors
    /// The URL is not a plain `http://HOST:PORT`.
    pub(crate) fn new(url: &str, token: Option<String>) -> anyhow::Result<Self> {
        let uri: Uri =
            url.parse().map_err(|error| WrongUse::error(format!("`{url}` is no URL: {error}")))?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(WrongUse::error(format!("can't measure `{url}`")))
                .hint("write `http://HOST:PORT`; the benchmark speaks plain HTTP");
        };
        let authority = match authority.port() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { authority, prefix, token })
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.authority)
            .await
            .with_context(|| format!("can't connect to {}", self.authority))?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Connection { sender, driver: Some(Box::pin(driver)) })
    }
}

type Driver = Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>;

/// An open connection.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// What moves the bytes; none once the server has closed.
    driver: Option<Driver>,
}

/// One line of requests to a server, reconnecting where a connection was lost.
pub(crate) struct Caller<'a> {
    target: &'a Target,
    client: &'a str,
    connection: Option<Connection>,
}

impl<'a> Caller<'a> {
    /// `client` is the name by which the server tells clients apart.
    pub(crate) const fn new(target: &'a Target, client: &'a str) -> Self {
        Self { target, client, connection: None }
    }

    /// Opens the connection, so that the first call doesn't pay for it.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn connect(&mut self) -> anyhow::Result<()> {
        self.connection = Some(self.target.connect().await?);
        Ok(())
    }

    /// Posts `body` and hands the pieces of the answer to `piece` as they arrive.
    ///
    /// # Errors
    /// The connection failed, before or in the middle of the answer.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        body: Bytes,
        piece: impl FnMut(&[u8]),
    ) -> anyhow::Result<StatusCode> {
        // Taken out for the exchange: where that fails, or is dropped halfway, it is not used again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.target.connect().await?,
        };
        let request = self.request(path, body)?;
        let status = connection.exchange(request, piece).await?;
        if connection.driver.is_some() {
            self.connection = Some(connection);
        }
        Ok(status)
    }

    fn request(&self, path: &str, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.target.prefix))
            .header(HOST, &self.target.authority)
            .header(CONTENT_TYPE, "application/json")
            .header("X-Rocstar-Client", self.client);
        if let Some(token) = &self.target.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        Ok(request.body(Full::new(body))?)
    }
}

impl Connection {
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        mut piece: impl FnMut(&[u8]),
    ) -> anyhow::Result<StatusCode> {
        let answered = self.sender.send_request(request);
        let exchange = async {
            let response = answered.await?;
            let status = response.status();
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                if let Some(data) = frame?.data_ref() {
                    piece(data);
                }
            }
            anyhow::Ok(status)
        };
        tokio::pin!(exchange);
        match self.driver.as_mut() {
            None => exchange.await,
            Some(driver) => tokio::select! {
                result = &mut exchange => result,
                // The server closed, maybe right after a whole answer: what has arrived is
                // delivered, or else the exchange fails by itself.
                _ = driver => {
                    self.driver = None;
                    exchange.await
                }
            },
        }
    }
}
