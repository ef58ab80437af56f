//! `rocstar sandbox mcp`: the code environment as an MCP server, for agents.

use std::sync::Arc;

use clap::Args;
use rocstar_sandbox::{Sandbox, mcp};

use super::serve::AccessOptions;
use crate::failure::Finish;
use crate::service::{self, StopOn};
use crate::settings::{Settings, SettingsOptions};
use crate::terminal::Terminal;

/// Offer `python` and `python_session` to an agent over MCP
///
/// Speaks on standard input and output, as agents start their servers. With `--listen` it is a
/// service with the streamable HTTP transport at `/mcp`, the same as `rocstar sandbox serve`.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Serve the streamable HTTP transport at this address instead
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    access: AccessOptions,
    #[command(flatten)]
    settings: SettingsOptions,
}

impl Mcp {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong settings, a code environment that does not start, or a broken transport.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let settings = self.settings.resolve(|layers| {
            self.access.add_to(layers, self.listen.as_deref());
        })?;
        if self.listen.is_some() {
            service::serve(&settings, terminal, StopOn::Signals, |announcement| {
                terminal.note(format_args!("listening: {}/mcp", announcement.url));
                Ok(())
            })?;
        } else {
            serve_stdio(&settings, terminal)?;
        }
        Ok(Finish::Good)
    }
}

fn serve_stdio(settings: &Settings, terminal: Terminal) -> anyhow::Result<()> {
    let runtime = service::runtime()?;
    let sandbox = service::start(&runtime, settings, terminal)?;
    let shared: Arc<dyn Sandbox> = Arc::clone(&sandbox) as Arc<dyn Sandbox>;
    let served = runtime.block_on(async {
        service::note_effective(&shared.effective().await?, terminal);
        mcp::serve_stdio(shared).await?;
        // The agent is gone: nobody waits for what still runs.
        sandbox.shutdown(std::time::Duration::ZERO).await;
        anyhow::Ok(())
    });
    // Reading standard input holds a thread that only ends with the process.
    runtime.shutdown_background();
    served
}
