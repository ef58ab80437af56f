//! What happened: the typed outcome of one run, its output, its cost, and the layers that held.
//!
//! Invariant: what the program did is a value of [`Outcome`]; only [`Outcome::Infrastructure`]
//! says that we failed. Limits and signals are facts seen by the parent or the kernel; the name
//! and line of an exception are what the program's own interpreter said, which a hostile program
//! could choose by raising that exception anyway.

use serde::{Deserialize, Serialize};

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// Ran to its end.
    Ok,
    /// An exception reached the top (a syntax error is one too).
    Exception {
        /// The class, qualified unless it is a builtin: `ValueError`, `json.decoder.JSONDecodeError`.
        name: String,
        /// Line of the program (1-based) that raised it or led to it.
        line: Option<u32>,
        /// `str()` of the exception, cut to 1,000 characters.
        message: String,
    },
    /// Left through `sys.exit` or `os._exit`, with any code, 0 included.
    Exit {
        /// The exit status, 0 to 255.
        code: i32,
    },
    /// Killed by a signal that no limit explains.
    Signal {
        /// Number, for example 11.
        number: i32,
        /// Name, for example `SIGSEGV`.
        name: String,
    },
    /// Wall time was over.
    Timeout,
    /// CPU time was over.
    CpuLimit,
    /// Memory ran out: an uncaught `MemoryError`, or the kernel's out-of-memory kill in the call's
    /// own control group.
    MemoryLimit,
    /// One output stream carried more than `limits.output_bytes`.
    OutputLimit {
        /// Which one.
        stream: Stream,
    },
    /// Failed because no further process or thread was allowed.
    ProcessLimit,
    /// Failed because a file would have grown past `limits.file_bytes`.
    FileLimit,
    /// Failed because the private directory was full.
    TmpLimit,
    /// Stopped for a system call that is never allowed.
    Denied {
        /// The call, for example `ptrace`.
        what: String,
    },
    /// Stopped because the caller went away or asked for it.
    Cancelled,
    /// We failed, not the program. Never a reward; the call may be run again.
    Infrastructure {
        /// What failed.
        cause: String,
    },
}

impl Outcome {
    /// The outcome's name as it stands in JSON and in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Exception { .. } => "exception",
            Self::Exit { .. } => "exit",
            Self::Signal { .. } => "signal",
            Self::Timeout => "timeout",
            Self::CpuLimit => "cpu_limit",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit { .. } => "output_limit",
            Self::ProcessLimit => "process_limit",
            Self::FileLimit => "file_limit",
            Self::TmpLimit => "tmp_limit",
            Self::Denied { .. } => "denied",
            Self::Cancelled => "cancelled",
            Self::Infrastructure { .. } => "infrastructure",
        }
    }

    /// Every name that [`Outcome::name`] can give, for metrics and documents.
    pub const NAMES: [&'static str; 14] = [
        "ok",
        "exception",
        "exit",
        "signal",
        "timeout",
        "cpu_limit",
        "memory_limit",
        "output_limit",
        "process_limit",
        "file_limit",
        "tmp_limit",
        "denied",
        "cancelled",
        "infrastructure",
    ];

    /// Whether the program ended as a successful process does: at its end, or with exit status 0.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Ok | Self::Exit { code: 0 })
    }
}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// What one stream carried.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// The kept text. Bytes that are not UTF-8 are shown as `\xNN`, and `base64` is then set.
    /// Where something was cut, the text holds a line `[… N bytes cut …]` in its place.
    pub text: String,
    /// Bytes that the program wrote.
    pub total_bytes: u64,
    /// Bytes between head and tail that were not kept. 0: nothing was cut.
    pub cut_bytes: u64,
    /// The kept bytes (head, then tail, without the mark), only where they are not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A file read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchedFile {
    /// The path as it was asked for.
    pub path: String,
    /// The bytes, or nothing where `problem` says why.
    #[serde(default, with = "crate::bytes::optional")]
    pub content: Option<Vec<u8>>,
    /// Why it could not be read: missing, a link, not a plain file, too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Everything known about one finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error; a traceback stands here, as Python prints it.
    pub stderr: Captured,
    /// `repr` of the last expression, if it was asked for and is not `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The files that were asked back, in the order asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FetchedFile>,
    /// Wall time from the program's start to its end, in microseconds.
    pub wall_us: u64,
    /// CPU time (user and system) of the program and what it started, in microseconds.
    pub cpu_us: u64,
    /// Most memory that the program added to the warmed interpreter's, in bytes.
    pub peak_memory_bytes: u64,
    /// The layers that stood around this run, by name (see [`crate::Effective`]).
    pub isolation: Vec<String>,
    /// True where a layer that is required by default was missing and the host was told to go on.
    pub degraded: bool,
}

impl Report {
    /// A report for a call that never ran.
    pub fn without_run(outcome: Outcome) -> Self {
        Self {
            outcome,
            stdout: Captured::default(),
            stderr: Captured::default(),
            value: None,
            files: Vec::new(),
            wall_us: 0,
            cpu_us: 0,
            peak_memory_bytes: 0,
            isolation: Vec::new(),
            degraded: false,
        }
    }
}
