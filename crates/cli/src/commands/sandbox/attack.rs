//! `rocstar sandbox attack`: the adversarial suite, against the live service.

use clap::Args;
use rocstar_sandbox::attack::{self, AttackRow};
use rocstar_sandbox::{HttpClient, Sandbox};
use serde::Serialize;

use crate::env_vars;
use crate::failure::Finish;
use crate::service;
use crate::settings::SettingsOptions;
use crate::terminal::Terminal;

/// Try to break out of the sandbox, in many ways
///
/// Runs each attack against a live service, its own or `--url`, and shows whether it was held and
/// by which layer. Exit status 0 only if every attack was held, or else 1.
#[derive(Debug, Args)]
pub(crate) struct Attack {
    /// Service to attack, `http://HOST:PORT`; yours, or one whose owner agrees
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Bearer token for `--url`
    #[arg(long, value_name = "TOKEN", env = env_vars::TOKEN, hide_env_values = true)]
    token: Option<String>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsOptions,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Findings<'a> {
    attacks: usize,
    /// Nothing was gained; the skipped ones are not among them.
    held: usize,
    /// They mean nothing on this host, or a layer that it may go without is missing.
    skipped: usize,
    broken: usize,
    rows: &'a [AttackRow],
}

impl Attack {
    /// Runs the command.
    ///
    /// # Errors
    /// The service does not start or can't be reached.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let runtime = service::runtime()?;
        let rows = match &self.url {
            Some(url) => {
                let client = HttpClient::new(url, self.token.clone())?;
                runtime.block_on(attack_all(&client, terminal))?
            }
            None => {
                let settings = self.settings.resolve(|_| {})?;
                let sandbox = service::start(&runtime, &settings, terminal)?;
                runtime.block_on(attack_all(sandbox.as_ref(), terminal))?
            }
        };
        self.report(&rows, terminal)
    }

    fn report(&self, rows: &[AttackRow], terminal: Terminal) -> anyhow::Result<Finish> {
        let count = |state: &str| rows.iter().filter(|row| state_of(row) == state).count();
        let (held, skipped, broken) = (count(HELD), count(SKIPPED), count(BROKEN));
        if self.json {
            terminal.json(&Findings { attacks: rows.len(), held, skipped, broken, rows })?;
        } else {
            let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
            terminal.table(&["attack", "held", "by", "evidence"], &cells, 4)?;
        }
        terminal.note(format_args!(
            "{} attacks: {held} held, {skipped} skipped, {broken} got through",
            rows.len()
        ));
        Ok(Finish::from_good(broken == 0 && held > 0))
    }
}

const HELD: &str = "yes";
const SKIPPED: &str = "skipped";
const BROKEN: &str = "NO";

const fn state_of(row: &AttackRow) -> &'static str {
    match row {
        AttackRow { skipped: true, .. } => SKIPPED,
        AttackRow { held: true, .. } => HELD,
        AttackRow { held: false, .. } => BROKEN,
    }
}

async fn attack_all(sandbox: &dyn Sandbox, terminal: Terminal) -> anyhow::Result<Vec<AttackRow>> {
    service::note_effective(&sandbox.effective().await?, terminal);
    let bar = terminal.bar("attacking", attack::count() as u64);
    let rows = attack::run(sandbox, |_row: &AttackRow| bar.inc(1)).await;
    bar.finish_and_clear();
    Ok(rows)
}

/// Evidence can be a whole traceback: the table shows its beginning, JSON all of it.
const SHOWN_CHARACTERS: usize = 60;

fn cells(row: &AttackRow) -> Vec<String> {
    let first_line = row.evidence.lines().next().unwrap_or_default();
    vec![
        row.title.to_owned(),
        state_of(row).to_owned(),
        row.by.to_owned(),
        first_line.chars().take(SHOWN_CHARACTERS).collect(),
    ]
}
