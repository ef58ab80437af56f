//! Append-only compressed logs: a line of JSON a record, Zstandard frames, whole after any crash.
//!
//! Invariant: each [`Log::commit`] adds frames that hold whole lines: one, or several where there is
//! much to write. A process or machine that dies while writing leaves at most one torn frame at the
//! end; [`Log::open`] cuts it off, and [`read`] stops before it and says so. Damage elsewhere, with
//! whole frames behind it, is an error: nothing of what was committed is ever cut off for it. Frames
//! one after another are an ordinary `.zst` file, so `zstdcat` reads it too.

mod records;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use records::Records;

/// Compression level: fast, and within a few per cent of the default's size on token lists.
const LEVEL: i32 = 1;
/// Largest frame that is read, uncompressed: what a hostile file may make a reader allocate.
const MAX_FRAME_BYTES: usize = 1 << 30;
/// Lines beyond this size, uncompressed, go into a frame of their own, well below what is read.
const FRAME_BYTES: usize = 64 << 20;
/// A log that is written at once has frames that are small enough for a reader to hold some.
const WRITTEN_FRAME_BYTES: usize = 8 << 20;
/// Longest line. A group of 32 rollouts of 32,768 tokens each is about 50 MB.
const MAX_LINE_BYTES: usize = 256 << 20;
/// How every frame begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// Lines that the next frame will hold.
    pending: Vec<u8>,
    /// End of the last whole frame.
    committed_bytes: u64,
    /// Ends of all whole frames.
    ends: Vec<u64>,
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
    /// The file can't be opened, read or cut; or it is no log, or damaged before its end, and then
    /// it is left as it is.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        if is_new {
            // The file's name must outlive a crash as its content does.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let ends: Vec<usize> = frames(&bytes).map(|frame| frame.end).collect();
        let whole = ends.last().copied().unwrap_or(0);
        check_torn(path, &bytes, whole)?;
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(whole as u64))?;
        let ends = ends.into_iter().map(|end| end as u64).collect();
        Ok(Self { file, pending: Vec::new(), committed_bytes: whole as u64, ends })
    }

    /// Adds a record to the next frame.
    ///
    /// # Errors
    /// The record can't be written as JSON, or is longer than a frame that is read.
    pub fn push(&mut self, record: &impl Serialize) -> io::Result<()> {
        push_line(&mut self.pending, record)
    }

    /// Writes what was pushed, and returns when it is on the disk. It is one frame, or for more than
    /// 64 MiB several, of which a crash may leave the first ones.
    ///
    /// # Errors
    /// The disk is full or failed. The file then ends with the last whole frame, and what was pushed
    /// is still pending, so that a later commit may succeed.
    pub fn commit(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        // What an earlier commit failed to take back would stand between the frames.
        self.cut_file(self.committed_bytes)?;
        match self.write_pending() {
            Ok(ends) => {
                self.committed_bytes = ends.last().copied().unwrap_or(self.committed_bytes);
                self.ends.extend(ends);
                self.pending.clear();
                Ok(())
            }
            Err(error) => {
                // Should this fail too, the next commit or opening does it.
                let _ = self.cut_file(self.committed_bytes);
                Err(error)
            }
        }
    }

    /// Writes the pending lines behind what is committed; gives where each frame ends.
    fn write_pending(&mut self) -> io::Result<Vec<u64>> {
        let mut ends = Vec::new();
        let mut end = self.committed_bytes;
        for part in parts(&self.pending) {
            let frame = compressed(part)?;
            self.file.write_all(&frame)?;
            end += frame.len() as u64;
            ends.push(end);
        }
        self.file.sync_data()?;
        Ok(ends)
    }

    fn cut_file(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes)).map(|_| ())
    }

    /// Size of what is committed, to come back to with [`Self::cut_back`].
    pub const fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    /// Forgets everything after the first `bytes`, and what is pending.
    ///
    /// # Errors
    /// `bytes` was never the size of what is committed, or the file can't be cut.
    pub fn cut_back(&mut self, bytes: u64) -> io::Result<()> {
        if bytes != 0 && self.ends.binary_search(&bytes).is_err() {
            let found = self.committed_bytes;
            let message = format!("the log has {found} bytes, and no frame that ends at {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.pending.clear();
        self.cut_file(bytes)?;
        self.committed_bytes = bytes;
        self.ends.retain(|end| *end <= bytes);
        self.file.sync_all()
    }
}

/// Writes a whole log at once, in frames of some megabytes; gives its size in bytes.
///
/// # Errors
/// It can't be written, or a record is longer than what is read.
pub fn write<'a, T: Serialize + 'a>(
    file: &mut impl io::Write,
    records: impl IntoIterator<Item = &'a T>,
) -> io::Result<u64> {
    let mut records = records.into_iter().peekable();
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while let Some(record) = records.next() {
        push_line(&mut lines, record)?;
        if lines.len() >= WRITTEN_FRAME_BYTES || records.peek().is_none() {
            let frame = compressed(&lines)?;
            file.write_all(&frame)?;
            bytes += frame.len() as u64;
            lines.clear();
        }
    }
    Ok(bytes)
}

/// Adds a record's line to `lines`, or nothing.
fn push_line(lines: &mut Vec<u8>, record: &impl Serialize) -> io::Result<()> {
    let start = lines.len();
    if let Err(error) = serde_json::to_writer(&mut *lines, record) {
        lines.truncate(start);
        return Err(error.into());
    }
    let length = lines.len() - start;
    if length >= MAX_LINE_BYTES {
        lines.truncate(start);
        let message = format!("a record of {length} bytes; at most {MAX_LINE_BYTES} are read");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    lines.push(b'\n');
    Ok(())
}

/// All records of a log's whole frames.
///
/// # Errors
/// The file can't be read, is no log, is damaged before its end, or a line of a whole frame is no such
/// record; the message names the line.
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
    check_torn(path, &bytes, end)?;
    Ok(Contents { records, torn_bytes: (bytes.len() - end) as u64 })
}

/// Whether what follows the whole frames can be what a crash left of the last one. A whole frame
/// behind it shows that it is damage, and a file that begins otherwise is no log.
fn check_torn(path: &Path, bytes: &[u8], whole: usize) -> io::Result<()> {
    let tail = &bytes[whole..];
    let path = path.display();
    let damaged = |message: String| Err(io::Error::new(io::ErrorKind::InvalidData, message));
    // Of a file that grew before its data was written, the begin may be zeros.
    let begin = &tail[..tail.len().min(MAGIC.len())];
    if whole == 0 && !MAGIC.starts_with(begin) && begin.iter().any(|byte| *byte != 0) {
        return damaged(format!("{path} is no log: it does not begin as a Zstandard frame"));
    }
    let mut begins = (1..tail.len()).filter(|at| tail[*at..].starts_with(&MAGIC));
    let next = begins.find(|at| frames(&tail[*at..]).next().is_some());
    next.map_or(Ok(()), |at| {
        let next = whole + at;
        damaged(format!("{path} is damaged from byte {whole} on; a whole frame begins at {next}"))
    })
}

/// Lines in parts of about [`FRAME_BYTES`], none of them cut.
fn parts(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let from = rest.len().min(FRAME_BYTES).checked_sub(1)?;
        let end = rest[from..].iter().position(|byte| *byte == b'\n');
        let (part, after) = rest.split_at(end.map_or(rest.len(), |end| from + end + 1));
        rest = after;
        Some(part)
    })
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
        assert!(log.cut_back(mark - 1).is_err(), "within a frame");
    }

    #[test]
    fn damage_before_the_end_is_told_and_costs_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.jsonl.zst");
        log(&path, &[vec![1], vec![2], vec![3]]);
        let mut bytes = std::fs::read(&path).expect("bytes");
        let first = frames(&bytes).next().expect("a frame").end;
        bytes[first + 6] ^= 0xff;
        std::fs::write(&path, &bytes).expect("written");
        let error = Log::open(&path).expect_err("damage").to_string();
        assert!(error.contains(&format!("damaged from byte {first} on")), "{error}");
        assert_eq!(read::<u32>(&path).expect_err("damage").to_string(), error);
        assert_eq!(std::fs::read(&path).expect("bytes"), bytes);
    }

    #[test]
    fn another_file_is_not_taken_for_a_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "notes").expect("written");
        let error = Log::open(&path).expect_err("no log").to_string();
        assert!(error.contains("is no log"), "{error}");
        assert_eq!(std::fs::read(&path).expect("bytes"), b"notes");
    }

    #[test]
    fn much_text_becomes_several_frames_of_whole_lines() {
        let line = "x".repeat(1 << 16) + "\n";
        let lines = line.repeat(FRAME_BYTES / line.len() + 2);
        let found: Vec<&[u8]> = parts(lines.as_bytes()).collect();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|part| part.ends_with(b"\n")));
        assert_eq!(found.concat(), lines.as_bytes());
        assert_eq!(parts(b"").count(), 0);
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
            // Less than the begin of a frame, with anything behind, would be no log.
            bytes.truncate(((bytes.len() as f64 * cut) as usize).max(MAGIC.len()));
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
