//! The header of a GGUF file, read from bytes that may say anything.
//!
//! Invariant: memory is taken only in proportion to bytes that are there: a count is compared with
//! what is left of the file before it is believed. A [`Header`] that exists describes tensors that
//! lie within the file, on their alignment, and don't overlap.

use std::collections::BTreeMap;
use std::ops::Range;

use super::value::{Array, Value};
use crate::files::number_format::NumberFormat;

/// What is wrong with a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which part: `tensor_count`, a metadata key, `tensor "blk.0.attn_q.weight" offset`.
    pub field: String,
    /// What is wrong with it, continuing the sentence.
    pub problem: String,
}

/// Everything before the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// Metadata by key.
    pub metadata: BTreeMap<String, Value>,
    /// Weights, in the order of the header.
    pub tensors: Vec<TensorInfo>,
}

/// One weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Slowest dimension first: `[out, in]`. (The file has them the other way round.)
    pub shape: Vec<u64>,
    /// Its number format.
    pub format: TensorType,
    /// Its bytes in the file; empty where the format is unknown, and with it the size.
    pub range: Range<usize>,
}

/// A number format, by ggml's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// One that can be read.
    Known(NumberFormat),
    /// One that can't.
    Unknown(u32),
}

impl TensorType {
    const fn from_id(id: u32) -> Self {
        Self::Known(match id {
            0 => NumberFormat::F32,
            1 => NumberFormat::F16,
            2 => NumberFormat::Q4_0,
            3 => NumberFormat::Q4_1,
            6 => NumberFormat::Q5_0,
            7 => NumberFormat::Q5_1,
            8 => NumberFormat::Q8_0,
            12 => NumberFormat::Q4K,
            13 => NumberFormat::Q5K,
            14 => NumberFormat::Q6K,
            30 => NumberFormat::Bf16,
            other => return Self::Unknown(other),
        })
    }

    /// Its name.
    pub fn name(self) -> String {
        let known = match self {
            Self::Known(format) => format.name(),
            Self::Unknown(10) => "Q2_K",
            Self::Unknown(11) => "Q3_K",
            Self::Unknown(15) => "Q8_K",
            Self::Unknown(id @ (16..=19 | 21 | 22)) => {
                return format!("a codebook format (IQ, ggml type {id})");
            }
            Self::Unknown(20) => "IQ4_NL",
            Self::Unknown(23) => "IQ4_XS",
            Self::Unknown(34) => "TQ1_0",
            Self::Unknown(35) => "TQ2_0",
            Self::Unknown(39) => "MXFP4",
            Self::Unknown(id) => return format!("ggml type {id}"),
        };
        known.into()
    }
}

/// Tensors have at most this many dimensions in ggml.
const MAX_DIMENSIONS: u32 = 4;
/// Lists in lists in lists: more than anyone writes.
const MAX_NESTING: u32 = 3;
/// Alignment of the data where the metadata doesn't say.
const DEFAULT_ALIGNMENT: usize = 32;

impl Header {
    /// Reads the header of the file that `bytes` is.
    ///
    /// # Errors
    /// The first part that contradicts the format, itself or the length of the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = Reader { bytes, position: 0 };
        let version = version(&mut reader)?;
        let tensor_count = reader.count(24).at(|| "tensor_count".into())?;
        let key_count = reader.count(13).at(|| "metadata_kv_count".into())?;
        let mut metadata = BTreeMap::new();
        for index in 0..key_count {
            let key = reader.text().at(|| format!("key {index} of the metadata"))?;
            if key.is_empty() {
                return Err("is empty".to_owned()).at(|| format!("key {index} of the metadata"));
            }
            let value = reader.value().at(|| key.clone())?;
            if metadata.contains_key(&key) {
                return Err("stands there twice".to_owned()).at(|| key);
            }
            metadata.insert(key, value);
        }
        let mut tensors = Vec::with_capacity(tensor_count);
        for index in 0..tensor_count {
            tensors.push(reader.tensor(index)?);
        }
        let alignment = alignment(&metadata)?;
        let data = reader.position.next_multiple_of(alignment);
        let placed = tensors.into_iter().map(|tensor| tensor.place(data, alignment, bytes.len()));
        let tensors: Vec<TensorInfo> = placed.collect::<Result<_, _>>()?;
        apart(&tensors)?;
        Ok(Self { version, metadata, tensors })
    }
}

