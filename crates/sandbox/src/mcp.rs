//! The code environment as tools of the Model Context Protocol, over standard input and output or
//! over streamable HTTP.
//!
//! Two tools: `python` runs one program; `python_session` runs cells in an interpreter that keeps
//! its state. A connection has one session of its own, opened by its first cell. Newer versions of
//! the protocol know no connections over HTTP: there each request stands alone, so every answer of
//! `python_session` names its session, and a call that gives that name goes on in it.
//!
//! Invariants: a program's failure is a tool result that the model can read, never a protocol
//! error; state that was lost is reported, never replaced silently. All callers are one client of
//! the scheduler; sessions are told apart by their unguessable names.

use std::future::Future;
use std::io;
use std::sync::{Arc, LazyLock};

use rmcp::handler::server::common::schema_for_input;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool, ToolAnnotations,
};
use rmcp::service::{QuitReason, RequestContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{IntoTransport, StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use rocstar_jail::{Captured, Limits, Outcome, Report, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::{ClientId, Error, Sandbox, Schedule, SessionId, SessionOptions};

/// Largest request over HTTP: the largest program with room for JSON's escapes.
const MAX_BODY_BYTES: usize = 24 << 20;

const INSTRUCTIONS: &str = "Runs Python in an isolated environment without network. `python` \
    starts afresh each time; `python_session` keeps variables, imports and files between calls.";

/// Serves one client on standard input and output, until it closes them.
///
/// # Errors
/// The client does not speak the protocol, or the streams fail.
pub async fn serve_stdio(sandbox: Arc<dyn Sandbox>) -> io::Result<()> {
    serve(sandbox, rmcp::transport::stdio_pipes()).await
}

/// Serves one client over any pair of streams, until it closes them.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve<T, E, A>(sandbox: Arc<dyn Sandbox>, transport: T) -> io::Result<()>
where
    T: IntoTransport<RoleServer, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let service = Tools::new(sandbox).serve(transport).await.map_err(io::Error::other)?;
    match service.waiting().await.map_err(io::Error::other)? {
        QuitReason::JoinError(error) => Err(io::Error::other(error)),
        _ => Ok(()),
    }
}

/// The route `/mcp`, streamable HTTP.
///
/// A request with an `Origin` header is refused: only browsers send one, and a web page must not
/// drive a server that listens on the reader's own machine. That holds whatever `Host` says, so any
/// is accepted, and a server behind a proxy or with a public name needs no list of its names.
pub fn router(sandbox: Arc<dyn Sandbox>) -> axum::Router {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES);
    let service = StreamableHttpService::new(
        move || Ok(Tools::new(Arc::clone(&sandbox))),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    axum::Router::new().route_service("/mcp", service)
}

/// Arguments of `python`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PythonArguments {
    /// Python source. Output is what it prints and the value of its last expression.
    code: String,
    /// Text on standard input.
    #[serde(default)]
    stdin: Option<String>,
    /// Stop the program after this many milliseconds.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// Arguments of `python_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionArguments {
    /// Python source of one cell. Output is what it prints and the value of its last expression.
    code: String,
    /// The session to go on in, as an earlier answer named it. Left out: this connection's own.
    #[serde(default)]
    session: Option<String>,
    /// Throw the state away and start afresh before the cell runs.
    #[serde(default)]
    reset: bool,
    /// Interrupt the cell after this many milliseconds; the state is kept where possible.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

static TOOLS: LazyLock<Result<[Tool; 2], String>> = LazyLock::new(|| {
    let isolated = || ToolAnnotations::new().read_only(false).destructive(false).open_world(false);
    let python = Tool::new(
        "python",
        "Run a Python program from scratch in an isolated environment without network.",
        schema_for_input::<PythonArguments>()?,
    );
    let session = Tool::new(
        "python_session",
        "Run a cell in a Python session that keeps variables, imports and files between calls. The \
         answer names the session; give that name to go on in it.",
        schema_for_input::<SessionArguments>()?,
    );
    Ok([python, session].map(|tool| tool.with_annotations(isolated())))
});

fn tools() -> Result<&'static [Tool; 2], ErrorData> {
    TOOLS.as_ref().map_err(|error| ErrorData::internal_error(error.clone(), None))
}

/// One connection, or one request where the protocol knows no connections.
#[derive(Debug)]
struct Tools {
    sandbox: Arc<dyn Sandbox>,
    client: ClientId,
    /// The connection's own session.
    own: Mutex<Option<SessionId>>,
}

impl Tools {
    fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox, client: ClientId::new("mcp"), own: Mutex::new(None) }
    }

    async fn python(&self, arguments: PythonArguments) -> Result<CallToolResult, ErrorData> {
        let request = Request {
            stdin: arguments.stdin.map(String::into_bytes),
            ..request(arguments.code, arguments.timeout_ms)
        };
        match self.sandbox.execute(&self.client, request, Schedule::default()).await {
            Ok(report) => Ok(result(&report, None)),
            Err(error) => failed(error),
        }
    }

    async fn session(&self, arguments: SessionArguments) -> Result<CallToolResult, ErrorData> {
        let asked = arguments.session.map(SessionId);
        let session = match self.session_for(asked, arguments.reset).await {
            Ok(session) => session,
            Err(error) => return failed(error),
        };
        let request = request(arguments.code, arguments.timeout_ms);
        match self.sandbox.execute_in_session(&self.client, &session, request).await {
            Ok(report) => Ok(result(&report, Some(&session))),
            Err(error @ Error::NoSession { .. }) => {
                let mut own = self.own.lock().await;
                if own.as_ref() == Some(&session) {
                    *own = None;
                }
                failed(error)
            }
            Err(error) => failed(error),
        }
    }

    /// The session that a call means, opened if there is none yet.
    async fn session_for(&self, asked: Option<SessionId>, reset: bool) -> crate::Result<SessionId> {
        // Held while a session is opened, so that cells sent at once share it.
        let mut own = self.own.lock().await;
        let current = asked.or_else(|| own.clone());
        match current {
            Some(session) if !reset => return Ok(session),
            Some(session) => match self.sandbox.close_session(&self.client, &session).await {
                // Gone is what was asked for.
                Ok(()) | Err(Error::NoSession { .. }) => {}
                Err(error) => return Err(error),
            },
            None => {}
        }
        let opened = self.sandbox.open_session(&self.client, SessionOptions::default()).await?;
        *own = Some(opened.clone());
        Ok(opened)
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rocstar", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().ok()?.iter().find(|tool| tool.name == name).cloned()
    }

    fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListToolsResult, ErrorData>> + Send + '_ {
        let tools = tools().map(|tools| ListToolsResult::with_all_items(tools.to_vec()));
        std::future::ready(tools)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let call = async {
            match request.name.as_ref() {
                "python" => self.python(parse(arguments)?).await,
                "python_session" => self.session(parse(arguments)?).await,
                name => Err(ErrorData::invalid_params(format!("no tool `{name}`"), None)),
            }
        };
        tokio::select! {
            result = call => result.map(CallToolResponse::from),
            // Dropping the call frees its work.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

fn parse<A: DeserializeOwned>(arguments: serde_json::Value) -> Result<A, ErrorData> {
    serde_json::from_value(arguments)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

fn request(code: String, timeout_ms: Option<u64>) -> Request {
    let limits = Limits { wall_ms: timeout_ms, ..Limits::default() };
    Request { last_expression: true, limits, ..Request::new(code) }
}

/// An error as the model shall see it: what it can act upon as a result, the rest as a protocol
/// error.
fn failed(error: Error) -> Result<CallToolResult, ErrorData> {
    match error {
        Error::NoSession { .. } | Error::SessionsFull { .. } | Error::Full { .. } => {
            Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]))
        }
        Error::Invalid(error) => Err(ErrorData::invalid_params(error.to_string(), None)),
        Error::DeadlinePassed { .. }
        | Error::ShuttingDown
        | Error::Transport { .. }
        | Error::Jail(_) => Err(ErrorData::internal_error(error.to_string(), None)),
    }
}

