//! Records of a log one by one.
//!
//! Invariant: whatever the file holds, no more than one line and one window of the decompressor are
//! in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::MAX_LINE_BYTES;

/// Largest window that a frame may ask the decompressor to hold: 128 MiB, as a power of two.
const WINDOW_LOG_MAX: u32 = 27;

/// Records of a log, in order. The first error is the last item.
pub struct Records<T> {
    path: PathBuf,
    lines: BufReader<zstd::stream::read::Decoder<'static, BufReader<File>>>,
    line: Vec<u8>,
    number: usize,
    has_ended: bool,
    record: PhantomData<T>,
}

impl<T> std::fmt::Debug for Records<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, number, .. } = self;
        formatter.debug_struct("Records").field("path", path).field("number", number).finish()
    }
}

impl<T: DeserializeOwned> Records<T> {
    /// The records of the log at `path`.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // The decompressor takes nothing at all for the begin of a frame.
        let has_ended = file.metadata()?.len() == 0;
        let mut decoder = zstd::stream::read::Decoder::new(file)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Self {
            path: path.to_owned(),
            lines: BufReader::new(decoder),
            line: Vec::new(),
            number: 0,
            has_ended,
            record: PhantomData,
        })
    }

    /// Passes over the next `count` records without reading what is in them; says whether there
    /// were so many.
    ///
    /// # Errors
    /// The file is damaged or torn before that.
    pub fn pass_over(&mut self, count: u64) -> io::Result<bool> {
        for _ in 0..count {
            if self.has_ended {
                return Ok(false);
            }
            self.number += 1;
            let read = self.read_line().map_err(|error| self.failed(&error))?;
            self.has_ended = !read;
        }
        Ok(!self.has_ended)
    }

    /// The log can't be read on: where, and why.
    fn failed(&mut self, error: &io::Error) -> io::Error {
        self.has_ended = true;
        let (path, number) = (self.path.display(), self.number);
        io::Error::new(error.kind(), format!("{path}: record {number}: {error}"))
    }

    /// The line of the last item, without its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The next line into `self.line`, without its end; whether there was one.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = (&mut self.lines).take(MAX_LINE_BYTES as u64 + 1);
        limited.read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            return Ok(true);
        }
        if self.line.len() > MAX_LINE_BYTES {
            return Err(io::Error::other(format!("it is longer than {MAX_LINE_BYTES} bytes")));
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends in the middle"))
    }
}

impl<T: DeserializeOwned> Iterator for Records<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read_line();
        self.number += 1;
        let record = match read {
            Ok(false) => {
                self.has_ended = true;
                return None;
            }
            Ok(true) => serde_json::from_slice(&self.line).map_err(io::Error::from),
            Err(error) => Err(error),
        };
        Some(record.map_err(|error| self.failed(&error)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn written(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for part in text.chunks(7) {
            file.write_all(&super::super::compressed(part).unwrap()).unwrap();
        }
        file
    }

    fn all(file: &tempfile::NamedTempFile) -> (Vec<u32>, Option<String>) {
        let (mut records, mut error) = (Vec::new(), None);
        for record in Records::open(file.path()).unwrap() {
            assert!(error.is_none(), "the first error is the last item");
            match record {
                Ok(record) => records.push(record),
                Err(found) => error = Some(found.to_string()),
            }
        }
        (records, error)
    }

    #[test]
    fn records_come_in_order_across_frames() {
        let text: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert_eq!(all(&written(text.as_bytes())), ((0..100).collect(), None));
        assert_eq!(all(&written(b"")), (Vec::new(), None));
    }

    #[test]
    fn records_that_are_passed_over_are_not_read() {
        let file = written(b"1\nno number\n3\n4\n");
        let mut records = Records::<u32>::open(file.path()).unwrap();
        assert!(records.pass_over(2).unwrap());
        assert_eq!(records.next().unwrap().unwrap(), 3);
        assert!(records.pass_over(1).unwrap());
        assert!(!records.pass_over(1).unwrap());
        assert!(records.next().is_none());
    }

    #[test]
    fn what_is_whole_is_read_and_the_rest_is_told() {
        for (text, what) in [("1\n2\nthree\n4\n", "record 3"), ("1\n2\n3", "ends in the middle")] {
            let (records, error) = all(&written(text.as_bytes()));
            assert_eq!(records, [1, 2]);
            assert!(error.as_ref().is_some_and(|error| error.contains(what)), "{error:?}");
        }
        let file = written("1\n2\n3\n4\n5\n6\n".as_bytes());
        let length = file.as_file().metadata().unwrap().len();
        file.as_file().set_len(length - 3).unwrap();
        let (records, error) = all(&file);
        assert!([1, 2, 3, 4, 5, 6].starts_with(&records) && error.is_some(), "{records:?}");
    }
}
