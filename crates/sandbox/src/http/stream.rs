//! A batch's reports onto the wire, as they finish or in order, in bounded memory.
//!
//! Invariant: every index of the batch appears exactly once in a complete answer; an answer that
//! can't be completed breaks the connection off rather than ending as if it were whole. Reports that
//! wait for an earlier one are kept serialised, in memory up to a bound, then in a temporary file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use axum::body::{Body, Bytes};
use futures::stream::unfold;
use futures::{FutureExt as _, StreamExt as _};
use rocstar_jail::Report;
use serde::Serialize;

use super::error::HttpError;
use crate::{Reports, Result};

/// Answers are sent in pieces of about this size while more are ready.
const PIECE_BYTES: usize = 64 << 10;

/// A line of the streamed answer. (The client reads the same form.)
#[derive(Serialize)]
struct Line {
    index: usize,
    #[serde(flatten)]
    answer: Answer,
}

/// One call's answer.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Report(Report),
    Error(HttpError),
}

impl From<Result<Report>> for Answer {
    fn from(result: Result<Report>) -> Self {
        match result {
            Ok(report) => Self::Report(report),
            Err(error) => Self::Error(error.into()),
        }
    }
}

/// One JSON object a line, in the order of finishing.
pub(super) fn as_they_finish(reports: Reports) -> Body {
    encode(reports, Lines)
}

/// `{"reports": […]}` in the order of the calls. An element is a report, or `{"error": …}`.
pub(super) fn in_order(reports: Reports, calls: usize, held_bytes: usize) -> Body {
    encode(reports, Ordered::new(calls, held_bytes, native_element, "{\"reports\":[", "]}"))
}

fn native_element(_: usize, result: Result<Report>) -> serde_json::Result<Vec<u8>> {
    match result {
        Ok(report) => serde_json::to_vec(&report),
        Err(error) => serde_json::to_vec(&super::Envelope { error: error.into() }),
    }
}

/// How a stream of reports becomes bytes.
pub(super) trait Encode: Send + 'static {
    /// Adds one result's bytes, if it is their turn.
    fn push(&mut self, index: usize, result: Result<Report>, out: &mut Vec<u8>) -> io::Result<()>;

    /// Adds what stands behind the last result.
    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// A response body that pulls results only as fast as the client reads.
pub(super) fn encode(reports: Reports, encoder: impl Encode) -> Body {
    let pieces = unfold(Some((reports, encoder)), |state| async {
        let (mut reports, mut encoder) = state?;
        let mut piece = Vec::new();
        while piece.is_empty() {
            let mut next = reports.next().await;
            loop {
                let pushed = match next {
                    Some((index, result)) => encoder.push(index, result, &mut piece),
                    None => {
                        let finished = encoder.finish(&mut piece);
                        return Some((finished.map(|()| Bytes::from(piece)), None));
                    }
                };
                if let Err(error) = pushed {
                    return Some((Err(error), None));
                }
                if piece.len() >= PIECE_BYTES {
                    break;
                }
                // More only if it is there already: a finished report is not kept waiting.
                match reports.next().now_or_never() {
                    Some(ready) => next = ready,
                    None => break,
                }
            }
        }
        Some((Ok(Bytes::from(piece)), Some((reports, encoder))))
    });
    Body::from_stream(pieces)
}

struct Lines;

impl Encode for Lines {
    fn push(&mut self, index: usize, result: Result<Report>, out: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &Line { index, answer: result.into() })?;
        out.push(b'\n');
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// Turns one result into its element of the array.
pub(super) type Element = Box<dyn Fn(usize, Result<Report>) -> serde_json::Result<Vec<u8>> + Send>;

/// A JSON array in the order of the calls.
pub(super) struct Ordered {
    calls: usize,
    next: usize,
    element: Element,
    before: String,
    after: String,
    waiting: Waiting,
}

impl Ordered {
    /// `before` and `after` stand around the elements.
    pub(super) fn new(
        calls: usize,
        held_bytes: usize,
        element: impl Fn(usize, Result<Report>) -> serde_json::Result<Vec<u8>> + Send + 'static,
        before: impl Into<String>,
        after: impl Into<String>,
    ) -> Self {
        Self {
            calls,
            next: 0,
            element: Box::new(element),
            before: before.into(),
            after: after.into(),
            waiting: Waiting { held_bytes, ..Waiting::default() },
        }
    }

