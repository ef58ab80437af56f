//! `rocstar sandbox serve`: the code environment over HTTP, for any number of clients.

use clap::Args;

use crate::env_vars;
use crate::failure::Finish;
use crate::layers::Layers;
use crate::service::{self, Announcement, StopOn};
use crate::settings::SettingsOptions;
use crate::terminal::Terminal;

/// Serve the code environment over HTTP
///
/// One port speaks the native API (`/v1/…`), code-judge's and SandboxFusion's routes, and MCP
/// (`/mcp`). SIGINT or SIGTERM stops it: running calls are finished or reported; a second signal
/// stops at once.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on [default: 127.0.0.1:8088]; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT", env = env_vars::LISTEN, hide_env_values = true)]
    listen: Option<String>,
    #[command(flatten)]
    access: AccessOptions,
    /// Print the resolved configuration as TOML and stop
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON line on standard output when requests are answered
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, as it does when the program that holds its other end is gone
    #[arg(long)]
    stop_with_input: bool,
    #[command(flatten)]
    settings: SettingsOptions,
}

/// Who may call.
#[derive(Debug, Args)]
pub(crate) struct AccessOptions {
    /// Bearer token that clients must send
    #[arg(long, value_name = "TOKEN", env = env_vars::TOKEN, hide_env_values = true)]
    token: Option<String>,
    /// Serve without a token on an address that other machines reach
    #[arg(long)]
    allow_public_without_token: bool,
}

impl AccessOptions {
    /// Adds what was given, with the address to listen on, to the layers.
    pub(crate) fn add_to(&self, layers: &mut Layers, listen: Option<&str>) {
        if let Some(listen) = listen {
            layers.set(&["listen"], listen);
        }
        if let Some(token) = &self.token {
            layers.set(&["http", "token"], token.as_str());
        }
        if self.allow_public_without_token {
            layers.set(&["allow_public_without_token"], true);
        }
    }
}

impl Serve {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong settings, or a service that does not start.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let settings = self.settings.resolve(|layers| {
            self.access.add_to(layers, self.listen.as_deref());
        })?;
        if self.dry_run {
            terminal.data(settings.to_toml()?.as_bytes())?;
            return Ok(Finish::Good);
        }
        let secured = settings.http.token.is_some();
        let stop_on = if self.stop_with_input { StopOn::EndOfInput } else { StopOn::Signals };
        service::serve(&settings, terminal, stop_on, |announcement| {
            banner(announcement, secured, terminal);
            if self.json {
                terminal.json_line(announcement)?;
            }
            Ok(())
        })?;
        Ok(Finish::Good)
    }
}

fn banner(announcement: &Announcement, secured: bool, terminal: Terminal) {
    let url = &announcement.url;
    terminal.note(format_args!("listening: {url}"));
    terminal.note(format_args!("  native API     {url}/v1/execute   ({url}/v1/openapi.json)"));
    terminal.note(format_args!("  code-judge     {url}/run/long-batch"));
    terminal.note(format_args!("  SandboxFusion  {url}/run_code"));
    terminal.note(format_args!("  MCP            {url}/mcp"));
    terminal.note(format_args!("  metrics        {url}/metrics"));
    terminal.note(if secured { "token:     required" } else { "token:     none" });
}
