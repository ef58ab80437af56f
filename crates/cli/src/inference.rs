//! A model made ready to generate: which one, how it is kept in memory, how it is spoken to.
//!
//! Invariant: everything that can be known from headers is checked before weights are read: the
//! tokenizer fits the embedding, the options fit the model, and weights with cache fit the memory
//! that is free. The plan is told before the loading.

use std::path::Path;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_chat::calls::CallFormat;
use rocstar_chat::{Template, Tokenizer};
use rocstar_engine::openai::{Model, TokenizerDoesNotFit};
use rocstar_engine::{Engine, EngineOptions, KvBudget};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::decode::{BLOCK_TOKENS, KvPool, Storage};
use rocstar_nn::files::{self, Inspection};
use rocstar_nn::parameters::Layout;
use rocstar_train::checkpoint::TOOLS;

use crate::failure::{HintExt as _, WrongUse};
use crate::models;
use crate::quantity::{parse_size, show_size};
use crate::sums;
use crate::terminal::Terminal;

/// Cache where nothing is said, unless all places together need less.
const DEFAULT_KV_BYTES: u64 = 1 << 30;
/// Chat templates with a name.
const TEMPLATES: [&str; 2] = ["chatml", "rstar2"];

/// Room that a step needs beside weights and cache, roughly.
const WORKING_BYTES: u64 = 128 << 20;

/// Which model, and how it runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelOptions {
    /// A Hugging Face folder, a `.gguf` file, or the name of a fetched model
    #[arg(long, value_name = "PATH|NAME")]
    model: String,
    #[command(flatten)]
    running: RunningOptions,
}

/// How a model runs in this process.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct RunningOptions {
    /// How weights are kept in memory: `bf16` and `int8` generate faster and round
    #[arg(long, value_enum, default_value_t = StorageName::F32)]
    storage: StorageName,
    /// Longest sequence, prompt included [default: the model's context]
    #[arg(long, value_name = "N")]
    context_tokens: Option<usize>,
    /// Room for keys and values, in tokens of all sequences together
    #[arg(long, value_name = "N", conflicts_with = "kv_bytes")]
    kv_tokens: Option<usize>,
    /// Room for keys and values, such as `2GiB` [default: 1GiB, or what is needed if that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    kv_bytes: Option<u64>,
    /// Most sequences that run at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_running: usize,
    /// Threads of the arithmetic [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Chat template: `chatml`, `rstar2` or a Jinja file [default: the model's own]
    #[arg(long, value_name = "NAME|PATH")]
    template: Option<String>,
    /// How the model writes tool calls: `hermes`, `llama3_json`, `pythonic` or `fenced_code`
    /// [default: by the chat template]
    #[arg(long, value_name = "NAME")]
    call_format: Option<CallFormat>,
}

/// [`Storage`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StorageName {
    F32,
    Bf16,
    Int8,
}

impl From<StorageName> for Storage {
    fn from(name: StorageName) -> Self {
        match name {
            StorageName::F32 => Self::F32,
            StorageName::Bf16 => Self::Bf16,
            StorageName::Int8 => Self::Int8,
        }
    }
}

/// What will be in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryPlan {
    /// The weights as they are read, until they are laid out for generating.
    reading: u64,
    weights: u64,
    kv: u64,
}

impl MemoryPlan {
    fn new(config: &ModelConfig, options: &EngineOptions) -> Self {
        let values = Layout::new(config).len() as u64;
        let bytes_per_value = match options.storage {
            Storage::F32 => 4,
            Storage::Bf16 => 2,
            Storage::Int8 => 1,
        };
        let blocks = options.kv_blocks(config) as u64;
        Self {
            reading: values * 4,
            weights: values * bytes_per_value,
            kv: blocks * KvPool::bytes_per_block(config) as u64,
        }
    }

    /// While loading, when all of it is there at once.
    const fn most(&self) -> u64 {
        self.reading + self.weights + self.kv + WORKING_BYTES
    }
}

impl ModelOptions {
    /// Loads the model and starts its engine.
    ///
    /// # Errors
    /// As [`RunningOptions::load`].
    pub(crate) fn load(&self, id: Option<&str>, terminal: Terminal) -> anyhow::Result<Model> {
        let path = models::resolve_model(&self.model)?;
        let Loaded { engine, tokenizer, template, calls } = self.running.load(&path, terminal)?;
        let tools = path.join(TOOLS);
        if tools.exists() {
            terminal.note(format_args!(
                "tools:     trained with those of {}: send them as `tools`, or prompts are not those \
                 of the training",
                tools.display()
            ));
        }
        let id = id.map_or_else(|| self.usual_id(&path), str::to_owned);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_unix_s = now.map_or(0, |since| since.as_secs().cast_signed());
        Ok(Model::new(id, engine, tokenizer, template, calls, now_unix_s)?)
    }

