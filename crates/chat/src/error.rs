//! What can go wrong between messages and tokens on our side of the line.
//!
//! Text that a model wrote is never an error here. Every message names the file or the field, and
//! what to do where there is something to do.

use std::{io, path::PathBuf};

use rocstar_record::message::Role;

use crate::{calls::Unwritable, difference::Difference};

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
    /// There is no chat template where one is needed.
    #[error("`{place}` has no chat template; choose a built-in one, `rstar2` or `chatml`")]
    NoTemplate {
        /// Where it was looked for.
        place: String,
    },
    /// A template is no valid Jinja.
    #[error("`{file}` is no valid template")]
    TemplateSyntax {
        /// Where it stands.
        file: String,
        /// Line and problem.
        source: minijinja::Error,
    },
    /// A template failed on a conversation.
    #[error("`{file}` failed to render the conversation")]
    TemplateRender {
        /// Where it stands.
        file: String,
        /// Line and problem.
        source: minijinja::Error,
    },
    /// A template says that it can't show a conversation.
    #[error("`{file}` refuses the conversation: {message}")]
    TemplateRefused {
        /// Where it stands.
        file: String,
        /// What it says.
        message: String,
    },
    /// A template changes what it rendered before.
    #[error(
        "the template is not append-only: with message {message} the text changes {difference}; \
         train one turn at a time, or choose another template"
    )]
    NotAppendOnly {
        /// Index of the message with which earlier text changes.
        message: usize,
        /// The text before against the text with it.
        difference: Difference,
    },
    /// No known way of writing turns gives a template's text.
    #[error(
        "`{file}` is of no known family, so turns can't be appended; choose a built-in template"
    )]
    UnknownFamily {
        /// Where it stands.
        file: String,
        /// How it differs from the simplest family.
        source: Option<Box<Self>>,
    },
    /// A family writes a conversation in another way than its template.
    #[error("the turns of family `{family}` are not what the template writes {difference}")]
    FamilyDiffers {
        /// The family.
        family: &'static str,
        /// The template's text against ours.
        difference: Difference,
    },
    /// Tools for a template that doesn't show them to the model.
    #[error("family `{family}` has no format for tools; choose the template `chatml` or `rstar2`")]
    ToolsUnsupported {
        /// The family.
        family: &'static str,
    },
    /// Reasoning apart from the text for a template that would drop it.
    #[error(
        "message {message}: the template of family `{family}` drops `reasoning_content`; \
         put it into `content` or leave it out"
    )]
    ReasoningUnsupported {
        /// Index of the message.
        message: usize,
        /// The family.
        family: &'static str,
    },
    /// A call that the family's format can't express.
    #[error("message {message} has a call that can't be written")]
    Call {
        /// Index of the message.
        message: usize,
        /// Which, and why.
        source: Unwritable,
    },
    /// Thinking that the template drops once a later question is there.
    #[error(
        "message {message}: the template of family `{family}` drops the thinking of turns before \
         the last question; make one sample of each question, or leave the thinking out"
    )]
    Forgotten {
        /// Index of the message.
        message: usize,
        /// The family.
        family: &'static str,
    },
    /// A vocabulary without a token that the family's turns need.
    #[error("the tokenizer has no control token `{token}`, which family `{family}` needs")]
    MissingToken {
        /// The token.
        token: &'static str,
        /// The family.
        family: &'static str,
    },
    /// An assistant's turn was opened while one is open.
    #[error("the assistant's turn is open already")]
    TurnIsOpen,
    /// Tokens of the policy came while no assistant's turn is open.
    #[error("no turn of the assistant is open")]
    NoOpenTurn,
    /// Tools answered nothing.
    #[error("a turn of tools needs at least one message")]
    NoToolResults,
    /// A message of another speaker than expected.
    #[error("message {message} is of {found:?}, expected {expected:?}")]
    WrongRole {
        /// Its index among those given.
        message: usize,
        /// Who should speak.
        expected: Role,
        /// Who speaks.
        found: Role,
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
    /// An id so high that its table would fill the memory.
    #[error("gives `{token}` the id {id}; at most {most} is supported")]
    IdTooHigh {
        /// The token.
        token: String,
        /// Its id.
        id: u32,
        /// The highest id.
        most: u32,
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
    /// A GGUF file that doesn't say how text is split into words.
    #[error(
        "is missing, so how the model splits text is unknown; convert the model again with a newer \
         converter, which writes one of {known}"
    )]
    NoPreTokenizer {
        /// The known names.
        known: String,
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
