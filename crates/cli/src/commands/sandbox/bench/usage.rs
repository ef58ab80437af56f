//! What a server's processes cost, read from `/proc`.
//!
//! CPU time is the user and system time of the given processes and all their descendants, with that
//! of every descendant that has ended and was waited for (the kernel adds it to its parent's).
//! Nothing is missed as long as no process of the tree leaves it for another parent. Its grain is
//! one clock tick (10 ms) a living process.
//!
//! Memory is the sum of the proportional set sizes over the same tree: a page that n processes
//! share counts 1/n in each, so a zygote and its forks are not counted over and over. It is sampled,
//! so a peak between two samples is missed; the high-water mark of the server's first processes,
//! which the kernel keeps, is not.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A set of processes with all their descendants.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    roots: Vec<u32>,
}

struct Process {
    parent: u32,
    /// Own time and that of children that were waited for.
    cpu_ticks: u64,
}

impl ProcessTree {
    pub(crate) const fn of(roots: Vec<u32>) -> Self {
        Self { roots }
    }

    /// CPU time used so far, in milliseconds; `None` where a root is gone or can't be read.
    pub(crate) fn cpu_ms(&self) -> Option<u64> {
        let processes = all_processes()?;
        if self.roots.iter().any(|root| !processes.contains_key(root)) {
            return None;
        }
        let members = self.members(&processes);
        let ticks: u64 = members.iter().map(|pid| processes[pid].cpu_ticks).sum();
        Some(ticks * 1_000 / rustix::param::clock_ticks_per_second())
    }

    /// Memory now, in bytes; `None` where a process can't be read.
    fn proportional_bytes(&self) -> Option<u64> {
        let processes = all_processes()?;
        let mut sum = 0;
        for pid in self.members(&processes) {
            match std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
                Ok(text) => sum += kibibytes(&text, "Pss:").unwrap_or(0) << 10,
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
                // It has ended since the list was made.
                Err(_) => {}
            }
        }
        Some(sum)
    }

    /// The most that the roots themselves ever had resident, in bytes, summed.
    pub(crate) fn root_peak_bytes(&self) -> Option<u64> {
        let peaks = self.roots.iter().map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            Some(kibibytes(&status, "VmHWM:")? << 10)
        });
        peaks.sum()
    }

    fn members(&self, processes: &HashMap<u32, Process>) -> Vec<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (pid, process) in processes {
            children.entry(process.parent).or_default().push(*pid);
        }
        let mut members = Vec::new();
        let mut open = self.roots.clone();
        while let Some(pid) = open.pop() {
            // A root below another root is there already.
            if processes.contains_key(&pid) && !members.contains(&pid) {
                members.push(pid);
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        members
    }
}

/// CPU time of this process itself, without its children, in milliseconds.
pub(crate) fn own_cpu_ms() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields = fields_after_name(&stat)?;
    let ticks = number(&fields, 11)? + number(&fields, 12)?;
    Some(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

fn all_processes() -> Option<HashMap<u32, Process>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(pids.filter_map(|pid: u32| Some((pid, read_process(pid)?))).collect())
}

fn read_process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = fields_after_name(&stat)?;
    // utime, stime, cutime, cstime: fields 14 to 17 of proc_pid_stat(5), the name being field 2.
    let ticks = (11..=14).map(|index| number(&fields, index)).sum::<Option<u64>>()?;
    Some(Process { parent: u32::try_from(number(&fields, 1)?).ok()?, cpu_ticks: ticks })
}

/// The name in parentheses may itself hold blanks and parentheses: what counts is the last one.
fn fields_after_name(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

fn number(fields: &[&str], index: usize) -> Option<u64> {
    fields.get(index)?.parse().ok()
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Samples the memory of a tree until it is asked for the peak.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Option<u64>>,
}

impl MemoryWatch {
    /// A sample walks page tables; with at least this many times its own duration between two, it
    /// takes at most 2 % of a core.
    const PAUSE_FACTOR: u32 = 50;
    const LEAST_PAUSE: Duration = Duration::from_millis(250);

    /// Starts sampling on a thread of its own.
    pub(crate) fn start(tree: ProcessTree) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut peak = 0;
            loop {
                let started = Instant::now();
                peak = tree.proportional_bytes()?.max(peak);
                let pause = (started.elapsed() * Self::PAUSE_FACTOR).max(Self::LEAST_PAUSE);
                match stopped.recv_timeout(pause) {
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                        return Some(tree.proportional_bytes()?.max(peak));
                    }
                }
            }
        });
        Self { stop, thread }
    }

    /// The largest sample; `None` where a process could not be read.
    pub(crate) fn peak_bytes(self) -> Option<u64> {
        drop(self.stop);
        self.thread.join().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryWatch, ProcessTree, fields_after_name, own_cpu_ms};

    #[test]
    fn a_name_may_hold_anything() {
        let fields = fields_after_name("7 (a) b) S 1 7").unwrap();
        assert_eq!(fields, ["S", "1", "7"]);
    }

    #[test]
    fn counts_children_that_have_ended() {
        let tree = ProcessTree::of(vec![std::process::id()]);
        let before = tree.cpu_ms().unwrap();
        let busy = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done";
        let status = std::process::Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(status.success());
        assert!(tree.cpu_ms().unwrap() > before);
        assert!(own_cpu_ms().is_some());
    }

    #[test]
    fn memory_is_seen() {
        let tree = ProcessTree::of(vec![std::process::id()]);
        assert!(MemoryWatch::start(tree.clone()).peak_bytes().unwrap() > 0);
        assert!(tree.root_peak_bytes().unwrap() > 0);
    }

    #[test]
    fn a_process_that_is_gone_is_not_zero() {
        assert_eq!(ProcessTree::of(vec![u32::MAX]).cpu_ms(), None);
    }
}
