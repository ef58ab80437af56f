//! Who may look, and what a browser may do with what it gets.
//!
//! Without a token only this machine may come, and only by a name of this machine: a page of another
//! site whose name was pointed here (DNS rebinding) is refused. With a token every request must carry
//! it: as a bearer, or as a cookie that the first visit by a link with `?token=` sets, and that no
//! script can read and no other site can change anything with. Invariant: nobody who may not look
//! learns what is here, its names included.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use rocstar_http::{carries_token, is_token};

use super::App;
use super::error::Failure;

/// Scripts and styles from here alone, nothing inline, nothing of any other place, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/// The report is one file with its styles within, and has no scripts.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox \
                             allow-downloads";
/// How the cookie's name begins.
const COOKIE: &str = "rocstar_dash_";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may look.
#[derive(Clone, Default)]
pub struct Access {
    /// What every request must carry. `None`: only this machine may come.
    pub token: Option<String>,
    /// Others may come without a token.
    pub is_public: bool,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, is_public } = self;
        let token = token.as_ref().map(|_| "…");
        formatter
            .debug_struct("Access")
            .field("token", &token)
            .field("is_public", is_public)
            .finish()
    }
}

/// Lets a request pass or not, and adds to its answer what the browser must keep to.
pub(super) async fn watch(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_report = request.uri().path().starts_with("/report/");
    let mut response = match admit(&app.access, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => *refusal,
    };
    let headers = response.headers_mut();
    let policy = if is_report { REPORT_POLICY } else { POLICY };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn admit(access: &Access, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status, message: &str| Box::new(Failure::new(status, message).into_response());
    let headers = request.headers();
    if *request.method() != Method::GET && !is_from_here(headers) {
        return Err(refuse(StatusCode::FORBIDDEN, "another site's page asked for this"));
    }
    match &access.token {
        None if access.is_public || is_by_own_name(headers) => Ok(()),
        None => Err(refuse(
            StatusCode::FORBIDDEN,
            "open the dashboard as localhost or 127.0.0.1; for another name start it with a token",
        )),
        Some(token) if carries(headers, token) => Ok(()),
        Some(token) => match link_token(request.uri()) {
            Some(given) if is_token(given.as_bytes(), token) => {
                Err(Box::new(enter(request.uri(), &cookie_name(headers), token)))
            }
            _ => Err(refuse(
                StatusCode::UNAUTHORIZED,
                "open the link with `?token=` that `rocstar dash` printed",
            )),
        },
    }
}

/// Whether the browser says that the page that asks is this one. Programs say nothing.
fn is_from_here(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_none_or(|site| site == b"same-origin" || site == b"none")
}

fn is_by_own_name(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A browser gives one host's cookies to all its ports, so each dashboard of a host has its own name.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    format!("{COOKIE}{}", port.unwrap_or(80))
}

fn carries(headers: &HeaderMap, token: &str) -> bool {
    let cookie = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|all| all.split("; ")).filter_map(|one| one.split_once('='));
    carries_token(headers, token)
        || cookies.any(|(name, given)| name == cookie && is_token(given.as_bytes(), token))
}

fn link_token(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|part| part.strip_prefix("token="))
}

/// To the same page without the token in its address, which the cookie carries from now on.
fn enter(uri: &Uri, cookie: &str, token: &str) -> Response {
    let rest: Vec<&str> = uri.query().unwrap_or_default().split('&').collect();
    let rest: Vec<&str> = rest.into_iter().filter(|part| !part.starts_with("token=")).collect();
    // Two slashes at the start would name another machine.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let target = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    // Lax: a link in a mail leads in, and nothing is changed by a `GET`.
    let cookie = format!("{cookie}={token}; Path=/; HttpOnly; SameSite=Lax");
    let headers = [(header::LOCATION, target), (header::SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn status(access: &Access, method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        admit(access, &request).map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
    }

    #[test]
    fn without_a_token_only_this_machine_by_its_name() {
        let access = Access::default();
        for (host, expected) in [
            ("localhost:7070", 200),
            ("127.0.0.1:7070", 200),
            ("[::1]:7070", 200),
            ("evil.example:7070", 403),
            ("localhost.evil.example", 403),
            ("10.0.0.1", 403),
        ] {
            assert_eq!(status(&access, "GET", "/", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(status(&access, "GET", "/", &[]), 403);
        let host = ("host", "localhost");
        assert_eq!(status(&access, "PUT", "/", &[host, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(status(&access, "PUT", "/", &[host, ("sec-fetch-site", "same-origin")]), 200);
    }

    #[test]
    fn with_a_token_only_who_carries_it() {
        let access = Access { token: Some("secret".into()), is_public: false };
        assert_eq!(status(&access, "GET", "/", &[("host", "localhost")]), 401);
        assert_eq!(status(&access, "GET", "/?token=secrets", &[]), 401);
        assert_eq!(status(&access, "GET", "/x?token=secret&a=1", &[]), 303);
        assert_eq!(status(&access, "GET", "/", &[("authorization", "Bearer secret")]), 200);
        let host = ("host", "here:7070");
        for (cookie, expected) in [
            ("a=b; rocstar_dash_7071=other; rocstar_dash_7070=secret", 200),
            ("rocstar_dash_7071=secret", 401),
            ("rocstar_dash_7070=secrets", 401),
        ] {
            assert_eq!(
                status(&access, "GET", "/", &[host, ("cookie", cookie)]),
                expected,
                "{cookie}"
            );
        }
        let site = [host, ("cookie", "rocstar_dash_7070=secret"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&access, "GET", "/", &site), 200);
        assert_eq!(status(&access, "POST", "/", &site), 403);
        assert!(!format!("{access:?}").contains("secret"));
        let entered = enter(&"//evil.example/?token=secret&a=1".parse().unwrap(), "c", "secret");
        assert_eq!(entered.headers()["location"], "/evil.example/?a=1");
    }
}
