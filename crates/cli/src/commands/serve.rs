//! `rocstar serve`: a model behind OpenAI's API.

use clap::Args;
use rocstar_engine::openai::{self, ServerOptions};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::env_vars;
use crate::failure::Finish;
use crate::inference::ModelOptions;
use crate::service::{self, Address, StopOn, Stops};
use crate::terminal::Terminal;

/// Serve a model over OpenAI's API
///
/// `/v1/chat/completions` with tools, streaming and log-probabilities, `/v1/completions` with text or
/// token ids, `/v1/models`, `/metrics`. SIGINT or SIGTERM stops it: open answers are finished within
/// the grace; a second signal stops at once.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    model: ModelOptions,
    /// Name that clients ask for [default: the model's name or file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Address to listen on; port 0 takes any free one
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = env_vars::LISTEN,
        hide_env_values = true,
        default_value = "127.0.0.1:8000"
    )]
    listen: String,
    /// Bearer token that clients must send, `api_key` in OpenAI's clients
    #[arg(long, value_name = "TOKEN", env = env_vars::TOKEN, hide_env_values = true)]
    token: Option<String>,
    /// Serve without a token on an address that other machines reach
    #[arg(long)]
    allow_public_without_token: bool,
    /// Seconds that open answers may still take when the server is told to stop
    #[arg(long, value_name = "S", default_value_t = 10)]
    grace_s: u64,
    /// Print one JSON line on standard output when requests are answered
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, as it does when the program that holds its other end is gone
    #[arg(long)]
    stop_with_input: bool,
}

/// What a started server says of itself; `--json` prints it as one line.
#[derive(Debug, Serialize)]
struct Announcement {
    url: String,
    pid: u32,
    model: String,
    context_tokens: usize,
}

impl Serve {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong options, a model that can't be loaded, or an address that is refused or taken.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        service::raise_open_files();
        let runtime = service::runtime()?;
        let address = Address {
            listen: &self.listen,
            has_token: self.token.is_some(),
            allow_public_without_token: self.allow_public_without_token,
        };
        let listener = runtime.block_on(service::bind(address))?;
        let url = format!("http://{}", listener.local_addr()?);
        let model = self.model.load(self.name.as_deref(), terminal)?;
        let announcement = Announcement {
            url,
            pid: std::process::id(),
            model: model.id().to_owned(),
            context_tokens: model.engine().longest_tokens(),
        };
        let engine = model.engine().clone();
        let finished = runtime.block_on(async {
            let stop_on = if self.stop_with_input { StopOn::EndOfInput } else { StopOn::Signals };
            // Before the announcement: whoever reads it may send a signal at once.
            let stops = Stops::new(stop_on)?;
            self.announce(&announcement, terminal)?;
            let options = ServerOptions {
                token: self.token.clone(),
                grace_ms: self.grace_s.saturating_mul(1000),
                ..ServerOptions::default()
            };
            let stop = CancellationToken::new();
            let server = openai::serve(listener, model, options, stop.clone());
            until_stopped(server, stops, stop, self.grace_s, terminal).await
        });
        runtime.shutdown_background();
        finished?;
        let stats = engine.stats();
        terminal.note(format_args!(
            "stopped: {} answers accepted, {} finished, {} of them cancelled",
            stats.requests, stats.finished, stats.cancelled
        ));
        Ok(Finish::Good)
    }

    fn announce(&self, announcement: &Announcement, terminal: Terminal) -> anyhow::Result<()> {
        let Announcement { url, model, context_tokens, .. } = announcement;
        terminal.note(format_args!("listening: {url}/v1"));
        terminal.note(format_args!("  model      {model} · context {context_tokens} tokens"));
        terminal.note(format_args!("  metrics    {url}/metrics"));
        let token = if self.token.is_some() { "required" } else { "none" };
        terminal.note(format_args!("  token      {token}"));
        if self.json { terminal.json_line(announcement) } else { Ok(()) }
    }
}

async fn until_stopped(
    server: impl Future<Output = ()>,
    mut stops: Stops,
    stop: CancellationToken,
    grace_s: u64,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let mut server = std::pin::pin!(server);
    tokio::select! {
        () = server.as_mut() => return Ok(()),
        () = stops.next() => {}
    }
    terminal.note(format_args!(
        "stopping: open answers have up to {grace_s} s; a second signal stops at once"
    ));
    stop.cancel();
    tokio::select! {
        () = server => Ok(()),
        () = stops.next() => Err(service::StoppedAtOnce.into()),
    }
}
