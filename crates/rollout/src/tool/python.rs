//! Python in the sandbox as a tool: each call a program of its own, or all in one interpreter.
//!
//! Invariants: a session's calls run in their order, and what one leaves is there for the next; a
//! session whose interpreter the program itself ended is said to be new. The arguments are checked
//! before anything runs, and what doesn't fit is the policy's fault, told and counted as such.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use rocstar_record::draw::Key;
use rocstar_record::episode::ToolOutcome;
use rocstar_record::message::{Arguments, ToolCall, ToolSpec};
use rocstar_sandbox::jail::{Limits, Outcome, Report, Request};
use rocstar_sandbox::{ClientId, Error, Sandbox, Schedule, SessionId, SessionOptions};
use serde_json::{Value, json};

use super::{Answered, Tool, ToolError, ToolInstance, answer_text};
use crate::settings::{RolloutOptions, ToolMode};

/// The tool's name: rStar2-Agent's.
const NAME: &str = "python_code_with_standard_io";

/// Python, run in a sandbox.
#[derive(Debug, Clone)]
pub struct PythonTool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sandbox: Arc<dyn Sandbox>,
    client: ClientId,
    limits: Limits,
    wall_ms: u64,
    is_session: bool,
}

impl PythonTool {
    /// The tool as the settings want it; `None` where they want none.
    pub fn new(sandbox: Arc<dyn Sandbox>, options: &RolloutOptions) -> Option<Self> {
        let is_session = match options.tool {
            ToolMode::None => return None,
            ToolMode::Stateless => false,
            ToolMode::Session => true,
        };
        let limits = Limits {
            wall_ms: Some(options.tool_wall_ms),
            cpu_ms: Some(options.tool_wall_ms),
            memory_bytes: Some(options.tool_memory_bytes),
            ..Limits::default()
        };
        let client = ClientId::new("rollout");
        let wall_ms = options.tool_wall_ms;
        Some(Self { shared: Arc::new(Shared { sandbox, client, limits, wall_ms, is_session }) })
    }

    /// What a policy is told of such a tool: known without one, for demonstrations of its use.
    pub fn description(is_session: bool) -> ToolSpec {
        let memory = if is_session { " Variables stay from call to call." } else { "" };
        let description = format!(
            "Runs a Python program and returns what it prints and the value of its last \
             expression.{memory}"
        );
        ToolSpec {
            name: NAME.to_owned(),
            description: Some(description),
            parameters: Some(json!({
                "type": "object",
                "properties": {
                    "code": {"type": "string", "description": "The program."},
                    "input": {"type": "string", "description": "Its standard input."},
                },
                "required": ["code"],
            })),
        }
    }
}

impl Tool for PythonTool {
    fn spec(&self) -> ToolSpec {
        Self::description(self.shared.is_session)
    }

    fn open(&self, _episode: Key) -> Box<dyn ToolInstance> {
        let shared = Arc::clone(&self.shared);
        Box::new(Python { shared, session: tokio::sync::Mutex::new(Held::default()) })
    }
}

/// The session of an episode.
#[derive(Debug, Default)]
struct Held {
    id: Option<SessionId>,
    /// The session has run calls, whose state would be lost with it.
    has_state: bool,
    /// The last call ended in a way that may have taken the interpreter with it.
    may_have_ended: bool,
    /// The session before this one ended with a program of its own, which is still to be told.
    follows_ended: bool,
}

/// The tool in use by one episode.
struct Python {
    shared: Arc<Shared>,
    session: tokio::sync::Mutex<Held>,
}

impl fmt::Debug for Python {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Python").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl ToolInstance for Python {
    fn call<'tool>(&'tool self, call: &ToolCall) -> BoxFuture<'tool, Result<Answered, ToolError>> {
        let shared = &self.shared;
        let (program, input) = match arguments(call) {
            Ok(arguments) => arguments,
            Err(message) => {
                return std::future::ready(Ok(Answered::refused(message))).boxed();
            }
        };
        let request = Request {
            program: program.clone(),
            stdin: (!input.is_empty()).then(|| input.clone().into_bytes()),
            last_expression: true,
            limits: shared.limits,
            ..Request::default()
        };
        let run = async move {
            if !shared.is_session {
                let schedule = Schedule::default();
                let report = shared.sandbox.execute(&shared.client, request, schedule).await;
                return answered(program, input, report, shared.wall_ms);
            }
            let (report, is_new) = self.in_session(request).await?;
            let mut answered = answered(program, input, report, shared.wall_ms)?;
            if is_new {
                answered.text.insert_str(0, NEW_SESSION);
            }
            Ok(answered)
        };
        run.boxed()
    }

    fn is_sequential(&self) -> bool {
        self.shared.is_session
    }
}

/// What is told where a program ended its own session.
const NEW_SESSION: &str =
    "The interpreter had ended with the program before; this is a new one without its variables.\n";

