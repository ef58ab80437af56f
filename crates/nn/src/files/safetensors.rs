//! The header of a safetensors file, read from bytes that may say anything.
//!
//! The format: eight bytes with the header's length, a JSON object of name → number format, shape
//! and place, then the data. Read here and not by the `safetensors` crate, because its
//! errors don't say which tensor is wrong.
//!
//! Invariant: the tensors of a [`Header`] that exists cover the data exactly, one after the other,
//! each of the size that its shape and format say (where the format is known).

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::gguf::Damage;
use super::number_format::NumberFormat;

/// As in the format's own reader: no header is longer.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The one name in a header that is no tensor's.
const METADATA: &str = "__metadata__";

/// What a file's header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Weights, in the order of their data.
    pub tensors: Vec<TensorInfo>,
}

/// One weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Slowest dimension first.
    pub shape: Vec<u64>,
    /// Its number format, as the file spells it.
    pub stored_as: String,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

impl TensorInfo {
    /// Its number format, or else the file's spelling of it.
    pub fn format(&self) -> Result<NumberFormat, String> {
        match self.stored_as.as_str() {
            "F32" => Ok(NumberFormat::F32),
            "F16" => Ok(NumberFormat::F16),
            "BF16" => Ok(NumberFormat::Bf16),
            other => Err(other.into()),
        }
    }
}

/// The header's JSON, in its order, names not yet compared.
struct Entries(Vec<(String, Value)>);

#[derive(Deserialize)]
struct Claim {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Header {
    /// Reads the header of the file that `bytes` is.
    ///
    /// # Errors
    /// The first part that contradicts the format, itself or the length of the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let (json, data) = split(bytes)?;
        let entries: Entries = serde_json::from_slice(&json)
            .map_err(|error| damage("header", format!("is not the expected JSON: {error}")))?;
        let mut tensors = Vec::with_capacity(entries.0.len());
        for (name, entry) in entries.0 {
            if name == METADATA {
                texts(&entry)?;
                continue;
            }
            let claim: Claim = serde_json::from_value(entry).map_err(|error| {
                damage(format!("tensor \"{name}\""), format!("is not as expected: {error}"))
            })?;
            tensors.push(claim.place(&name, data, bytes.len())?);
        }
        covering(&mut tensors, data, bytes.len())?;
        once(&tensors)?;
        Ok(Self { tensors })
    }
}

fn damage(field: impl Into<String>, problem: impl Into<String>) -> Damage {
    Damage { field: field.into(), problem: problem.into() }
}

/// The metadata, for people: an object of texts.
fn texts(metadata: &Value) -> Result<(), Damage> {
    let object = metadata.as_object();
    if object.is_some_and(|object| object.values().all(Value::is_string)) {
        return Ok(());
    }
    Err(damage(METADATA, "is no object of texts"))
}

/// The header's JSON, and where the data begins.
fn split(bytes: &[u8]) -> Result<(Vec<u8>, usize), Damage> {
    let field = "header length";
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        let problem = format!("is missing: the file has {} bytes", bytes.len());
        return Err(damage(field, problem));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES {
        let problem = format!("is {length} bytes, more than the {MAX_HEADER_BYTES} allowed");
        return Err(damage(field, problem));
    }
    let json = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    // Copied before it is read as text: the file may change under its map.
    let json = json.map(|json| (json.to_vec(), 8 + json.len()));
    json.ok_or_else(|| {
        let problem = format!("is {length} bytes, beyond the end of the file ({})", bytes.len());
        damage(field, problem)
    })
}

impl Claim {
    fn place(self, name: &str, data: usize, file: usize) -> Result<TensorInfo, Damage> {
        let field = |part: &str| format!("tensor \"{name}\" {part}");
        let (start, end) = self.data_offsets;
        let in_file = |offset: u64| {
            usize::try_from(offset).ok()?.checked_add(data).filter(|place| *place <= file)
        };
        let (Some(first), Some(after)) = (in_file(start), in_file(end)) else {
            let problem =
                format!("are [{start}, {end}], beyond the end of the file ({file} bytes)");
            return Err(damage(field("data_offsets"), problem));
        };
        if after < first {
            let problem = format!("are [{start}, {end}]: the end comes before the start");
            return Err(damage(field("data_offsets"), problem));
        }
        let tensor = TensorInfo {
            name: name.into(),
            shape: self.shape,
            stored_as: self.dtype,
            range: first..after,
        };
        if let Ok(format) = tensor.format() {
            let values = tensor
                .shape
                .iter()
                .try_fold(1_usize, |values, size| values.checked_mul(usize::try_from(*size).ok()?));
            let bytes = values.and_then(|values| format.bytes_of(values));
            if bytes != Some(tensor.range.len()) {
                let problem = format!(
                    "are [{start}, {end}], which is not the size of {:?} in {}",
                    tensor.shape, tensor.stored_as
                );
                return Err(damage(field("data_offsets"), problem));
            }
        }
        Ok(tensor)
    }
}

/// Sorts by place; no hole, no overlap, nothing after the last.
fn covering(tensors: &mut [TensorInfo], data: usize, file: usize) -> Result<(), Damage> {
    tensors.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
    let mut end = data;
    for tensor in tensors.iter() {
        if tensor.range.start != end {
            let how = if tensor.range.start < end {
                "overlaps the one before"
            } else {
                "leaves a hole before it"
            };
            return Err(damage(format!("tensor \"{}\" data_offsets", tensor.name), how));
        }
        end = tensor.range.end;
    }
    if end != file {
        let problem = format!("ends {} bytes before the file does", file - end);
        return Err(damage("data", problem));
    }
    Ok(())
}

fn once(tensors: &[TensorInfo]) -> Result<(), Damage> {
    let mut names = std::collections::HashSet::new();
    let twice = tensors.iter().find(|tensor| !names.insert(tensor.name.as_str()));
    twice.map_or(Ok(()), |tensor| {
        Err(damage(format!("tensor \"{}\"", tensor.name), "stands there twice"))
    })
}
