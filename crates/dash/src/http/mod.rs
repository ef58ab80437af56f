//! The local web page: its files, what it asks for as JSON, and a stream of what changes.
//!
//! | routes | file |
//! |---|---|
//! | `/api/runs…`, `/api/metrics`, `/api/environment` | `api.rs` |
//! | `/api/live`, `/api/runs/{run}/live` | `live.rs` |
//! | `/report/{run}` | `api.rs` |
//! | everything else | `assets.rs`: the page itself, which reads the address |
//!
//! Invariant: a handler that reads files does so on a thread of its own, of which there are
//! `READERS` at most; every answer carries the content security policy of `guard.rs`; a stream ends
//! with the server.

mod api;
mod assets;
mod error;
mod guard;
mod live;

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use rocstar_http::{Bounds, Grace};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use guard::Access;

use crate::{Environment, Error, Folder};
use error::Failure;

/// Threads that read files for answers at once.
const READERS: usize = 4;
/// Streams of changes that are open at once.
const STREAMS: usize = 64;
/// For the next request of a connection to arrive.
const IDLE: Duration = Duration::from_secs(75);
/// For open requests to be answered once the server is to stop.
const PATIENCE: Duration = Duration::from_secs(3);

/// What every handler sees.
#[derive(Debug)]
struct App {
    folder: Folder,
    access: Access,
    environment: Option<Environment>,
    readers: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// What gathers surveys.
    background: TaskTracker,
    stop: CancellationToken,
}

impl App {
    /// Runs `read` where it may wait for files, and gives its result.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let readers = Arc::clone(&self.readers);
        let place = readers.acquire_owned().await.map_err(|_| Failure::stopping())?;
        let app = Arc::clone(self);
        // The thread holds its place, since it goes on where whoever asked has gone.
        let result = tokio::task::spawn_blocking(move || {
            let _place = place;
            read(&app)
        });
        let result = result.await;
        // It can only have panicked, which the log of the process tells.
        let result = result.map_err(|_| Failure::internal())?;
        result.map_err(|error| Failure::of(&error, self.folder.path()))
    }
}

/// Serves the page of `folder`, and of `environment` where there is one, until `stop` is cancelled.
pub async fn serve(
    listener: TcpListener,
    folder: Folder,
    access: Access,
    environment: Option<Environment>,
    stop: CancellationToken,
) {
    let app = Arc::new(App {
        folder,
        access,
        environment,
        readers: Arc::new(Semaphore::new(READERS)),
        streams: Arc::new(Semaphore::new(STREAMS)),
        background: TaskTracker::new(),
        stop: stop.clone(),
    });
    let bounds = Bounds { connections: rocstar_http::half_of_open_files(), idle: IDLE };
    let grace = Grace { time: PATIENCE, cut_off: CancellationToken::new() };
    rocstar_http::serve(listener, router(Arc::clone(&app)), bounds, stop, Some(grace)).await;
    app.background.close();
    app.background.wait().await;
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .merge(api::routes())
        .merge(live::routes())
        .merge(assets::routes())
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::watch))
        .with_state(app)
}
