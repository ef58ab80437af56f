//! The protocol on the command line: a preset, and what is changed of it.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rocstar_eval::bfcl::CallsIn;
use rocstar_eval::protocol::{Preset, Settings};
use rocstar_eval::suite::{ArenaHardVersion, Known, Prompt, Scorer, SuiteError};
use rocstar_rollout::ToolMode;
use rocstar_verify::Extraction;

use crate::failure::{HintExt as _, WrongUse};
use crate::quantity::parse_size;

/// How a figure is made.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Protocol")]
pub(super) struct ProtocolOptions {
    /// Settings to begin from: `paper` (the report's: 16 samples at temperature 0.6, 30 turns with the
    /// tool), `greedy` (one sample of the likeliest tokens, no tool) or `lighteval-like` (temperature
    /// 0.6, top-p 0.95, no tool, the answer in a box)
    #[arg(long, value_name = "NAME", default_value = "paper")]
    preset: Preset,
    /// Attempts at each problem: the k of avg@k
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=256))]
    samples: Option<u32>,
    /// Only the first problems of each suite
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Names every draw
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// 0 takes the likeliest token, 1 draws from the model's own distribution
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// Only the likeliest tokens that together have this probability
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,
    /// Only the likeliest so many tokens; 0 for all
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Only tokens at least this share as likely as the likeliest
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
    /// Most tokens after the prompt, tools' answers included
    #[arg(long, value_name = "N")]
    response_tokens: Option<usize>,
    /// Most turns: the model writes, the tool answers
    #[arg(long, value_name = "N")]
    max_turns: Option<usize>,
    /// The Python tool: each call for itself, or with variables that stay [default: the preset's]
    #[arg(long, value_enum)]
    tool: Option<ToolName>,
    /// No Python tool
    #[arg(long, conflicts_with = "tool")]
    no_tool: bool,
    /// Longest answer of the tool, in tokens
    #[arg(long, value_name = "N")]
    tool_answer_tokens: Option<usize>,
    /// Most wall time of one call, in milliseconds
    #[arg(long, value_name = "MS")]
    tool_wall_ms: Option<u64>,
    /// Most memory of one call, such as `512MiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    tool_memory: Option<u64>,
    /// How problems of mathematics and with choices are worded: `plain`, `boxed`, `rstar2`, or a file
    /// with `{problem}` in it [default: the preset's]
    #[arg(long, value_name = "NAME|FILE")]
    prompt: Option<String>,
    /// How answers are looked for in mathematics [default: the preset's]
    #[arg(long, value_enum)]
    extraction: Option<ExtractionName>,
    /// Where calls of functions are looked for, in suites of calls
    #[arg(long, value_enum)]
    calls_in: Option<CallsInName>,
    /// Which published Arena-Hard is meant
    #[arg(long, value_enum)]
    arena_hard: Option<ArenaHardName>,
}

/// A tool on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolName {
    Stateless,
    Session,
}

/// [`Extraction`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExtractionName {
    Strict,
    Lenient,
}

/// [`CallsIn`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CallsInName {
    Tools,
    Text,
}

/// [`ArenaHardVersion`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArenaHardName {
    #[value(name = "v0.1")]
    V01,
    #[value(name = "v2.0")]
    V20,
}

