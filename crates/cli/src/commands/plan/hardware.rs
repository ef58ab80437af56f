//! Hardware that a recipe can be planned for: this machine's cores, or accelerators by name and number.
//!
//! Invariant: memory, rate and bandwidth are what the maker's public data sheet says of one device:
//! dense bf16 products, without sparsity. What a run reaches of them is an assumption of its own.

use std::time::Instant;

use rayon::prelude::*;
use rocstar_train::available_memory_bytes;
use serde::Serialize;

use crate::commands::bench::peak::gemm_peak_gflops;
use crate::failure::{HintExt as _, WrongUse};

/// What a recipe is planned for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Hardware {
    /// What it is called.
    pub(super) name: String,
    /// Devices, each of which holds its part of the training state.
    pub(super) devices: usize,
    /// Memory of a device.
    pub(super) memory_bytes: u64,
    /// Peak of products, operations a second and device: bf16 on accelerators, f32 on cores.
    pub(super) peak_operations: f64,
    /// Bytes a second that a device reads from its memory.
    pub(super) bandwidth_bytes: f64,
    /// Whether these are the cores of this machine.
    pub(super) is_cpu: bool,
    /// Where the numbers come from.
    pub(super) source: &'static str,
}

/// One accelerator.
struct Device {
    name: &'static str,
    /// 10⁹ bytes of memory.
    memory_gb: u64,
    /// 10¹² operations a second, dense bf16.
    tera_operations: f64,
    /// 10¹² bytes a second.
    tera_bytes: f64,
    source: &'static str,
}

const fn device(
    name: &'static str,
    memory_gb: u64,
    tera_operations: f64,
    tera_bytes: f64,
    source: &'static str,
) -> Device {
    Device { name, memory_gb, tera_operations, tera_bytes, source }
}

/// The accelerators that are known by name. Where a data sheet gives a rate with sparsity, half of it
/// stands here.
const KNOWN: [Device; 17] = [
    device("B200", 180, 2250.0, 8.0, "NVIDIA DGX B200 data sheet, an eighth of the system"),
    device("H200", 141, 989.0, 4.8, "NVIDIA H200 data sheet, SXM"),
    device("H100", 80, 989.0, 3.35, "NVIDIA H100 data sheet, SXM"),
    device("H100-PCIE", 80, 756.0, 2.0, "NVIDIA H100 data sheet, PCIe"),
    device("A100", 80, 312.0, 2.039, "NVIDIA A100 data sheet, 80 GB SXM"),
    device("A100-80G", 80, 312.0, 2.039, "NVIDIA A100 data sheet, 80 GB SXM"),
    device("A100-40G", 40, 312.0, 1.555, "NVIDIA A100 data sheet, 40 GB"),
    device("L40S", 48, 362.0, 0.864, "NVIDIA L40S data sheet"),
    device("A10", 24, 125.0, 0.6, "NVIDIA A10 data sheet"),
    device("L4", 24, 121.0, 0.3, "NVIDIA L4 data sheet"),
    device("RTX4090", 24, 165.0, 1.008, "NVIDIA Ada architecture white paper, f32 sums"),
    device("RTX3090", 24, 71.0, 0.936, "NVIDIA GA102 architecture white paper, f32 sums"),
    device("MI355X", 288, 2500.0, 8.0, "AMD Instinct MI355X data sheet"),
    device("MI325X", 256, 1307.0, 6.0, "AMD Instinct MI325X data sheet"),
    device("MI300X", 192, 1307.0, 5.3, "AMD Instinct MI300X data sheet"),
    device("MI250X", 128, 383.0, 3.2, "AMD Instinct MI250X data sheet, both dies"),
    device("MI210", 64, 181.0, 1.6, "AMD Instinct MI210 data sheet"),
];

impl Hardware {
    /// Reads `cpu`, `8xH100`, `A100-40G`.
    ///
    /// # Errors
    /// No such hardware, or the machine can't be measured.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.eq_ignore_ascii_case("cpu") {
            return this_machine();
        }
        let (count, name) = match text.split_once(['x', 'X', '*']) {
            Some((count, name)) if count.trim().parse::<usize>().is_ok() => {
                (count.trim().parse().unwrap_or(0), name.trim())
            }
            _ => (1, text.trim()),
        };
        if count == 0 {
            return Err(WrongUse::error(format!("`{text}` has no device")));
        }
        let plain =
            |name: &str| name.to_uppercase().replace([' ', '_', '-'], "").replace("GB", "G");
        let found = KNOWN.iter().find(|device| plain(device.name) == plain(name));
        let Some(device) = found else {
            let known = KNOWN.map(|device| device.name).join(", ");
            return Err(WrongUse::error(format!("hardware `{text}` isn't known")))
                .hint(format!("write `cpu`, or `8xNAME` with a NAME of: {known}"));
        };
        Ok(Self {
            name: format!("{count} x {}", device.name),
            devices: count,
            memory_bytes: device.memory_gb * 1_000_000_000,
            peak_operations: device.tera_operations * 1e12,
            bandwidth_bytes: device.tera_bytes * 1e12,
            is_cpu: false,
            source: device.source,
        })
    }

    /// The same with another number of devices.
    pub(super) fn with_devices(&self, devices: usize) -> Self {
        Self { devices, ..self.clone() }
    }

    /// Name of one device.
    pub(super) fn device_name(&self) -> &str {
        self.name.split_once(" x ").map_or(self.name.as_str(), |(_, name)| name)
    }
}

/// This machine, measured: a tenth of a second of products, and of reading memory.
fn this_machine() -> anyhow::Result<Hardware> {
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    Ok(Hardware {
        name: format!("this machine, {threads} cores"),
        devices: 1,
        memory_bytes: available_memory_bytes().unwrap_or(u64::MAX),
        peak_operations: gemm_peak_gflops(threads)? * 1e9,
        bandwidth_bytes: memory_bandwidth(threads)?,
        is_cpu: true,
        source: "measured now, f32",
    })
}

/// Bytes a second that all cores read: the best of three passes over a buffer that no cache holds.
fn memory_bandwidth(threads: usize) -> anyhow::Result<f64> {
    const WORDS: usize = 16 << 20;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let words: Vec<u64> = (0..WORDS as u64).collect();
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let began = Instant::now();
        let sum = |part: &[u64]| part.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        let total: u64 =
            pool.install(|| words.par_chunks(1 << 16).map(sum).reduce(|| 0, u64::wrapping_add));
        std::hint::black_box(total);
        shortest = shortest.min(began.elapsed().as_secs_f64());
    }
    Ok((WORDS * size_of::<u64>()) as f64 / shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_read_as_people_write_it() {
        for (text, name, devices, memory_gb) in [
            ("64xMI300X", "64 x MI300X", 64, 192),
            ("8x h100", "8 x H100", 8, 80),
            ("4xA100-40GB", "4 x A100-40G", 4, 40),
            ("rtx 4090", "1 x RTX4090", 1, 24),
        ] {
            let hardware = Hardware::parse(text).unwrap();
            assert_eq!((hardware.name.as_str(), hardware.devices), (name, devices));
            assert_eq!(hardware.memory_bytes, memory_gb * 1_000_000_000);
        }
        assert!(Hardware::parse("0xH100").is_err());
        assert!(Hardware::parse("8xZ100").unwrap_err().to_string().contains("`8xZ100`"));
    }
}
