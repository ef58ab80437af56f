//! What is written down, through the crate's public interface: its form, which is golden, and what a
//! reader makes of it.

#![cfg(test)]

mod episode;
mod golden;
mod run;
mod support;
mod tensorboard;

#[path = "../../../../fuzz/checks/groups.rs"]
mod groups;
#[path = "../../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn groups_of_any_bytes() {
    replay::replay("groups", groups::check);
}
