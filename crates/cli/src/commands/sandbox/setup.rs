//! `rocstar sandbox setup`: builds the virtual environment with the scientific packages.
//!
//! Invariant: an environment stands at its place whole and checked, or not at all. It is built in
//! a folder beside its place and renamed; an interrupt removes that folder, and what a killed
//! set-up left is swept by the next one.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::python::{self, Interpreter, Package};
use crate::terminal::Terminal;

/// Build the Python environment with numpy, scipy, sympy, mpmath, networkx and Math-Verify
///
/// Exact versions from a list with file hashes that is compiled into this binary. Afterwards every
/// sandbox command uses the environment. Doing it again changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Interpreter to build on, CPython 3.11 to 3.14; otherwise the newest that is found, since
    /// 3.12 and later run scientific calls about twice as fast
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Where to build; otherwise the user's cache directory, where the other commands look
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Build anew even where the environment is already right
    #[arg(long)]
    rebuild: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Built {
    python: PathBuf,
    version: String,
    packages: Vec<Package>,
    /// False where it was already there.
    changed: bool,
}

/// Bytes on disk when all packages are unpacked with their downloads still beside them: the full
/// bar. Only the bar depends on it.
const EXPECTED_BYTES: u64 = 370_000_000;

impl Setup {
    /// Runs the command.
    ///
    /// # Errors
    /// No fitting interpreter, packages that can't be had, or an interrupt.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let base = self.choose_interpreter()?;
        terminal.note(format_args!(
            "base: CPython {} at {}",
            base.version,
            base.executable.display()
        ));
        if (base.version.major, base.version.minor) < python::IMMORTAL_OBJECTS {
            terminal.note(
                "note: calls with numpy or sympy take about half the time on CPython 3.12 or newer",
            );
        }
        let target = match &self.dir {
            Some(directory) => std::path::absolute(directory)?,
            None => python::cache_directory()?.join(python::environment_name(base.version)),
        };
        let python = target.join("bin/python");
        refuse_foreign(&target)?;
        let changed = self.rebuild || python::check_packages(&python).is_err();
        if changed {
            // Checked before it takes its place, so what is there now is only ever replaced by
            // something that works.
            build(&base, &target, terminal)?;
        }
        let built = Built {
            packages: python::installed_packages(&python)?,
            version: base.version.to_string(),
            python,
            changed,
        };
        self.report(&built, terminal)
    }

    fn report(&self, built: &Built, terminal: Terminal) -> anyhow::Result<Finish> {
        let state = if built.changed { "built" } else { "already built" };
        terminal.note(format_args!("environment: {state} at {}", built.python.display()));
        if self.dir.is_some() {
            terminal.note(format_args!("hint: use it with `--python {}`", built.python.display()));
        }
        if self.json {
            terminal.json(built)?;
        } else {
            let rows: Vec<Vec<String>> = built
                .packages
                .iter()
                .map(|package| vec![package.name.clone(), package.version.clone()])
                .collect();
            terminal.table(&["package", "version"], &rows, 1)?;
        }
        Ok(Finish::Good)
    }

    fn choose_interpreter(&self) -> anyhow::Result<Interpreter> {
        if let Some(path) = &self.python {
            let interpreter = Interpreter::probe(path)?;
            if !interpreter.is_supported() {
                return Err(WrongUse::error(format!(
                    "the packages are locked for CPython 3.{} to 3.{}; `{}` is {}",
                    python::OLDEST.1,
                    python::NEWEST.1,
                    path.display(),
                    interpreter.version,
                )));
            }
            return Ok(interpreter);
        }
        let found = python::find_interpreters();
        let fits = |interpreter: &&Interpreter| interpreter.is_supported() && interpreter.can_build;
        let Some(newest) = found.iter().find(fits) else {
            let versions: Vec<String> =
                found.iter().map(|interpreter| interpreter.version.to_string()).collect();
            let error = anyhow::anyhow!(
                "no CPython 3.{} to 3.{} with `venv` and `ensurepip` was found (found: {})",
                python::OLDEST.1,
                python::NEWEST.1,
                if versions.is_empty() { "none".to_owned() } else { versions.join(", ") },
            );
            return Err(error.hint(
                "install one (on Debian and Ubuntu: `apt-get install python3 python3-venv`) or \
                 name one with `--python PATH`",
            ));
        };
        Ok(newest.clone())
    }
}

/// A folder that is something else is not overwritten.
fn refuse_foreign(target: &Path) -> anyhow::Result<()> {
    let Ok(mut entries) = std::fs::read_dir(target) else { return Ok(()) };
    if entries.next().is_none() || target.join("pyvenv.cfg").exists() {
        return Ok(());
    }
    Err(WrongUse::error(format!("not a virtual environment: {}", target.display())))
        .hint("choose a folder that is empty or does not exist")
}

