//! The metrics of a run as columns.
//!
//! Invariant: reading on costs what is new; a run that went on from an earlier step is read again
//! from its start, which [`Curves::generation`] tells; memory is bounded by `MOST_ROWS` and
//! `MOST_NUMBERS` whatever the file holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rocstar_record::run::{LinePlace, Notice, Problem, Reader};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Error;

/// Rows of a kind that are kept.
const MOST_ROWS: usize = 100_000;
/// Different numbers in the lines of a kind.
const MOST_COLUMNS: usize = 128;
/// Numbers of all kinds, those among them that are not there: 32 MiB.
const MOST_NUMBERS: usize = 4_000_000;
/// Letters of a number's or a kind's name.
const MOST_LETTERS: usize = 100;
/// Kinds of lines.
const MOST_KINDS: usize = 16;
/// Lines that can't be read, of which the rest is only counted.
const MOST_NOTICES: usize = 20;

/// What was read of a run's metrics.
#[derive(Debug, Default)]
pub struct Curves {
    kinds: BTreeMap<String, Rows>,
    notices: Vec<String>,
    bad_lines: usize,
    is_torn: bool,
    place: LinePlace,
    numbers: usize,
    generation: Generation,
}

/// A number that no other reading has, nor one of a process before: what a page kept of one reading is
/// never taken for a part of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Generation(u64);

impl Default for Generation {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now_ms = crate::run::unix_ms(SystemTime::now()).unwrap_or(0);
        NEXT.fetch_max(now_ms, Ordering::Relaxed);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The lines of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rows {
    /// The step of each.
    pub steps: Vec<u64>,
    /// The numbers of each by name; NaN, which is written as `null`, where there is none.
    pub columns: BTreeMap<String, Vec<f64>>,
}

impl Curves {
    /// Reads what is new.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn read_on(&mut self, reader: &Reader) -> Result<(), Error> {
        let mut lines = match reader.metrics_behind(&self.place)? {
            Some(lines) => lines,
            None => {
                *self = Self::default();
                reader.metrics()?
            }
        };
        self.is_torn = false;
        while let Some(line) = lines.next() {
            match line {
                Ok(Value::Object(line)) => self.push(&line),
                Ok(_) => self.note(format!("metrics.jsonl:{}: no object", lines.place().lines())),
                // It may be whole the next time.
                Err(Notice { problem: Problem::Torn, .. }) => self.is_torn = true,
                Err(notice) => {
                    // The path of the run's directory is known to whoever looks at it.
                    let text = notice.to_string();
                    let at = text.rfind("metrics.jsonl").unwrap_or(0);
                    self.note(text[at..].to_owned());
                }
            }
        }
        self.place = lines.place().clone();
        Ok(())
    }

    fn note(&mut self, text: String) {
        self.bad_lines += 1;
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(text);
        }
    }

    fn push(&mut self, line: &Map<String, Value>) {
        let kind = line.get("kind").and_then(Value::as_str).unwrap_or_default();
        let Some(step) = line.get("step").and_then(Value::as_u64) else {
            return self.note("metrics.jsonl: a line without `step`".to_owned());
        };
        let is_new = !self.kinds.contains_key(kind);
        if is_new && (self.kinds.len() >= MOST_KINDS || kind.len() > MOST_LETTERS) {
            return self.note(format!("metrics.jsonl: step {step}: too many kinds of lines"));
        }
        let rows = self.kinds.entry(kind.to_owned()).or_default();
        let row = rows.steps.len();
        let (numbers, more) = rows.fitting(line);
        // A row is kept whole or not at all: half of one would tell wrong sums.
        if row >= MOST_ROWS || self.numbers + more > MOST_NUMBERS {
            return self.note(format!("metrics.jsonl: step {step}: not shown, there are too many"));
        }
        self.numbers += more;
        rows.steps.push(step);
        for (name, value) in numbers {
            let column = rows.columns.entry(name.to_owned()).or_default();
            column.resize(row, f64::NAN);
            column.push(value);
        }
    }

    /// Numbers that are kept, and places of some that are not there.
    pub const fn numbers(&self) -> usize {
        self.numbers
    }

    /// Which reading of the run this is: what was read from its start again has another number.
    pub const fn generation(&self) -> u64 {
        self.generation.0
    }

    /// What could not be read.
    pub fn notices(&self) -> Vec<String> {
        let mut all = self.notices.clone();
        let more = self.bad_lines - self.notices.len();
        if more > 0 {
            all.push(format!("metrics.jsonl: {more} more lines can't be read"));
        }
        if self.is_torn {
            all.push("metrics.jsonl: the last line is not whole".to_owned());
        }
        all
    }

    /// The lines of a kind.
    pub fn rows(&self, kind: &str) -> Option<&Rows> {
        self.kinds.get(kind)
    }

    /// All kinds with their lines.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &Rows)> {
        self.kinds.iter().map(|(kind, rows)| (kind.as_str(), rows))
    }

    /// The last step that is told of.
    pub fn last_step(&self) -> Option<u64> {
        self.kinds.values().filter_map(|rows| rows.steps.last().copied()).max()
    }

    /// The kind of line that says most of the run: its steps, and of the last stage.
    pub fn main_kind(&self) -> Option<&str> {
        ["rl_step", "sft_step", "rl_evaluation", "sft_evaluation"]
            .into_iter()
            .find(|kind| self.kinds.contains_key(*kind))
            .or_else(|| self.kinds.keys().next().map(String::as_str))
    }

    /// Stage and first task, by its number within the stage, of a step of reinforcement learning:
    /// tasks are numbered through a stage in the order in which their groups are written. `None` where
    /// the lines don't tell how many there were before.
    pub fn place(&self, step: u64) -> Option<(usize, u64)> {
        let rows = self.rows("rl_step")?;
        let at = rows.steps.iter().position(|known| *known == step)?;
        let stage = rows.value("stage", at)?;
        let before = (0..at).filter(|row| rows.value("stage", *row) == Some(stage));
        let tasks: Option<f64> = before.map(|row| rows.value("groups", row)).sum();
        Some((stage as usize, tasks? as u64))
    }
}

