//! Finds out which layers hold, by looking from inside a child that is set up as any program's.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Deserialize;

use crate::effective::{Effective, Layer, LayerState};
use crate::host::Host;
use crate::jail::Control;
use crate::pool::Pool;
use crate::request::{Request, ResolvedLimits};
use crate::run::Run;
use crate::{Config, Error, Outcome};

/// What the child sees of itself.
#[derive(Debug, Deserialize)]
struct Seen {
    /// Targets of `/proc/self/ns/*`.
    namespaces: BTreeMap<String, String>,
    /// Lines of `/proc/self/status`.
    status: BTreeMap<String, String>,
    /// Names in the root directory.
    root: Vec<String>,
    /// `RLIMIT_AS`; negative: unlimited.
    hard_address_space: i64,
    uid: u32,
}

const PROGRAM: &str = r#"
import json, os, resource
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
print(json.dumps({
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")},
    "status": status,
    "root": sorted(os.listdir("/")),
    "hard_address_space": resource.getrlimit(resource.RLIMIT_AS)[1],
    "uid": os.getuid(),
}))
"#;

/// Looks, and refuses where something required is missing.
pub(crate) fn effective(config: &Config, host: &Host, pool: &Pool) -> Result<Effective, Error> {
    let seen = look(pool)?;
    let states: Vec<LayerState> = Layer::ALL
        .into_iter()
        .map(|layer| {
            let lack = lack_of(layer, &seen, host);
            LayerState { layer, holds: lack.is_none(), lack }
        })
        .collect();
    let lacks: Vec<String> = states
        .iter()
        .filter(|state| config.required.contains(&state.layer))
        .filter_map(|state| Some(format!("{} ({})", state.layer.name(), state.lack.as_ref()?)))
        .collect();
    if !lacks.is_empty() && !config.allow_degraded {
        return Err(Error::Isolation { lacks: lacks.join("; ") });
    }
    let interpreter = &host.blueprint.interpreter;
    Ok(Effective {
        layers: states,
        degraded: !lacks.is_empty(),
        python: interpreter.executable.display().to_string(),
        python_version: interpreter.version.clone(),
        packages: interpreter.packages.clone(),
    })
}

fn look(pool: &Pool) -> Result<Seen, Error> {
    let request = Request::new(PROGRAM);
    let limits = ResolvedLimits::default();
    let control = Control::default();
    let turn = Duration::from_millis(limits.wall_ms);
    let finished = pool
        .with_slot(limits.tmp_bytes, |slot, parked| {
            Run::new(slot, parked, &request, limits, &control, turn).finish()
        })
        .map_err(|error| Error::Isolation { lacks: error.to_string() })?;
    let report = finished.report;
    let problem = |cause: String| Error::Isolation { lacks: format!("the probe failed: {cause}") };
    if report.outcome != Outcome::Ok {
        return Err(problem(format!("{:?} {}", report.outcome, report.stderr.text)));
    }
    serde_json::from_str(&report.stdout.text).map_err(|error| problem(error.to_string()))
}

/// Why a layer does not hold, if it does not.
fn lack_of(layer: Layer, seen: &Seen, host: &Host) -> Option<String> {
    let status = |name: &str| seen.status.get(name).map(|value| value.trim()).unwrap_or_default();
    let namespace = |name: &str| {
        let ours = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
        let theirs = seen.namespaces.get(name)?;
        (ours.to_string_lossy() == *theirs)
            .then(|| format!("the program shares the server's {name} namespace"))
    };
    let unless = |holds: bool, lack: &str| (!holds).then(|| lack.to_owned());
    match layer {
        Layer::PidNamespace => namespace("pid"),
        Layer::MountNamespace => namespace("mnt").or_else(|| {
            let strange = |name: &&String| !TREE.contains(&name.as_str());
            let visible = ["boot", "run", "sys", "var/lib"];
            seen.root
                .iter()
                .filter(strange)
                .find(|name| visible.contains(&name.as_str()))
                .map(|name| format!("the program sees /{name}"))
        }),
        Layer::IpcNamespace => namespace("ipc"),
        Layer::UtsNamespace => namespace("uts"),
        Layer::NetworkNamespace => namespace("net"),
        Layer::UnprivilegedUser => {
            let own = rustix::process::geteuid().as_raw() == seen.uid;
            let shared_user = own && namespace("user").is_some();
            unless(seen.uid != 0 && !shared_user, "the program runs as the server's own user")
        }
        Layer::NoCapabilities => {
            let empty = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
                .iter()
                .all(|set| !status(set).is_empty() && status(set).bytes().all(|byte| byte == b'0'));
            unless(empty, "a capability set of the program is not empty")
        }
        Layer::NoNewPrivileges => unless(status("NoNewPrivs") == "1", "no_new_privs is not set"),
        Layer::Seccomp => unless(status("Seccomp") == "2", "no filter is installed"),
        Layer::ResourceLimits => unless(seen.hard_address_space > 0, "no hard limit is set"),
        Layer::MemoryCgroup | Layer::PidsCgroup | Layer::CpuCgroup => {
            let lack = host.groups.lacks().iter().find(|(other, _)| *other == layer);
            lack.map(|(_, why)| why.clone())
        }
    }
}

/// What a program may find in its root directory.
const TREE: [&str; 12] =
    ["bin", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "sbin", "tmp", "usr", "home"];
