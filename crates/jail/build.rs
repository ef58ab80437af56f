//! Builds the zygote's library (`native/`) with the compiler that builds everything else.
//!
//! It is a shared object that a Python process loads, so it can be no ordinary module of this
//! crate; it has no dependencies, so plain `rustc` is enough.

#![expect(clippy::panic, reason = "cargo shows a build script's panic as its error")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join("librocstar_zygote.so");
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition", "2024", "--crate-name", "rocstar_zygote", "--crate-type", "cdylib"])
        .args(["--target", &variable("TARGET")])
        .args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols", "-D", "warnings"])
        .arg("native/lib.rs")
        .arg("-o")
        .arg(&library);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={linker}"));
    }
    let status = command.status().unwrap_or_else(|error| panic!("run rustc: {error}"));
    assert!(status.success(), "the zygote's library did not build");
}
