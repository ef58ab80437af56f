//! Append-only compressed logs: a line of JSON a record, Zstandard frames, whole after any crash.
//!
//! Invariant: each [`Log::commit`] adds one frame that holds whole lines. A process or machine that
//! dies while writing leaves at most one torn frame at the end; [`Log::open`] cuts it off, and
//! [`read`] stops before it and says so. Frames one after another are an ordinary `.zst` file, so
//! `zstdcat` reads it too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Compression level: fast, and within a few per cent of the default's size on token lists.
const LEVEL: i32 = 1;
/// Largest frame that is read, uncompressed: what a hostile file may make a reader allocate.
const MAX_FRAME_BYTES: usize = 1 << 30;

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// Lines that the next frame will hold.
    pending: Vec<u8>,
    /// End of the last whole frame.
    committed_bytes: u64,
}

/// What [`read`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents<T> {
    /// Records, in order.
    pub records: Vec<T>,
    /// Bytes at the end that belong to no whole frame.
    pub torn_bytes: u64,
}

impl Log {
    /// Opens a log to add to, or makes it; what is torn at its end is cut off.
    ///
    /// # Errors
    /// The file can't be opened, read or cut.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = frames(&bytes).last().map_or(0, |frame| frame.end) as u64;
        if whole < bytes.len() as u64 {
            file.set_len(whole)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(whole))?;
        Ok(Self { file, pending: Vec::new(), committed_bytes: whole })
    }

    /// Adds a record to the next frame.
    ///
    /// # Errors
    /// The record can't be written as JSON.
    pub fn push(&mut self, record: &impl Serialize) -> io::Result<()> {
        let start = self.pending.len();
        if let Err(error) = serde_json::to_writer(&mut self.pending, record) {
            self.pending.truncate(start);
            return Err(error.into());
        }
        self.pending.push(b'\n');
        Ok(())
    }

    /// Writes what was pushed as one frame, and returns when it is on the disk.
    ///
    /// # Errors
    /// The disk is full or failed. The file then ends with the last whole frame, and what was pushed
    /// is still pending, so that a later commit may succeed.
    pub fn commit(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let frame = compressed(&self.pending)?;
        let written = self.file.write_all(&frame).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.file.set_len(self.committed_bytes)?;
            self.file.seek(SeekFrom::Start(self.committed_bytes))?;
            return Err(error);
        }
        self.committed_bytes += frame.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Size of what is committed, to come back to with [`Self::cut_back`].
    pub const fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    /// Forgets everything after the first `bytes`, and what is pending.
    ///
    /// # Errors
    /// `bytes` is more than was committed, or the file can't be cut.
    pub fn cut_back(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.committed_bytes {
            let message = format!("the log has {} bytes, not {bytes}", self.committed_bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.pending.clear();
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes))?;
        self.committed_bytes = bytes;
        self.file.sync_all()
    }
}

/// All records of a log's whole frames.
///
/// # Errors
/// The file can't be read, or a line of a whole frame is no such record; the message names the line.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Contents<T>> {
    let bytes = std::fs::read(path)?;
    let mut records = Vec::new();
    let mut end = 0;
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    for frame in frames(&bytes) {
        end = frame.end;
        for line in frame.text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record = serde_json::from_slice(line).map_err(|error| {
                let number = records.len() + 1;
                invalid(format!("{}: record {number}: {error}", path.display()))
            })?;
            records.push(record);
        }
    }
    Ok(Contents { records, torn_bytes: (bytes.len() - end) as u64 })
}

/// One frame with a checksum, so that a frame whose middle was never written is not taken for whole.
fn compressed(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.write_all(text)?;
    encoder.finish()
}

struct Frame {
    text: Vec<u8>,
    end: usize,
}

/// Whole frames from the start; the first that isn't whole ends them.
fn frames(bytes: &[u8]) -> impl Iterator<Item = Frame> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let length = zstd::zstd_safe::find_frame_compressed_size(rest).ok()?;
        let mut text = Vec::new();
        let decoder = zstd::stream::read::Decoder::new(rest.get(..length)?).ok()?;
        decoder.take(MAX_FRAME_BYTES as u64 + 1).read_to_end(&mut text).ok()?;
        if text.len() > MAX_FRAME_BYTES {
            return None;
        }
        at += length;
        Some(Frame { text, end: at })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(path: &Path, frames: &[Vec<u32>]) {
        let mut log = Log::open(path).expect("a log");
        for frame in frames {
            for record in frame {
                log.push(record).expect("pushed");
            }
            log.commit().expect("committed");
        }
    }

    #[test]
    fn what_is_not_committed_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl.zst");
        let mut log = Log::open(&path).expect("a log");
        log.push(&1).expect("pushed");
        log.commit().expect("committed");
        let mark = log.committed_bytes();
        log.push(&2).expect("pushed");
        assert_eq!(read::<u32>(&path).expect("read").records, [1]);
        log.commit().expect("committed");
        assert_eq!(read::<u32>(&path).expect("read").records, [1, 2]);
        log.cut_back(mark).expect("cut");
        assert_eq!(read::<u32>(&path).expect("read").records, [1]);
        assert!(log.cut_back(mark + 1).is_err());
    }

    #[test]
    fn a_record_of_another_kind_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl.zst");
        let mut log = Log::open(&path).expect("a log");
        log.push(&1).expect("pushed");
        log.push(&"two").expect("pushed");
        log.commit().expect("committed");
        let error = read::<u32>(&path).expect_err("no number");
        assert!(error.to_string().contains("record 2"), "{error}");
    }

    proptest! {
        // Each case waits for the disk several times.
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Cut anywhere, or followed by anything, a log keeps its whole frames and can be added to.
        #[test]
        fn a_torn_tail_costs_only_itself(
            frames in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..20), 1..6),
            cut in 0.0_f64..1.0,
            junk in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("log.jsonl.zst");
            log(&path, &frames);
            let mut bytes = std::fs::read(&path).expect("bytes");
            bytes.truncate((bytes.len() as f64 * cut) as usize);
            // Junk that is itself a whole frame would be one.
            bytes.extend(junk.iter().map(|byte| byte | 0x80));
            std::fs::write(&path, &bytes).expect("written");
            let all: Vec<u32> = frames.concat();
            let contents = read::<u32>(&path).expect("read");
            prop_assert!(all.starts_with(&contents.records));
            log(&path, &[vec![7]]);
            let mut expected = contents.records;
            expected.push(7);
            let after = read::<u32>(&path).expect("read");
            prop_assert_eq!(after, Contents { records: expected, torn_bytes: 0 });
        }
    }
}
