//! One client's programs don't hold up another's.

use futures::StreamExt as _;
use futures::future::poll_immediate;
use pretty_assertions::assert_eq;
use rocstar_sandbox::jail::{Outcome, Request};
use rocstar_sandbox::{Batch, Sandbox as _, Schedule};

use crate::{client, endless, small, start, until};

#[tokio::test]
async fn infinite_loops_take_half_of_the_slots_and_delay_nobody() {
    let config = small();
    let half = config.jail.slots as u64 / 2;
    let Some(sandbox) = start(config) else { return };
    let loops = Batch { calls: vec![endless(); 40], share_identical: false };
    let mut loops =
        sandbox.execute_batch(&client("loops"), loops, Schedule::default()).await.unwrap();
    // All that it may hold, and all demoted: their turns are over.
    until(&sandbox, |stats| stats.running == half && stats.turns == 0).await;
    for number in 0..20 {
        let call = Request::new(format!("print({number})"));
        let report = sandbox.execute(&client("other"), call, Schedule::default()).await.unwrap();
        assert_eq!((report.outcome, report.stdout.text), (Outcome::Ok, format!("{number}\n")));
    }
    assert!(poll_immediate(loops.next()).await.is_none(), "a loop has ended");
    let stats = sandbox.stats();
    assert_eq!((stats.answered, stats.running, stats.queued), (20, half, 40 - half));
    drop(loops);
    let stats = until(&sandbox, |stats| stats.running == 0).await;
    assert_eq!((stats.answered, stats.cancelled, stats.queued), (20, 40, 0));
}

#[tokio::test]
async fn a_call_starts_beside_loops_that_hold_their_turns() {
    // The loops never give their turns back here, so only the share kept free lets others in.
    let Some(sandbox) = start(crate::one_at_a_time()) else { return };
    let loops = Batch { calls: vec![endless(); 4], share_identical: false };
    let loops = sandbox.execute_batch(&client("loops"), loops, Schedule::default()).await.unwrap();
    let report = sandbox.execute(&client("other"), Request::new("1"), Schedule::default()).await;
    assert_eq!(report.unwrap().outcome, Outcome::Ok);
    let stats = sandbox.stats();
    assert_eq!((stats.answered, stats.running, stats.queued), (1, 1, 3));
    drop(loops);
}
