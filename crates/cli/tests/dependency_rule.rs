//! The crate dependency rule, as data and as a test.
//!
//! Each crate of the workspace has one row here: which of our crates it may name, and which outside
//! crates must not reach it, through any number of steps. A new crate fails this test until its row
//! is written, so the rule is decided on, not grown into. Development dependencies are free.
//!
//! Read from the manifests and `Cargo.lock`, not from `cargo metadata`: that needs neither the
//! network nor every platform's packages. Cargo itself refuses cycles.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::Table;

/// What one crate may depend on.
struct Rule {
    /// The package.
    package: &'static str,
    /// Crates of this workspace that it may name.
    ours: &'static [&'static str],
    /// Outside crates that it must not contain, directly or not.
    never: &'static [&'static str],
    /// Why, for the person whose change fails here.
    reason: &'static str,
}

/// What draws, serves or waits.
const SERVICES: &[&str] = &["tokio", "axum", "hyper", "reqwest", "clap", "indicatif"];

const RULES: [Rule; 15] = [
    Rule {
        package: "rocstar-grpo",
        ours: &["rocstar-record"],
        never: SERVICES,
        reason: "the algorithm is pure functions that trainer, dashboard and tests share",
    },
    Rule {
        package: "rocstar-record",
        ours: &[],
        never: SERVICES,
        reason: "everyone reads this contract: it holds data and nothing that runs",
    },
    Rule {
        package: "rocstar-chat",
        ours: &["rocstar-record"],
        never: SERVICES,
        reason: "others use it alone, from any program",
    },
    Rule {
        package: "rocstar-nn",
        ours: &["rocstar-record"],
        never: SERVICES,
        reason: "arithmetic is synchronous, and knows neither text nor sockets",
    },
    Rule {
        package: "rocstar-http",
        ours: &[],
        never: &["clap", "indicatif", "reqwest", "rustls"],
        reason: "every server has it within: it knows connections, and nothing of what is served",
    },
    Rule {
        package: "rocstar-engine",
        ours: &["rocstar-chat", "rocstar-http", "rocstar-nn", "rocstar-record"],
        never: &["clap", "indicatif"],
        reason: "others embed the server: it has no command line and draws nothing",
    },
    Rule {
        package: "rocstar-rollout",
        ours: &[
            "rocstar-chat",
            "rocstar-engine",
            "rocstar-nn",
            "rocstar-record",
            "rocstar-sandbox",
            "rocstar-verify",
        ],
        never: &["clap", "indicatif"],
        reason: "it waits for engine, tool and verifier, and reports to whoever called it",
    },
    Rule {
        package: "rocstar-eval",
        ours: &["rocstar-chat", "rocstar-record", "rocstar-rollout", "rocstar-verify"],
        never: &["clap", "indicatif"],
        reason: "suites, scorers and metrics are used alone; it reports to whoever called it",
    },
    Rule {
        package: "rocstar-train",
        ours: &[
            "rocstar-chat",
            "rocstar-engine",
            "rocstar-grpo",
            "rocstar-nn",
            "rocstar-record",
            "rocstar-rollout",
            // The trait alone: the sandbox itself is handed in by whoever starts a run.
            "rocstar-sandbox",
        ],
        never: &["clap", "indicatif"],
        reason: "a loop that reads top to bottom, and reports to whoever called it",
    },
    Rule {
        package: "rocstar-dash",
        ours: &["rocstar-grpo", "rocstar-http", "rocstar-record"],
        never: &["clap", "indicatif", "rayon", "tokenizers", "gemm"],
        reason: "it looks at run directories, dead ones and those of other machines among them, and \
                 needs nothing that trains or generates",
    },
    Rule {
        package: "rocstar-verify",
        ours: &[],
        never: SERVICES,
        reason: "a verdict is a pure function: no input or output, no clock, no threads",
    },
    Rule {
        package: "rocstar-fake-endpoint",
        ours: &[],
        never: &["clap", "indicatif", "reqwest"],
        reason: "it stands for servers of other people: what it sends must not be made by the code \
                 that reads it",
    },
    Rule {
        package: "rocstar-jail",
        ours: &[],
        never: &["tokio", "axum", "hyper", "reqwest", "async-std", "smol"],
        reason: "the code next to the kernel is small, synchronous and read top to bottom; a \
                 runtime's threads would also be there when a process forks",
    },
    Rule {
        package: "rocstar-sandbox",
        // Its judge compares answers as mathematics; that is pure and pulls in no service.
        ours: &["rocstar-http", "rocstar-jail", "rocstar-verify"],
        never: &["clap", "indicatif"],
        reason: "others embed the service: it has no command line and draws nothing",
    },
    Rule {
        package: "rocstar",
        ours: &[
            "rocstar-chat",
            "rocstar-dash",
            "rocstar-engine",
            "rocstar-eval",
            "rocstar-grpo",
            "rocstar-jail",
            "rocstar-nn",
            "rocstar-record",
            "rocstar-rollout",
            "rocstar-sandbox",
            "rocstar-train",
            "rocstar-verify",
        ],
        never: &["openssl-sys", "native-tls"],
        reason: "the binary wires all crates together and needs no system library to build",
    },
];

