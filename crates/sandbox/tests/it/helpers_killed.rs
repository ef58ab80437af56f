//! Zygotes and keepers that are killed in the middle of a burst lose no call.

use std::process::Command;

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Outcome, Request};
use rocstar_sandbox::{Batch, Sandbox as _, Schedule};

use crate::{client, small, start};

#[tokio::test]
async fn killing_helpers_in_a_burst_loses_no_call() {
    const CALLS: usize = 400;
    let Some(sandbox) = start(small()) else { return };
    let calls = (0..CALLS).map(|number| Request::new(format!("print({number})"))).collect();
    let batch = Batch { calls, share_identical: false };
    let mut reports =
        sandbox.execute_batch(&client("a"), batch, Schedule::default()).await.unwrap();
    let mut seen = Vec::new();
    while let Some((index, report)) = reports.next().await {
        let report = report.unwrap();
        assert_eq!(report.outcome, Outcome::Ok, "{report:?}");
        assert_eq!(report.stdout.text, format!("{index}\n"));
        seen.push(index);
        if seen.len() % 40 == 0 {
            let helpers = sandbox.helper_pids();
            let victim = helpers[seen.len() / 40 % helpers.len()];
            // It may have gone by itself in between, so the status says nothing.
            let _ = Command::new("kill").args(["-KILL", &victim.to_string()]).status().unwrap();
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..CALLS).collect::<Vec<_>>());
    let stats = sandbox.stats();
    let counts = (stats.accepted, stats.answered, stats.cancelled, stats.outcomes["ok"]);
    assert_eq!(counts, (CALLS as u64, CALLS as u64, 0, CALLS as u64));
}
