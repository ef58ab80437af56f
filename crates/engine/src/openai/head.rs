//! What every answer and every piece of one says of itself: id, time, model, weights.

use super::App;

/// The head of an answer.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// Unique.
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// The served model's id.
    pub(super) model: String,
    /// The program and the weights: with the same, the same seed gives the same answer.
    pub(super) system_fingerprint: String,
}

impl Head {
    /// A head for an answer that begins now.
    pub(super) fn new(app: &App, prefix: &str) -> Self {
        let version = app.model.engine.stats().version;
        Self {
            id: format!("{prefix}-{}", uuid::Uuid::new_v4().simple()),
            created: super::seconds_since_1970(),
            model: app.model.id.clone(),
            system_fingerprint: format!("rocstar-{}-w{version}", env!("CARGO_PKG_VERSION")),
        }
    }
}
