//! What this host lets the jail do, found once: privileges, control groups, the interpreter.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cgroup::Groups;
use crate::seccomp::{self, Purpose};
use crate::view::{Interpreter, hex};
use crate::zygote::Blueprint;
use crate::{Config, Error, InvalidRequest, jail::system};

/// See the module.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) blueprint: Blueprint,
    pub(crate) groups: Groups,
    /// Programs run under user ids of their own; otherwise in user namespaces, or as the server's
    /// user where there are none.
    pub(crate) privileged: bool,
    first_uid: u32,
    /// Programs run as the server's own user, without a user namespace.
    shares_user: bool,
    /// Counts slots: names their groups and picks their user ids.
    counter: AtomicU32,
}

/// Whether programs get namespaces of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// The rule.
    Own,
    /// The host gives none, and the server was told to go on (see `native/degraded.rs`).
    None,
}

/// User ids of one server: slots before an id comes round again.
const USER_IDS: u32 = 32_768;

/// The first user id of this server. Servers on one machine take blocks of their own, by process
/// id: the kernel counts a user's processes wherever they run, and holds them against a limit.
fn own_block(first_uid: u32) -> u32 {
    // The last id is no id.
    let blocks = (u32::MAX - first_uid.min(u32::MAX - 1)) / USER_IDS;
    first_uid.saturating_add(std::process::id() % blocks.max(1) * USER_IDS)
}

impl Host {
    pub(crate) fn find(config: &Config, namespaces: Namespaces) -> Result<Self, Error> {
        // Below are the users of the host; too high, and a slot's id would come round to root's.
        let first_uids = 65_536..=u32::MAX - 1 - USER_IDS;
        if !first_uids.contains(&config.first_uid) {
            let problem = format!(
                "must be between {} and {}, is {}",
                first_uids.start(),
                first_uids.end(),
                config.first_uid
            );
            return Err(InvalidRequest::new("jail.first_uid", problem).into());
        }
        let interpreter = Interpreter::probe(&config.python)?;
        let filter = |purpose| {
            let compiled = seccomp::compile(purpose).map_err(std::io::Error::other);
            let compiled = compiled.map_err(system("compile the system call allow-list"))?;
            Ok::<_, Error>(hex(&compiled.program))
        };
        let (call, session) = (filter(Purpose::Call)?, filter(Purpose::Session)?);
        let (privileged, first_line) = match namespaces {
            Namespaces::Own => {
                let privileged = holds(&[SETGID, SETUID, SETPCAP, SYS_ADMIN]);
                (privileged, "")
            }
            Namespaces::None => (holds(&[SETGID, SETUID, SETPCAP]), "degraded\n"),
        };
        let mode = if privileged { "privileged" } else { "user" };
        let view = interpreter.view();
        let text =
            format!("{first_line}mode {mode}\nfilter\t{call}\nsession_filter\t{session}\n{view}");
        Ok(Self {
            blueprint: Blueprint { interpreter, config: text },
            groups: Groups::find(),
            privileged,
            first_uid: own_block(config.first_uid),
            shares_user: namespaces == Namespaces::None && !privileged,
            counter: AtomicU32::new(0),
        })
    }

    /// Whether the scientific packages are there.
    pub(crate) fn has_science(&self) -> bool {
        !self.blueprint.interpreter.packages.is_empty()
    }

    /// Processes and threads that already count against a program's limit: those of the server's
    /// own user, where programs run as that one.
    pub(crate) fn foreign_processes(&self) -> u64 {
        if !self.shares_user {
            return 0;
        }
        let uid = rustix::process::geteuid().as_raw();
        let threads_of = |entry: fs::DirEntry| -> Option<u64> {
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let owner: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
            (owner == uid).then(|| field("Threads:")?.trim().parse().ok()).flatten()
        };
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(threads_of).sum()
    }

    /// A number for a new slot, and the user id that its programs run under (0: the server's own,
    /// in a user namespace).
    pub(crate) fn next_slot(&self) -> (u32, u32) {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let uid = if self.privileged { self.first_uid + number % USER_IDS } else { 0 };
        (number, uid)
    }
}

/// Whether this process is root and holds these capabilities.
fn holds(capabilities: &[u32]) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    rustix::process::geteuid().is_root() && capabilities.iter().all(|bit| held & (1 << bit) != 0)
}

// Numbers of capabilities.
const SETGID: u32 = 6;
const SETUID: u32 = 7;
const SETPCAP: u32 = 8;
const SYS_ADMIN: u32 = 21;
