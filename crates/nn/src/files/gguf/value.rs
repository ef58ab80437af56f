//! The values of GGUF metadata.

/// One value of the metadata. Widths are dropped: what matters is what the number is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any integer type.
    Integer(i128),
    /// Either floating-point type.
    Float(f64),
    /// A boolean.
    Flag(bool),
    /// A text.
    Text(String),
    /// A list of one type.
    Array(Array),
}

/// A list of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Integers of one type.
    Integers(Vec<i64>),
    /// Floats of one type.
    Floats(Vec<f64>),
    /// Booleans.
    Flags(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
    /// Lists.
    Arrays(Vec<Self>),
}

impl Array {
    /// Number of elements.
    pub const fn len(&self) -> usize {
        match self {
            Self::Integers(elements) => elements.len(),
            Self::Floats(elements) => elements.len(),
            Self::Flags(elements) => elements.len(),
            Self::Texts(elements) => elements.len(),
            Self::Arrays(elements) => elements.len(),
        }
    }

    /// It has no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Value {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Float(_) | Self::Flag(_) | Self::Array(_) => None,
        }
    }

    /// The integer, if it is one.
    pub const fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Text(_) | Self::Float(_) | Self::Flag(_) | Self::Array(_) => None,
        }
    }

    /// The number, integer or not, if it is one.
    #[expect(clippy::cast_precision_loss, reason = "asked for where a float is expected")]
    pub const fn as_number(&self) -> Option<f64> {
        match self {
            Self::Float(float) => Some(*float),
            Self::Integer(integer) => Some(*integer as f64),
            Self::Text(_) | Self::Flag(_) | Self::Array(_) => None,
        }
    }

    /// What it is, for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Integer(integer) => format!("the integer {integer}"),
            Self::Float(float) => format!("the number {float}"),
            Self::Flag(flag) => format!("`{flag}`"),
            Self::Text(_) => "a text".into(),
            Self::Array(array) => format!("a list of {}", array.len()),
        }
    }
}
