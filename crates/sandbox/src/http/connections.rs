//! Connections: how many, how idle, and how they end.
//!
//! Hand-written over hyper, since `axum::serve` bounds neither. Invariant: connections take at most
//! the configured share of the process's open files, so that a crowd of clients never takes those
//! that running programs need; whoever comes then waits in the kernel's queue. Every connection is a
//! task of one set, and ends with it.

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

/// Bounds of the connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most at once.
    pub(super) connections: usize,
    /// Time for a request's head to arrive, the wait for its start included.
    pub(super) idle: Duration,
}

/// Half of the files that this process may open.
pub(super) fn half_of_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let half = limit.current.map_or(u64::MAX, |files| (files / 2).max(1));
    usize::try_from(half).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS)
}

/// Serves until `stop` is cancelled and the requests that are open by then are answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(bounds.idle);
    let places = Arc::new(Semaphore::new(bounds.connections));
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
                Err(_) => tokio::time::sleep(RETRY).await,
            },
        }
    }
    drop(listener);
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
    // Answers are small and wanted at once: Nagle's algorithm would hold them back for an
    // acknowledgement. A socket that refuses the option still works.
    let _ = socket.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.call(request)
    });
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(socket), service));
    // How a connection broke is the client's affair: the work that it asked for is dropped with it.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