impl Rows {
    /// The numbers of a line that have a place, and by how many places that makes the rows longer.
    fn fitting<'l>(&self, line: &'l Map<String, Value>) -> (Vec<(&'l str, f64)>, usize) {
        let (mut numbers, mut columns, mut more) = (Vec::new(), self.columns.len(), 1);
        for (name, value) in line {
            let Some(value) = value.as_f64().filter(|_| name != "step") else { continue };
            let length = self.columns.get(name).map(Vec::len);
            if length.is_none() && (columns >= MOST_COLUMNS || name.len() > MOST_LETTERS) {
                continue;
            }
            columns += usize::from(length.is_none());
            more += self.steps.len() + 1 - length.unwrap_or(0);
            numbers.push((name.as_str(), value));
        }
        (numbers, more)
    }

    /// A number of a row.
    pub fn value(&self, name: &str, row: usize) -> Option<f64> {
        self.columns.get(name)?.get(row).copied().filter(|value| !value.is_nan())
    }

    /// The last number of this name.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.columns.get(name)?.iter().rev().copied().find(|value| !value.is_nan())
    }

    /// A column, thinned out to at most `most` numbers by means of neighbours.
    pub fn thinned(&self, name: &str, most: usize) -> Vec<f64> {
        let Some(all) = self.columns.get(name) else { return Vec::new() };
        let each = all.len().div_ceil(most.max(1)).max(1);
        let mean = |part: &[f64]| {
            let numbers = part.iter().filter(|value| !value.is_nan());
            numbers.clone().sum::<f64>() / numbers.count() as f64
        };
        all.chunks(each).map(mean).filter(|value| value.is_finite()).collect()
    }

    /// The rows from `first` on.
    pub fn behind(&self, first: usize) -> Self {
        let part = |all: &Vec<f64>| {
            // A column may be shorter than the rows: its last numbers are not there.
            let mut all = all.get(first..).unwrap_or_default().to_vec();
            all.resize(self.steps.len().saturating_sub(first), f64::NAN);
            all
        };
        Self {
            steps: self.steps.get(first..).unwrap_or_default().to_vec(),
            columns: self.columns.iter().map(|(name, all)| (name.clone(), part(all))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn run(metrics: &str) -> (tempfile::TempDir, Reader) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.toml"), "").unwrap();
        std::fs::write(folder.path().join("metrics.jsonl"), metrics).unwrap();
        let reader = Reader::open(folder.path()).unwrap();
        (folder, reader)
    }

    #[test]
    fn what_is_new_is_added_and_a_shorter_file_begins_anew() {
        let first = "{\"kind\":\"rl_step\",\"step\":1,\"stage\":0,\"groups\":4,\"loss\":0.5}\n\
                     {\"kind\":\"rl_step\",\"step\":2,\"stage\":0,\"groups\":4,\"loss\":null}\n";
        let (folder, reader) = run(&(first.to_owned() + "{\"kind\":\"rl_st"));
        let path = folder.path().join("metrics.jsonl");
        let mut curves = Curves::default();
        curves.read_on(&reader).unwrap();
        assert_eq!(curves.rows("rl_step").unwrap().steps, [1, 2]);
        assert_eq!(curves.notices().len(), 1, "{:?}", curves.notices());
        let generation = curves.generation();
        std::fs::write(&path, first).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(
            b"{\"kind\":\"rl_step\",\"step\":3,\"stage\":0,\"groups\":2,\"loss\":0.25}\n",
        )
        .unwrap();
        curves.read_on(&reader).unwrap();
        let rows = curves.rows("rl_step").unwrap();
        assert_eq!(rows.steps, [1, 2, 3]);
        assert_eq!((rows.value("loss", 1), rows.last("loss")), (None, Some(0.25)));
        assert_eq!(rows.behind(2).columns["loss"], [0.25]);
        assert_eq!(curves.place(3), Some((0, 8)));
        assert_eq!(curves.generation(), generation);
        std::fs::write(&path, first.lines().next().unwrap().to_owned() + "\n").unwrap();
        curves.read_on(&reader).unwrap();
        assert_eq!(curves.rows("rl_step").unwrap().steps, [1]);
        assert_ne!(curves.generation(), generation);
        assert_ne!(Curves::default().generation(), Curves::default().generation());
    }

    /// A run that went on from an earlier step, with lines as long as those before.
    #[test]
    fn other_lines_of_the_same_length_are_another_reading() {
        let line = |step: u64, loss: f64| {
            format!("{{\"kind\":\"rl_step\",\"step\":{step},\"loss\":{loss:.3}}}\n")
        };
        let (folder, reader) = run(&(line(1, 0.5) + &line(2, 0.25)));
        let mut curves = Curves::default();
        curves.read_on(&reader).unwrap();
        let other = line(1, 0.5) + &line(2, 0.75) + &line(3, 0.125);
        std::fs::write(folder.path().join("metrics.jsonl"), other).unwrap();
        curves.read_on(&reader).unwrap();
        assert_eq!(curves.rows("rl_step").unwrap().columns["loss"], [0.5, 0.75, 0.125]);
    }

    /// What is being written is neither read again and again from the start, nor counted as a line.
    #[test]
    fn a_long_torn_line_leaves_the_reading_as_it_is() {
        let mut text = "{\"kind\":\"rl_step\",\"step\":1}\n".to_owned();
        text.extend(std::iter::repeat_n('[', 2 << 20));
        let (_folder, reader) = run(&text);
        let mut curves = Curves::default();
        let generation = curves.generation();
        for _ in 0..3 {
            curves.read_on(&reader).unwrap();
            assert_eq!((curves.generation(), curves.place.lines()), (generation, 1));
            assert_eq!(curves.notices(), ["metrics.jsonl: the last line is not whole"]);
        }
    }

    #[test]
    fn numbers_are_bounded_over_all_kinds() {
        let mut text: String =
            (0..50_000).map(|step| format!("{{\"kind\":\"k\",\"step\":{step}}}\n")).collect();
        let wide: String = (0..100).map(|name| format!(",\"n{name}\":1")).collect();
        text += &format!("{{\"kind\":\"k\",\"step\":1{wide}}}\n");
        text += &format!("{{\"kind\":\"other\",\"step\":2,\"{}\":1}}\n", "x".repeat(101));
        let (_folder, reader) = run(&text);
        let mut curves = Curves::default();
        curves.read_on(&reader).unwrap();
        assert_eq!(
            (curves.numbers(), curves.notices().len()),
            (50_001, 1),
            "{:?}",
            curves.notices()
        );
        assert!(curves.rows("other").unwrap().columns.is_empty());
    }

    #[test]
    fn a_place_is_known_where_every_line_before_tells_its_groups() {
        let line = |step: u64, rest: &str| {
            format!("{{\"kind\":\"rl_step\",\"step\":{step},\"stage\":{rest}}}\n")
        };
        let text = [
            line(1, "0,\"groups\":4"),
            line(2, "0"),
            line(3, "0,\"groups\":4"),
            line(4, "1,\"groups\":4"),
            line(5, "1,\"groups\":4"),
        ];
        let (_folder, reader) = run(&text.concat());
        let mut curves = Curves::default();
        curves.read_on(&reader).unwrap();
        let places: Vec<_> = (1..=6).map(|step| curves.place(step)).collect();
        let expected = [Some((0, 0)), Some((0, 4)), None, Some((1, 0)), Some((1, 4)), None];
        assert_eq!(places, expected);
    }

    #[test]
    fn hostile_lines_cost_themselves() {
        let mut text = String::from("7\n{\"step\":-1}\n{\"kind\":\"rl_step\",\"step\":1}\n");
        for kind in 0..100 {
            text += &format!("{{\"kind\":\"k{kind}\",\"step\":1}}\n");
        }
        let (_folder, reader) = run(&text);
        let mut curves = Curves::default();
        curves.read_on(&reader).unwrap();
        assert_eq!(curves.kinds().count(), MOST_KINDS);
        assert!(curves.notices().len() <= MOST_NOTICES + 1);
        assert_eq!(curves.main_kind(), Some("rl_step"));
    }
}
