//! A warmed Python process that forks keepers on demand.
//!
//! Invariant: [`Zygote::start`] returns only when the interpreter has entered its own view and
//! serves; dropping it closes its socket, on which it ends.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::kind::Kind;
use crate::socket::Socket;
use crate::view::Interpreter;
use crate::wire::{HELLO, Spawn};
use crate::{Error, jail::system};

/// Built from `native/` by `build.rs`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/librocstar_zygote.so"));
const PROGRAM: &str = include_str!("../python/zygote.py");

/// Longest time that imports and warming may take on a slow, busy machine.
const WARM_WITHIN: Duration = Duration::from_secs(180);

/// Everything that is the same for each zygote of a jail.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) interpreter: Interpreter,
    /// The configuration text for `native/enter.rs`.
    pub(crate) config: String,
}

/// A running zygote.
#[derive(Debug)]
pub(crate) struct Zygote {
    process: Child,
    control: Socket,
    log: File,
}

impl Zygote {
    pub(crate) fn start(blueprint: &Blueprint, kind: Kind) -> Result<Self, Error> {
        let (control, theirs) = Socket::pair().map_err(system("make a socket"))?;
        let library = memory_file("rocstar-zygote", LIBRARY)?;
        let config = memory_file("rocstar-config", blueprint.config.as_bytes())?;
        let log = File::from(
            memfd_create("rocstar-log", MemfdFlags::CLOEXEC)
                .map_err(|error| system("make the zygote's log")(error.into()))?,
        );
        let log_end = log.try_clone().map_err(system("make the zygote's log"))?;
        control.send(&[HELLO], &[config.as_fd()]).map_err(system("send the configuration"))?;
        let process = Command::new(&blueprint.interpreter.executable)
            .args(["-I", "-X", "utf8", "-c", PROGRAM, kind.name()])
            .env_clear()
            .envs(ENVIRONMENT)
            // Descriptors travel as the standard ones: nothing has to be inheritable in a process
            // with many threads.
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(OwnedFd::from(library)))
            .stderr(Stdio::from(log_end))
            .spawn()
            .map_err(|error| Error::Python {
                python: blueprint.interpreter.executable.display().to_string(),
                cause: error.to_string(),
            })?;
        let mut zygote = Self { process, control, log };
        match zygote.control.receive_before(Instant::now() + WARM_WITHIN) {
            Ok(message) if message.bytes.first() == Some(&HELLO) => Ok(zygote),
            other => {
                let cause = match other {
                    Err(error) => error.to_string(),
                    Ok(_) => zygote.said(),
                };
                // The library marks its own lines; what Python says about them comes after.
                if let Some(line) = cause.lines().find_map(|line| line.strip_prefix("rocstar: ")) {
                    return Err(Error::Isolation { lacks: line.to_owned() });
                }
                let python = blueprint.interpreter.executable.display().to_string();
                Err(Error::Python { python, cause })
            }
        }
    }

    /// Asks for a keeper; it says hello on its own socket.
    pub(crate) fn spawn(&self, spawn: &Spawn, socket: &OwnedFd, page: &File) -> io::Result<()> {
        self.control.send(&spawn.encode(), &[socket.as_fd(), page.as_fd()])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The last lines that it wrote, for an error.
    fn said(&mut self) -> String {
        let mut text = String::new();
        let _ = self.process.wait();
        let read = self.log.rewind().and_then(|()| self.log.read_to_string(&mut text));
        match read {
            Ok(_) if !text.trim().is_empty() => {
                let lines: Vec<&str> = text.trim().lines().rev().take(12).collect();
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            }
            _ => "it ended without a word".to_owned(),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It serves no more; its keepers live until their own sockets close.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All that a program finds in its environment.
const ENVIRONMENT: [(&str, &str); 14] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("TMPDIR", "/tmp"),
    ("USER", "sandbox"),
    ("LANG", "C.UTF-8"),
    // Sets and dicts of text iterate in the same order in each run.
    ("PYTHONHASHSEED", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    // A thread pool in the zygote would not survive the fork.
    ("OPENBLAS_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("MPLBACKEND", "Agg"),
    ("MPLCONFIGDIR", "/tmp"),
    // These two are taken out again before programs run: all symbols bound at the start (binding
    // one later dirties pages in each child); glibc's heap on huge pages, and one heap for all
    // threads (each further one reserves 64 MiB of address space, which is limited).
    ("LD_BIND_NOW", "1"),
    ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"),
];

fn memory_file(name: &str, content: &[u8]) -> Result<File, Error> {
    let make = || -> io::Result<File> {
        let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
        file.write_all(content)?;
        file.rewind()?;
        Ok(file)
    };
    make().map_err(system("make a memory file"))
}
