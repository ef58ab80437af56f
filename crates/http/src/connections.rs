//! Connections: how many, how idle, and how they end.
//!
//! Hand-written over hyper, since `axum::serve` bounds neither and leaves its tasks to themselves.
//! Invariant: every connection is a task of one set, and none outlives [`serve`]. Whoever comes when
//! all places are taken waits in the kernel's queue, so that a crowd of clients never takes the open
//! files that the work itself needs.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Before the next try, where accepting failed for want of a resource such as open files.
const RETRY: Duration = Duration::from_millis(100);
/// After the cut-off every answer ends by itself; this is for clients that don't read theirs.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Bounds of the connections.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most at once.
    pub connections: usize,
    /// Time for a request's head to arrive, the wait for its start included.
    pub idle: Duration,
}

/// How long open requests may take once the server is to stop.
#[derive(Debug, Clone)]
pub struct Grace {
    /// Time for them to be answered by themselves.
    pub time: Duration,
    /// Cancelled then, which ends what still runs; what is left shortly after that is dropped.
    pub cut_off: CancellationToken,
}

/// Half of the files that this process may open.
pub fn half_of_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let half = limit.current.map_or(u64::MAX, |files| (files / 2).max(1));
    usize::try_from(half).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS)
}

/// Serves HTTP/1.1 until `stop` is cancelled, and then until the requests that are open by then are
/// answered; with a grace no longer than that. Handlers find the peer's address as
/// `ConnectInfo<SocketAddr>`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
    grace: Option<Grace>,
) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(bounds.idle);
    let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // Only takes ended connections out of the set; a panic in one ended that one alone.
            Some(_) = open.join_next() => {}
            accepted = accept(&listener, &places) => match accepted {
                Ok((socket, peer, place)) => {
                    let (protocol, router, stop) = (protocol.clone(), router.clone(), stop.clone());
                    open.spawn(async move {
                        connection(socket, peer, protocol, router, stop).await;
                        drop(place);
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "can't accept connections");
                    tokio::time::sleep(RETRY).await;
                }
            },
        }
    }
    drop(listener);
    let Some(grace) = grace else { return all_ended(&mut open).await };
    if tokio::time::timeout(grace.time, all_ended(&mut open)).await.is_err() {
        grace.cut_off.cancel();
        // Dropping the set ends what is left.
        let _ = tokio::time::timeout(LAST_WORDS, all_ended(&mut open)).await;
    }
}

async fn all_ended(open: &mut JoinSet<()>) {
    while open.join_next().await.is_some() {}
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (socket, peer) = listener.accept().await?;
    Ok((socket, peer, place))
}

/// Whether an error of accepting concerns a client that is gone already.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    protocol: http1::Builder,
    router: Router,
    stop: CancellationToken,
) {
    // Answers, and pieces of a stream, are small and wanted at once: Nagle's algorithm would hold
    // them back for an acknowledgement. A socket that refuses the option still works.
    let _ = socket.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.call(request)
    });
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(socket), service));
    // How a connection broke is the client's affair: what it asked for is dropped with it.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
