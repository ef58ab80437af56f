//! What must hold for any bytes that arrive as a message between the jail and its processes. A
//! hostile program can write some of them (the status page), so none may panic, loop or be read
//! as more than was sent.
//!
//! Shared by the fuzz target `zygote_protocol` and by the replay of its corpus in an ordinary test.

#[path = "../../crates/jail/src/wire.rs"]
mod wire;

use wire::{Exit, RequestBody, RequestHead, STATUS_BYTES, Said, Spawn};

/// Panics where a message that was decoded is not the message that was sent.
pub(crate) fn check(data: &[u8]) {
    if let Some(spawn) = Spawn::decode(data) {
        assert_eq!(spawn.encode(), data);
    }
    if let Some(exit) = Exit::decode(data) {
        assert_eq!(exit.encode(), data[..Exit::BYTES]);
    }
    if let Some(head) = RequestHead::decode(data) {
        assert_eq!(head.encode(), data[..RequestHead::BYTES]);
    }
    if let Some(body) = RequestBody::decode(data) {
        parts_come_from(data, &body);
    }
    if let Some(said) = Said::decode(data) {
        let mut page = vec![0; STATUS_BYTES + data.len()];
        let length = said.encode(&mut page).expect("what was read fits where it came from");
        assert_eq!(Said::decode(&page[..length]), Some(said));
    }
}

fn parts_come_from(data: &[u8], body: &RequestBody<'_>) {
    let mut left = body.files;
    let mut total = body.program.len() + body.arguments.len() + body.stdin.len();
    while let Some((path, content)) = RequestBody::next_file(&mut left) {
        total += path.len() + content.len();
    }
    assert!(total + left.len() <= data.len(), "no byte is handed out twice");
}
