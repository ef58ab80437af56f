//! Control groups around a slot: memory, number of processes, CPU time of the whole process tree.
//!
//! Version 1 (one hierarchy a controller) and version 2 (one for all) are both found at run time.
//! A slot's keeper is moved in once, and every program is born inside; moving a process costs a
//! grace period of the kernel and would be too slow for each call. Invariant: what is not
//! writable here is reported as missing (see [`Groups::lacks`]), never skipped silently.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::effective::Layer;

/// The directories under which each slot gets its own.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    version: Version,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    lacks: Vec<(Layer, String)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Version {
    #[default]
    One,
    Two,
}

/// Memory that the kernel needs for a call beside what the program asked for: page tables,
/// pages of the interpreter that it dirties.
const OVERHEAD_BYTES: u64 = 64 << 20;

impl Groups {
    /// Finds what this process may use.
    pub(crate) fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut groups = Self::default();
        let name = format!("rocstar-{}", std::process::id());
        if let Some(base) = version_two_base(&own, &mounts) {
            match delegate(&base, &name) {
                Ok(directory) => {
                    groups.version = Version::Two;
                    groups.memory = Some(directory.clone());
                    groups.pids = Some(directory.clone());
                    groups.cpu = Some(directory);
                    return groups;
                }
                Err(error) => groups.lack_all(&format!("{}: {error}", base.display())),
            }
        } else {
            groups.lack_all("no control group hierarchy is mounted");
        }
        for (controller, layer) in CONTROLLERS {
            let Some(base) = version_one_base(controller, &own, &mounts) else { continue };
            sweep(&base);
            let directory = base.join(&name);
            match fs::create_dir_all(&directory) {
                Ok(()) => groups.set(layer, directory),
                Err(error) => groups.lack(layer, format!("{}: {error}", directory.display())),
            }
        }
        groups
    }

    /// Why a layer is missing.
    pub(crate) fn lacks(&self) -> &[(Layer, String)] {
        &self.lacks
    }

    fn lack_all(&mut self, why: &str) {
        for (_, layer) in CONTROLLERS {
            self.lack(layer, why.to_owned());
        }
    }

    fn lack(&mut self, layer: Layer, why: String) {
        self.lacks.retain(|(other, _)| *other != layer);
        self.lacks.push((layer, why));
    }

    fn set(&mut self, layer: Layer, directory: PathBuf) {
        self.lacks.retain(|(other, _)| *other != layer);
        match layer {
            Layer::MemoryCgroup => self.memory = Some(directory),
            Layer::PidsCgroup => self.pids = Some(directory),
            _ => self.cpu = Some(directory),
        }
    }

    /// A group for one slot.
    pub(crate) fn slot(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        let two = self.version == Version::Two;
        if let Some(base) = &self.memory {
            let directory = group.create(base, name)?;
            let (limit, peak, kills) = if two {
                ("memory.max", "memory.peak", "memory.events")
            } else {
                ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
            };
            group.memory_limit = Some(open(&directory.join(limit))?);
            // Resettable only from Linux 6.12 on in version 2; without it the peak is the largest
            // resident set.
            group.memory_peak = open(&directory.join(peak)).ok();
            group.memory_kills = Some(File::open(directory.join(kills))?);
            let swap = if two { "memory.swap.max" } else { "memory.swappiness" };
            if let Ok(swap) = open(&directory.join(swap)) {
                swap.write_at(b"0", 0)?;
            }
        }
        if let Some(base) = &self.pids {
            let directory = group.create(base, name)?;
            group.pids_limit = Some(open(&directory.join("pids.max"))?);
            group.pids_events = File::open(directory.join("pids.events")).ok();
        }
        if let Some(base) = &self.cpu {
            let directory = group.create(base, name)?;
            let usage = if two { "cpu.stat" } else { "cpuacct.usage" };
            group.cpu_usage = Some(File::open(directory.join(usage))?);
        }
        Ok(group)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for directory in [&self.memory, &self.pids, &self.cpu].into_iter().flatten() {
            // Fails while a slot's group is left; the next start has another name.
            let _ = fs::remove_dir(directory);
        }
    }
}

const CONTROLLERS: [(&str, Layer); 3] =
    [("memory", Layer::MemoryCgroup), ("pids", Layer::PidsCgroup), ("cpuacct", Layer::CpuCgroup)];

/// This process's own group of a version 1 controller.
fn version_one_base(controller: &str, own: &str, mounts: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|word| word == controller);
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        has(fields.next()?).then(|| fields.next()).flatten()
    })?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup" && has(options)).then_some(at)
    })?;
    existing(mount, path)
}

/// This process's own group in the unified hierarchy, if that has the controllers.
fn version_two_base(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(at)
    })?;
    let base = existing(mount, path)?;
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).ok()?;
    let has = |name| controllers.split_whitespace().any(|word| word == name);
    (has("memory") && has("pids")).then_some(base)
}

