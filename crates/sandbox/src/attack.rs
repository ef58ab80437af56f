//! The adversarial suite: hostile programs run against a live service, and what came of each.
//!
//! Every attack is a Python program in `attack/programs/` that really tries something and says what
//! it saw (see `prelude.py` there). It counts as held only with positive evidence: the program ran
//! into the refusal that was expected, with the expected error, or ended by the expected outcome
//! after saying that it was about to try. A program that fails for any other reason is a row that
//! is not held, and so is a service that does not answer a plain call after the attack.
//!
//! What the suite does not show: that the kernel has no hole of its own, and anything about covert
//! channels (timing, load, advisory locks on shared files).

mod catalogue;
mod evidence;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use rocstar_jail::{InputFile, Layer, LayerState, Report, Request};
use serde::Serialize;

use crate::{ClientId, Sandbox, Schedule, SessionId, SessionOptions};
use catalogue::{ATTACKS, Attack, Plan, Try};
use evidence::{Verdict, judge};

/// Stands in front of every program.
const PRELUDE: &str = include_str!("attack/programs/prelude.py");

/// Attacks under way at once. More would only make the greedy ones starve the others.
const AT_ONCE: usize = 4;

/// What came of one attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttackRow {
    /// Short name, also of the program's file.
    pub id: &'static str,
    /// What is tried.
    pub title: &'static str,
    /// Nothing was gained, and the service still answers. Also true where `skipped` is.
    pub held: bool,
    /// The attack means nothing on this host: wrong architecture, or the layer that would stop it
    /// is not among the required ones and is missing.
    pub skipped: bool,
    /// The layer or limit that stopped it (or should have).
    pub by: &'static str,
    /// What was seen, one fact a line.
    pub evidence: String,
}

/// How many attacks there are.
pub const fn count() -> usize {
    ATTACKS.len()
}

/// Runs every attack, calls `observer` with each row as it is known, and returns the rows in their
/// fixed order. The service is loaded on purpose: don't aim it at one that others use.
pub async fn run(sandbox: &dyn Sandbox, observer: impl Fn(&AttackRow) + Sync) -> Vec<AttackRow> {
    // A service that can't say what it gives is attacked with everything: nothing is skipped.
    let layers = sandbox.effective().await.map(|it| it.layers).unwrap_or_default();
    let (layers, observer) = (layers.as_slice(), &observer);
    let rows = stream::iter(ATTACKS).map(|attack| async move {
        let row = attempt(sandbox, layers, attack).await;
        observer(&row);
        row
    });
    rows.buffered(AT_ONCE).collect().await
}

async fn attempt(sandbox: &dyn Sandbox, layers: &[LayerState], attack: &Attack) -> AttackRow {
    let row = |verdict: Verdict| {
        let (held, skipped, evidence) = match verdict {
            Verdict::Held(evidence) => (true, false, evidence),
            Verdict::Skipped(reason) => (true, true, reason),
            Verdict::Broken(evidence) => (false, false, evidence),
        };
        let Attack { id, title, by, .. } = *attack;
        AttackRow { id, title, held, skipped, by, evidence }
    };
    if let Some(lack) = optional_lack(layers, attack.by) {
        return row(Verdict::Skipped(format!("this host lacks it: {lack}")));
    }
    // Each attack is a client of its own: what one of them hogs must not hold up the others.
    let client = ClientId::new(attack.id);
    let verdict = match &attack.plan {
        Plan::Steps(steps) => in_turn(sandbox, &client, steps).await,
        Plan::Together { copies, attempt } => together(sandbox, &client, *copies, attempt).await,
        Plan::Session(cells) => in_session(sandbox, &client, cells).await,
    };
    row(match still_answers(sandbox).await {
        Ok(()) => verdict,
        Err(why) => Verdict::Broken(format!("the service no longer answers: {why}")),
    })
}

