//! The page itself: three files, built from `crates/dash/web` and committed, in the binary.
//!
//! Every address that is nothing else gets the page, which shows what the address says: so a link to
//! an episode can be opened, kept and sent.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use super::error::Failure;

const INDEX: &str = include_str!("../../web/dist/index.html");
const SCRIPT: &str = include_str!("../../web/dist/assets/app.js");
const STYLE: &str = include_str!("../../web/dist/assets/app.css");
const ICON: &str = include_str!("../../web/dist/icon.svg");

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
        .route("/assets/{name}", get(asset))
        .fallback(get(page))
}

async fn asset(Path(name): Path<String>) -> Response {
    match name.as_str() {
        "app.js" => file("text/javascript; charset=utf-8", SCRIPT),
        "app.css" => file("text/css; charset=utf-8", STYLE),
        _ => Failure::new(StatusCode::NOT_FOUND, "there is no such file").into_response(),
    }
}

async fn page(request: axum::extract::Request) -> Response {
    if request.uri().path().starts_with("/api/") {
        let message = format!("there is no route `{}`", request.uri().path());
        return Failure::new(StatusCode::NOT_FOUND, message).into_response();
    }
    file("text/html; charset=utf-8", INDEX)
}

fn file(kind: &'static str, content: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (headers, content).into_response()
}
