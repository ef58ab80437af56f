//! Set-up of the HTTP server.
//!
//! Invariant: every bound of the server is a named field here; the token is never printed.

use std::fmt;

use rocstar_jail::InvalidRequest;
use serde::{Deserialize, Serialize};

use super::code_judge::CodeJudgeConfig;
use super::sandbox_fusion::SandboxFusionConfig;

/// Set-up of the HTTP server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Bearer token that every request but `/health` and `/ready` must carry. `None`: open to all
    /// who reach the port. Never written out.
    #[serde(skip_serializing)]
    pub token: Option<String>,
    /// Most connections at once; more wait to be accepted. 0: half of the files that the process
    /// may open, the rest being for the programs.
    pub connections: usize,
    /// A connection is closed when this long passes without a request's head, in milliseconds.
    pub idle_connection_ms: u64,
    /// Largest body of a single call, session cell or `run_code`, in bytes.
    pub call_body_bytes: usize,
    /// Largest body of a batch, a judgement or a submission, in bytes.
    pub batch_body_bytes: usize,
    /// Bytes of request bodies held at once, over all connections; more is answered 429.
    pub held_body_bytes: usize,
    /// Time for a body to arrive, in milliseconds.
    pub body_ms: u64,
    /// Bytes of finished reports that an ordered batch answer keeps in memory while an earlier
    /// call still runs; what is more waits in a temporary file.
    pub held_report_bytes: usize,
    /// The routes of code-judge.
    pub code_judge: CodeJudgeConfig,
    /// The routes of SandboxFusion.
    pub sandbox_fusion: SandboxFusionConfig,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            token: None,
            connections: 0,
            idle_connection_ms: 120_000,
            call_body_bytes: 16 << 20,
            batch_body_bytes: 256 << 20,
            held_body_bytes: 384 << 20,
            body_ms: 60_000,
            held_report_bytes: 32 << 20,
            code_judge: CodeJudgeConfig::default(),
            sandbox_fusion: SandboxFusionConfig::default(),
        }
    }
}

impl HttpConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// All fields that can't be accepted, in one.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        let positive = "must be at least 1";
        let checks = [
            ("token", self.token.as_deref() != Some(""), "must not be empty"),
            ("idle_connection_ms", self.idle_connection_ms >= 1, positive),
            ("call_body_bytes", self.call_body_bytes >= 1, positive),
            ("batch_body_bytes", self.batch_body_bytes >= 1, positive),
            ("held_body_bytes", self.held_body_bytes >= 1, positive),
            ("body_ms", self.body_ms >= 1, positive),
            ("code_judge.execution_ms", self.code_judge.execution_ms >= 1, positive),
            ("code_judge.memory_bytes", self.code_judge.memory_bytes >= 1, positive),
            ("sandbox_fusion.memory_bytes", self.sandbox_fusion.memory_bytes >= 1, positive),
            ("sandbox_fusion.kept_bytes", self.sandbox_fusion.kept_bytes >= 1, positive),
            ("sandbox_fusion.cases_at_once", self.sandbox_fusion.cases_at_once >= 1, positive),
        ];
        let bad = checks.iter().filter(|(_, holds, _)| !holds);
        let (fields, problems): (Vec<&str>, Vec<&str>) =
            bad.map(|(field, _, problem)| (*field, *problem)).unzip();
        if fields.is_empty() {
            return Ok(());
        }
        Err(InvalidRequest { field: fields.join(", "), problem: problems.join(", ") })
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            token,
            connections,
            idle_connection_ms,
            call_body_bytes,
            batch_body_bytes,
            held_body_bytes,
            body_ms,
            held_report_bytes,
            code_judge,
            sandbox_fusion,
        } = self;
        formatter
            .debug_struct("HttpConfig")
            .field("token", &token.as_ref().map(|_| "…"))
            .field("connections", connections)
            .field("idle_connection_ms", idle_connection_ms)
            .field("call_body_bytes", call_body_bytes)
            .field("batch_body_bytes", batch_body_bytes)
            .field("held_body_bytes", held_body_bytes)
            .field("body_ms", body_ms)
            .field("held_report_bytes", held_report_bytes)
            .field("code_judge", code_judge)
            .field("sandbox_fusion", sandbox_fusion)
            .finish()
    }
}
