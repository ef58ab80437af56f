//! LoRA adapters as PEFT keeps them: a folder with `adapter_config.json` and
//! `adapter_model.safetensors`.
//!
//! Invariant: what [`load`] gives has a pair for every target in every layer, of the shapes of the
//! model it was asked for. A setting of PEFT that would change the arithmetic and isn't built in is
//! an error that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::config_json::Fields;
use super::folder::Shard;
use super::read::{self, Stored};
use super::save::{self, Outgoing};
use super::{Error, StoreAs};
use crate::config::ModelConfig;
use crate::lora::{Adapters, Lora};
use crate::parameters::{LayerSlot, Layout, Slot};

/// The configuration's name in a folder.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The weights' name in a folder.
const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// PEFT wraps the model twice.
const PREFIX: &str = "base_model.model.";

/// Larger ranks than any weight's are a mistake.
const LARGEST_RANK: usize = 1 << 16;

/// Settings of PEFT that change the arithmetic, with the one value that is built in.
const NEUTRAL: [(&str, Value); 8] = [
    ("use_dora", Value::Bool(false)),
    ("use_rslora", Value::Bool(false)),
    ("use_qalora", Value::Bool(false)),
    ("lora_bias", Value::Bool(false)),
    ("fan_in_fan_out", Value::Bool(false)),
    ("modules_to_save", Value::Null),
    ("trainable_token_indices", Value::Null),
    ("alora_invocation_tokens", Value::Null),
];

/// First values of adapters (`init_lora_weights`) that leave the model's own weights as they are.
/// Others subtract what the adapters begin with from them, so that such adapters belong to weights
/// which this folder doesn't hold.
const NEUTRAL_FIRST_VALUES: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// Reads the adapters in `folder`, which were trained on a model of this shape.
///
/// # Errors
/// Files that are missing or damaged, a setting that isn't supported, or adapters of another model:
/// see [`Error`].
pub fn load(folder: &Path, config: &ModelConfig) -> Result<Adapters, Error> {
    let path = folder.join(CONFIG_FILE);
    let fields = Fields::open(&path)?;
    let (rank, alpha) = settings(&fields)?;
    let shard = Shard::open(folder.join(WEIGHTS_FILE))?;
    let mut stored: BTreeMap<String, Stored<'_>> =
        shard.tensors().iter().map(|tensor| (tensor.name.clone(), shard.stored(tensor))).collect();
    let layout = Layout::new(config);
    let targets: Vec<LayerSlot> = targets(&layout, &stored).into_iter().collect();
    if targets.is_empty() {
        let problem = "has no pair `lora_A`, `lora_B` for a matrix of this model";
        return Err(fields.wrong(WEIGHTS_FILE, problem));
    }
    // Everything is there and of the right shape before memory is taken for it.
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for layer in 0..config.layers {
        for slot in targets.iter().copied() {
            for (name, shape) in pair(&layout, layer, slot, rank) {
                match stored.remove(&name) {
                    None => missing.push(name),
                    Some(tensor) => found.push((read::check_one(&tensor, &shape)?, tensor)),
                }
            }
        }
    }
    if !missing.is_empty() {
        return Err(Error::MissingTensors { path: folder.join(WEIGHTS_FILE), names: missing });
    }
    if !stored.is_empty() {
        let names = stored.into_keys().collect();
        return Err(Error::ExtraTensors { path: folder.join(WEIGHTS_FILE), names });
    }
    let lora = Lora { rank, alpha, targets };
    let mut adapters = Adapters::zeros(config, lora)
        .map_err(|error| fields.wrong("target_modules", error.to_string()))?;
    let ranges = adapters.pairs().iter().flat_map(|pair| [pair.down.clone(), pair.up.clone()]);
    let ranges: Vec<_> = ranges.collect();
    for ((format, tensor), range) in found.into_iter().zip(ranges) {
        let values = &mut adapters.values_mut()[range];
        format.decode(tensor.bytes, values);
        read::refuse_no_number(&tensor, 0, values)?;
    }
    Ok(adapters)
}

