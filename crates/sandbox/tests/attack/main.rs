//! Every attack of the suite against a live service in this process.

use std::io::Write as _;
use std::time::Duration;

use rocstar_sandbox::{LocalSandbox, ServiceConfig, attack};

#[tokio::test(flavor = "multi_thread")]
async fn every_attack_is_held() {
    let sandbox = LocalSandbox::start(ServiceConfig::default()).unwrap();
    let rows = attack::run(&sandbox, |row| {
        let word = match (row.held, row.skipped) {
            (_, true) => "SKIP",
            (true, false) => "held",
            (false, false) => "BROKEN",
        };
        // One line a row, also where a test runner shows the output of a failure only.
        let facts = row.evidence.replace('\n', "; ");
        writeln!(std::io::stderr(), "{word} {} [{}] {facts}", row.id, row.by).unwrap();
    })
    .await;
    assert_eq!(rows.len(), attack::count());
    let broken: Vec<_> = rows.iter().filter(|row| !row.held).map(|row| row.id).collect();
    assert!(broken.is_empty(), "not held: {broken:?}");

    let stats = sandbox.shutdown(Duration::from_secs(5)).await;
    assert_eq!((stats.queued, stats.running), (0, 0));
    assert_eq!(stats.accepted, stats.answered + stats.cancelled);
}
