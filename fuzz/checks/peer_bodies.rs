//! What must hold for any bytes that arrive at the routes of code-judge and SandboxFusion: calls
//! that the service can take or refuse by a field, or a refusal that blames the client.
//!
//! Shared by the fuzz target `peer_bodies` and by the replay of its corpus in an ordinary test.

use rocstar_sandbox::http::planned;
use rocstar_sandbox::jail::{Request, ResolvedLimits};

/// Panics where a body is turned into calls with an impossible limit, or into our failure.
pub(crate) fn check(data: &[u8]) {
    for call in planned::code_judge(data).unwrap_or_else(|status| blames_client(status.as_u16())) {
        assert_eq!(call.validate(), Ok(()), "what can't run is answered in its place");
        can_be_limited(&call);
    }
    match planned::run_code(data) {
        Ok(Some(call)) => can_be_limited(&call),
        Ok(None) => {}
        Err(status) => blames_client(status.as_u16()),
    }
    planned::run_jupyter(data).unwrap_or_else(|status| blames_client(status.as_u16()));
    planned::submit(data).unwrap_or_else(|status| blames_client(status.as_u16()));
}

/// A limit may be refused by its name; it may not overflow or vanish on the way.
fn can_be_limited(call: &Request) {
    let limits = call.limits.resolve(&ResolvedLimits::default(), &ResolvedLimits::MAXIMUM);
    if let Err(invalid) = limits {
        assert!(invalid.field.starts_with("limits."), "{invalid}");
    }
    assert!(call.limits.wall_ms.is_some_and(|wall_ms| wall_ms > 0), "{:?}", call.limits);
}

fn blames_client<T: Default>(status: u16) -> T {
    assert!(matches!(status, 400 | 422), "refused with {status}");
    T::default()
}
