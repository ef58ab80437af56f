//! One HTTP request to one server, with all its limits.
//!
//! Invariants: every wait has a time-out; what comes back is an answer that was read to its end, or
//! a [`Fault`] that says whether trying again may help; the key is sent to the address it is for and
//! nowhere else, since redirects are not followed.

use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, redirect};
use rocstar_sandbox::client_builder;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{Fault, RemoteError};
use super::options::EndpointOptions;
use super::wire::{QUOTA_USED_UP, Reach, WireError, refusal};
use super::words::{Key, plain, without_secrets};

/// Most bytes of a refusal that are read.
const MOST_REFUSAL_BYTES: usize = 64 << 10;
/// How long the rest of a complete answer is waited for, so that its connection serves again.
const REST_WAIT: Duration = Duration::from_millis(200);

/// Where a server's routes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Before the server's own routes, such as `/metrics`.
    pub(super) root: String,
    /// Before OpenAI's routes, such as `/chat/completions`.
    pub(super) api: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it, to follow its name.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let parsed = reqwest::Url::parse(url);
        let hint = "must be an address such as http://localhost:8000";
        let shown = without_secrets(url);
        let parsed = parsed.map_err(|problem| format!("{hint}: `{shown}`: {problem}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(format!("{hint}, is `{shown}`"));
        }
        let has_user = !parsed.username().is_empty() || parsed.password().is_some();
        if parsed.query().is_some() || parsed.fragment().is_some() || has_user {
            return Err("must have no user, no `?` and no `#`: keys go into a variable".to_owned());
        }
        let whole = url.trim_end_matches('/');
        let root = whole.strip_suffix("/v1").unwrap_or(whole).to_owned();
        let has_path = !parsed.path().trim_end_matches('/').is_empty();
        let api = if has_path { whole.to_owned() } else { format!("{whole}/v1") };
        Ok(Self { root, api })
    }
}

/// Takes an answer as it comes.
pub(super) trait Reading: Send {
    fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError>;
}

