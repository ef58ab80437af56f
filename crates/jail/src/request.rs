//! What a caller may ask of one run: the program, its input, its limits.
//!
//! Invariant: a [`Request`] that passed [`Request::validate`] can be handed to a child as it is:
//! every path stays inside the private directory, no text holds a NUL byte, and no limit is zero
//! or above the host's maximum. Nothing here touches the operating system.

use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// Largest program text, in bytes, that a request may carry.
pub const MAX_PROGRAM_BYTES: usize = 8 << 20;
/// Largest sum, in bytes, of stdin, arguments and input files of a request.
pub const MAX_INPUT_BYTES: usize = 64 << 20;
/// Most files that a request may bring in, or ask back.
pub const MAX_FILES: usize = 256;
/// Longest path of an input or fetched file, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// Most arguments of a request.
pub(crate) const MAX_ARGUMENTS: usize = 1024;

/// One program to run, with everything it may see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Python source text.
    pub program: String,
    /// Bytes on standard input. `None` is an empty input (`/dev/null`).
    #[serde(default, with = "crate::bytes::optional")]
    pub stdin: Option<Vec<u8>>,
    /// `sys.argv[1:]`.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Files written into the private directory before the program starts.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Paths to read back from the private directory when the program has ended.
    #[serde(default)]
    pub fetch: Vec<String>,
    /// Report the value of the program's last expression, as IPython shows it.
    #[serde(default)]
    pub last_expression: bool,
    /// Which zygote runs the program. `None`: chosen from the program's imports.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Limits; a field left out takes the host's default.
    #[serde(default)]
    pub limits: Limits,
}

/// A file placed in the private directory. Relative paths only, or absolute ones under `/tmp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where, relative to the private directory.
    pub path: String,
    /// The bytes: a JSON string, or `{"base64": "…"}`.
    #[serde(with = "crate::bytes::required")]
    pub content: Vec<u8>,
}

/// Limits of one call. `None` takes the host's default; every value is capped by the host's
/// maximum, and a request above it is refused, not lowered silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall-clock time of the program, in milliseconds, enforced from outside it.
    #[serde(default)]
    pub wall_ms: Option<u64>,
    /// CPU time, in milliseconds, of the program and what it started.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
    /// Memory that the program may add to the warmed interpreter's, in bytes.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads alive at once, the program's own included.
    #[serde(default)]
    pub processes: Option<u64>,
    /// Largest file that may be written, in bytes.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Size of the private `/tmp`, in bytes.
    #[serde(default)]
    pub tmp_bytes: Option<u64>,
    /// Bytes that one output stream may carry before the program is stopped.
    #[serde(default)]
    pub output_bytes: Option<u64>,
    /// Bytes of one output stream that the report keeps (head and tail, with a marked cut).
    /// Passing it stops nothing.
    #[serde(default)]
    pub kept_bytes: Option<u64>,
}

/// [`Limits`] with every field resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the fields are those of `Limits`, documented there")]
pub struct ResolvedLimits {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_bytes: u64,
    pub tmp_bytes: u64,
    pub output_bytes: u64,
    pub kept_bytes: u64,
}

impl Default for ResolvedLimits {
    /// The defaults of a call.
    fn default() -> Self {
        Self {
            wall_ms: 10_000,
            cpu_ms: 10_000,
            memory_bytes: 512 << 20,
            processes: 64,
            file_bytes: 64 << 20,
            tmp_bytes: 64 << 20,
            output_bytes: 16 << 20,
            kept_bytes: 64 << 10,
        }
    }
}

impl ResolvedLimits {
    /// The most that a request may ask for unless the host is configured otherwise.
    pub const MAXIMUM: Self = Self {
        wall_ms: 600_000,
        cpu_ms: 1_200_000,
        memory_bytes: 8 << 30,
        processes: 1024,
        file_bytes: 1 << 30,
        tmp_bytes: 1 << 30,
        output_bytes: 256 << 20,
        kept_bytes: 16 << 20,
    };
}

/// Why a request can't be run. Each names the field, what is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidRequest {
    /// The field's path, for example `limits.wall_ms` or `files[3].path`.
    pub field: String,
    /// What is wrong with it, and what would be accepted.
    pub problem: String,
}

