//! Records of a step's tasks, as whatever view of them a page needs.
//!
//! Invariant: what a newer rocstar wrote is told and never guessed at: it ends the reading, as does
//! damage.

use rocstar_record::episode::{Evaluated, Group, SCHEMA_VERSION};
use rocstar_record::log::Records;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Run;
use crate::Error;
use crate::sketch::{EvaluatedSketch, GroupSketch};

/// A view of a record that says who wrote it.
pub trait View: DeserializeOwned {
    /// The writer's schema.
    fn schema(&self) -> u32;
}

impl View for Group {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl View for GroupSketch {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl View for Evaluated {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl View for EvaluatedSketch {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// What is read of a record that can't be read whole.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// Records of a step. The first error is the last item.
#[derive(Debug)]
pub struct Views<'r, T> {
    run: &'r Run,
    step: u64,
    records: Records<T>,
    has_ended: bool,
}

impl<T: View> Iterator for Views<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let view = self.records.next()?.map_err(|error| error.to_string());
        let schema = match &view {
            Ok(view) => Some(view.schema()),
            // A newer form need not look like this one.
            Err(_) => {
                serde_json::from_slice(self.records.line()).ok().map(|Schema { schema }| schema)
            }
        };
        let is_newer = schema.is_some_and(|schema| schema > SCHEMA_VERSION);
        let view = if is_newer {
            Err("a newer rocstar wrote it: update this one".to_owned())
        } else {
            view
        };
        self.has_ended = view.is_err();
        Some(view.map_err(|message| self.told(&message)))
    }
}

impl<T: View> Views<'_, T> {
    /// The record of this number, from 0; `None` where there are not so many.
    ///
    /// # Errors
    /// It can't be read, or something before it.
    pub(crate) fn record(mut self, number: u64) -> Result<Option<T>, Error> {
        let there = self.records.pass_over(number);
        if !there.map_err(|error| self.told(&error.to_string()))? {
            return Ok(None);
        }
        self.next().transpose()
    }

    fn told(&self, message: &str) -> Error {
        Error::Record { step: self.step, message: self.run.without_path(message) }
    }
}

impl Run {
    /// The groups of a step, in their order.
    ///
    /// # Errors
    /// There are none of this step, or the file can't be opened.
    pub fn groups<T: View>(&self, step: u64) -> Result<Views<'_, T>, Error> {
        let records = self.reader.groups_as(step)?;
        Ok(Views { run: self, step, records, has_ended: false })
    }

    /// The tasks of the evaluation of `suite` after `step`, in their order.
    ///
    /// # Errors
    /// There are none, or the file can't be opened.
    pub fn evaluated<T: View>(&self, suite: &str, step: u64) -> Result<Views<'_, T>, Error> {
        let records = self.reader.evaluated_as(suite, step)?;
        Ok(Views { run: self, step, records, has_ended: false })
    }
}
