//! Settings under a name, to begin from.

use std::fmt;
use std::str::FromStr;

use rocstar_rollout::ToolMode;
use rocstar_verify::Extraction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Settings, ToolSettings};
use crate::bfcl::CallsIn;
use crate::suite::{ArenaHardVersion, Prompt, Scorer};

/// Settings under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The rStar2-Agent report's. Mathematics and choices: 16 samples at temperature 0.6, up to 30 K
    /// tokens (30,720) and 30 turns, the Python tool, its prompt, and the answer in a box inside its
    /// tag. Other suites: one sample at temperature 0, as the suite asks.
    Paper,
    /// One sample of the likeliest tokens, no tool.
    Greedy,
    /// As lighteval asks mathematics of an instruction-tuned model: one message of the user that
    /// wants the answer in a box, no system message, no examples, no tool, temperature 0.6 and top-p
    /// 0.95, up to 32,768 tokens, and the answer wherever it is found. Its task files and wordings
    /// vary from version to version; this is the protocol, not the text of one of them.
    LightevalLike,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Paper, Self::Greedy, Self::LightevalLike];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Greedy => "greedy",
            Self::LightevalLike => "lighteval-like",
        }
    }

    /// Its values for suites of one kind.
    pub fn settings(self, scorer: Scorer) -> Settings {
        let has_answer = matches!(scorer, Scorer::Math | Scorer::Choice);
        let prompt = if has_answer { Prompt::Boxed } else { Prompt::Plain };
        let without_tool = Settings { preset: self, prompt, ..base() };
        match self {
            Self::Paper if has_answer => Settings {
                samples: 16,
                max_turns: 30,
                tool: ToolSettings { mode: ToolMode::Stateless, ..base().tool },
                prompt: Prompt::RStar2,
                extraction: Extraction::Strict,
                ..without_tool
            },
            Self::Paper | Self::Greedy => Settings { temperature: 0.0, ..without_tool },
            Self::LightevalLike => {
                Settings { top_p: 0.95, response_tokens: 32_768, ..without_tool }
            }
        }
    }
}

/// What presets share.
fn base() -> Settings {
    Settings {
        preset: Preset::Greedy,
        samples: 1,
        seed: 0,
        temperature: 0.6,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        response_tokens: 30 * 1024,
        max_turns: 1,
        tool: ToolSettings {
            mode: ToolMode::None,
            answer_tokens: 512,
            wall_ms: 10_000,
            memory_bytes: 512 << 20,
            parallel_calls: 4,
        },
        prompt: Prompt::Plain,
        extraction: Extraction::Lenient,
        calls_in: CallsIn::Tools,
        arena_hard: ArenaHardVersion::default(),
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|preset| format!("`{preset}`")).join(", ");
            format!("there is no preset `{text}`; there are {names}")
        })
    }
}
