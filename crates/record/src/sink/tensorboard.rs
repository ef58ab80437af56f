//! TensorBoard's event files.
//!
//! Invariant: what is in the file is whole records, one write each. A process never adds to another's
//! file: each has its own, whose name sorts behind those that are there, since TensorBoard reads them
//! in that order. A run that goes on from an earlier step says so first, and TensorBoard then forgets
//! what the former files have of later steps.
//!
//! A record is TFRecord's: the length, its checksum, the bytes, their checksum; the bytes are a
//! message `tensorflow.Event` (`tensorflow/core/util/event.proto`), of which a few fields are written.

mod message;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{At, Sink};
use crate::metric::{self, Place};

/// An event file that is written.
#[derive(Debug)]
pub struct TensorBoard {
    path: PathBuf,
    file: File,
}

impl TensorBoard {
    /// Begins an event file in `folder`, which is made. For a run that goes on, `from_step` is the
    /// first step that is told anew: what earlier files have of it and of later ones no longer holds.
    ///
    /// # Errors
    /// The folder or the file can't be written.
    pub fn create(folder: &Path, unix_s: f64, from_step: Option<u64>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(next_name(folder, unix_s)?);
        let file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        let mut sink = Self { path, file };
        sink.write(&message::version(unix_s))?;
        if let Some(step) = from_step {
            sink.write(&message::session_start(unix_s, step))?;
        }
        Ok(sink)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        self.file.write_all(&record::framed(event))
    }
}

impl Sink for TensorBoard {
    fn take(&mut self, at: At, values: &[(&str, f64)]) -> io::Result<()> {
        let values = values.iter().map(|(name, value)| (tag(at.place, name), *value as f32));
        self.write(&message::scalars(at.unix_s, at.step, &values.collect::<Vec<_>>()))
    }
}

/// What TensorBoard calls a metric; it shows those with the same first part together.
fn tag(place: Place, name: &str) -> String {
    if place.is_evaluation() {
        return format!("evaluation/{name}");
    }
    let topic = metric::find_with_topic(name).map_or("other", |(topic, _)| topic.name);
    format!("{topic}/{name}")
}

/// A name that sorts behind those of the files that are there: its time is later than theirs, should
/// the clock say otherwise.
fn next_name(folder: &Path, unix_s: f64) -> io::Result<String> {
    let mut second = unix_s.max(0.0) as u64;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix("events.out.tfevents."));
        let found = rest.and_then(|rest| rest.split('.').next()?.parse::<u64>().ok());
        second = second.max(found.map_or(0, |found| found.saturating_add(1)));
    }
    Ok(format!("events.out.tfevents.{second:010}.rocstar.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_sort_in_the_order_in_which_they_were_begun() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("tb");
        let names: Vec<PathBuf> = [1000.7, 1000.9, 10.0]
            .into_iter()
            .map(|unix_s| TensorBoard::create(&folder, unix_s, None).unwrap().path().to_owned())
            .collect();
        let process = std::process::id();
        let last = format!("events.out.tfevents.0000001002.rocstar.{process}");
        assert!(names.is_sorted() && names[2].ends_with(last), "{names:?}");
    }

    #[test]
    fn tags_are_grouped_by_topic() {
        assert_eq!(tag(Place::RlStep, "accuracy"), "reward/accuracy");
        assert_eq!(tag(Place::RlStep, "of_my_own"), "other/of_my_own");
        assert_eq!(tag(Place::RlEvaluation, "accuracy"), "evaluation/accuracy");
    }
}