    /// The name as it was given if it is one, else the last part of the path.
    fn usual_id(&self, path: &Path) -> String {
        if !Path::new(&self.model).exists() {
            return self.model.clone();
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_file = path.is_file();
        let name = if is_file { path.file_stem() } else { path.file_name() };
        name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

/// An engine that runs, with the words to speak to it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Tokenizer,
    /// The chat template, where the model or the person has one.
    pub(crate) template: Option<Template>,
    /// How calls are written, where the person says so.
    pub(crate) calls: Option<CallFormat>,
}

impl RunningOptions {
    /// Loads the model at `path` and starts its engine.
    ///
    /// # Errors
    /// Its parts don't fit together, or it doesn't fit into memory.
    pub(crate) fn load(&self, path: &Path, terminal: Terminal) -> anyhow::Result<Loaded> {
        let inspection = files::inspect(path)?;
        let tokenizer = models::tokenizer(&inspection.source)?;
        TokenizerDoesNotFit::check(&tokenizer, inspection.config.vocabulary_size)
            .with_context(|| format!("can't use `{}`", path.display()))?;
        let template = self.template(&tokenizer)?;
        let options = self.engine_options(&inspection.config);
        let problems = options.validate(&inspection.config);
        if !problems.is_empty() {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(WrongUse::error(all.join("; ")));
        }
        announce_plan(&inspection, &options, terminal)?;
        let engine = start(path, options, terminal)?;
        Ok(Loaded { engine, tokenizer, template, calls: self.call_format.clone() })
    }

    /// How weights are kept in memory, as the command line spells it.
    pub(crate) const fn storage_name(&self) -> &'static str {
        match self.storage {
            StorageName::F32 => "f32",
            StorageName::Bf16 => "bf16",
            StorageName::Int8 => "int8",
        }
    }

    /// The chat template that was chosen by hand: its name, or its file's with the sum of the text.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn template_identity(&self) -> anyhow::Result<Option<String>> {
        let Some(name) = self.template.as_deref() else { return Ok(None) };
        if TEMPLATES.contains(&name) {
            return Ok(Some(name.to_owned()));
        }
        let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
        Ok(Some(format!("{file} {}", sums::of_file(Path::new(name))?)))
    }

    /// The words of the model at `path`, without its weights.
    ///
    /// # Errors
    /// It has no tokenizer, or the template can't be used.
    pub(crate) fn words(&self, path: &Path) -> anyhow::Result<(Tokenizer, Option<Template>)> {
        let tokenizer = models::tokenizer(&files::inspect(path)?.source)?;
        let template = self.template(&tokenizer)?;
        Ok((tokenizer, template))
    }

    fn template(&self, tokenizer: &Tokenizer) -> anyhow::Result<Option<Template>> {
        match self.template.as_deref() {
            None => Ok(tokenizer.template()?),
            Some("chatml") => Ok(Some(Template::chatml()?)),
            Some("rstar2") => Ok(Some(Template::rstar2()?)),
            Some(path) => {
                let source = std::fs::read_to_string(path)
                    .map_err(|error| WrongUse::error(error.to_string()))
                    .hint("give `chatml`, `rstar2` or the path of a Jinja file")
                    .with_context(|| format!("can't read the template `{path}`"))?;
                Ok(Some(Template::from_source(&source)?))
            }
        }
    }

    fn engine_options(&self, config: &ModelConfig) -> EngineOptions {
        let defaults = EngineOptions::default();
        let context = self.context_tokens.unwrap_or(config.context_tokens);
        let kv = match (self.kv_tokens, self.kv_bytes) {
            (Some(tokens), _) => KvBudget::Tokens(tokens),
            (None, Some(bytes)) => KvBudget::Bytes(bytes),
            (None, None) => {
                let blocks = self.max_running.saturating_mul(context.div_ceil(BLOCK_TOKENS));
                let all = (blocks as u64).saturating_mul(KvPool::bytes_per_block(config) as u64);
                KvBudget::Bytes(all.min(DEFAULT_KV_BYTES))
            }
        };
        EngineOptions {
            kv,
            max_running: self.max_running,
            step_tokens: defaults.step_tokens.max(self.max_running),
            context_tokens: self.context_tokens,
            storage: self.storage.into(),
            threads: self.threads,
            ..defaults
        }
    }
}

/// Says what will be in memory.
///
/// # Errors
/// It does not fit.
fn announce_plan(
    inspection: &Inspection,
    options: &EngineOptions,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let config = &inspection.config;
    let plan = MemoryPlan::new(config, options);
    let kv_tokens = options.kv_blocks(config) * BLOCK_TOKENS;
    let values = Layout::new(config).len() as f64 / 1e6;
    terminal.note(format_args!(
        "model:     {} · {values:.1} M weights",
        inspection.source.path.display()
    ));
    terminal.note(format_args!(
        "memory:    {} weights + {} for keys and values of {kv_tokens} tokens; {} while loading",
        show_size(plan.weights),
        show_size(plan.kv),
        show_size(plan.most()),
    ));
    match rocstar_train::available_memory_bytes() {
        Some(available) if available < plan.most() => {
            let message = format!(
                "the model needs {} while loading, and {} are free",
                show_size(plan.most()),
                show_size(available)
            );
            Err(WrongUse::error(message)).hint(
                "make the cache smaller with `--kv-bytes`, or keep weights as `--storage bf16`",
            )
        }
        Some(_) | None => Ok(()),
    }
}

fn start(path: &Path, options: EngineOptions, terminal: Terminal) -> anyhow::Result<Engine> {
    let bar = terminal.byte_bar("reading the weights", 0);
    let loaded = files::load_with_progress(path, &|done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let loaded = loaded?;
    let bar = terminal.spinner("laying out the weights");
    let engine = Engine::start(loaded.config, &loaded.parameters, options);
    bar.finish_and_clear();
    Ok(engine?)
}
