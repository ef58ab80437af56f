//! What lies in a device's memory, and whether it fits.
//!
//! State of training (weights, gradient, AdamW's moments) is spread evenly over all devices, as FSDP
//! does; activations of a micro-batch and the layers that are gathered for it are each device's own.
//! Generation has whole models beside that, each over as few devices as hold it with a useful cache.
//! On accelerators, update and generation take turns, and so does what only one of them needs; on the
//! cores of this machine both stay.

use rocstar_nn::config::ModelConfig;
use rocstar_nn::parameters::Layout;
use rocstar_train::Needs;
use serde::Serialize;

use super::assumptions::{Assumptions, Precision};
use super::hardware::Hardware;

/// What one device holds, in bytes where nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Memory {
    /// Its part of weights, gradient and moments.
    pub(super) state_bytes: u64,
    /// Activations of a micro-batch.
    pub(super) activation_bytes: u64,
    /// Layers that are gathered from other devices while they compute.
    pub(super) gathered_bytes: u64,
    /// What generation needs.
    pub(super) generation: Option<GenerationMemory>,
    /// All that must be there at once.
    pub(super) needed_bytes: u64,
    /// What there is.
    pub(super) usable_bytes: u64,
    /// It fits.
    pub(super) fits: bool,
    /// Fewest such devices that the stage fits on; `None` where no number helps.
    pub(super) fewest_devices: Option<usize>,
}

/// The memory of generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct GenerationMemory {
    /// Devices that hold a model together.
    pub(super) replica_devices: usize,
    /// Weights of a model.
    pub(super) weight_bytes: u64,
    /// Keys and values of a token.
    pub(super) kv_bytes_per_token: u64,
    /// Room for keys and values beside a model.
    pub(super) kv_bytes: u64,
    /// Sequences of full length that this holds.
    pub(super) full_sequences: u64,
}

/// What a stage needs that decides its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand<'a> {
    pub(super) needs: &'a Needs,
    pub(super) config: &'a ModelConfig,
    pub(super) generation: Option<GenerationDemand>,
}

/// What generation needs that decides its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct GenerationDemand {
    /// Tokens of the longest sequence.
    pub(super) sequence_tokens: u64,
    /// Room for keys and values that the recipe gives the local engine.
    pub(super) local_kv_bytes: u64,
    /// Bytes of a weight in the local engine.
    pub(super) local_weight_bytes: u64,
    /// A reference policy lies beside the trained one.
    pub(super) has_reference: bool,
}

/// Sequences of full length that a model's cache should hold at least.
const USEFUL_SEQUENCES: u64 = 8;

/// Most devices that are tried.
const MOST_DEVICES: usize = 1024;

impl Memory {
    /// What each of the devices holds.
    pub(super) fn of(demand: &Demand<'_>, hardware: &Hardware, assumed: &Assumptions) -> Self {
        let mut memory = Self::on(demand, hardware, assumed);
        let fits =
            |devices: &usize| Self::on(demand, &hardware.with_devices(*devices), assumed).fits;
        memory.fewest_devices =
            if hardware.is_cpu { memory.fits.then_some(1) } else { (1..=MOST_DEVICES).find(fits) };
        memory
    }

    fn on(demand: &Demand<'_>, hardware: &Hardware, assumed: &Assumptions) -> Self {
        let Demand { needs, config, .. } = demand;
        let (devices, compute_bytes) = (hardware.devices as u64, assumed.precision.compute_bytes());
        let frozen = u64::from(needs.adapters)
            + u64::from(demand.generation.is_some_and(|generation| generation.has_reference));
        let state = needs.trained_parameters * assumed.precision.trained_bytes()
            + frozen * needs.parameters * compute_bytes;
        let state_bytes = state.div_ceil(devices);
        let activation_bytes = needs.activation_bytes(config) / 4 * compute_bytes;
        let gathers = devices > 1 || assumed.precision == Precision::Mixed;
        // One unit computes while the next is on its way.
        let gathered_bytes = if gathers { 2 * largest_unit(config) * compute_bytes } else { 0 };
        let usable_bytes = (hardware.memory_bytes as f64 * assumed.memory_share) as u64;
        let room = usable_bytes.saturating_sub(state_bytes);
        let update_bytes = activation_bytes + gathered_bytes;
        let (generation, generation_bytes) = match demand.generation {
            None => (None, 0),
            Some(wanted) => {
                let memory = if hardware.is_cpu {
                    GenerationMemory::local(demand, wanted)
                } else {
                    GenerationMemory::spread(demand, wanted, hardware.devices, room, compute_bytes)
                };
                let cache = match hardware.is_cpu {
                    true => memory.kv_bytes,
                    false => memory.kv_bytes_per_token * wanted.sequence_tokens,
                };
                let bytes = (memory.weight_bytes + cache).div_ceil(memory.replica_devices as u64);
                (Some(memory), bytes)
            }
        };
        let beside = match hardware.is_cpu {
            true => update_bytes + generation_bytes,
            false => update_bytes.max(generation_bytes),
        };
        let needed_bytes = state_bytes + beside;
        Self {
            state_bytes,
            activation_bytes,
            gathered_bytes,
            generation,
            needed_bytes,
            usable_bytes,
            fits: needed_bytes <= usable_bytes,
            fewest_devices: None,
        }
    }
}

impl GenerationMemory {
    /// The local engine, as the recipe has it: f32 keys and values.
    fn local(demand: &Demand<'_>, wanted: GenerationDemand) -> Self {
        let kv_bytes_per_token = kv_bytes_per_token(demand.config, 4);
        Self {
            replica_devices: 1,
            weight_bytes: demand.needs.parameters * wanted.local_weight_bytes,
            kv_bytes_per_token,
            kv_bytes: wanted.local_kv_bytes,
            full_sequences: wanted.local_kv_bytes / (kv_bytes_per_token * wanted.sequence_tokens),
        }
    }

    /// Models over 1, 2, 4, … devices: the fewest that leave room for a useful cache.
    fn spread(
        demand: &Demand<'_>,
        wanted: GenerationDemand,
        devices: usize,
        room: u64,
        bytes: u64,
    ) -> Self {
        let kv_bytes_per_token = kv_bytes_per_token(demand.config, bytes);
        let weight_bytes = demand.needs.parameters * bytes;
        let over = |replica_devices: usize| {
            let kv_bytes = (room * replica_devices as u64).saturating_sub(weight_bytes);
            let full_sequences = kv_bytes / (kv_bytes_per_token * wanted.sequence_tokens);
            Self { replica_devices, weight_bytes, kv_bytes_per_token, kv_bytes, full_sequences }
        };
        let mut memory = over(1);
        while memory.full_sequences < USEFUL_SEQUENCES && memory.replica_devices * 2 <= devices {
            memory = over(memory.replica_devices * 2);
        }
        memory
    }
}

fn kv_bytes_per_token(config: &ModelConfig, bytes: u64) -> u64 {
    2 * (config.layers * config.key_value_size()) as u64 * bytes
}

/// Weights of a layer, or of the embedding if that has more.
fn largest_unit(config: &ModelConfig) -> u64 {
    let table = config.vocabulary_size * config.hidden_size;
    let tables = if config.tied_embeddings { table } else { 2 * table };
    let layer = Layout::new(config).len().saturating_sub(tables) / config.layers.max(1);
    layer.max(table) as u64
}