/// Sends requests to one server.
pub(super) struct Client {
    http: reqwest::Client,
    pub(super) address: Address,
    headers: HeaderMap,
    key: Key,
    first_byte: Duration,
    idle: Duration,
    whole: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Client {
    /// Gets ready to ask; nothing is sent yet.
    ///
    /// # Errors
    /// The settings can't work, or the key isn't there.
    pub(super) fn new(options: &EndpointOptions) -> Result<Self, RemoteError> {
        // It may be wrong, and then a key may be in it.
        let url = without_secrets(&options.url);
        let problems = options.validate();
        if !problems.is_empty() {
            return Err(RemoteError::Options { url, problems });
        }
        let failed =
            |problem: String| RemoteError::Options { url: url.clone(), problems: vec![problem] };
        let address = Address::parse(&options.url).map_err(failed)?;
        let (mut headers, mut known_key) = (HeaderMap::new(), Key::default());
        if !options.api_key_env.is_empty() {
            let variable = options.api_key_env.clone();
            let key = std::env::var(&variable).ok().filter(|key| !key.is_empty());
            let key = key.ok_or_else(|| RemoteError::KeyMissing { url: url.clone(), variable })?;
            known_key = Key::new(key.trim());
            let value = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
            let mut value = value.map_err(|_| {
                failed(format!("the key in `{}` has odd characters", options.api_key_env))
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let builder = client_builder(&options.url)
            .connect_timeout(Duration::from_millis(options.connect_ms))
            .redirect(redirect::Policy::none())
            .pool_max_idle_per_host(options.max_concurrent)
            .http1_only()
            .user_agent(concat!("rocstar/", env!("CARGO_PKG_VERSION")));
        let http = builder.build().map_err(|error| failed(chain(&error)))?;
        Ok(Self {
            http,
            address,
            headers,
            key: known_key,
            first_byte: Duration::from_millis(options.first_byte_ms),
            idle: Duration::from_millis(options.idle_ms),
            whole: Duration::from_millis(options.request_ms),
        })
    }

    /// Posts JSON and hands the answer on as it comes.
    pub(super) async fn post(
        &self,
        url: &str,
        body: Vec<u8>,
        is_streamed: bool,
        reading: &mut dyn Reading,
    ) -> Result<(), Fault> {
        let accept = if is_streamed { "text/event-stream" } else { "application/json" };
        let request = self
            .http
            .post(url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .body(body);
        let first_byte = if is_streamed { self.first_byte } else { self.whole };
        let work = self.answer(request, first_byte, reading);
        timeout(self.whole, work).await.unwrap_or_else(|_| Err(slow("no end", self.whole)))
    }

    /// A fault without the key, should the server repeat it.
    pub(super) fn redact(&self, fault: Fault) -> Fault {
        fault.reword(|words| self.key.redact(words))
    }

    /// What a server says, fit for a message.
    pub(super) fn words(&self, text: &str) -> String {
        self.key.redact(&plain(text))
    }

    /// Gets a text of at most so many bytes, all of it as soon as an answer must begin.
    pub(super) async fn get(&self, url: &str, most_bytes: usize) -> Result<Vec<u8>, Fault> {
        struct Kept {
            bytes: Vec<u8>,
            most_bytes: usize,
        }
        impl Reading for Kept {
            fn push(&mut self, bytes: &[u8]) -> Result<Reach, WireError> {
                if self.bytes.len() + bytes.len() > self.most_bytes {
                    let most_bytes = self.most_bytes;
                    return Err(WireError::TooLong { what: "the answer", most_bytes });
                }
                self.bytes.extend_from_slice(bytes);
                Ok(Reach::More)
            }
        }
        let request = self.http.get(url).headers(self.headers.clone());
        let mut kept = Kept { bytes: Vec::new(), most_bytes };
        let wait = self.idle.min(self.first_byte);
        let work = self.answer(request, wait, &mut kept);
        let got = timeout(wait, work).await.unwrap_or_else(|_| Err(slow("no end", wait)));
        got.map_err(|fault| self.redact(fault))?;
        Ok(kept.bytes)
    }

    async fn answer(
        &self,
        request: reqwest::RequestBuilder,
        first_byte: Duration,
        reading: &mut dyn Reading,
    ) -> Result<(), Fault> {
        let until = Instant::now() + first_byte;
        let late = || slow("no answer", first_byte);
        let response = timeout_at(until, request.send()).await.map_err(|_| late())?;
        let mut response = response.map_err(|error| Fault::broken(chain(&error.without_url())))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut is_first = true;
        loop {
            let chunk = if std::mem::take(&mut is_first) {
                timeout_at(until, response.chunk()).await.map_err(|_| late())?
            } else {
                let chunk = timeout(self.idle, response.chunk()).await;
                chunk.map_err(|_| slow("nothing more", self.idle))?
            };
            let chunk = chunk.map_err(|error| {
                Fault::broken(format!("the answer broke off: {}", chain(&error.without_url())))
            })?;
            let Some(bytes) = chunk else { return Ok(()) };
            match reading.push(&bytes)? {
                Reach::More => {}
                Reach::CutOff => return Ok(()),
                Reach::Done => {
                    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                    // However it ends, the answer is complete.
                    let _ = timeout(REST_WAIT, rest).await;
                    return Ok(());
                }
            }
        }
    }

    async fn refused(&self, mut response: Response) -> Fault {
        let status = response.status();
        let retry_after_ms = retry_after_ms(response.headers());
        let mut body = Vec::new();
        while let Ok(Ok(Some(bytes))) = timeout(self.idle, response.chunk()).await {
            body.extend_from_slice(&bytes);
            if body.len() > MOST_REFUSAL_BYTES {
                break;
            }
        }
        let (code, message) = refusal(&body);
        let cause = format!("status {}: {message}", status.as_u16());
        match status {
            // No pause brings back what was used up.
            StatusCode::TOO_MANY_REQUESTS if code.as_deref() != Some(QUOTA_USED_UP) => {
                Fault::Busy { retry_after_ms, cause }
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
                Fault::Broken { retry_after_ms, cause }
            }
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Fault::Broken { retry_after_ms, cause }
            }
            status => Fault::Refused { status: status.as_u16(), code, message },
        }
    }
}

fn slow(what: &str, after: Duration) -> Fault {
    Fault::broken(format!("{what} within {} ms", after.as_millis()))
}

/// Seconds, as most servers write it, or milliseconds. A date is not read: the clocks may differ.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let ms = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1000.0))?;
    (ms >= 0.0 && ms.is_finite()).then_some(ms as u64)
}

/// An error with all its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_routes_follow_from_the_address() {
        let address = |url: &str| Address::parse(url).map(|it| (it.root, it.api));
        let both = |root: &str, api: &str| Ok((root.to_owned(), api.to_owned()));
        assert_eq!(address("http://h:8000"), both("http://h:8000", "http://h:8000/v1"));
        assert_eq!(address("http://h:8000/v1/"), both("http://h:8000", "http://h:8000/v1"));
        assert_eq!(address("https://h/a/v1"), both("https://h/a", "https://h/a/v1"));
        assert_eq!(address("https://h/v1beta/o"), both("https://h/v1beta/o", "https://h/v1beta/o"));
        for wrong in [
            "",
            "h:8000",
            "ftp://h",
            "http://",
            "http://k@h",
            "http://:k@h",
            "http://h?key=k",
            "/x",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn waits_are_read_in_both_units() {
        let read = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("a value");
            retry_after_ms(&HeaderMap::from_iter([(name.parse().expect("a name"), value)]))
        };
        assert_eq!(read("retry-after", "2"), Some(2000));
        assert_eq!(read("retry-after", "0.25"), Some(250));
        assert_eq!(read("retry-after-ms", "70"), Some(70));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(read("retry-after", "-1"), None);
    }
}
