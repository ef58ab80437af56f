//! Why the files of a model can't be read or written. Every message names the file and the field or
//! tensor, and what would be right where that isn't plain.

use std::path::PathBuf;

/// How many names an error lists before it only counts.
const LISTED_NAMES: usize = 8;

/// The files of a model can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("can't {action} `{}`", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as a verb: `read`, `create`.
        action: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// Neither a folder with `config.json` nor a GGUF file.
    #[error("no model at `{}`: {problem}", path.display())]
    NoModel {
        /// What was given.
        path: PathBuf,
        /// What is missing there.
        problem: String,
    },
    /// A JSON file that is none, or of another form.
    #[error("`{}` is not what it should be", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// A field of `config.json` or of GGUF metadata that is wrong, or right but not supported.
    #[error("`{}`: `{field}` {problem}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, as the file spells it.
        field: String,
        /// What is wrong with it, continuing the sentence.
        problem: String,
    },
    /// A family of models that isn't built in.
    #[error(
        "`{}`: architecture `{found}` is not supported; supported are {supported}", path.display()
    )]
    Architecture {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What it could say.
        supported: &'static str,
    },
    /// A header of weights that contradicts itself or its file.
    #[error("`{}`: damaged header: `{field}` {problem}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Which part of the header.
        field: String,
        /// What is wrong with it, continuing the sentence.
        problem: String,
    },
    /// Weights that the configuration asks for and no file has.
    #[error("`{}`: {} missing: {}", path.display(), count(names, "tensor"), list(names))]
    MissingTensors {
        /// The folder or file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Weights that the configuration has no place for.
    #[error(
        "`{}`: {} not part of this architecture: {}", path.display(), count(names, "tensor"),
        list(names)
    )]
    ExtraTensors {
        /// The folder or file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Files that the index names and the folder doesn't have.
    #[error("`{}`: {} missing beside it: {}", path.display(), count(names, "shard"), list(names))]
    MissingShards {
        /// The index.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// A weight of another shape than the configuration says.
    #[error("`{}`: tensor `{tensor}` has shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Its name there.
        tensor: String,
        /// By the configuration.
        expected: Vec<u64>,
        /// By the file.
        found: Vec<u64>,
    },
    /// A weight in a number format that isn't built in.
    #[error(
        "`{}`: tensor `{tensor}` is stored as {found}; supported are {supported}", path.display()
    )]
    Type {
        /// The file.
        path: PathBuf,
        /// Its name there.
        tensor: String,
        /// Its format.
        found: String,
        /// What it could be.
        supported: &'static str,
    },
    /// A weight that is no number.
    #[error("`{}`: tensor `{tensor}` has {value} at index {index}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Its name there.
        tensor: String,
        /// Which value, counted in the order of the rows.
        index: usize,
        /// NaN or an infinity.
        value: f32,
    },
    /// A head that should be the embedding and isn't.
    #[error(
        "`{}`: `tie_word_embeddings` is true, but `{tensor}` differs from the embedding at index \
         {index}", path.display()
    )]
    TiedHeadDiffers {
        /// The file.
        path: PathBuf,
        /// The head's name there.
        tensor: String,
        /// The first value that differs.
        index: usize,
    },
    /// A folder to save into that holds a model already.
    #[error("`{}` holds a model already (`{found}`); save into another folder", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// A file of that model.
        found: String,
    },
    /// Values that don't belong to the configuration they should be saved with.
    #[error("the parameters don't belong to this configuration: {problem}")]
    Mismatch {
        /// What differs.
        problem: String,
    },
}

impl Error {
    /// For `map_err`: what was tried, on which file.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, action, source }
    }
}

fn count(names: &[String], what: &str) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{} {what}{plural}", names.len())
}

fn list(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(LISTED_NAMES).map(|name| format!("`{name}`")).collect();
    let rest = if names.len() > LISTED_NAMES { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}
