//! Calls and seats in time: what waits for what.

use std::sync::{Arc, Mutex};

use futures::channel::oneshot;
use futures::future::FutureExt as _;
use pretty_assertions::assert_eq;
use rocstar_record::draw::Key;
use rocstar_record::episode::ToolOutcome;
use rocstar_rollout::RolloutOptions;

use crate::support::*;

/// While one episode waits for its tool, others come to their end: the tool answers only then.
#[tokio::test]
async fn others_go_on_while_one_waits_for_its_tool() {
    let (tell, told) = oneshot::channel::<()>();
    let (tell, told) = (Arc::new(Mutex::new(Some(tell))), told.shared());
    let tool = TableTool::new(move |_| told.clone().map(|_| Ok(ToolOutcome::Ok)));
    let script = move |draw: Key| match (draw.sample, draw.turn) {
        (0, 0) => format!("{}{END}", call("wait")),
        // The last sample is asked for its second turn, after a call of its own.
        (3, 1) => answer("1"),
        (3, 0) => {
            // Nobody else is left who could run: now the tool answers.
            if let Some(tell) = tell.lock().unwrap().take() {
                tell.send(()).unwrap();
            }
            format!("{}{END}", call("wait"))
        }
        _ => answer("1"),
    };
    // Two seats: samples 1, 2 and 3 take turns on the second.
    let options = RolloutOptions { most_running: 2, ..options() };
    let rollouts = rollouts(Scripted::new(script), tool, options);
    let all = roll_out(&rollouts, &[task("a", "?", "1")]).await;
    assert_eq!((all.groups[0].episodes.len(), all.usage.most_at_once), (4, 2));
}

/// A call leaves before its turn has ended: the turn goes on only when the call has been seen.
#[tokio::test]
async fn calls_of_a_turn_leave_while_it_is_written_and_run_together() {
    let (seen_first, first) = oneshot::channel::<()>();
    let (seen_second, second) = oneshot::channel::<()>();
    let seen = Mutex::new((Some(seen_first), Some(seen_second)));
    let (first, second) = (first.shared(), second.shared());
    let tool = TableTool::new(move |code| {
        let mut seen = seen.lock().unwrap();
        // Each answers when the other has been called too.
        let (mine, other) = match code.as_str() {
            "a" => (seen.0.take(), second.clone()),
            _ => (seen.1.take(), first.clone()),
        };
        mine.unwrap().send(()).unwrap();
        other.map(|_| Ok(ToolOutcome::Ok))
    });
    let script = |draw: Key| match draw.turn {
        0 => format!("{} and {}{END}", call("a"), call("b")),
        _ => answer("1"),
    };
    let options = RolloutOptions { samples: 1, ..options() };
    let rollouts = rollouts(Scripted::new(script), tool, options);
    let all = roll_out(&rollouts, &[task("a", "?", "1")]).await;
    let shown: Vec<&str> =
        all.groups[0].episodes[0].calls().map(|call| call.shown.as_str()).collect();
    assert_eq!(shown, ["ran a", "ran b"]);
}

/// Calls that depend on each other are made one after another, in their order.
#[tokio::test]
async fn calls_of_a_session_keep_their_order() {
    let running = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&running);
    let tool = TableTool::new(move |code| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(format!("+{code}"));
            tokio::task::yield_now().await;
            log.lock().unwrap().push(format!("-{code}"));
            Ok(ToolOutcome::Ok)
        }
    });
    let script = |draw: Key| match draw.turn {
        0 => format!("{}{}{}{END}", call("a"), call("b"), call("c")),
        _ => answer("1"),
    };
    let options = RolloutOptions { samples: 1, ..options() };
    let rollouts = rollouts(Scripted::new(script), tool.sequential(), options);
    roll_out(&rollouts, &[task("a", "?", "1")]).await;
    assert_eq!(*running.lock().unwrap(), ["+a", "-a", "+b", "-b", "+c", "-c"]);
}

/// Seats are given by free tokens: a cache that holds one episode runs one at a time.
#[tokio::test]
async fn seats_are_given_by_room() {
    for (free_tokens, most) in [(1, 1), (9_000, 2), (1 << 20, 4)] {
        let mut generator = Scripted::new(|_| answer("1"));
        generator.capacity.free_tokens = free_tokens;
        let rollouts = rollouts(generator, TableTool::working(), options());
        let all = roll_out(&rollouts, &[task("a", "?", "1")]).await;
        assert_eq!(all.usage.most_at_once, most, "{free_tokens} tokens");
        assert!(most == 1 || all.usage.most_reserved_tokens <= free_tokens);
    }
}
