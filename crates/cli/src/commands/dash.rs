//! `rocstar dash`: the runs of a folder as a local web page.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use rocstar_dash::{Access, Environment, Folder, Seen};
use rocstar_rollout::Pulse;
use rocstar_sandbox::HttpClient;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::env_vars;
use crate::failure::{Finish, HintExt as _};
use crate::service::{self, Address, StopOn, Stops};
use crate::terminal::Terminal;

/// Between two looks at a code environment.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// Time for its answer.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Look at runs in a browser: curves, groups, episodes and why each was kept or dropped
///
/// Reads run directories and nothing else, so it shows a run that goes on, live, and a dead one alike.
/// Opens the browser by itself where there is a display. Only this machine may look, unless a token is
/// set. SIGINT or SIGTERM stops it.
#[derive(Debug, Args)]
pub(crate) struct Dash {
    /// Folder of runs, or one run's directory
    #[arg(value_name = "RUNS_DIR", default_value = "runs")]
    runs: PathBuf,
    /// Address to listen on; port 0 takes any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: String,
    /// What a browser must know to look from another machine: it is in the printed link
    #[arg(long, value_name = "TOKEN", env = env_vars::TOKEN, hide_env_values = true, value_parser = parse_token)]
    token: Option<String>,
    /// Show a code environment too, such as that of `rocstar sandbox serve`, by its address
    #[arg(long, value_name = "URL")]
    environment: Option<String>,
    /// Its bearer token
    #[arg(long, value_name = "TOKEN", requires = "environment", hide_env_values = true)]
    environment_token: Option<String>,
    /// Show everything without a token to everybody who reaches the address
    #[arg(long)]
    allow_public_without_token: bool,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
    /// Print one JSON line on standard output when the page is there
    #[arg(long)]
    json: bool,
}

/// It stands in a link and in a cookie as it is.
fn parse_token(text: &str) -> Result<String, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.~".contains(letter);
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("use letters, digits, `_`, `-`, `.` and `~`".to_owned()),
    }
}

/// What the page says of itself; `--json` prints it as one line.
#[derive(Debug, Serialize)]
struct Announcement {
    url: String,
    pid: u32,
    folder: String,
}

impl Dash {
    /// Shows the runs of a folder on any free port.
    pub(crate) fn of(runs: &Path) -> Self {
        Self {
            runs: runs.to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            token: None,
            environment: None,
            environment_token: None,
            allow_public_without_token: false,
            no_open: false,
            json: false,
        }
    }

    /// Runs the command.
    ///
    /// # Errors
    /// There is no such folder, or the address is refused or taken.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let folder = Folder::open(&self.runs)
            .map_err(anyhow::Error::from)
            .map_err(|error| error.hint("give the folder that your runs are in, such as `runs`"))?;
        let runtime = service::runtime()?;
        let address = Address {
            listen: &self.listen,
            has_token: self.token.is_some(),
            allow_public_without_token: self.allow_public_without_token,
        };
        let looked_at = self.environment.as_ref().map(|url| {
            let client = HttpClient::new(url, self.environment_token.clone())?;
            let (tell, told) = watch::channel(Seen { url: url.clone(), ..Seen::default() });
            Ok::<_, rocstar_sandbox::Error>((client, tell, told))
        });
        let looked_at = looked_at.transpose()?;
        let environment = looked_at.as_ref().map(|(.., told)| Environment(told.clone()));
        let listener = runtime.block_on(service::bind(address))?;
        let query = self.token.as_ref().map(|token| format!("?token={token}"));
        let url = format!("http://{}/{}", listener.local_addr()?, query.unwrap_or_default());
        let access =
            Access { token: self.token.clone(), is_public: self.allow_public_without_token };
        let shown = folder.path().display().to_string();
        let finished = runtime.block_on(async {
            // Before the announcement: whoever reads it may send a signal at once.
            let mut stops = Stops::new(StopOn::Signals)?;
            let pid = std::process::id();
            self.announce(&Announcement { url, pid, folder: shown }, terminal)?;
            let stop = CancellationToken::new();
            let server = rocstar_dash::serve(listener, folder, access, environment, stop.clone());
            let stopping = async {
                stops.next().await;
                stop.cancel();
                // A second signal doesn't wait for what is open.
                stops.next().await;
            };
            tokio::select! {
                () = server => {}
                () = stopping => {}
                () = look(looked_at) => {}
            }
            anyhow::Ok(())
        });
        runtime.shutdown_background();
        finished.map(|()| Finish::Good)
    }

    fn announce(&self, announcement: &Announcement, terminal: Terminal) -> anyhow::Result<()> {
        terminal.note(format_args!("runs: {}", announcement.folder));
        terminal.note(format_args!("page: {}", announcement.url));
        if !self.no_open && opens_browser() {
            open(&announcement.url, terminal);
        }
        if self.json { terminal.json_line(announcement) } else { Ok(()) }
    }
}

/// Looks at the environment again and again, and tells; never ends.
async fn look(looked_at: Option<(HttpClient, watch::Sender<Seen>, watch::Receiver<Seen>)>) {
    let Some((client, tell, _told)) = looked_at else { return std::future::pending().await };
    let mut pulse = Pulse::default();
    let mut ticks = tokio::time::interval(LOOK_EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked = tokio::time::timeout(LOOK_WITHIN, client.look()).await;
        let now = looked.map_err(|_| "it does not answer".to_owned());
        let now = now.and_then(|now| now.map_err(|error| error.to_string()));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
        tell.send_modify(|seen| match &now {
            Ok(now) => (seen.state, seen.notice) = (Some(pulse.beat(now, unix_ms)), None),
            Err(notice) => seen.notice = Some(notice.clone()),
        });
    }
}

/// Whether a person sits at a terminal with a display, so that a browser would be seen.
pub(crate) fn opens_browser() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = is_set(env_vars::DISPLAY) || is_set(env_vars::WAYLAND_DISPLAY);
    (cfg!(target_os = "macos") || has_display) && std::io::stderr().is_terminal()
}

/// Opens the page in the person's browser; where that fails, they have the link.
fn open(url: &str, terminal: Terminal) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        terminal.note(format_args!("note: no browser was opened: `{program}`: {error}"));
    }
}