/// In a container the path of `/proc/self/cgroup` may not exist below the mount, which then is
/// the container's own group.
fn existing(mount: &str, path: &str) -> Option<PathBuf> {
    let inner = Path::new(mount).join(path.trim_start_matches('/'));
    [inner, PathBuf::from(mount)].into_iter().find(|path| path.is_dir())
}

/// Makes a directory whose children may use the controllers. Version 2 allows that only below a
/// group without processes of its own, so this process moves into a leaf first (the root group
/// is exempt).
fn delegate(base: &Path, name: &str) -> io::Result<PathBuf> {
    sweep(base);
    let directory = base.join(name);
    fs::create_dir_all(&directory)?;
    let enable = |at: &Path| fs::write(at.join("cgroup.subtree_control"), "+memory +pids +cpu");
    if enable(base).is_err() {
        let leaf = base.join(format!("{name}-server"));
        fs::create_dir_all(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), std::process::id().to_string())?;
        enable(base)?;
    }
    enable(&directory)?;
    Ok(directory)
}

/// Removes what servers that were killed have left. Only empty groups can be removed at all.
fn sweep(base: &Path) {
    let children = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    for entry in children(base) {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("rocstar-"));
        let pid = pid.map(|pid| pid.trim_end_matches("-server"));
        let is_left = pid.is_some_and(|pid| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        });
        if is_left {
            for slot in children(&entry.path()) {
                let _ = fs::remove_dir(slot.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// A group's directories, one for each hierarchy; removed when the last who needs them lets go.
#[derive(Debug, Default)]
pub(crate) struct Directories(Vec<PathBuf>);

/// One slot's group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    directories: Arc<Directories>,
    memory_limit: Option<File>,
    memory_peak: Option<File>,
    memory_kills: Option<File>,
    pids_limit: Option<File>,
    pids_events: Option<File>,
    cpu_usage: Option<File>,
    limits: Option<(u64, u64)>,
    kills: u64,
    refusals: u64,
}

impl Group {
    fn create(&mut self, base: &Path, name: &str) -> io::Result<PathBuf> {
        let directory = base.join(name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Nobody shares the list while the group is being made.
        if let Some(Directories(all)) = Arc::get_mut(&mut self.directories)
            && !all.contains(&directory)
        {
            all.push(directory.clone());
        }
        Ok(directory)
    }

    /// What keeps this group in place beyond its slot: its keeper may have to stay in it.
    pub(crate) fn directories(&self) -> Arc<Directories> {
        Arc::clone(&self.directories)
    }

    /// Moves a process in.
    pub(crate) fn enter(&self, pid: u32) -> io::Result<()> {
        let pid = pid.to_string();
        self.directories.0.iter().try_for_each(|path| fs::write(path.join("cgroup.procs"), &pid))
    }

    /// Prepares for a call: limits in force, counters at zero.
    pub(crate) fn prepare(&mut self, memory_bytes: u64, processes: u64) -> io::Result<()> {
        let limits = (memory_bytes.saturating_add(OVERHEAD_BYTES), processes);
        if self.limits != Some(limits) {
            if let Some(file) = &self.memory_limit {
                file.write_at(limits.0.to_string().as_bytes(), 0)?;
            }
            if let Some(file) = &self.pids_limit {
                // The keeper and the namespace's first process count too.
                file.write_at((limits.1 + 2).to_string().as_bytes(), 0)?;
            }
            self.limits = Some(limits);
        }
        if let Some(file) = &self.memory_peak {
            file.write_at(b"0", 0)?;
        }
        Ok(())
    }

    /// Whether the group itself limits the number of processes.
    pub(crate) const fn counts_processes(&self) -> bool {
        self.pids_limit.is_some()
    }

    /// Most memory in use since [`Group::prepare`], in bytes.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        read(self.memory_peak.as_ref()?)?.trim().parse().ok()
    }

    /// Whether the kernel killed a process for want of memory since this was last asked.
    pub(crate) fn was_killed_for_memory(&mut self) -> bool {
        let now = self.memory_kills.as_ref().and_then(|file| field(file, "oom_kill"));
        let now = now.unwrap_or(0);
        std::mem::replace(&mut self.kills, now) < now
    }

    /// Whether a process or thread was refused since this was last asked.
    pub(crate) fn was_refused_a_process(&mut self) -> bool {
        let now = self.pids_events.as_ref().and_then(|file| field(file, "max"));
        let now = now.unwrap_or(0);
        std::mem::replace(&mut self.refusals, now) < now
    }

    /// CPU time used by everything that ever ran in the group, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<u64> {
        let file = self.cpu_usage.as_ref()?;
        match field(file, "usage_usec") {
            Some(microseconds) => Some(microseconds),
            None => Some(read(file)?.trim().parse::<u64>().ok()? / 1000),
        }
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for directory in &self.0 {
            // Processes on their way out still count for a moment.
            for _ in 0..20 {
                if fs::remove_dir(directory).is_ok() || !directory.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}

fn read(file: &File) -> Option<String> {
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes[..length].to_vec()).ok()
}

/// A `name value` line of a statistics file.
fn field(file: &File, name: &str) -> Option<u64> {
    let text = read(file)?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
