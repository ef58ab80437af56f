//! What can go wrong between messages and tokens on our side of the line.
//!
//! Text that a model wrote is never an error here. Every message names the file or the field, and
//! what to do where there is something to do.

use std::{io, path::PathBuf};

/// Boxed error of the tokenizer library.
pub(crate) type LibraryError = Box<dyn std::error::Error + Send + Sync>;

/// A file, a template or a conversation that can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file can't be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not JSON, or JSON of another form.
    #[error("`{file}` is not what it should be")]
    Json {
        /// The file, or `tokenizer.json` where only bytes were given.
        file: String,
        /// Line, column and problem.
        source: serde_json::Error,
    },
    /// A field of a tokenizer's file has a value that can't be used.
    #[error("`{file}`: field `{field}`: {problem}")]
    Field {
        /// The file, or `GGUF metadata`.
        file: String,
        /// The field, with its index where it is a list.
        field: String,
        /// What is wrong with its value.
        problem: FieldProblem,
    },
    /// A tokenizer's file is well-formed and yet no tokenizer.
    #[error("`{file}` holds no tokenizer that can be built")]
    Build {
        /// The file.
        file: String,
        /// What the tokenizer library says.
        source: LibraryError,
    },
    /// Text can't be encoded.
    #[error("the tokenizer failed on a text of {text_bytes} bytes")]
    Encode {
        /// Length of the text.
        text_bytes: usize,
        /// What the tokenizer library says.
        source: LibraryError,
    },
    /// Plain text would become a control token, which would let a user or a tool end a turn.
    #[error("plain text would become the control token `{token}`; the tokenizer is unsafe")]
    ControlFromText {
        /// The token.
        token: String,
    },
}

/// What is wrong with the value of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// The field must be there.
    #[error("is missing")]
    Missing,
    /// The value has another type.
    #[error("should be {expected}")]
    Type {
        /// The type that it should have.
        expected: &'static str,
    },
    /// Lists that belong together have different lengths.
    #[error("has {found} entries where `{other}` has {expected}")]
    Length {
        /// Entries found.
        found: usize,
        /// Entries needed.
        expected: usize,
        /// The list that it must match.
        other: &'static str,
    },
    /// A token id beyond the vocabulary.
    #[error("is {id}, beyond the vocabulary of {vocabulary_size} tokens")]
    BeyondVocabulary {
        /// The id.
        id: u64,
        /// Size of the vocabulary.
        vocabulary_size: usize,
    },
    /// A token's text holds a character that stands for no byte.
    #[error("is `{token}`, where {character:?} stands for no byte")]
    NotByteLevel {
        /// The token.
        token: String,
        /// The first such character.
        character: char,
    },
    /// Two ids have the same text.
    #[error("is `{token}`, which is token {first} already")]
    Duplicate {
        /// The token.
        token: String,
        /// The id that has it first.
        first: usize,
    },
    /// A merge names a token that the vocabulary lacks.
    #[error("is `{merge}`, but `{token}` is not in the vocabulary")]
    MergeOfUnknownToken {
        /// The merge.
        merge: String,
        /// The token that is missing.
        token: String,
    },
    /// A merge is not two tokens with a space between.
    #[error("is `{merge}`, not two tokens with a space between")]
    NotAMerge {
        /// The merge.
        merge: String,
    },
    /// A value that we know nothing of.
    #[error("is `{found}`; known are {known}")]
    Unknown {
        /// The value.
        found: String,
        /// The known ones.
        known: String,
    },
    /// The token would get another id than the file says.
    #[error("says that `{token}` has id {stated}, but it gets {actual}")]
    OtherId {
        /// The token.
        token: String,
        /// The id that the file says.
        stated: u32,
        /// The id that it gets.
        actual: u32,
    },
    /// A setting that makes encoding random.
    #[error("is {dropout}; only tokenizers without dropout are supported, remove it")]
    Dropout {
        /// The probability.
        dropout: String,
    },
}

impl Error {
    /// A field with a problem.
    pub(crate) fn field(file: &str, field: impl Into<String>, problem: FieldProblem) -> Self {
        Self::Field { file: file.to_owned(), field: field.into(), problem }
    }
}
