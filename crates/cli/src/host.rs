//! Facts about this machine that decide how fast and how far the code environment goes.
//!
//! Invariant: a fact that can't be read is `None` and shown as unknown; nothing is guessed.

use std::path::Path;

use serde::Serialize;

use crate::python;
use crate::quantity::show_size;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Facts {
    /// Release of the kernel.
    pub(crate) kernel: Option<String>,
    /// Cores that this process may use.
    pub(crate) cores: Option<usize>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_available_bytes: Option<u64>,
    /// Which control groups there are: `v1`, `v2` or `hybrid`.
    pub(crate) cgroup: Option<&'static str>,
    /// Whether this process may create control groups.
    pub(crate) cgroup_writable: bool,
    /// Policy for transparent huge pages: `always`, `madvise` or `never`.
    pub(crate) huge_pages: Option<String>,
    /// Files that a process may have open (soft and hard limit).
    pub(crate) open_files: Option<(u64, u64)>,
    /// Highest process id.
    pub(crate) pid_max: Option<u64>,
    /// Free bytes where `rocstar sandbox setup` builds.
    pub(crate) cache_free_bytes: Option<u64>,
}

/// Below this, the huge count of pipes and pidfds of a full service may not fit.
const ENOUGH_OPEN_FILES: u64 = 4_096;
/// What the environment of `rocstar sandbox setup` takes while it is built.
const SETUP_BYTES: u64 = 400 << 20;

impl Facts {
    /// Looks at the machine.
    pub(crate) fn collect() -> Self {
        let (cgroup, cgroup_writable) = cgroups();
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            cores: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
            memory_bytes: memory("MemTotal:"),
            memory_available_bytes: memory("MemAvailable:"),
            cgroup,
            cgroup_writable,
            huge_pages: huge_pages(),
            open_files: open_files(),
            pid_max: read("/proc/sys/kernel/pid_max").and_then(|text| text.parse().ok()),
            cache_free_bytes: cache_free_bytes(),
        }
    }

    /// The facts as rows of a table.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let unknown = || "unknown".to_owned();
        let size = |bytes: Option<u64>| bytes.map_or_else(unknown, show_size);
        let writable = if self.cgroup_writable { "writable" } else { "not writable" };
        let cgroup = self.cgroup.map_or_else(unknown, |kind| format!("{kind}, {writable}"));
        let open_files =
            self.open_files.map_or_else(unknown, |(soft, hard)| format!("{soft} (hard {hard})"));
        let rows = [
            ("kernel", self.kernel.clone().unwrap_or_else(unknown)),
            ("cores", self.cores.map_or_else(unknown, |cores| cores.to_string())),
            ("memory", size(self.memory_bytes)),
            ("memory available", size(self.memory_available_bytes)),
            ("control groups", cgroup),
            ("transparent huge pages", self.huge_pages.clone().unwrap_or_else(unknown)),
            ("open files", open_files),
            ("highest process id", self.pid_max.map_or_else(unknown, |pid| pid.to_string())),
            ("free in the cache directory", size(self.cache_free_bytes)),
        ];
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
    }
}

/// What would make the machine better for the code environment.
pub(crate) fn hints(facts: &Facts) -> Vec<String> {
    let mut hints = Vec::new();
    if facts.huge_pages.as_deref() == Some("never") {
        hints.push(
            "calls with numpy or sympy are several times slower without huge pages: `echo madvise \
             > /sys/kernel/mm/transparent_hugepage/enabled` as root"
                .to_owned(),
        );
    }
    if let Some((soft, hard)) = facts.open_files
        && soft < ENOUGH_OPEN_FILES
    {
        hints.push(format!(
            "few files may be open: `ulimit -n {}` before a service is started",
            hard.min(65_536)
        ));
    }
    if facts.cache_free_bytes.is_some_and(|free| free < SETUP_BYTES) {
        hints.push(format!(
            "`rocstar sandbox setup` needs {} in the cache directory: free some, or use `--dir`",
            show_size(SETUP_BYTES)
        ));
    }
    hints
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn memory(name: &str) -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The policy in force stands in brackets: `always [madvise] never`.
fn huge_pages() -> Option<String> {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn open_files() -> Option<(u64, u64)> {
    let text = read("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Which hierarchies are mounted, and whether this process may make a group below its own.
fn cgroups() -> (Option<&'static str>, bool) {
    let Some(mounts) = read("/proc/self/mounts") else { return (None, false) };
    let points = |kind: &str| -> Vec<&str> {
        let of_kind = mounts.lines().filter(|line| line.split(' ').nth(2) == Some(kind));
        of_kind.filter_map(|line| line.split(' ').nth(1)).collect()
    };
    let (unified, legacy) = (points("cgroup2"), points("cgroup"));
    let kind = match (unified.is_empty(), legacy.is_empty()) {
        (true, true) => None,
        (false, true) => Some("v2"),
        (true, false) => Some("v1"),
        (false, false) => Some("hybrid"),
    };
    // Controllers live in v1 where both are mounted.
    let root = match legacy.iter().find(|point| point.contains("memory")) {
        Some(point) => Some((*point, "memory")),
        None => unified.first().map(|point| (*point, "")),
    };
    let writable = root.is_some_and(|(point, controller)| {
        let own = own_cgroup(controller).unwrap_or_else(|| "/".to_owned());
        let group = format!("{point}{own}");
        // In a container the group may be named from outside and the mount start at it.
        let path = if Path::new(&group).exists() { Path::new(&group) } else { Path::new(point) };
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    });
    (kind, writable)
}

/// The path of this process's group; an empty `controller` means the unified hierarchy.
fn own_cgroup(controller: &str) -> Option<String> {
    let text = read("/proc/self/cgroup")?;
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
    })
}

/// Free bytes in the nearest folder above the cache directory that exists.
fn cache_free_bytes() -> Option<u64> {
    let cache = python::cache_directory().ok()?;
    let existing = cache.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}
