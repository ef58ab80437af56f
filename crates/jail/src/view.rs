//! What a program may see: which Python runs it, and the file tree that this Python needs.
//!
//! Invariant: the tree names only system libraries and programs, the interpreter's own folders,
//! five harmless devices and a few small files made here. No home folder, no `/etc` of the host,
//! nothing of the server. What the list holds is readable by every program.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::Error;

/// What the interpreter says about itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Interpreter {
    /// The path it runs under.
    pub(crate) executable: PathBuf,
    /// For example `3.13.0`.
    pub(crate) version: String,
    /// Folders and files that it reads: prefixes, library paths, loaded shared objects.
    needs: Vec<PathBuf>,
    /// Scientific packages, as `name version`.
    pub(crate) packages: Vec<String>,
}

const PROBE: &str = r#"
import json, os, sys, sysconfig
from importlib import metadata
packages = []
for name in ("numpy", "sympy", "mpmath", "scipy", "networkx"):
    try:
        packages.append(f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        pass
needs = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
needs.update(path for path in sys.path if os.path.isdir(path))
needs.add(os.path.realpath(sys.executable))
needs.add(sysconfig.get_path("stdlib"))
with open("/proc/self/maps") as maps:
    needs.update(line.split(None, 5)[5].strip() for line in maps if ".so" in line)
print(json.dumps({
    "executable": sys.executable,
    "version": ".".join(map(str, sys.version_info[:3])),
    "needs": sorted(path for path in needs if path.startswith("/")),
    "packages": packages,
}))
"#;

impl Interpreter {
    /// Asks the configured Python.
    pub(crate) fn probe(python: &Path) -> Result<Self, Error> {
        let failed = |cause: String| Error::Python { python: python.display().to_string(), cause };
        let output = Command::new(python)
            .args(["-I", "-c", PROBE])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", std::env::var_os("HOME").unwrap_or_default())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}: {}", output.status, said.trim())));
        }
        let interpreter: Self = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its description can't be read: {error}")))?;
        let version: Vec<u32> =
            interpreter.version.split('.').filter_map(|part| part.parse().ok()).collect();
        if version.as_slice() < [3, 10].as_slice() {
            return Err(failed(format!("it is {}; 3.10 or newer is needed", interpreter.version)));
        }
        Ok(interpreter)
    }

    /// The tree, in the words that `native/enter.rs` reads.
    pub(crate) fn view(&self) -> String {
        let mut text = String::new();
        let mut push = |line: std::fmt::Arguments<'_>| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{line}");
        };
        for path in self.folders() {
            push(format_args!("bind\t{}", path.display()));
        }
        for path in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            if let Ok(target) = fs::read_link(path) {
                push(format_args!("link\t{}\t{path}", target.display()));
            }
        }
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] {
            push(format_args!("device\t{device}"));
        }
        for (target, path) in [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
            ("/tmp", "/dev/shm"),
            ("/tmp", "/var/tmp"),
        ] {
            push(format_args!("link\t{target}\t{path}"));
        }
        for (path, content) in files() {
            push(format_args!("file\t{path}\t{}", hex(&content)));
        }
        text
    }

    /// Folders to bind, none inside another.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        for path in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            // On merged systems these are links and made as such.
            if !Path::new(path).is_symlink() {
                folders.push(PathBuf::from(path));
            }
        }
        for path in &self.needs {
            let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            for path in [path.clone(), real] {
                let is_file = path.is_file();
                let folder =
                    if is_file { path.parent().map(Path::to_path_buf) } else { Some(path) };
                folders.extend(folder.filter(|folder| !is_too_much(folder)));
            }
        }
        folders.retain(|folder| folder.is_dir());
        folders.sort();
        folders.dedup();
        let mut outermost: Vec<PathBuf> = Vec::new();
        for folder in folders {
            if !outermost.iter().any(|outer| folder.starts_with(outer)) {
                outermost.push(folder);
            }
        }
        outermost
    }
}

/// System folders that a Python with its subprocesses needs.
const SYSTEM: [&str; 5] =
    ["/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/bin", "/usr/share/zoneinfo"];

/// Prefixes of a system-wide Python that hold far more than Python.
fn is_too_much(folder: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    ["/", "/usr", "/usr/local", "/usr/share", "/opt", "/home", "/root", "/etc", "/var", "/tmp"]
        .iter()
        .any(|path| folder == Path::new(path))
        || home.is_some_and(|home| folder == home)
        || ["/proc", "/sys", "/dev", "/run"].iter().any(|path| folder.starts_with(path))
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let mut files = vec![
        (
            "/etc/passwd",
            b"root:x:0:0:root:/:/bin/false\nsandbox:x:65534:65534:sandbox:/tmp:/bin/sh\n".to_vec(),
        ),
        ("/etc/group", b"root:x:0:\nsandbox:x:65534:\n".to_vec()),
        ("/etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n".to_vec()),
        ("/etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files\n".to_vec()),
    ];
    for path in ["/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"] {
        if let Ok(content) = fs::read(path) {
            files.push((path, content));
        }
    }
    files
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
