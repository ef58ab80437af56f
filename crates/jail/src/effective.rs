//! Which isolation layers this host gives, found by trying them, and whether they suffice.
//!
//! Invariant: a layer is listed as held only if a probe child, set up as a program's would be,
//! showed it; nothing is assumed from a version number.

use serde::{Deserialize, Serialize};

/// One independent layer of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Own process ids: other processes can be neither seen nor signalled.
    PidNamespace,
    /// Own file tree: only Python's files, read-only, and a private `/tmp`.
    MountNamespace,
    /// No System V IPC and no message queues of others.
    IpcNamespace,
    /// Own host name.
    UtsNamespace,
    /// An empty network namespace.
    NetworkNamespace,
    /// An unprivileged user: a user id per slot (server is root), or a user namespace.
    UnprivilegedUser,
    /// No capabilities, and none to be had.
    NoCapabilities,
    /// `no_new_privs`: set-uid files have no effect.
    NoNewPrivileges,
    /// The system call allow-list.
    Seccomp,
    /// Hard resource limits.
    ResourceLimits,
    /// A memory control group around the call's whole process tree.
    MemoryCgroup,
    /// A pids control group around the call's whole process tree.
    PidsCgroup,
    /// A CPU accounting group around the call's whole process tree.
    CpuCgroup,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 13] = [
        Self::PidNamespace,
        Self::MountNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::NetworkNamespace,
        Self::UnprivilegedUser,
        Self::NoCapabilities,
        Self::NoNewPrivileges,
        Self::Seccomp,
        Self::ResourceLimits,
        Self::MemoryCgroup,
        Self::PidsCgroup,
        Self::CpuCgroup,
    ];

    /// What a host must give unless the configuration says otherwise. The control groups are
    /// missing here: resource limits stand in for them where they can't be written.
    pub const REQUIRED_BY_DEFAULT: [Self; 10] = [
        Self::PidNamespace,
        Self::MountNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::NetworkNamespace,
        Self::UnprivilegedUser,
        Self::NoCapabilities,
        Self::NoNewPrivileges,
        Self::Seccomp,
        Self::ResourceLimits,
    ];

    /// The name in JSON and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PidNamespace => "pid_namespace",
            Self::MountNamespace => "mount_namespace",
            Self::IpcNamespace => "ipc_namespace",
            Self::UtsNamespace => "uts_namespace",
            Self::NetworkNamespace => "network_namespace",
            Self::UnprivilegedUser => "unprivileged_user",
            Self::NoCapabilities => "no_capabilities",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Seccomp => "seccomp",
            Self::ResourceLimits => "resource_limits",
            Self::MemoryCgroup => "memory_cgroup",
            Self::PidsCgroup => "pids_cgroup",
            Self::CpuCgroup => "cpu_cgroup",
        }
    }
}

/// One layer on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerState {
    /// The layer.
    pub layer: Layer,
    /// Whether it holds here.
    pub holds: bool,
    /// Where it does not: why, and what would change that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// What this host gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// Every layer, in the order of [`Layer::ALL`].
    pub layers: Vec<LayerState>,
    /// True where a required layer is missing and the host was told to go on.
    pub degraded: bool,
    /// The interpreter that runs programs, resolved.
    pub python: String,
    /// Its version, for example `3.13.0`.
    pub python_version: String,
    /// Scientific packages found in it, as `name version`.
    pub packages: Vec<String>,
}

impl Effective {
    /// Names of the layers that hold.
    pub fn held(&self) -> Vec<String> {
        let held = self.layers.iter().filter(|state| state.holds);
        held.map(|state| state.layer.name().to_owned()).collect()
    }
}
