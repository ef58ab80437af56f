//! Connections of a server that answers, waits, or never ends.

#![cfg(test)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use pretty_assertions::assert_eq;
use rocstar_http::{Bounds, Grace, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A server, and what ends it.
struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    cut_off: CancellationToken,
    /// A permit for each request that waits.
    waiting: Arc<Semaphore>,
    serving: JoinSet<()>,
}

impl Server {
    async fn start(bounds: Bounds, grace: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stop, cut_off) = (CancellationToken::new(), CancellationToken::new());
        let waiting = Arc::new(Semaphore::new(0));
        let (until, [one, other]) = (cut_off.clone(), [&waiting, &waiting].map(Arc::clone));
        let router = Router::new()
            .route(
                "/peer",
                get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() }),
            )
            .route(
                "/until-cut-off",
                get(async move || {
                    one.add_permits(1);
                    until.cancelled().await;
                }),
            )
            .route(
                "/never",
                get(async move || {
                    other.add_permits(1);
                    std::future::pending::<()>().await;
                }),
            );
        let grace = grace.map(|time| Grace { time, cut_off: cut_off.clone() });
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, bounds, stop.clone(), grace));
        Self { address, stop, cut_off, waiting, serving }
    }

    async fn ask(&self, path: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }
}

const MANY: Bounds = Bounds { connections: 8, idle: Duration::from_secs(60) };

/// Reads until what was read holds `wanted`.
async fn read_until(socket: &mut TcpStream, wanted: &str) -> String {
    let mut read = String::new();
    while !read.contains(wanted) {
        let mut piece = [0; 512];
        let count = socket.read(&mut piece).await.unwrap();
        assert!(count > 0, "{wanted} is missing in: {read}");
        read += std::str::from_utf8(&piece[..count]).unwrap();
    }
    read
}

/// What comes until the server closes.
async fn rest(mut socket: TcpStream) -> String {
    let mut read = Vec::new();
    // A reset is an end too.
    let _ = socket.read_to_end(&mut read).await;
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn a_handler_knows_the_peer_and_an_idle_connection_ends_with_the_server() {
    let server = Server::start(MANY, None).await;
    let mut socket = server.ask("/peer").await;
    let own = socket.local_addr().unwrap().to_string();
    read_until(&mut socket, &own).await;
    server.stop.cancel();
    server.serving.join_all().await;
    assert_eq!(rest(socket).await, "");
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn what_is_open_is_cut_off_after_the_grace_and_may_still_answer() {
    let server = Server::start(MANY, Some(Duration::ZERO)).await;
    let (waiting, stuck) = (server.ask("/until-cut-off").await, server.ask("/never").await);
    let _both = server.waiting.acquire_many(2).await.unwrap();
    server.stop.cancel();
    server.serving.join_all().await;
    assert!(server.cut_off.is_cancelled());
    assert!(rest(waiting).await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(stuck).await, "");
}

#[tokio::test]
async fn who_comes_when_all_places_are_taken_waits_for_one() {
    let bounds = Bounds { connections: 1, ..MANY };
    let server = Server::start(bounds, None).await;
    let mut first = server.ask("/peer").await;
    read_until(&mut first, "127.0.0.1").await;
    let mut second = server.ask("/peer").await;
    // The first is kept alive, so its place is not free: nothing can have come for the second.
    assert!(second.try_read(&mut [0; 1]).is_err());
    drop(first);
    read_until(&mut second, "127.0.0.1").await;
}

#[tokio::test]
async fn a_connection_that_asks_nothing_is_closed() {
    let bounds = Bounds { idle: Duration::from_millis(1), ..MANY };
    let server = Server::start(bounds, None).await;
    let socket = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(rest(socket).await, "");
}
