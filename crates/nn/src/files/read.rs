//! From stored tensors to [`Parameters`], in parallel.
//!
//! Invariant: memory for the values is taken only once every tensor of the layout is known to be
//! there, of the right shape and format. Every value is looked at, and one that is no number is
//! refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use super::number_format::NumberFormat;
use super::{Error, Progress};
use crate::config::ModelConfig;
use crate::parameters::{Layout, Parameters, all_finite};

/// Values that one task decodes, about: small enough to spread, large enough to pay.
const TASK_VALUES: usize = 1 << 18;

/// A tensor in a mapped file.
#[derive(Debug, Clone)]
pub(super) struct Stored<'a> {
    /// The file, for messages.
    pub path: &'a Path,
    /// Its name there.
    pub name: &'a str,
    /// Slowest dimension first.
    pub shape: &'a [u64],
    /// How it is stored; a name where that can't be read.
    pub format: Result<NumberFormat, String>,
    /// Its bytes, as many as shape and format say.
    pub bytes: &'a [u8],
    /// Order of its rows.
    pub rows: RowOrder,
}

/// Where row `i` of a matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// At `i`.
    Same,
    /// In each group of `head_size` rows, the first half at even places and the second at odd ones:
    /// the order of queries and keys in GGUF files of the `llama` architecture, which rotate
    /// neighbours where Hugging Face rotates halves.
    Interleaved {
        /// Rows of a head.
        head_size: usize,
    },
}

impl RowOrder {
    const fn stored_at(self, row: usize) -> usize {
        match self {
            Self::Same => row,
            Self::Interleaved { head_size } => {
                let (head, row) = (row / head_size, row % head_size);
                let half = head_size / 2;
                head * head_size + row % half * 2 + row / half
            }
        }
    }
}

/// Part of a tensor: some of its rows, and where their values go.
struct Task<'a, 'v> {
    stored: &'a Stored<'a>,
    format: NumberFormat,
    first_row: usize,
    columns: usize,
    values: &'v mut [f32],
}

/// Reads every weight of `config` from `stored`, which is keyed by Hugging Face's names.
///
/// `whole` names the model in messages about several files. Names that are left over are refused.
pub(super) fn parameters(
    whole: &Path,
    config: &ModelConfig,
    stored: &BTreeMap<String, Stored<'_>>,
    progress: Progress<'_>,
) -> Result<Parameters, Error> {
    let layout = Arc::new(Layout::new(config));
    let formats = check(whole, &layout, stored)?;
    let mut parameters = Parameters::zeros(Arc::clone(&layout));
    let mut rest = parameters.values_mut();
    let mut tasks = Vec::new();
    for ((stored, format), tensor) in formats.into_iter().zip(layout.tensors()) {
        let (values, after) = rest.split_at_mut(tensor.range.len());
        rest = after;
        let columns = tensor.shape.last().copied().unwrap_or(1);
        let rows_of_task = (TASK_VALUES / columns).max(1);
        let parts = values.chunks_mut(rows_of_task * columns).enumerate();
        tasks.extend(parts.map(|(index, values)| {
            let first_row = index * rows_of_task;
            Task { stored, format, first_row, columns, values }
        }));
    }
    run(tasks, progress)?;
    Ok(parameters)
}

/// Names and shapes: all there, nothing else there, each as it should be. Gives the tensors in the
/// order of the layout.
fn check<'a, 'm>(
    whole: &Path,
    layout: &Layout,
    stored: &'a BTreeMap<String, Stored<'m>>,
) -> Result<Vec<(&'a Stored<'m>, NumberFormat)>, Error> {
    let expected = layout.tensors();
    let names = expected.iter().map(|tensor| &tensor.name);
    let missing: Vec<String> = names.filter(|name| !stored.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(Error::MissingTensors { path: whole.into(), names: missing });
    }
    if stored.len() > expected.len() {
        let known: std::collections::HashSet<&str> =
            expected.iter().map(|tensor| tensor.name.as_str()).collect();
        let extra = stored.iter().filter(|(name, _)| !known.contains(name.as_str()));
        let names = extra.map(|(_, tensor)| tensor.name.to_owned()).collect();
        return Err(Error::ExtraTensors { path: whole.into(), names });
    }
    let mut found = Vec::with_capacity(expected.len());
    for tensor in expected {
        let Some(stored) = stored.get(&tensor.name) else { continue };
        let shape: Vec<u64> = tensor.shape.iter().map(|size| *size as u64).collect();
        found.push((stored, check_one(stored, &shape)?));
    }
    Ok(found)
}

/// Shape and format of one tensor.
pub(super) fn check_one(stored: &Stored<'_>, shape: &[u64]) -> Result<NumberFormat, Error> {
    if stored.shape != shape {
        return Err(Error::Shape {
            path: stored.path.into(),
            tensor: stored.name.into(),
            expected: shape.into(),
            found: stored.shape.into(),
        });
    }
    stored.format.clone().map_err(|found| Error::Type {
        path: stored.path.into(),
        tensor: stored.name.into(),
        found,
        supported: "F32, F16, BF16, and in GGUF Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K",
    })
}

/// Decodes everything. Of several bad values, the first in the order of the layout is told.
fn run(tasks: Vec<Task<'_, '_>>, progress: Progress<'_>) -> Result<(), Error> {
    let total: usize = tasks.iter().map(|task| task.values.len()).sum();
    let (total, done) = (total as u64 * 4, AtomicU64::new(0));
    let failed = tasks.into_par_iter().map(|task| {
        let bytes = task.values.len() as u64 * 4;
        let result = task.run();
        progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        result
    });
    failed.find_map_first(Result::err).map_or(Ok(()), Err)
}

impl Task<'_, '_> {
    fn run(self) -> Result<(), Error> {
        let Self { stored, format, first_row, columns, values } = self;
        let row_bytes = columns / format.block_values() * format.block_bytes();
        if stored.rows == RowOrder::Same {
            format.decode(&stored.bytes[first_row * row_bytes..], values);
        } else {
            for (index, values) in values.chunks_exact_mut(columns).enumerate() {
                let row = stored.rows.stored_at(first_row + index);
                format.decode(&stored.bytes[row * row_bytes..], values);
            }
        }
        refuse_no_number(stored, first_row * columns, values)
    }
}

/// Every value is finite.
pub(super) fn refuse_no_number(
    stored: &Stored<'_>,
    offset: usize,
    values: &[f32],
) -> Result<(), Error> {
    if all_finite(values) {
        return Ok(());
    }
    let found = values.iter().enumerate().find(|(_, value)| !value.is_finite());
    found.map_or(Ok(()), |(index, value)| {
        Err(Error::NotFinite {
            path: stored.path.into(),
            tensor: stored.name.into(),
            index: offset + index,
            value: *value,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::RowOrder;

    #[test]
    fn interleaved_rows_are_found_again() {
        let order = RowOrder::Interleaved { head_size: 6 };
        // Written as llama.cpp's converter does: a head's rows as (2, half), transposed.
        let stored: Vec<usize> =
            (0..2).flat_map(|head| [0, 3, 1, 4, 2, 5].map(|row| head * 6 + row)).collect();
        for row in 0..12 {
            assert_eq!(stored[order.stored_at(row)], row);
        }
    }
}
