//! Records of a step's tasks, read one by one.
//!
//! Invariant: what comes out has passed its check and is of a form that is known here.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{Error, on_file};
use super::files::open_ordinary;
use crate::episode::{Evaluated, Group, Misfit, SCHEMA_VERSION, TaskId};
use crate::log::Records;

/// What was written of a step's tasks, one of them in memory at a time. The first error is the last
/// item.
#[derive(Debug)]
pub struct Written<T> {
    path: PathBuf,
    step: u64,
    records: Option<Records<T>>,
}

/// What is read of a record that can't be read whole.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// A record of one task.
trait OfTask: DeserializeOwned {
    fn task(&self) -> &TaskId;
    fn check(&self) -> Result<(), Misfit>;
}

impl OfTask for Group {
    fn task(&self) -> &TaskId {
        &self.task
    }

    fn check(&self) -> Result<(), Misfit> {
        self.check()
    }
}

impl OfTask for Evaluated {
    fn task(&self) -> &TaskId {
        &self.task
    }

    fn check(&self) -> Result<(), Misfit> {
        self.check()
    }
}

#[expect(private_bounds, reason = "only records that can be checked are read so")]
impl<T: OfTask> Written<T> {
    pub(super) fn open(path: PathBuf, step: u64) -> Result<Self, Error> {
        open_ordinary(&path)?;
        let records = Records::open(&path).map_err(on_file("read", &path))?;
        Ok(Self { path, step, records: Some(records) })
    }

    fn read(&mut self) -> Result<Option<T>, Error> {
        let Some(records) = &mut self.records else { return Ok(None) };
        let Some(record) = records.next() else { return Ok(None) };
        let record = record.map_err(|error| {
            // A newer form need not look like this one.
            match serde_json::from_slice(records.line()) {
                Ok(Schema { schema }) if schema > SCHEMA_VERSION => Error::NewerSchema {
                    path: self.path.clone(),
                    found: u64::from(schema),
                    known: SCHEMA_VERSION,
                },
                _ => on_file("read", &self.path)(error),
            }
        })?;
        match record.check() {
            Ok(()) => Ok(Some(record)),
            Err(source) => {
                let task = record.task().0.clone();
                Err(Error::Group { step: self.step, task, source })
            }
        }
    }
}

impl<T: OfTask> Iterator for Written<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.read().inspect_err(|_| self.records = None);
        record.transpose()
    }
}