fn build(base: &Interpreter, target: &Path, terminal: Terminal) -> anyhow::Result<()> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(WrongUse::error(format!("not a folder to build in: {}", target.display())));
    };
    std::fs::create_dir_all(parent)
        .with_context(|| format!("can't create {}", parent.display()))?;
    let prefix = format!(".{}.partial-", name.to_string_lossy());
    sweep_partial(parent, &prefix);
    let partial = tempfile::Builder::new()
        .prefix(&format!("{prefix}{}-", std::process::id()))
        .tempdir_in(parent)
        .with_context(|| format!("can't write in {}", parent.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let steps = Steps { partial: &partial, terminal };
    runtime.block_on(steps.all(base))?;
    put_in_place(&partial.path().join("environment"), target)
}

/// Removes what set-ups left that were killed outright. Their folder carries their process id.
fn sweep_partial(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Whatever can't be removed now is tried again next time; it is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn put_in_place(environment: &Path, target: &Path) -> anyhow::Result<()> {
    let place = || format!("can't put the environment in place at {}", target.display());
    // `rename` can't replace a folder with content, so an old one steps aside first; it lies in
    // the temporary folder then and goes with it.
    if target.exists() {
        std::fs::rename(target, environment.with_file_name("old")).with_context(place)?;
    }
    std::fs::rename(environment, target).with_context(place)
}

/// The steps of one build, all inside the temporary folder.
struct Steps<'a> {
    partial: &'a TempDir,
    terminal: Terminal,
}

impl Steps<'_> {
    async fn all(&self, base: &Interpreter) -> anyhow::Result<()> {
        let environment = self.partial.path().join("environment");
        let python = environment.join("bin/python");
        let bar = self.terminal.byte_bar("building", EXPECTED_BYTES);
        let mut create = Command::new(&base.path);
        create.args(["-I", "-m", "venv"]).arg(&environment);
        self.step("creating the environment", create, &bar).await?;

        let list = self.partial.path().join("packages.lock");
        std::fs::write(&list, python::lock::TEXT)?;
        let mut install = Command::new(&python);
        install
            .args(["-I", "-m", "pip", "install", "--require-hashes", "--no-deps"])
            .args(["--only-binary", ":all:", "--no-input", "--disable-pip-version-check"])
            .args(["--retries", "2", "--progress-bar", "off", "-r"])
            .arg(&list);
        self.step("installing the packages", install, &bar).await.map_err(|error| {
            if error.is::<Interrupted>() {
                return error;
            }
            error.hint(
                "without the packages programs run with the standard library only; run `rocstar \
                 sandbox setup` again with a network, or with wheels from a folder: \
                 `PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR`",
            )
        })?;

        // Programs have no use for an installer, and the scripts name the temporary folder.
        let mut remove = Command::new(&python);
        remove.args(["-I", "-m", "pip", "uninstall", "--yes", "--quiet", "pip", "setuptools"]);
        self.step("removing the installer", remove, &bar).await?;
        remove_scripts(&environment.join("bin"))?;
        python::check_packages(&python).context("the environment was built but does not work")?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Runs one command to its end, moving the bar by what lands on disk.
    async fn step(
        &self,
        title: &'static str,
        mut command: Command,
        bar: &indicatif::ProgressBar,
    ) -> anyhow::Result<()> {
        bar.set_message(title);
        let log_path = self.partial.path().join("log");
        let log = std::fs::File::create(&log_path)?;
        let downloads = self.partial.path().join("downloads");
        std::fs::create_dir_all(&downloads)?;
        let mut child = command
            .env("TMPDIR", &downloads)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{title}: can't start the interpreter"))?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut tick = tokio::time::interval(Duration::from_millis(500));
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                _ = interrupt.recv() => return interrupted(&mut child).await,
                _ = terminate.recv() => return interrupted(&mut child).await,
                _ = tick.tick() => {
                    // Downloads are removed as they are unpacked: the bar only ever moves on.
                    let landed = size_on_disk(self.partial.path()).min(EXPECTED_BYTES);
                    bar.set_position(landed.max(bar.position()));
                }
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = std::fs::read(&log_path)?;
        bail!("{title} failed: {}", telling_line(&String::from_utf8_lossy(&said)))
    }
}

/// The person stopped the build.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; nothing was left behind")]
struct Interrupted;

/// Waits until the child is gone, so that nothing writes into the folder while it is removed.
async fn interrupted(child: &mut tokio::process::Child) -> anyhow::Result<()> {
    child.kill().await?;
    Err(Interrupted.into())
}

/// The first line that tells what went wrong: pip's own `ERROR:`, or else the last line.
fn telling_line(log: &str) -> &str {
    let error = log.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.or_else(|| log.lines().last()).unwrap_or("it said nothing")
}

fn remove_scripts(bin: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(bin)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b"python") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn size_on_disk(folder: &Path) -> u64 {
    // Files come and go under the walk: what can't be read counts nothing.
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_on_disk(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn finds_what_pip_complains_about() {
        let log =
            "Collecting numpy\nWARNING: Retrying\nERROR: No matching distribution\nERROR: x\n";
        assert_eq!(telling_line(log), "No matching distribution");
        assert_eq!(telling_line("Traceback\nValueError: 3\n"), "ValueError: 3");
        assert_eq!(telling_line(""), "it said nothing");
    }
}
