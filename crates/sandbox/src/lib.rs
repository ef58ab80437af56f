//! The code environment as a service around `rocstar-jail`.
//!
//! One trait, [`Sandbox`], is what the rest of rocstar sees: the local service runs programs in
//! this process's jail, an HTTP client talks to another server.

mod api;
pub mod attack;
mod client;
pub mod http;
mod intake;
mod judge;
mod local;
pub mod mcp;
mod runner;
mod scheduler;
mod session;
mod stats;
mod submission;

pub use api::{
    AnswerCase, AnswerVerdict, Batch, CaseResult, ClientId, Comparison, Error, JudgeCase,
    JudgeRequest, Judgement, MAX_BATCH_CALLS, MAX_PRECISION, Reports, Result, Sandbox, Schedule,
    SessionId, SessionOptions, Verdict,
};
pub use client::{HttpClient, client_builder};
pub use local::{LocalSandbox, ServiceConfig};
pub use rocstar_jail as jail;
pub use stats::{HISTOGRAM_BOUNDS_US, Histogram, Now, Refused, SessionStats, Stats};
