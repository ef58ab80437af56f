//! Rows of a `.parquet` file: columns of structures and lists, or of JSON texts.
//!
//! Invariant: columns that were not asked for are not read. A column store has no absent fields, so
//! within a structure a null is read as absent.
//!
//! Read by rows, without arrow: a fourth of the build, and data for fine-tuning is small.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row as Record};
use parquet::schema::types::Type;
use serde_json::{Map, Number, Value};

use super::{Columns, Next, Place, Row, RowsError, on_file};

pub(super) fn each<E: From<RowsError>>(
    path: &Path,
    columns: Columns<'_>,
    take: &mut dyn FnMut(Place, Row) -> Result<Next, E>,
) -> Result<(), E> {
    let fault = |error: parquet::errors::ParquetError| RowsError::Parquet {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    let file = File::open(path).map_err(on_file("open", path))?;
    let reader = SerializedFileReader::new(file).map_err(fault)?;
    let schema = reader.metadata().file_metadata().schema();
    let wanted = match columns {
        Columns::All => None,
        Columns::Named(names) => Some(projection(schema, names)),
    };
    for (index, record) in reader.get_row_iter(wanted).map_err(fault)?.enumerate() {
        let place = Place { path: path.to_owned(), row: index + 1 };
        let row = structure(&record.map_err(fault)?).map_err(|problem| RowsError::Row {
            place: place.clone(),
            field: problem.0,
            problem: problem.1.to_owned(),
        })?;
        if take(place, row)? == Next::Stop {
            break;
        }
    }
    Ok(())
}

/// The schema with the named columns.
fn projection(schema: &Type, names: &[&str]) -> Type {
    let fields = schema.get_fields().iter().filter(|field| names.contains(&field.name()));
    let fields: Vec<Arc<Type>> = fields.cloned().collect();
    Type::group_type_builder(schema.name())
        .with_fields(fields)
        .build()
        .unwrap_or_else(|_| schema.clone())
}

fn structure(record: &Record) -> Result<Row, (String, &'static str)> {
    let mut row = Map::new();
    for (name, field) in record.get_column_iter() {
        if *field != Field::Null {
            let within = |(inner, problem): (String, &'static str)| {
                (if inner.is_empty() { name.clone() } else { format!("{name}.{inner}") }, problem)
            };
            row.insert(name.clone(), value(field).map_err(within)?);
        }
    }
    Ok(row)
}

fn value(field: &Field) -> Result<Value, (String, &'static str)> {
    let unsupported = |problem| Err((String::new(), problem));
    let fraction = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => fraction(f64::from(f32::from(*value))),
        Field::Float(value) => fraction(f64::from(*value)),
        Field::Double(value) => fraction(*value),
        Field::Str(text) => text.clone().into(),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => return unsupported("is not text (not UTF-8)"),
        },
        Field::Group(record) => Value::Object(structure(record)?),
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().map(value).collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let mut object = Map::new();
            for (key, field) in map.entries() {
                let Field::Str(key) = key else { return unsupported("has keys that are not text") };
                object.insert(key.clone(), value(field)?);
            }
            Value::Object(object)
        }
        Field::Decimal(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => {
            return unsupported("is a decimal or a time, which JSON can't hold");
        }
    })
}