fn version(reader: &mut Reader<'_>) -> Result<u32, Damage> {
    let magic = reader.take(4).at(|| "magic".into())?;
    if magic != b"GGUF" {
        return Err("is not `GGUF`: this is no GGUF file".to_owned()).at(|| "magic".into());
    }
    let version = reader.u32().at(|| "version".into())?;
    let problem = match version {
        2 | 3 => return Ok(version),
        1 => "is 1; convert the file anew, versions 2 and 3 are read".into(),
        other if other.swap_bytes() <= 3 => {
            "is big-endian; convert the file for little-endian machines".into()
        }
        other => format!("is {other}; versions 2 and 3 are read"),
    };
    Err(problem).at(|| "version".into())
}

fn alignment(metadata: &BTreeMap<String, Value>) -> Result<usize, Damage> {
    let key = "general.alignment";
    let Some(value) = metadata.get(key) else { return Ok(DEFAULT_ALIGNMENT) };
    let alignment = value.as_integer().and_then(|value| usize::try_from(value).ok());
    // ggml's own reader wants a power of two; a page is more than anyone aligns to.
    let alignment = alignment.filter(|value| value.is_power_of_two() && *value <= 1 << 16);
    alignment
        .ok_or_else(|| format!("is {}, expected a power of two up to 65536", value.describe()))
        .at(|| key.into())
}

/// No two tensors share bytes.
fn apart(tensors: &[TensorInfo]) -> Result<(), Damage> {
    let mut by_place: Vec<&TensorInfo> =
        tensors.iter().filter(|tensor| !tensor.range.is_empty()).collect();
    by_place.sort_by_key(|tensor| tensor.range.start);
    for pair in by_place.windows(2) {
        if pair[1].range.start < pair[0].range.end {
            let problem = format!("lies within tensor \"{}\"", pair[0].name);
            return Err(problem).at(|| format!("tensor \"{}\" offset", pair[1].name));
        }
    }
    Ok(())
}

/// A tensor as the header has it, not yet compared with the file.
struct Claim {
    name: String,
    shape: Vec<u64>,
    format: TensorType,
    offset: u64,
}

impl Claim {
    fn place(self, data: usize, alignment: usize, file: usize) -> Result<TensorInfo, Damage> {
        let field = |part: &str| format!("tensor \"{}\" {part}", self.name);
        let offset = usize::try_from(self.offset).ok();
        let start = offset.filter(|offset| offset.is_multiple_of(alignment));
        let Some(start) = start.and_then(|offset| data.checked_add(offset)) else {
            let problem = format!("is {}, no multiple of {alignment} in reach", self.offset);
            return Err(problem).at(|| field("offset"));
        };
        let TensorType::Known(format) = self.format else {
            let Self { name, shape, format, .. } = self;
            return Ok(TensorInfo { name, shape, format, range: 0..0 });
        };
        let columns = self.shape.last().copied().unwrap_or(1);
        if !columns.is_multiple_of(format.block_values() as u64) {
            let problem = format!(
                "are {:?}, but rows of {} come in blocks of {} values",
                self.shape,
                format.name(),
                format.block_values()
            );
            return Err(problem).at(|| field("dimensions"));
        }
        let values = self
            .shape
            .iter()
            .try_fold(1_usize, |values, size| values.checked_mul(usize::try_from(*size).ok()?));
        let bytes = values.and_then(|values| format.bytes_of(values));
        let end = bytes.and_then(|bytes| start.checked_add(bytes)).filter(|end| *end <= file);
        let Some(end) = end else {
            let problem = format!(
                "of shape {:?} at offset {} go beyond the end of the file ({file} bytes)",
                self.shape, self.offset
            );
            return Err(problem).at(|| field("data"));
        };
        Ok(TensorInfo {
            name: self.name,
            shape: self.shape,
            format: self.format,
            range: start..end,
        })
    }
}

/// Adds to a problem where it is.
trait At<T> {
    fn at(self, field: impl FnOnce() -> String) -> Result<T, Damage>;
}

