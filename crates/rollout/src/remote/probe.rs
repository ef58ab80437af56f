//! What serves at an address, found out by asking.

use serde::Deserialize;
use serde_json::Value;

use super::client::Client;
use super::error::{Fault, RemoteError};
use super::options::{EndpointKind, EndpointOptions};
use super::wire::MOST_TOKENS;

/// Most bytes of an answer to a probe.
const MOST_BYTES: usize = 4 << 20;
/// How often a probe is sent.
const TRIES: usize = 3;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: EndpointKind,
    pub(super) model: String,
    pub(super) longest_tokens: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Models {
    data: Vec<Card>,
}

#[derive(Debug, Clone, Deserialize)]
struct Card {
    id: String,
    #[serde(default)]
    owned_by: Option<String>,
    #[serde(default)]
    max_model_len: Option<usize>,
    #[serde(default)]
    rocstar: Option<Value>,
}

/// Finds out what serves there, and that it serves the model.
///
/// # Errors
/// It can't be reached, refuses, or serves another model.
pub(super) async fn probe(
    client: &Client,
    options: &EndpointOptions,
) -> Result<Found, RemoteError> {
    let cards = models(client, options).await?;
    let model = choose(&cards, client, options)?;
    let card = cards.iter().find(|card| card.id == model);
    let kind = match options.kind {
        EndpointKind::Auto => kind(client, card.or_else(|| cards.first())).await,
        told => told,
    };
    let longest_tokens = card.and_then(|card| card.max_model_len);
    Ok(Found { kind, model, longest_tokens: longest_tokens.map(|told| told.min(MOST_TOKENS)) })
}

/// The models that are served; none where the server has no such list.
async fn models(client: &Client, options: &EndpointOptions) -> Result<Vec<Card>, RemoteError> {
    let url = format!("{}/models", client.address.api);
    let mut tries = 0;
    let fault = loop {
        tries += 1;
        match client.get(&url, MOST_BYTES).await {
            Ok(body) => {
                let read = serde_json::from_slice::<Models>(&body);
                return read.map(|models| models.data).map_err(|error| RemoteError::Unreachable {
                    url: options.url.clone(),
                    cause: format!(
                        "`{url}` doesn't answer a list of models: {}",
                        client.words(&error.to_string())
                    ),
                });
            }
            Err(Fault::Refused { status: 404 | 405, .. }) if !options.model.is_empty() => {
                return Ok(Vec::new());
            }
            Err(Fault::Refused { status: status @ (404 | 405), .. }) => {
                return Err(RemoteError::Model {
                    url: options.url.clone(),
                    served: Vec::new(),
                    wanted: format!(
                        "name the model that it serves (`--endpoint-model`), or mend the address: \
                         `{url}` answers with status {status}"
                    ),
                });
            }
            Err(fault @ (Fault::Broken { .. } | Fault::Busy { .. })) if tries < TRIES => {
                drop(fault);
                tokio::time::sleep(std::time::Duration::from_millis(options.first_pause_ms)).await;
            }
            Err(fault) => break fault,
        }
    };
    let url = options.url.clone();
    Err(match fault {
        Fault::Refused { status, code, message } => {
            RemoteError::Refused { url, status, code, message }
        }
        Fault::Broken { cause, .. }
        | Fault::Busy { cause, .. }
        | Fault::Withheld { cause }
        | Fault::Odd { cause } => RemoteError::Unreachable { url, cause },
    })
}

fn choose(
    cards: &[Card],
    client: &Client,
    options: &EndpointOptions,
) -> Result<String, RemoteError> {
    let wanted = match (cards, options.model.as_str()) {
        ([only], "") => return Ok(only.id.clone()),
        ([], "") => "name the model that it serves (`--endpoint-model`)".to_owned(),
        (_, "") => "say which one is meant (`--endpoint-model`)".to_owned(),
        ([], named) => return Ok(named.to_owned()),
        (cards, named) if cards.iter().any(|card| card.id == named) => return Ok(named.to_owned()),
        (_, named) => format!("not `{named}`"),
    };
    let served = cards.iter().map(|card| client.words(&card.id)).collect();
    Err(RemoteError::Model { url: options.url.clone(), served, wanted })
}

/// By the owner that the list of models names; else by a route that only one kind has.
async fn kind(client: &Client, card: Option<&Card>) -> EndpointKind {
    let owner = card.and_then(|card| card.owned_by.as_deref());
    match owner {
        Some("rocstar") => return EndpointKind::Rocstar,
        Some("vllm") => return EndpointKind::Vllm,
        Some("sglang") => return EndpointKind::Sglang,
        Some(_) | None => {}
    }
    if card.is_some_and(|card| card.rocstar.is_some()) {
        return EndpointKind::Rocstar;
    }
    // Whoever tells no length of context is none of the servers that are looked for below.
    if card.is_none_or(|card| card.max_model_len.is_none()) {
        return EndpointKind::Chat;
    }
    if has(client, "/get_model_info", "is_generation").await {
        return EndpointKind::Sglang;
    }
    if has(client, "/version", "version").await { EndpointKind::Vllm } else { EndpointKind::Chat }
}

async fn has(client: &Client, route: &str, field: &str) -> bool {
    let url = format!("{}{route}", client.address.root);
    let body = client.get(&url, MOST_BYTES).await;
    let read = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    read.is_some_and(|value| value.get(field).is_some())
}
