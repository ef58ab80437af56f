//! Which Python runs the programs: interpreters found on this machine, the packages they have, and
//! the environment that `rocstar sandbox setup` builds.
//!
//! Invariant: an interpreter is believed only after it ran and told its version; a name or a folder
//! proves nothing (shims and broken environments exist).

pub(crate) mod lock;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::env_vars;

/// A version of CPython.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Oldest version that the jail supports and that the packages are locked for.
pub(crate) const OLDEST: (u32, u32) = (3, 11);
/// Newest version that the packages are locked for.
pub(crate) const NEWEST: (u32, u32) = (3, 14);
/// From here on, objects can be made immortal, which about halves the cost of a call that uses
/// numpy and sympy: its process no longer copies pages only to count references.
pub(crate) const IMMORTAL_OBJECTS: (u32, u32) = (3, 12);

/// An interpreter that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Where it is, as it was asked for.
    pub(crate) path: PathBuf,
    /// The file behind it, links followed.
    pub(crate) executable: PathBuf,
    /// What it says it is.
    pub(crate) version: Version,
    /// Whether it can build an environment with packages (`venv` and `ensurepip` are there).
    pub(crate) can_build: bool,
    /// Whether it is the ordinary build, with a global interpreter lock.
    pub(crate) ordinary: bool,
}

const PROBE: &str = r#"
import json, sys, importlib.util, os
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "executable": os.path.realpath(sys.executable),
    "can_build": all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")),
    "ordinary": sys.implementation.name == "cpython" and "t" not in getattr(sys, "abiflags", ""),
}))
"#;

#[derive(Deserialize)]
struct Probe {
    version: [u32; 3],
    executable: PathBuf,
    can_build: bool,
    ordinary: bool,
}

impl Interpreter {
    /// Runs `python` to learn what it is.
    ///
    /// # Errors
    /// It does not start, fails, or answers something else than a Python would.
    pub(crate) fn probe(python: &Path) -> anyhow::Result<Self> {
        let output = run_isolated(python, PROBE)?;
        let probe: Probe = serde_json::from_slice(&output)
            .with_context(|| format!("`{}` is no Python", python.display()))?;
        let [major, minor, patch] = probe.version;
        Ok(Self {
            path: python.to_owned(),
            executable: probe.executable,
            version: Version { major, minor, patch },
            can_build: probe.can_build,
            ordinary: probe.ordinary,
        })
    }

    /// Whether the locked packages exist for it.
    pub(crate) fn is_supported(&self) -> bool {
        let version = (self.version.major, self.version.minor);
        self.ordinary && (OLDEST..=NEWEST).contains(&version)
    }
}

/// Runs a script in `python`, cut off from the user's settings, and gives what it printed.
fn run_isolated(python: &Path, script: &str) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(python)
        .args(["-I", "-c", script])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't start `{}`", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it said nothing").to_owned();
        bail!("`{}` failed: {last}", python.display());
    }
    Ok(output.stdout)
}

/// Every interpreter found, newest first: on `PATH` by its versioned names and as `python3`, and
/// in pyenv's folder. One that is reachable by several names is listed once.
pub(crate) fn find_interpreters() -> Vec<Interpreter> {
    let named = (OLDEST.1..=NEWEST.1).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let candidates = named.chain([PathBuf::from("python3")]).chain(pyenv_interpreters());
    let mut found: Vec<Interpreter> = Vec::new();
    for candidate in candidates {
        // Not there, or a shim whose version is not active: not an interpreter.
        let Ok(interpreter) = Interpreter::probe(&candidate) else { continue };
        if !found.iter().any(|known| known.executable == interpreter.executable) {
            found.push(interpreter);
        }
    }
    found.sort_by_key(|interpreter| std::cmp::Reverse(interpreter.version));
    found
}

fn pyenv_interpreters() -> Vec<PathBuf> {
    let root = match std::env::var_os(env_vars::PYENV_ROOT) {
        Some(root) => PathBuf::from(root),
        None => match std::env::var_os(env_vars::HOME) {
            Some(home) => Path::new(&home).join(".pyenv"),
            None => return Vec::new(),
        },
    };
    let Ok(versions) = std::fs::read_dir(root.join("versions")) else { return Vec::new() };
    versions.flatten().map(|entry| entry.path().join("bin/python3")).collect()
}

/// Versions of the scientific packages that `python` has.
///
/// # Errors
/// The interpreter does not run.
pub(crate) fn installed_packages(python: &Path) -> anyhow::Result<Vec<Package>> {
    let names: Vec<&str> = lock::packages().map(|package| package.name).collect();
    let script = format!(
        "import importlib.metadata as metadata, json\n\
         found = []\n\
         for name in {}:\n\
         \x20   try: found.append({{'name': name, 'version': metadata.version(name)}})\n\
         \x20   except metadata.PackageNotFoundError: pass\n\
         print(json.dumps(found))\n",
        serde_json::to_string(&names)?
    );
    Ok(serde_json::from_slice(&run_isolated(python, &script)?)?)
}

/// Imports each locked package and compares its version.
///
/// # Errors
/// A package is missing, does not load, or has another version.
pub(crate) fn check_packages(python: &Path) -> anyhow::Result<()> {
    let names: Vec<(&str, String)> =
        lock::packages().map(|package| (package.name, package.module())).collect();
    let script = format!(
        "import importlib, importlib.metadata as metadata, json\n\
         found = []\n\
         for name, module in {}:\n\
         \x20   importlib.import_module(module)\n\
         \x20   found.append({{'name': name, 'version': metadata.version(name)}})\n\
         print(json.dumps(found))\n",
        serde_json::to_string(&names)?
    );
    let found: Vec<Package> = serde_json::from_slice(&run_isolated(python, &script)?)?;
    for (locked, found) in lock::packages().zip(&found) {
        if locked.version != found.version {
            bail!("`{}` is {}, not {}", locked.name, found.version, locked.version);
        }
    }
    Ok(())
}

/// A package and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
}

/// The folder in which environments are built: `rocstar` in the user's cache directory.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is set.
pub(crate) fn cache_directory() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // By the XDG rule a relative path there is invalid and ignored.
    let base = set(env_vars::XDG_CACHE_HOME)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(set(env_vars::HOME)?.join(".cache")));
    let base = base.context("no cache directory: neither `XDG_CACHE_HOME` nor `HOME` is set")?;
    Ok(base.join("rocstar"))
}

/// The name of the environment for one version, inside [`cache_directory`].
pub(crate) fn environment_name(version: Version) -> String {
    format!("python-{}.{}", version.major, version.minor)
}

/// The interpreter of the newest environment that `rocstar sandbox setup` has built.
pub(crate) fn built_environment() -> Option<PathBuf> {
    let cache = cache_directory().ok()?;
    (OLDEST.1..=NEWEST.1)
        .rev()
        .map(|minor| cache.join(format!("python-3.{minor}")).join("bin/python"))
        .find(|python| python.exists())
}