/// Rank and alpha.
fn settings(fields: &Fields<'_>) -> Result<(usize, f32), Error> {
    match fields.text("peft_type")? {
        Some("LORA") => {}
        Some(other) => {
            return Err(fields.wrong("peft_type", format!("is `{other}`; supported is `LORA`")));
        }
        None => return Err(fields.wrong("peft_type", "is missing")),
    }
    for (field, neutral) in &NEUTRAL {
        if let Some(value) = fields.get(field)
            && value != neutral
        {
            let problem = format!("is {value}; supported is {neutral}");
            return Err(fields.wrong(*field, problem));
        }
    }
    if let Some(Value::String(kind)) = fields.get("init_lora_weights")
        && !NEUTRAL_FIRST_VALUES.contains(&kind.as_str())
    {
        let problem = format!(
            "is `{kind}`, which changes the model's own weights; save it as plain LoRA first"
        );
        return Err(fields.wrong("init_lora_weights", problem));
    }
    for field in ["rank_pattern", "alpha_pattern"] {
        let pattern = fields.get(field).and_then(Value::as_object);
        if pattern.is_some_and(|pattern| !pattern.is_empty()) {
            return Err(fields.wrong(field, "is set; one rank and alpha for all is supported"));
        }
    }
    match fields.text("bias")? {
        None | Some("none") => {}
        Some(other) => {
            return Err(fields.wrong("bias", format!("is `{other}`; supported is `none`")));
        }
    }
    let rank = fields.required_size("r")?;
    if rank == 0 || rank > LARGEST_RANK {
        return Err(fields.wrong("r", format!("is {rank}, expected 1 to {LARGEST_RANK}")));
    }
    let alpha = fields.number("lora_alpha")?;
    let alpha = alpha.ok_or_else(|| fields.wrong("lora_alpha", "is missing"))? as f32;
    if !alpha.is_finite() {
        return Err(fields.wrong("lora_alpha", format!("is {alpha}, expected a number")));
    }
    Ok((rank, alpha))
}

/// Which matrices have pairs, by the names of the tensors: `target_modules` may be a pattern.
fn targets(layout: &Layout, stored: &BTreeMap<String, Stored<'_>>) -> BTreeSet<LayerSlot> {
    let tensors = layout.tensors().iter().filter(|tensor| tensor.is_matrix());
    let slots = tensors.filter_map(|tensor| match tensor.slot {
        Slot::Layer(_, slot) if stored.contains_key(&stored_name(&tensor.name, "lora_A")) => {
            Some(slot)
        }
        _ => None,
    });
    slots.collect()
}

/// The name of one side of the pair of a weight.
fn stored_name(weight: &str, side: &str) -> String {
    let module = weight.strip_suffix(".weight").unwrap_or(weight);
    format!("{PREFIX}{module}.{side}.weight")
}

/// Names and shapes of a pair: `A` `[rank, in]`, `B` `[out, rank]`.
fn pair(
    layout: &Layout,
    layer: usize,
    slot: LayerSlot,
    rank: usize,
) -> impl Iterator<Item = (String, [u64; 2])> {
    let tensor = layout.find(Slot::Layer(layer, slot));
    tensor.into_iter().flat_map(move |tensor| {
        let (rows, columns) = (tensor.shape[0] as u64, tensor.shape[tensor.shape.len() - 1] as u64);
        let rank = rank as u64;
        [
            (stored_name(&tensor.name, "lora_A"), [rank, columns]),
            (stored_name(&tensor.name, "lora_B"), [rows, rank]),
        ]
    })
}

/// Writes adapters into `folder`, which is created if need be; adapters that are there already are
/// replaced. `base_model` says in the configuration what they were trained on: a path or a name on
/// the hub.
///
/// Each file is written under another name, flushed to disk, and renamed; the configuration comes
/// last.
///
/// # Errors
/// A value that is no number, adapters of another shape than `config`, or the disk refuses.
pub fn save(
    folder: &Path,
    config: &ModelConfig,
    adapters: &Adapters,
    base_model: Option<&str>,
) -> Result<(), Error> {
    let lora = adapters.lora();
    let layout = Layout::new(config);
    let mut tensors = Vec::new();
    for adapter in adapters.pairs() {
        let sides = [&adapter.down, &adapter.up];
        for ((name, shape), range) in
            pair(&layout, adapter.layer, adapter.slot, lora.rank).zip(sides)
        {
            let values = &adapters.values()[range.clone()];
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                let problem = format!("`{name}` has {} at index {index}", values[index]);
                return Err(Error::Mismatch { problem });
            }
            tensors.push((name, shape.map(|size| size as usize), values));
        }
    }
    let values: usize = tensors.iter().map(|(_, shape, _)| shape[0] * shape[1]).sum();
    if values != adapters.values().len() {
        let problem = format!("the adapters have {} values, not {values}", adapters.values().len());
        return Err(Error::Mismatch { problem });
    }
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let outgoing = tensors.iter().map(|(name, shape, values)| Outgoing { name, shape, values });
    let outgoing: Vec<Outgoing<'_>> = outgoing.collect();
    save::write_tensors(&folder.join(WEIGHTS_FILE), &outgoing, StoreAs::F32)?;
    let path = folder.join(CONFIG_FILE);
    let text = save::json(&path, written(&layout, lora, base_model))?;
    save::write_file(&path, &text)
}

/// The text of the configuration.
fn written(layout: &Layout, lora: &Lora, base_model: Option<&str>) -> serde_json::Result<Vec<u8>> {
    let modules = lora.targets.iter().filter_map(|slot| {
        let name = &layout.find(Slot::Layer(0, *slot))?.name;
        name.strip_suffix(".weight")?.rsplit('.').next()
    });
    let mut text = serde_json::to_vec_pretty(&json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": modules.collect::<Vec<_>>(),
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": false,
        "use_rslora": false,
        "use_dora": false,
        "inference_mode": true,
    }))?;
    text.push(b'\n');
    Ok(text)
}