/// A report as a tool result: text for the model, and the outcome as data.
fn result(report: &Report, session: Option<&SessionId>) -> CallToolResult {
    let mut blocks = vec![ContentBlock::text(text(report))];
    let mut data = serde_json::json!({
        "outcome": report.outcome,
        "wall_us": report.wall_us,
        "cpu_us": report.cpu_us,
    });
    if let Some(SessionId(session)) = session {
        blocks.push(ContentBlock::text(format!("session: {session}")));
        data["session"] = session.as_str().into();
    }
    let mut result = if report.outcome.is_success() {
        CallToolResult::success(blocks)
    } else {
        CallToolResult::error(blocks)
    };
    result.structured_content = Some(data);
    result
}

/// What was printed, the value, and how it ended unless it ended well.
fn text(report: &Report) -> String {
    let mut parts = Vec::new();
    let mut add = |captured: &Captured| {
        if !captured.text.is_empty() {
            parts.push(captured.text.trim_end_matches('\n').to_owned());
        }
    };
    add(&report.stdout);
    add(&report.stderr);
    parts.extend(report.value.clone());
    match &report.outcome {
        Outcome::Ok => {}
        // The traceback says it already.
        Outcome::Exception { .. } if !report.stderr.text.is_empty() => {}
        outcome => {
            let data = serde_json::to_string(outcome).unwrap_or_else(|_| outcome.name().to_owned());
            parts.push(format!("[ended: {data}]"));
        }
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_jail::{Captured, Outcome, Report};

    use super::{TOOLS, result, text};
    use crate::SessionId;

    fn report(outcome: Outcome, stdout: &str, stderr: &str, value: Option<&str>) -> Report {
        let captured = |text: &str| Captured { text: text.to_owned(), ..Captured::default() };
        Report {
            stdout: captured(stdout),
            stderr: captured(stderr),
            value: value.map(str::to_owned),
            ..Report::without_run(outcome)
        }
    }

    #[test]
    fn text_shows_output_value_and_a_bad_end() {
        assert_eq!(text(&report(Outcome::Ok, "a\n", "", Some("3"))), "a\n3");
        assert_eq!(text(&report(Outcome::Ok, "", "", None)), "");
        let timeout = report(Outcome::Timeout, "a\n", "b\n", None);
        assert_eq!(text(&timeout), "a\nb\n[ended: {\"type\":\"timeout\"}]");
        let exception =
            Outcome::Exception { name: "E".to_owned(), line: Some(1), message: "m".to_owned() };
        assert_eq!(text(&report(exception, "", "Traceback\nE: m\n", None)), "Traceback\nE: m");
    }

    #[test]
    fn a_result_names_its_session_and_outcome() {
        let session = SessionId("s".to_owned());
        let result = result(&report(Outcome::Timeout, "", "", None), Some(&session));
        let data = serde_json::json!({
            "outcome": {"type": "timeout"}, "wall_us": 0, "cpu_us": 0, "session": "s"
        });
        assert_eq!((result.is_error, result.structured_content), (Some(true), Some(data)));
    }

    #[test]
    fn the_tools_have_valid_schemas() {
        let tools = TOOLS.as_ref().expect("valid schemas");
        for tool in tools {
            let required = tool.input_schema.get("required");
            assert_eq!(required, Some(&serde_json::json!(["code"])), "{}", tool.name);
        }
    }
}