impl<T> At<T> for Result<T, String> {
    fn at(self, field: impl FnOnce() -> String) -> Result<T, Damage> {
        self.map_err(|problem| Damage { field: field(), problem })
    }
}

/// What has not been read yet. Its errors are problems without a place.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.position.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.position..end));
        let taken = taken.ok_or_else(|| {
            format!("goes beyond the end of the file ({} bytes)", self.bytes.len())
        })?;
        self.position += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of things that take at least `smallest` bytes each.
    fn count(&mut self, smallest: usize) -> Result<usize, String> {
        let count = self.u64()?;
        let left = self.bytes.len() - self.position;
        let fits = usize::try_from(count).ok().filter(|count| *count <= left / smallest);
        fits.ok_or_else(|| format!("is {count}, more than the {left} bytes after it can hold"))
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.count(1).map_err(|problem| format!("has a length that {problem}"))?;
        // Copied before it is checked: the file may change under its map.
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
    }

    fn value(&mut self) -> Result<Value, String> {
        let kind = self.u32()?;
        Ok(match kind {
            0..=5 | 10 | 11 => Value::Integer(self.integer(kind)?),
            6 | 12 => Value::Float(self.float(kind)?),
            7 => Value::Flag(self.flag()?),
            8 => Value::Text(self.text()?),
            9 => Value::Array(self.list(MAX_NESTING)?),
            other => return Err(format!("has the unknown value type {other}")),
        })
    }

    fn integer(&mut self, kind: u32) -> Result<i128, String> {
        Ok(match kind {
            0 => self.array().map(u8::from_le_bytes)?.into(),
            1 => self.array().map(i8::from_le_bytes)?.into(),
            2 => self.array().map(u16::from_le_bytes)?.into(),
            3 => self.array().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.array().map(i32::from_le_bytes)?.into(),
            10 => self.u64()?.into(),
            11 => self.array().map(i64::from_le_bytes)?.into(),
            other => return Err(format!("has the value type {other}, which is no integer")),
        })
    }

    fn float(&mut self, kind: u32) -> Result<f64, String> {
        if kind == 6 {
            return self.array().map(f32::from_le_bytes).map(f64::from);
        }
        self.array().map(f64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("is the boolean {other}, expected 0 or 1")),
        }
    }

    fn list(&mut self, nesting: u32) -> Result<Array, String> {
        let kind = self.u32()?;
        let smallest = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => 12,
            other => return Err(format!("is a list of the unknown value type {other}")),
        };
        let count =
            self.count(smallest).map_err(|problem| format!("has a length that {problem}"))?;
        let elements = 0..count;
        Ok(match kind {
            6 | 12 => Array::Floats(elements.map(|_| self.float(kind)).collect::<Result<_, _>>()?),
            7 => Array::Flags(elements.map(|_| self.flag()).collect::<Result<_, _>>()?),
            8 => Array::Texts(elements.map(|_| self.text()).collect::<Result<_, _>>()?),
            9 if nesting == 0 => return Err("nests lists too deeply".into()),
            9 => Array::Arrays(elements.map(|_| self.list(nesting - 1)).collect::<Result<_, _>>()?),
            _ => {
                let integers = elements.map(|_| {
                    let integer = self.integer(kind)?;
                    i64::try_from(integer).map_err(|_| format!("holds {integer}, beyond 63 bits"))
                });
                Array::Integers(integers.collect::<Result<_, _>>()?)
            }
        })
    }

    fn tensor(&mut self, index: usize) -> Result<Claim, Damage> {
        let name = self.text().at(|| format!("name of tensor {index}"))?;
        let field = |part: &str| format!("tensor \"{name}\" {part}");
        let dimensions = self.u32().at(|| field("dimensions"))?;
        if dimensions > MAX_DIMENSIONS {
            let problem = format!("are {dimensions}, at most {MAX_DIMENSIONS} are allowed");
            return Err(problem).at(|| field("dimensions"));
        }
        let shape = (0..dimensions).map(|_| self.u64()).collect::<Result<Vec<u64>, _>>();
        let mut shape = shape.at(|| field("dimensions"))?;
        shape.reverse();
        let format = self.u32().map(TensorType::from_id).at(|| field("type"))?;
        let offset = self.u64().at(|| field("offset"))?;
        Ok(Claim { name, shape, format, offset })
    }
}
