//! Server-sent events, cut into the data that they carry.
//!
//! Invariant: what comes out is what a reader of the whole stream would see, however the bytes were
//! cut: lines end with any of the three line ends, comments and other fields are passed over, and an
//! event that the stream's end cut off is none.

use super::{Reach, WireError};

/// Reads one stream of events.
#[derive(Debug)]
pub struct Events {
    /// The line that is still open.
    line: Vec<u8>,
    /// Data of the event that is still open.
    data: Vec<u8>,
    has_data: bool,
    /// A line just ended with a carriage return: a line feed right behind belongs to it.
    after_return: bool,
    is_first: bool,
    most_bytes: usize,
}

impl Events {
    /// Keeps at most so many bytes of one event.
    pub const fn new(most_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            is_first: true,
            most_bytes,
        }
    }

    /// Takes the next bytes, and hands on the data of each event that is complete, until one is the
    /// last that is wanted.
    ///
    /// # Errors
    /// An event is too long, or `event` fails.
    pub fn push(
        &mut self,
        bytes: &[u8],
        event: &mut dyn FnMut(&[u8]) -> Result<Reach, WireError>,
    ) -> Result<Reach, WireError> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, end) = (&rest[..at], rest[at]);
            rest = &rest[at + 1..];
            let is_rest_of_end = end == b'\n' && at == 0 && self.after_return;
            self.after_return = end == b'\r';
            if is_rest_of_end {
                continue;
            }
            let reach = if self.line.is_empty() {
                self.take(line, event)?
            } else {
                self.keep(line)?;
                let whole = std::mem::take(&mut self.line);
                self.take(&whole, event)?
            };
            if reach != Reach::More {
                return Ok(reach);
            }
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.keep(rest)?;
        }
        Ok(Reach::More)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), WireError> {
        self.check(part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn check(&self, more: usize) -> Result<(), WireError> {
        if self.line.len() + self.data.len() + more > self.most_bytes {
            return Err(WireError::TooLong { what: "an event", most_bytes: self.most_bytes });
        }
        Ok(())
    }

    fn take(
        &mut self,
        line: &[u8],
        event: &mut dyn FnMut(&[u8]) -> Result<Reach, WireError>,
    ) -> Result<Reach, WireError> {
        let mark: &[u8] = if std::mem::take(&mut self.is_first) { b"\xEF\xBB\xBF" } else { b"" };
        let line = line.strip_prefix(mark).unwrap_or(line);
        if line.is_empty() {
            if !std::mem::take(&mut self.has_data) {
                return Ok(Reach::More);
            }
            let reach = event(&self.data);
            self.data.clear();
            return reach;
        }
        let value = match line.strip_prefix(b"data") {
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            Some([]) => &[],
            // A comment, or a field that says nothing about the answer.
            Some(_) | None => return Ok(Reach::More),
        };
        self.check(value.len() + 1)?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(Reach::More)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = Events::new(1000);
        let mut seen = Vec::new();
        for piece in pieces {
            let mut event = |data: &[u8]| {
                seen.push(String::from_utf8_lossy(data).into_owned());
                Ok(Reach::More)
            };
            events.push(piece, &mut event).expect("short events");
        }
        seen
    }

    #[test]
    fn the_form_of_the_standard_is_read() {
        let stream = "\u{feff}data: a\n\n: comment\nevent: x\nid: 7\ndata:b\ndata:  c\n\n\
                      data\n\n\n\ndatax: no\n\ndata: d\r\n\r\ndata: e\r\rdata: cut off\n";
        assert_eq!(read(&[stream.as_bytes()]), ["a", "b\n c", "", "d", "e"]);
    }

    #[test]
    fn nothing_is_read_behind_the_last() {
        let mut events = Events::new(100);
        let mut seen = 0;
        let mut event = |_: &[u8]| {
            seen += 1;
            Ok(Reach::Done)
        };
        assert_eq!(events.push(b"data: 1\n\ndata: 2\n\n", &mut event), Ok(Reach::Done));
        assert_eq!(seen, 1);
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut events = Events::new(100);
        let mut event = |_: &[u8]| Ok(Reach::More);
        let reached: Result<Vec<_>, _> =
            (0..20).map(|_| events.push(b"data: 123", &mut event)).collect();
        assert_eq!(reached, Err(WireError::TooLong { what: "an event", most_bytes: 100 }));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            stream in "(data: [ab]{0,3}|:x|data|\u{feff}|é|\r|\n|\r\n|\n\n){0,20}",
            cuts in proptest::collection::vec(0_usize..60, 0..6),
        ) {
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