    fn append(&mut self, element: &[u8], out: &mut Vec<u8>) {
        if self.next == 0 {
            out.extend_from_slice(self.before.as_bytes());
        } else {
            out.push(b',');
        }
        out.extend_from_slice(element);
        self.next += 1;
    }
}

impl Encode for Ordered {
    fn push(&mut self, index: usize, result: Result<Report>, out: &mut Vec<u8>) -> io::Result<()> {
        let element = (self.element)(index, result)?;
        if index != self.next {
            return self.waiting.put(index, element);
        }
        self.append(&element, out);
        while let Some(element) = self.waiting.take(self.next)? {
            self.append(&element, out);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.next != self.calls {
            return Err(io::Error::other(format!(
                "the batch ended after {} of {} reports",
                self.next, self.calls
            )));
        }
        out.extend_from_slice(self.after.as_bytes());
        Ok(())
    }
}

/// Elements that came before their turn.
#[derive(Default)]
struct Waiting {
    held_bytes: usize,
    in_memory_bytes: usize,
    elements: BTreeMap<usize, Place>,
    file: Option<File>,
    file_end: u64,
}

enum Place {
    Memory(Vec<u8>),
    File { offset: u64, bytes: usize },
}

impl Waiting {
    fn put(&mut self, index: usize, element: Vec<u8>) -> io::Result<()> {
        let place = if self.in_memory_bytes + element.len() <= self.held_bytes {
            self.in_memory_bytes += element.len();
            Place::Memory(element)
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(tempfile::tempfile()?),
            };
            let offset = self.file_end;
            file.write_all_at(&element, offset)?;
            self.file_end += element.len() as u64;
            Place::File { offset, bytes: element.len() }
        };
        self.elements.insert(index, place);
        Ok(())
    }

    fn take(&mut self, index: usize) -> io::Result<Option<Vec<u8>>> {
        Ok(match self.elements.remove(&index) {
            None => None,
            Some(Place::Memory(element)) => {
                self.in_memory_bytes -= element.len();
                Some(element)
            }
            Some(Place::File { offset, bytes }) => {
                let mut element = vec![0; bytes];
                let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
                file.read_exact_at(&mut element, offset)?;
                Some(element)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use rocstar_jail::Outcome;
    use serde_json::{Value, json};

    use super::*;
    use crate::Error;

    fn report(index: usize) -> Report {
        Report::without_run(Outcome::Exit { code: i32::try_from(index).unwrap() })
    }

    fn text(body: Body) -> std::result::Result<String, axum::Error> {
        let bytes = futures::executor::block_on(axum::body::to_bytes(body, usize::MAX))?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn finished(order: Vec<usize>) -> Reports {
        stream::iter(order.into_iter().map(|index| (index, Ok(report(index))))).boxed()
    }

    proptest! {
        #[test]
        fn any_order_of_finishing_gives_the_order_of_the_calls(
            order in Just((0..40).collect::<Vec<usize>>()).prop_shuffle(),
            held_bytes in 0_usize..8_000,
        ) {
            let calls = order.len();
            let whole = text(in_order(finished(order), calls, held_bytes)).unwrap();
            let whole: Value = serde_json::from_str(&whole).unwrap();
            let expected: Vec<Value> = (0..calls)
                .map(|index| serde_json::to_value(report(index)).unwrap())
                .collect();
            prop_assert_eq!(whole, json!({ "reports": expected }));
        }
    }

    #[test]
    fn a_missing_report_breaks_the_answer_off() {
        assert!(text(in_order(finished(vec![0, 2]), 3, 0)).is_err());
        assert!(text(in_order(finished(vec![]), 1, 0)).is_err());
    }

    #[test]
    fn errors_stand_in_their_place() {
        let results = || stream::iter([(1, Err(Error::ShuttingDown)), (0, Ok(report(0)))]).boxed();
        let error = serde_json::to_value(HttpError::shutting_down()).unwrap();
        let ordered: Value =
            serde_json::from_str(&text(in_order(results(), 2, 0)).unwrap()).unwrap();
        assert_eq!(ordered, json!({ "reports": [report(0), { "error": error }] }));

        let lines = text(as_they_finish(results())).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected =
            [json!({"index": 1, "error": error}), json!({"index": 0, "report": report(0)})];
        assert_eq!(lines, expected);
    }
}
