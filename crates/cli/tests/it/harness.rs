//! Runs the binary cut off from the machine's settings, and shows everything it said.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A folder of its own for one test, and the binary in it.
pub(crate) struct Harness {
    folder: tempfile::TempDir,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Where the binary runs; also its home.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The binary with arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocstar"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path())
            .env("ROCSTAR_PYTHON", python());
        command
    }

    /// Runs it and shows exit status, standard output and standard error as one text.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        show(&self.command(arguments).output().unwrap())
    }
}

/// Starts a server; gives its process, whose standard error is a pipe, and the announcement that is its
/// first line.
pub(crate) fn announced(mut command: Command) -> (Child, Value) {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announcement = serde_json::from_str(&line).unwrap_or_else(|error| {
        let mut said = String::new();
        process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("the server did not start ({error}): {said}")
    });
    (process, announcement)
}

/// The file behind `python3`: a version manager's shim would not work with another home.
pub(crate) fn python() -> PathBuf {
    let script = "import os, sys; print(os.path.realpath(sys.executable), end='')";
    let output = Command::new("python3").args(["-c", script]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap())
}

/// The text that snapshots hold.
pub(crate) fn show(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!(
        "exit status: {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}