/// Why the layer named `by` is missing, where the host may go without it.
fn optional_lack(layers: &[LayerState], by: &str) -> Option<String> {
    let missing = layers.iter().find(|state| state.layer.name() == by && !state.holds)?;
    let required = Layer::REQUIRED_BY_DEFAULT.contains(&missing.layer);
    (!required).then(|| missing.lack.clone().unwrap_or_default())
}

/// One after another; what the earlier ones left is there for the later ones to find.
async fn in_turn(sandbox: &dyn Sandbox, client: &ClientId, steps: &[Try]) -> Verdict {
    let mut last = Verdict::Broken("the attack has no steps".to_owned());
    for step in steps {
        for _ in 0..step.times {
            let result = sandbox.execute(client, request(step), Schedule::default()).await;
            last = judge(&step.expected, &result);
            if !matches!(last, Verdict::Held(_)) {
                return last;
            }
        }
    }
    last
}

/// Copies of one program at the same time. They print when they ran, on the clock that all
/// programs of a machine share; if no two runs overlapped, nothing was shown.
async fn together(
    sandbox: &dyn Sandbox,
    client: &ClientId,
    copies: usize,
    attempt: &Try,
) -> Verdict {
    let calls = (0..copies).map(|_| sandbox.execute(client, request(attempt), Schedule::default()));
    let results = join_all(calls).await;
    for result in &results {
        let verdict = judge(&attempt.expected, result);
        if !matches!(verdict, Verdict::Held(_)) {
            return verdict;
        }
    }
    let reports: Vec<&Report> = results.iter().flatten().collect();
    match evidence::overlaps(&reports) {
        0 => Verdict::Broken("no two of them ran at the same time".to_owned()),
        pairs => Verdict::Held(format!("{pairs} pairs ran at the same time and saw nothing")),
    }
}

async fn in_session(sandbox: &dyn Sandbox, client: &ClientId, cells: &[Try]) -> Verdict {
    let limits = cells.first().map(|cell| cell.limits).unwrap_or_default();
    let options = SessionOptions { limits, ..SessionOptions::default() };
    let session = match sandbox.open_session(client, options).await {
        Ok(session) => session,
        Err(error) => return Verdict::Broken(format!("no session: {error}")),
    };
    let verdict = run_cells(sandbox, client, &session, cells).await;
    // It may be gone already, which some attacks bring about.
    match sandbox.close_session(client, &session).await {
        Ok(()) | Err(crate::Error::NoSession { .. }) => verdict,
        Err(error) => Verdict::Broken(format!("the session can't be closed: {error}")),
    }
}

async fn run_cells(
    sandbox: &dyn Sandbox,
    client: &ClientId,
    session: &SessionId,
    cells: &[Try],
) -> Verdict {
    let mut last = Verdict::Broken("the attack has no cells".to_owned());
    for cell in cells {
        let result = sandbox.execute_in_session(client, session, request(cell)).await;
        last = judge(&cell.expected, &result);
        if !matches!(last, Verdict::Held(_)) {
            break;
        }
    }
    last
}

fn request(attempt: &Try) -> Request {
    let files = attempt.files.iter().map(|(path, content)| InputFile {
        path: (*path).to_owned(),
        content: content.as_bytes().to_vec(),
    });
    Request {
        program: format!("{PRELUDE}\n{}", attempt.program),
        stdin: (attempt.stdin_bytes > 0).then(|| vec![b'x'; attempt.stdin_bytes]),
        files: files.collect(),
        fetch: attempt.fetch.iter().map(|path| (*path).to_owned()).collect(),
        limits: attempt.limits,
        ..Request::default()
    }
}

/// A plain call, as anyone else would make it.
async fn still_answers(sandbox: &dyn Sandbox) -> Result<(), String> {
    let plain = Request::new("print(6 * 7)");
    match sandbox.execute(&ClientId::new("bystander"), plain, Schedule::default()).await {
        Ok(report) if report.outcome.is_success() && report.stdout.text == "42\n" => Ok(()),
        Ok(report) => Err(format!("{:?}, {:?}", report.outcome, report.stdout.text)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
