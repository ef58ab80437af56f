//! Lines of JSON from a file that may be growing, torn or hostile.
//!
//! Invariant: a line that can't be read costs only itself, is told, and never more memory than
//! [`MAX_LINE_BYTES`].

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{Error, on_file};
use super::files::{MAX_LINE_BYTES, open_ordinary};

/// A line that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The last line has no end: it is being written, or whoever wrote it was killed.
    Torn,
    /// It is longer than what is read.
    TooLong,
    /// It is no JSON.
    NotJson {
        /// Why not.
        message: String,
    },
    /// The system can't read the file any further.
    Unreadable {
        /// Why not.
        message: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: ", self.path.display(), self.line)?;
        match &self.problem {
            Problem::Torn => write!(formatter, "the last line is not whole"),
            Problem::TooLong => write!(formatter, "longer than {MAX_LINE_BYTES} bytes"),
            Problem::NotJson { message } => write!(formatter, "no JSON: {message}"),
            Problem::Unreadable { message } => write!(formatter, "can't be read: {message}"),
        }
    }
}

/// Lines of JSON, in order; each a value or what is wrong with it.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    /// `None` where there is no file, or nothing more of it.
    file: Option<BufReader<File>>,
    number: u64,
    bytes: u64,
}

impl JsonLines {
    /// The lines of the file at `path`; none where there is no file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = if path.exists() { Some(BufReader::new(open_ordinary(path)?)) } else { None };
        Ok(Self { path: path.to_owned(), file, number: 0, bytes: 0 })
    }

    /// The lines behind the first `bytes` of the file, which are `number` lines; `None` where no line
    /// ends there, since the file is another one by now.
    pub(super) fn open_at(path: &Path, bytes: u64, number: u64) -> Result<Option<Self>, Error> {
        let mut lines = Self::open(path)?;
        let Some(before) = bytes.checked_sub(1) else { return Ok(Some(lines)) };
        let Some(file) = &mut lines.file else { return Ok(None) };
        let mut last = [0];
        let read = file.seek(SeekFrom::Start(before)).and_then(|_| file.read_exact(&mut last));
        match read {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(on_file("read", path)(error))
            }
            Ok(()) if last == [b'\n'] => {
                (lines.bytes, lines.number) = (bytes, number);
                Ok(Some(lines))
            }
            _ => Ok(None),
        }
    }

    /// Bytes of the whole lines so far, with those that were passed over.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lines so far.
    pub const fn number(&self) -> u64 {
        self.number
    }

    fn read(&mut self) -> Result<Option<Value>, Problem> {
        let Some(file) = &mut self.file else { return Ok(None) };
        self.number += 1;
        let line = read_line(file).inspect_err(|_| self.file = None)?;
        match line {
            Line::End => {
                self.file = None;
                self.number -= 1;
                Ok(None)
            }
            Line::TooLong { bytes } => {
                self.bytes += bytes;
                Err(Problem::TooLong)
            }
            Line::Torn => {
                self.file = None;
                Err(Problem::Torn)
            }
            Line::Whole(line) => {
                self.bytes += line.len() as u64 + 1;
                match serde_json::from_slice(&line) {
                    Ok(value) => Ok(Some(value)),
                    Err(error) => Err(Problem::NotJson { message: error.to_string() }),
                }
            }
        }
    }
}

impl Iterator for JsonLines {
    type Item = Result<Value, Notice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read()
            .map_err(|problem| Notice { path: self.path.clone(), line: self.number, problem })
            .transpose()
    }
}

enum Line {
    Whole(Vec<u8>),
    Torn,
    /// With its end, as far as there is one.
    TooLong {
        bytes: u64,
    },
    End,
}

fn read_line(file: &mut BufReader<File>) -> Result<Line, Problem> {
    let unreadable = |error: std::io::Error| Problem::Unreadable { message: error.to_string() };
    let mut line = Vec::new();
    let mut limited = file.by_ref().take(MAX_LINE_BYTES as u64 + 1);
    limited.read_until(b'\n', &mut line).map_err(unreadable)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Line::Whole(line));
    }
    if line.len() <= MAX_LINE_BYTES {
        return Ok(if line.is_empty() { Line::End } else { Line::Torn });
    }
    let read = line.len() as u64;
    drop(line);
    let rest = file.skip_until(b'\n').map_err(unreadable)? as u64;
    Ok(Line::TooLong { bytes: read + rest })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lines(text: &[u8]) -> Vec<Result<Value, (u64, Problem)>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let lines = JsonLines::open(file.path()).unwrap();
        lines.map(|line| line.map_err(|notice| (notice.line, notice.problem))).collect()
    }

    #[test]
    fn a_bad_line_costs_itself_and_a_torn_one_is_the_last() {
        let mut text = b"{\"step\":1}\n".to_vec();
        text.extend(vec![b'['; MAX_LINE_BYTES + 5]);
        text.extend(b"\nnull\n{\"step\":2}\n{\"st");
        let expected = [
            Ok(json!({"step": 1})),
            Err((2, Problem::TooLong)),
            Ok(Value::Null),
            Ok(json!({"step": 2})),
        ];
        let found = lines(&text);
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [Err((5, Problem::Torn))]);
        let found = lines(b"{\n7\n");
        assert!(matches!(&found[0], Err((1, Problem::NotJson { .. }))), "{found:?}");
        assert_eq!(found[1..], [Ok(json!(7))]);
    }

    #[test]
    fn reading_goes_on_where_it_ended() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = b"1\n".to_vec();
        text.extend(vec![b'['; MAX_LINE_BYTES + 5]);
        text.extend(b"\n2\n3");
        std::fs::write(file.path(), &text).unwrap();
        let mut lines = JsonLines::open(file.path()).unwrap();
        assert_eq!(lines.by_ref().flatten().collect::<Vec<_>>(), [json!(1), json!(2)]);
        let bytes = lines.bytes();
        assert_eq!(bytes, text.len() as u64 - 1, "the torn line counts for nothing");
        text.extend(b"0\n");
        std::fs::write(file.path(), &text).unwrap();
        let mut rest = JsonLines::open_at(file.path(), bytes, 3).unwrap().unwrap();
        assert_eq!(rest.next(), Some(Ok(json!(30))));
        assert_eq!((rest.next(), rest.number(), rest.bytes()), (None, 4, text.len() as u64));
        assert!(JsonLines::open_at(file.path(), bytes + 1, 3).unwrap().is_none());
        assert!(JsonLines::open_at(file.path(), bytes + 100, 3).unwrap().is_none());
    }

    #[test]
    fn no_file_has_no_lines_and_a_folder_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(JsonLines::open(&folder.path().join("absent")).unwrap().count(), 0);
        assert!(JsonLines::open(folder.path()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
            let torn = usize::from(bytes.last().is_some_and(|last| *last != b'\n'));
            prop_assert_eq!(lines(&bytes).len(), ends + torn);
        }
    }
}
