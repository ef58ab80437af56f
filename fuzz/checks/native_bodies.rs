//! What must hold for any bytes that arrive as a body of the native API's routes: a value within
//! its bounds, or a refusal that a person can act on.
//!
//! Shared by the fuzz target `native_bodies` and by the replay of its corpus in an ordinary test.

use rocstar_sandbox::MAX_BATCH_CALLS;
use rocstar_sandbox::http::{Code, HttpError, parse};
use rocstar_sandbox::jail::Request;
use serde_json::Value;

/// Panics where a body is read as more than it says, or refused without a reason.
pub(crate) fn check(data: &[u8]) {
    let is_json = serde_json::from_slice::<Value>(data).is_ok();
    let single = checked(parse::execute(data), is_json);
    let plain = serde_json::from_slice::<Request>(data).ok();
    assert_eq!(single, plain, "the route reads a request as the type does");
    if let Some(batch) = checked(parse::batch(data), is_json) {
        assert!(batch.calls.len() <= MAX_BATCH_CALLS);
    }
    if !data.is_empty() {
        checked(parse::session(data), is_json);
    }
    checked(parse::judge(data), is_json);
}

fn checked<T>(parsed: Result<T, HttpError>, is_json: bool) -> Option<T> {
    let error = match parsed {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    assert!(error.code.status().is_client_error(), "{error:?}");
    assert!(!error.message.is_empty(), "{error:?}");
    if is_json {
        assert_eq!(error.code, Code::InvalidField, "{error:?}");
    }
    None
}
