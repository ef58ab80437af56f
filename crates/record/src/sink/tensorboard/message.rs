//! The few messages of TensorFlow's protocol buffers that event files need, written by hand: three
//! messages with six fields in all are less than a code generator and a library.

/// The file's first event: its version.
pub(super) fn version(unix_s: f64) -> Vec<u8> {
    let mut event = begun(unix_s, None);
    bytes(&mut event, 3, b"brain.Event:2");
    event
}

/// A process begins to write from `step` on: what there is of it and of later steps no longer holds.
pub(super) fn session_start(unix_s: f64, step: u64) -> Vec<u8> {
    let mut event = begun(unix_s, Some(step));
    let mut session_log = Vec::new();
    // `SessionLog.status` = `START`.
    tag(&mut session_log, 1, VARINT);
    varint(&mut session_log, 1);
    bytes(&mut event, 7, &session_log);
    event
}

/// Values of a step.
pub(super) fn scalars(unix_s: f64, step: u64, values: &[(String, f32)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, value) in values {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        tag(&mut entry, 2, FIXED_32);
        entry.extend(value.to_le_bytes());
        bytes(&mut summary, 1, &entry);
    }
    let mut event = begun(unix_s, Some(step));
    bytes(&mut event, 5, &summary);
    event
}

/// `Event.wall_time` and `Event.step`.
fn begun(unix_s: f64, step: Option<u64>) -> Vec<u8> {
    let mut event = Vec::new();
    tag(&mut event, 1, FIXED_64);
    event.extend(unix_s.to_le_bytes());
    if let Some(step) = step {
        tag(&mut event, 2, VARINT);
        varint(&mut event, step);
    }
    event
}

/// Wire types.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH_DELIMITED: u8 = 2;
const FIXED_32: u8 = 5;

/// Field numbers here are below 16, so that a tag is one byte.
fn tag(to: &mut Vec<u8>, field: u8, wire_type: u8) {
    to.push(field << 3 | wire_type);
}

fn bytes(to: &mut Vec<u8>, field: u8, value: &[u8]) {
    tag(to, field, LENGTH_DELIMITED);
    varint(to, value.len() as u64);
    to.extend(value);
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// By hand, from the definition of the wire format and of the messages.
    #[test]
    fn messages_are_golden() {
        let mut expected = vec![0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x1a, 13];
        expected.extend(b"brain.Event:2");
        assert_eq!(version(1.5), expected);

        let expected = [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x3a, 2, 0x08, 1];
        assert_eq!(session_start(1.5, 300), expected);

        let expected = [
            0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, // wall_time = 1.5
            0x10, 7, // step = 7
            0x2a, 12, // summary
            0x0a, 10, // its first value
            0x0a, 3, b'a', b'/', b'b', // tag
            0x15, 0, 0, 0x20, 0xc0, // simple_value = -2.5
        ];
        assert_eq!(scalars(1.5, 7, &[("a/b".to_owned(), -2.5)]), expected);
    }
}