impl InvalidRequest {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

impl Limits {
    /// Fills in defaults and checks every field against `maximum`.
    ///
    /// # Errors
    /// The first field that is zero or above the maximum.
    pub fn resolve(
        &self,
        default: &ResolvedLimits,
        maximum: &ResolvedLimits,
    ) -> Result<ResolvedLimits, InvalidRequest> {
        let pick = |field: &str, asked: Option<u64>, default: u64, maximum: u64| match asked {
            None => Ok(default.min(maximum)),
            Some(0) => Err(InvalidRequest::new(
                format!("limits.{field}"),
                format!("must be between 1 and {maximum}, is 0"),
            )),
            Some(value) if value > maximum => Err(InvalidRequest::new(
                format!("limits.{field}"),
                format!("must be between 1 and {maximum}, is {value}"),
            )),
            Some(value) => Ok(value),
        };
        macro_rules! field {
            ($name:ident) => {
                pick(stringify!($name), self.$name, default.$name, maximum.$name)?
            };
        }
        Ok(ResolvedLimits {
            wall_ms: field!(wall_ms),
            cpu_ms: field!(cpu_ms),
            memory_bytes: field!(memory_bytes),
            processes: field!(processes),
            file_bytes: field!(file_bytes),
            tmp_bytes: field!(tmp_bytes),
            output_bytes: field!(output_bytes),
            kept_bytes: field!(kept_bytes),
        })
    }
}

impl Request {
    /// A request that runs `program` with the host's defaults.
    pub fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// Checks everything that can be known before a child sees the request.
    ///
    /// # Errors
    /// The first field that can't be accepted.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        if self.program.len() > MAX_PROGRAM_BYTES {
            return Err(InvalidRequest::new(
                "program",
                format!("at most {MAX_PROGRAM_BYTES} bytes, has {}", self.program.len()),
            ));
        }
        if let Some(position) = self.program.bytes().position(|byte| byte == 0) {
            return Err(InvalidRequest::new(
                "program",
                format!("holds a NUL byte at offset {position}; Python source can't"),
            ));
        }
        self.validate_arguments()?;
        self.validate_files()
    }

    fn validate_arguments(&self) -> Result<(), InvalidRequest> {
        if self.argv.len() > MAX_ARGUMENTS {
            return Err(InvalidRequest::new(
                "argv",
                format!("at most {MAX_ARGUMENTS} arguments, has {}", self.argv.len()),
            ));
        }
        match self.argv.iter().position(|argument| argument.contains('\0')) {
            Some(index) => {
                Err(InvalidRequest::new(format!("argv[{index}]"), "holds a NUL byte".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Checks what depends on the resolved limits: the input files must fit the private directory.
    ///
    /// # Errors
    /// `files`, with both sizes.
    pub fn validate_against(&self, limits: &ResolvedLimits) -> Result<(), InvalidRequest> {
        const PAGE: u64 = 4096;
        let sizes = self.files.iter().map(|file| file.content.len() as u64);
        let total: u64 = sizes.clone().map(|size| size.next_multiple_of(PAGE)).sum();
        let largest = sizes.max().unwrap_or(0);
        if total > limits.tmp_bytes {
            let problem =
                format!("need {total} bytes, limits.tmp_bytes gives {}", limits.tmp_bytes);
            return Err(InvalidRequest::new("files", problem));
        }
        if largest > limits.file_bytes {
            let problem =
                format!("one holds {largest} bytes, limits.file_bytes gives {}", limits.file_bytes);
            return Err(InvalidRequest::new("files", problem));
        }
        Ok(())
    }

    fn validate_files(&self) -> Result<(), InvalidRequest> {
        for (field, count) in [("files", self.files.len()), ("fetch", self.fetch.len())] {
            if count > MAX_FILES {
                return Err(InvalidRequest::new(
                    field,
                    format!("at most {MAX_FILES} entries, has {count}"),
                ));
            }
        }
        let mut paths = std::collections::BTreeSet::new();
        for (index, file) in self.files.iter().enumerate() {
            let field = || format!("files[{index}].path");
            let path = inside_private_directory(&file.path)
                .map_err(|problem| InvalidRequest::new(field(), problem))?;
            if !paths.insert(path) {
                return Err(InvalidRequest::new(field(), "names a file a second time"));
            }
        }
        for (index, file) in self.files.iter().enumerate() {
            let path = inside_private_directory(&file.path).unwrap_or_default();
            let mut parents = path.match_indices('/').map(|(at, _)| &path[..at]);
            if let Some(parent) = parents.find(|parent| paths.contains(*parent)) {
                let problem = format!("lies below `{parent}`, which is a file of this request");
                return Err(InvalidRequest::new(format!("files[{index}].path"), problem));
            }
        }
        for (index, path) in self.fetch.iter().enumerate() {
            inside_private_directory(path)
                .map_err(|problem| InvalidRequest::new(format!("fetch[{index}]"), problem))?;
        }
        let arguments: usize = self.argv.iter().map(String::len).sum();
        let files: usize = self.files.iter().map(|file| file.content.len()).sum();
        let total = arguments + files + self.stdin.as_ref().map_or(0, Vec::len);
        if total > MAX_INPUT_BYTES {
            return Err(InvalidRequest::new(
                "files",
                format!(
                    "stdin, argv and files together hold at most {MAX_INPUT_BYTES} bytes, have {total}"
                ),
            ));
        }
        Ok(())
    }
}

/// The path relative to the private directory, if it stays inside it.
///
/// `a/b.txt`, `./a` and `/tmp/a` are inside; `..`, other absolute paths, empty names and NUL bytes
/// are refused. Links are a matter of the moment of use and are refused there (`openat2` with
/// `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`).
///
/// # Errors
/// What is wrong with the path, as text for [`InvalidRequest::problem`].
pub fn inside_private_directory(path: &str) -> Result<String, String> {
    if path.len() > MAX_PATH_BYTES {
        return Err(format!("at most {MAX_PATH_BYTES} bytes, has {}", path.len()));
    }
    if path.contains('\0') {
        return Err("holds a NUL byte".to_owned());
    }
    let relative = match path.strip_prefix("/tmp/") {
        Some(rest) => rest,
        None if path.starts_with('/') => {
            return Err(format!("must lie in /tmp or be relative, is {path:?}"));
        }
        None => path,
    };
    let mut parts = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(format!("must not hold `..`, is {path:?}")),
            _ if part.len() > 255 => {
                return Err("a name in the path is longer than 255 bytes".to_owned());
            }
            name => parts.push(name),
        }
    }
    if parts.is_empty() || relative.ends_with('/') {
        return Err(format!("must name a file, is {path:?}"));
    }
    Ok(parts.join("/"))
}