impl ProtocolOptions {
    /// Problems of each suite that are asked.
    pub(super) fn limit(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit as usize)
    }

    /// Which published Arena-Hard is meant.
    pub(super) fn arena_hard(&self) -> ArenaHardVersion {
        self.arena_hard.map_or_else(ArenaHardVersion::default, ArenaHardName::version)
    }

    /// Whether the person said how problems are worded.
    pub(super) const fn has_prompt(&self) -> bool {
        self.prompt.is_some()
    }

    /// The settings for a suite.
    ///
    /// # Errors
    /// Values that can't work, or a prompt that is none.
    pub(super) fn settings(
        &self,
        scorer: Scorer,
        known: Option<&Known>,
    ) -> anyhow::Result<Settings> {
        let mut settings = self.preset.settings(scorer);
        // A suite whose own wording is the problem as it stands, such as what a tiny model practises
        // on, is not reworded by a preset.
        if let Some(known) = known
            && known.prompt == Prompt::Plain
        {
            settings.prompt = Prompt::Plain;
        }
        self.change(&mut settings)?;
        let problems = settings.validate();
        if !problems.is_empty() {
            let message = format!("the protocol can't work: {}", problems.join("; "));
            return Err(WrongUse::error(message));
        }
        if scorer == Scorer::Calls && settings.tool.mode != ToolMode::None {
            return Err(WrongUse::error("functions of this suite are offered alone")).hint(
                "leave `--tool` out: a Python tool beside them would change what is measured",
            );
        }
        Ok(settings)
    }

    fn change(&self, settings: &mut Settings) -> anyhow::Result<()> {
        fn set<T: Copy>(value: &mut T, given: Option<T>) {
            *value = given.unwrap_or(*value);
        }
        set(&mut settings.samples, self.samples);
        set(&mut settings.seed, self.seed);
        set(&mut settings.temperature, self.temperature);
        set(&mut settings.top_p, self.top_p);
        set(&mut settings.top_k, self.top_k);
        set(&mut settings.min_p, self.min_p);
        set(&mut settings.response_tokens, self.response_tokens);
        set(&mut settings.tool.answer_tokens, self.tool_answer_tokens);
        set(&mut settings.tool.wall_ms, self.tool_wall_ms);
        set(&mut settings.tool.memory_bytes, self.tool_memory);
        self.change_tool(settings);
        if let Some(prompt) = &self.prompt {
            settings.prompt = read_prompt(prompt)?;
        }
        set(&mut settings.extraction, self.extraction.map(ExtractionName::extraction));
        set(&mut settings.calls_in, self.calls_in.map(CallsInName::calls_in));
        set(&mut settings.arena_hard, self.arena_hard.map(ArenaHardName::version));
        Ok(())
    }

    fn change_tool(&self, settings: &mut Settings) {
        match self.tool {
            Some(tool) => {
                settings.tool.mode = match tool {
                    ToolName::Stateless => ToolMode::Stateless,
                    ToolName::Session => ToolMode::Session,
                };
                // A preset without the tool has one turn, in which no call is answered.
                settings.max_turns = settings.max_turns.max(30);
            }
            None if self.no_tool => {
                settings.tool.mode = ToolMode::None;
                settings.max_turns = 1;
            }
            None => {}
        }
        if let Some(max_turns) = self.max_turns {
            settings.max_turns = max_turns;
        }
    }
}

impl ExtractionName {
    const fn extraction(self) -> Extraction {
        match self {
            Self::Strict => Extraction::Strict,
            Self::Lenient => Extraction::Lenient,
        }
    }
}

impl CallsInName {
    const fn calls_in(self) -> CallsIn {
        match self {
            Self::Tools => CallsIn::Tools,
            Self::Text => CallsIn::Text,
        }
    }
}

impl ArenaHardName {
    const fn version(self) -> ArenaHardVersion {
        match self {
            Self::V01 => ArenaHardVersion::V01,
            Self::V20 => ArenaHardVersion::V20,
        }
    }
}

fn read_prompt(name: &str) -> anyhow::Result<Prompt> {
    match name {
        "plain" => Ok(Prompt::Plain),
        "boxed" => Ok(Prompt::Boxed),
        "rstar2" => Ok(Prompt::RStar2),
        path => {
            let user = std::fs::read_to_string(path)
                .map_err(|error| WrongUse::error(error.to_string()))
                .hint(
                    "give `plain`, `boxed`, `rstar2` or the path of a file with `{problem}` in it",
                )
                .with_context(|| format!("can't read the prompt `{path}`"))?;
            if !user.contains("{problem}") {
                return Err(WrongUse::error(format!("the prompt `{path}` has no `{{problem}}`")));
            }
            Ok(Prompt::Custom { system: None, user })
        }
    }
}

/// What to do about a suite that can't be had.
pub(super) fn advise(error: &SuiteError) -> anyhow::Error {
    let hint = match error {
        SuiteError::Unknown { .. } => "`rocstar eval --list` shows the suites",
        _ => return anyhow::Error::new(WrongUse(error.to_string())),
    };
    anyhow::Error::new(WrongUse(error.to_string())).hint(hint)
}
