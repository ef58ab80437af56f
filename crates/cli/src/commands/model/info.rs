//! `rocstar model info`: what a model's headers say, without reading its weights.

use std::collections::BTreeMap;

use clap::Args;
use rocstar_nn::config::ModelConfig;
use rocstar_nn::files::{self, Format, Inspection, TensorEntry};
use serde::Serialize;

use crate::failure::Finish;
use crate::models;
use crate::quantity::show_size;
use crate::terminal::Terminal;

/// Show a model's architecture, size and number formats
///
/// Reads the headers of a Hugging Face folder or a GGUF file, and no weights.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// A Hugging Face folder, a `.gguf` file, or the name of a fetched model
    #[arg(value_name = "PATH")]
    model: String,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    format: Format,
    config: ModelConfig,
    /// Numbers in all weights.
    parameters: u64,
    /// Size of the weights on disk.
    bytes: u64,
    /// Tensors in each number format.
    stored_as: BTreeMap<String, usize>,
    has_tokenizer: bool,
    has_chat_template: bool,
    /// With `--tensors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<TensorEntry>>,
}

impl Info {
    /// Runs the command.
    ///
    /// # Errors
    /// There is no model, or its headers are damaged or not supported.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let inspection = files::inspect(&models::resolve_model(&self.model)?)?;
        let shown = Shown::new(inspection, self.tensors);
        if self.json {
            terminal.json(&shown)?;
        } else {
            shown.print(terminal)?;
        }
        Ok(Finish::Good)
    }
}

impl Shown {
    fn new(inspection: Inspection, with_tensors: bool) -> Self {
        let mut stored_as = BTreeMap::new();
        for tensor in &inspection.tensors {
            *stored_as.entry(tensor.stored_as.clone()).or_default() += 1;
        }
        // A format that can't be read leaves the shape unchecked.
        let values = |tensor: &TensorEntry| {
            tensor.shape.iter().fold(1_u64, |values, size| values.saturating_mul(*size))
        };
        Self {
            path: inspection.source.path.display().to_string(),
            format: inspection.source.format,
            config: inspection.config,
            parameters: inspection.tensors.iter().map(values).fold(0, u64::saturating_add),
            bytes: inspection.tensors.iter().map(|tensor| tensor.bytes).sum(),
            stored_as,
            has_tokenizer: inspection.has_tokenizer,
            has_chat_template: inspection.has_chat_template,
            tensors: with_tensors.then_some(inspection.tensors),
        }
    }

    fn print(&self, terminal: Terminal) -> anyhow::Result<()> {
        let config = &self.config;
        let format = match self.format {
            Format::HuggingFace => "Hugging Face folder",
            Format::Gguf => "GGUF",
        };
        let formats: Vec<String> =
            self.stored_as.iter().map(|(name, count)| format!("{name} × {count}")).collect();
        let end: Vec<String> = config.end_tokens.iter().map(u32::to_string).collect();
        let yes = |flag| if flag { "yes" } else { "no" }.to_owned();
        let rows = [
            ("path", self.path.clone()),
            ("format", format.to_owned()),
            ("architecture", format!("{:?}", config.architecture).to_lowercase()),
            ("parameters", in_millions(self.parameters)),
            ("weights on disk", show_size(self.bytes)),
            ("number formats", formats.join(", ")),
            ("layers", config.layers.to_string()),
            ("hidden size", config.hidden_size.to_string()),
            (
                "heads",
                format!(
                    "{} queries, {} keys and values, of {}",
                    config.heads, config.key_value_heads, config.head_size
                ),
            ),
            ("feed-forward size", config.feed_forward_size.to_string()),
            ("vocabulary", config.vocabulary_size.to_string()),
            ("context", format!("{} tokens", config.context_tokens)),
            ("head tied to embedding", yes(config.tied_embeddings)),
            ("end tokens", end.join(", ")),
            ("tokenizer", yes(self.has_tokenizer)),
            ("chat template", yes(self.has_chat_template)),
        ];
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        terminal.table(&["model", ""], &rows, 2)?;
        let Some(tensors) = &self.tensors else { return Ok(()) };
        let rows: Vec<Vec<String>> = tensors.iter().map(row).collect();
        terminal.data(b"\n")?;
        terminal.table(&["tensor", "shape", "stored as", "bytes"], &rows, 3)
    }
}

fn row(tensor: &TensorEntry) -> Vec<String> {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    vec![tensor.name.clone(), shape.join(" × "), tensor.stored_as.clone(), tensor.bytes.to_string()]
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn in_millions(parameters: u64) -> String {
    format!("{parameters} ({:.2} M)", parameters as f64 / 1e6)
}
