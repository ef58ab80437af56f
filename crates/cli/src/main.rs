//! The one binary. It only wires the crates together.

fn main() {}