impl Python {
    /// One call in the episode's session, which is opened by the first; and whether the session is
    /// new since the call before ended its own.
    async fn in_session(
        &self,
        request: Request,
    ) -> Result<(Result<Report, Error>, bool), ToolError> {
        let mut held = self.session.lock().await;
        loop {
            let (client, id) = (&self.shared.client, self.session_id(&mut held).await?);
            let sandbox = &self.shared.sandbox;
            let report = sandbox.execute_in_session(client, &id, request.clone()).await;
            let mut is_new = false;
            match &report {
                Ok(report) => {
                    is_new = std::mem::take(&mut held.follows_ended);
                    held.has_state = true;
                    held.may_have_ended = may_end_interpreter(&report.outcome);
                }
                // Refused before it ran: the session is as it was.
                Err(Error::Invalid(_) | Error::Full { .. }) => {}
                Err(Error::NoSession { .. }) if held.may_have_ended => {
                    *held = Held { follows_ended: true, ..Held::default() };
                    continue;
                }
                Err(error) => {
                    let error = failed(error, held.has_state);
                    held.id = None;
                    return Err(error);
                }
            }
            return Ok((report, is_new));
        }
    }

    async fn session_id(&self, held: &mut Held) -> Result<SessionId, ToolError> {
        if let Some(id) = &held.id {
            return Ok(id.clone());
        }
        let Shared { sandbox, client, limits, .. } = &*self.shared;
        let limits = Limits { wall_ms: None, cpu_ms: None, ..*limits };
        let options = SessionOptions { limits, ..SessionOptions::default() };
        let opened = sandbox.open_session(client, options).await;
        let id = opened.map_err(|error| failed(&error, held.has_state))?;
        Ok(held.id.insert(id).clone())
    }
}

/// Whether an interpreter may have ended with a program that ended so; after all else it lives.
const fn may_end_interpreter(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Ok | Outcome::Exception { .. })
}

impl Drop for Python {
    fn drop(&mut self) {
        let Some(id) = self.session.get_mut().id.take() else { return };
        // Without a runtime everything ends with the sandbox.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move {
                // A session that is gone already is what is wanted.
                let _ = shared.sandbox.close_session(&shared.client, &id).await;
            });
        }
    }
}

/// Program and standard input of a call.
fn arguments(call: &ToolCall) -> Result<(String, String), String> {
    let Arguments::Object(arguments) = &call.arguments else {
        return Err("Tool call refused: `arguments` must be an object.".to_owned());
    };
    let text = |name: &str| match arguments.get(name) {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("Tool call refused: `{name}` must be a string.")),
        None => Ok(None),
    };
    if let Some(unknown) = arguments.keys().find(|name| !["code", "input"].contains(&name.as_str()))
    {
        return Err(format!(
            "Tool call refused: there is no argument `{unknown}`; there are `code` and `input`."
        ));
    }
    let program = text("code")?;
    let program = program.ok_or("Tool call refused: the argument `code` is missing.")?;
    Ok((program, text("input")?.unwrap_or_default()))
}

fn answered(
    program: String,
    input: String,
    report: Result<Report, Error>,
    wall_ms: u64,
) -> Result<Answered, ToolError> {
    let report = match report {
        Ok(report) => report,
        // A program that can't be handed over, such as one with a NUL, is the policy's.
        Err(Error::Invalid(invalid)) => {
            return Ok(Answered::refused(format!("Tool call refused: {invalid}")));
        }
        Err(error) => return Err(failed(&error, false)),
    };
    let text = answer_text(&program, &report, wall_ms);
    let outcome = match report.outcome {
        Outcome::Ok | Outcome::Exit { code: 0 } => ToolOutcome::Ok,
        Outcome::Exception { name, .. } => ToolOutcome::Exception { name },
        Outcome::Exit { code } => ToolOutcome::Exit { code },
        Outcome::Timeout | Outcome::CpuLimit => ToolOutcome::Timeout,
        Outcome::Signal { name, .. } => limit(format!("signal {name}")),
        Outcome::Denied { what } => limit(format!("denied {what}")),
        Outcome::MemoryLimit => limit("memory".to_owned()),
        Outcome::OutputLimit { .. } => limit("output".to_owned()),
        Outcome::ProcessLimit => limit("processes".to_owned()),
        Outcome::FileLimit => limit("file size".to_owned()),
        Outcome::TmpLimit => limit("folder size".to_owned()),
        Outcome::Cancelled => {
            return Err(ToolError::Failed { cause: "the call was cancelled".to_owned() });
        }
        Outcome::Infrastructure { cause } => return Err(ToolError::Failed { cause }),
    };
    Ok(Answered {
        program,
        input,
        outcome,
        text,
        wall_us: report.wall_us,
        cpu_us: report.cpu_us,
        memory_bytes: Some(report.peak_memory_bytes),
        isolation: report.isolation,
    })
}

const fn limit(what: String) -> ToolOutcome {
    ToolOutcome::Limit { what }
}

/// How long a call waits where the sandbox does not say.
const RETRY_AFTER: Duration = Duration::from_millis(200);

fn failed(error: &Error, loses_state: bool) -> ToolError {
    let cause = error.to_string();
    match error {
        Error::Full { retry_after_s, .. } => {
            ToolError::Busy { retry_after: Duration::from_secs(*retry_after_s), cause }
        }
        Error::SessionsFull { .. } => ToolError::Busy { retry_after: RETRY_AFTER, cause },
        _ if loses_state => ToolError::StateLost { cause },
        _ => ToolError::Failed { cause },
    }
}