#[test]
fn each_crate_keeps_its_row() {
    let root = workspace_root();
    let lock = lock_edges(&root);
    let manifests = manifests(&root);
    let ours: BTreeSet<&str> = manifests.keys().map(String::as_str).collect();
    let mut breaches = Vec::new();
    for (package, direct) in &manifests {
        let Some(rule) = RULES.iter().find(|rule| rule.package == package) else {
            breaches.push(format!("`{package}` has no row in crates/cli/tests/dependency_rule.rs"));
            continue;
        };
        for name in direct.iter().filter(|name| ours.contains(name.as_str())) {
            if !rule.ours.contains(&name.as_str()) {
                breaches.push(format!("`{package}` must not name `{name}`: {}", rule.reason));
            }
        }
        let reached = reachable(direct, &lock, &manifests);
        for name in rule.never.iter().filter(|name| reached.contains(**name)) {
            breaches.push(format!("`{package}` must not contain `{name}`: {}", rule.reason));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn no_row_is_left_over() {
    let manifests = manifests(&workspace_root());
    for rule in &RULES {
        assert!(manifests.contains_key(rule.package), "no crate is named `{}`", rule.package);
    }
}

/// The rule would be worth nothing if the walk saw nothing.
#[test]
fn the_walk_sees_indirect_dependencies() {
    let root = workspace_root();
    let manifests = manifests(&root);
    let reached = reachable(&manifests["rocstar"], &lock_edges(&root), &manifests);
    for name in ["tokio", "serde_core", "libc"] {
        assert!(reached.contains(name), "`{name}` is not seen below `rocstar`");
    }
}

fn workspace_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is two folders up")
}

fn read_toml(path: &Path) -> Table {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Our packages, each with the names of its ordinary and build dependencies on any platform.
fn manifests(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let crates = std::fs::read_dir(root.join("crates")).expect("the workspace has crates");
    let mut found = BTreeMap::new();
    for entry in crates {
        let path = entry.expect("a folder entry").path().join("Cargo.toml");
        if !path.exists() {
            continue;
        }
        let manifest = read_toml(&path);
        let name = manifest["package"]["name"].as_str().expect("a package has a name").to_owned();
        let mut direct = section_names(&manifest);
        for platform in manifest.get("target").and_then(|target| target.as_table()).into_iter() {
            direct.extend(platform.values().filter_map(|it| it.as_table()).flat_map(section_names));
        }
        found.insert(name, direct);
    }
    found
}

/// Names in `[dependencies]` and `[build-dependencies]`, renames resolved.
fn section_names(table: &Table) -> BTreeSet<String> {
    let sections = ["dependencies", "build-dependencies"].into_iter();
    let entries = sections.filter_map(|name| table.get(name)?.as_table()).flatten();
    entries
        .map(|(key, value)| {
            let renamed = value.as_table().and_then(|table| table.get("package")?.as_str());
            renamed.unwrap_or(key).to_owned()
        })
        .collect()
}

/// Who depends on whom by name, versions put together, from `Cargo.lock`.
fn lock_edges(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let lock = read_toml(&root.join("Cargo.lock"));
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock["package"].as_array().expect("a lock file lists packages") {
        let name = package["name"].as_str().expect("a package has a name").to_owned();
        let dependencies = package.get("dependencies").and_then(|list| list.as_array());
        let names = dependencies
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.as_str()?.split(' ').next().map(str::to_owned));
        edges.entry(name).or_default().extend(names);
    }
    edges
}

/// Everything below `direct`. For our own crates the manifest is asked, since the lock file does
/// not tell ordinary dependencies from development ones.
fn reachable(
    direct: &BTreeSet<String>,
    lock: &BTreeMap<String, BTreeSet<String>>,
    manifests: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = direct.iter().collect();
    while let Some(name) = open.pop() {
        if seen.insert(name.clone()) {
            open.extend(manifests.get(name).or_else(|| lock.get(name)).into_iter().flatten());
        }
    }
    seen
}
