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

/// Bytes of a line's end by which it is known again.
const KNOWN_BY_BYTES: usize = 4096;

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
    place: LinePlace,
}

/// A place between two lines of a file that may be another file by the next time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinePlace {
    bytes: u64,
    lines: u64,
    /// The end of the line before it, by which the file is known again.
    before: Box<[u8]>,
}

impl LinePlace {
    /// Bytes of the lines before it.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many these are.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Behind one more line, of these bytes, the last of which are `end`.
    fn pass(&mut self, bytes: u64, end: &[u8]) {
        self.bytes += bytes;
        self.lines += 1;
        let kept = end.len().saturating_sub(KNOWN_BY_BYTES);
        self.before = end[kept..].iter().copied().chain([b'\n']).collect();
    }
}

impl JsonLines {
    /// The lines of the file at `path`; none where there is no file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = if path.exists() { Some(BufReader::new(open_ordinary(path)?)) } else { None };
        Ok(Self { path: path.to_owned(), file, place: LinePlace::default() })
    }

    /// The lines behind `place`; `None` where the line before it is not there, since the file is another
    /// one by now.
    pub(super) fn open_at(path: &Path, place: &LinePlace) -> Result<Option<Self>, Error> {
        let mut lines = Self::open(path)?;
        if place.bytes == 0 {
            return Ok(Some(lines));
        }
        let Some(file) = &mut lines.file else { return Ok(None) };
        let mut before = vec![0; place.before.len()];
        let start = SeekFrom::Start(place.bytes - before.len() as u64);
        match file.seek(start).and_then(|_| file.read_exact(&mut before)) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(on_file("read", path)(error))
            }
            Ok(()) if *before == *place.before => {
                lines.place = place.clone();
                Ok(Some(lines))
            }
            _ => Ok(None),
        }
    }

    /// Behind the whole lines so far, with those that were passed over.
    pub const fn place(&self) -> &LinePlace {
        &self.place
    }

    fn read(&mut self) -> Result<Option<Value>, Problem> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let line = read_line(file).inspect_err(|_| self.file = None)?;
        match line {
            Line::End => {
                self.file = None;
                Ok(None)
            }
            Line::TooLong { bytes } => {
                self.place.pass(bytes, &[]);
                Err(Problem::TooLong)
            }
            Line::Torn => {
                self.file = None;
                Err(Problem::Torn)
            }
            Line::Whole(line) => {
                self.place.pass(line.len() as u64 + 1, &line);
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
        let line = self.place.lines + 1;
        self.read().map_err(|problem| Notice { path: self.path.clone(), line, problem }).transpose()
    }
}

enum Line {
    Whole(Vec<u8>),
    Torn,
    /// With its end.
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
    let mut last = [0];
    if rest > 0 {
        file.seek_relative(-1).and_then(|()| file.read_exact(&mut last)).map_err(unreadable)?;
    }
    Ok(if last == [b'\n'] { Line::TooLong { bytes: read + rest } } else { Line::Torn })
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
        let place = lines.place().clone();
        let whole = text.len() as u64 - 1;
        assert_eq!((place.bytes(), place.lines()), (whole, 3), "the torn line counts for nothing");
        text.extend(b"0\n");
        std::fs::write(file.path(), &text).unwrap();
        let mut rest = JsonLines::open_at(file.path(), &place).unwrap().unwrap();
        assert_eq!(rest.next(), Some(Ok(json!(30))));
        assert_eq!(rest.next(), None);
        assert_eq!((rest.place().bytes(), rest.place().lines()), (text.len() as u64, 4));
        std::fs::write(file.path(), b"1\n").unwrap();
        assert!(JsonLines::open_at(file.path(), &place).unwrap().is_none());
    }

    #[test]
    fn another_file_is_known_by_the_line_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"{\"step\":1}\n").unwrap();
        let mut lines = JsonLines::open(file.path()).unwrap();
        assert_eq!(lines.by_ref().count(), 1);
        std::fs::write(file.path(), b"{\"step\":2}\n{\"step\":3}\n").unwrap();
        assert!(JsonLines::open_at(file.path(), lines.place()).unwrap().is_none());
    }

    #[test]
    fn a_long_line_without_an_end_is_torn_until_it_has_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for more in [5, 0, 1_000_000] {
            let mut text = b"1\n".to_vec();
            text.extend(vec![b'['; MAX_LINE_BYTES + 1 + more]);
            std::fs::write(file.path(), &text).unwrap();
            let mut lines = JsonLines::open(file.path()).unwrap();
            let found: Vec<_> = lines.by_ref().skip(1).map(|it| it.unwrap_err()).collect();
            assert_eq!((found.len(), &found[0].problem, found[0].line), (1, &Problem::Torn, 2));
            let place = lines.place().clone();
            assert_eq!((place.bytes(), place.lines()), (2, 1));
            text.extend(b"\n2\n");
            std::fs::write(file.path(), &text).unwrap();
            let rest = JsonLines::open_at(file.path(), &place).unwrap().unwrap();
            let rest: Vec<_> = rest.map(|it| it.map_err(|it| it.problem)).collect();
            assert_eq!(rest, [Err(Problem::TooLong), Ok(json!(2))]);
        }
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
