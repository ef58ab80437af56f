//! How a figure was made, as data: the model, the problems, how tokens were drawn, how answers were
//! looked for.
//!
//! Invariant: whatever can change a figure is a value here, and each result carries the whole of it.
//! Speed is not here: how many attempts run at once, or on which machine.

mod difference;
mod preset;

use rocstar_rollout::{RolloutOptions, ToolMode};
use rocstar_verify::Extraction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bfcl::CallsIn;
use crate::suite::{ArenaHardVersion, LoadOptions, Prompt, Suite};

pub use difference::Difference;
pub use preset::Preset;

/// Version of the form in which protocols are written. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// Most attempts at a problem: figures at k are counts of sets, which must fit into a double.
pub const MOST_SAMPLES: u32 = 1000;

/// How a figure is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// The rocstar that made the attempts.
    pub rocstar: String,
    /// Whose answers they are.
    pub model: ModelIdentity,
    /// What was asked.
    pub suite: SuiteIdentity,
    /// Who judges answers, where a model does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeIdentity>,
    /// How it was asked and answered.
    pub settings: Settings,
}

/// The part of a protocol that a person chooses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The preset that the values began as; where some were changed since, they are what holds.
    pub preset: Preset,
    /// Attempts at each problem: the k of avg@k.
    pub samples: u32,
    /// Names every draw, with the problem's number and the sample's.
    pub seed: u64,
    /// Divisor of the logits; 0 takes the likeliest token.
    pub temperature: f64,
    /// Only the fewest likeliest tokens whose probabilities sum to at least this; 1 for all.
    pub top_p: f64,
    /// Only this many likeliest tokens; 0 for all.
    pub top_k: usize,
    /// Only tokens at least this share as likely as the likeliest; 0 for all.
    pub min_p: f64,
    /// Most tokens after the prompt, tools' answers included.
    pub response_tokens: usize,
    /// Most turns; the last one can't call the tool.
    pub max_turns: usize,
    /// Whether there is a Python tool, and its limits.
    pub tool: ToolSettings,
    /// How a problem is worded.
    pub prompt: Prompt,
    /// How answers are looked for in mathematics.
    #[schemars(with = "String")]
    pub extraction: Extraction,
    /// Where calls of functions are looked for.
    pub calls_in: CallsIn,
    /// Which published Arena-Hard is meant, where it is asked.
    #[serde(default)]
    #[schemars(with = "String")]
    pub arena_hard: ArenaHardVersion,
}

/// The Python tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSettings {
    /// Whether there is one, and whether it remembers.
    pub mode: ToolMode,
    /// Longest answer; what is longer loses its middle, with a mark.
    pub answer_tokens: usize,
    /// Most wall time of one call, in milliseconds.
    pub wall_ms: u64,
    /// Most memory of one call, in bytes.
    pub memory_bytes: u64,
    /// Most calls of one turn that are run.
    pub parallel_calls: usize,
}

/// Whose answers they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// What it is called in tables.
    pub name: String,
    /// Where it runs.
    pub place: ModelPlace,
    /// The chat template, where it was chosen by hand: a name, or a file's with its SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The format of calls, where it was chosen by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_format: Option<String>,
}

/// Where a model runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelPlace {
    /// On the engine of this process.
    Local {
        /// Its files.
        path: String,
        /// SHA-256 over them, in hexadecimal.
        sha256: String,
        /// How its weights are kept in memory, which rounds.
        storage: String,
        /// Longest sequence.
        context_tokens: usize,
    },
    /// Behind an endpoint: what it runs is its word.
    Endpoint {
        /// Its addresses.
        urls: Vec<String>,
        /// The name that is asked for.
        model: String,
        /// The kind of server.
        server: String,
        /// Whether token ids go in and come out; else messages.
        are_tokens_exact: bool,
        /// Who finds the calls in what the model writes: `server` or `ours`.
        tool_calls: String,
        /// Longest answer of a tool, in characters, where messages go out.
        tool_answer_chars: usize,
        /// Settings of the endpoint that can change figures and aren't as usual.
        #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
        settings: serde_json::Map<String, serde_json::Value>,
    },
}

/// Who judges answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeIdentity {
    /// Its endpoint.
    pub url: String,
    /// The model that is asked for.
    pub model: String,
    /// What it is told: `rocstar` for our wording, else the SHA-256 of the file that says it.
    pub prompts: String,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteIdentity {
    /// The suite, or the path of one's own problems.
    pub name: String,
    /// SHA-256 of its data, in hexadecimal.
    pub sha256: String,
    /// Problems that it has.
    pub size: usize,
    /// Problems that are asked: the first ones.
    pub problems: usize,
}

impl Protocol {
    /// What a reader of a saved protocol must check first.
    pub const fn is_newer(&self) -> bool {
        self.schema > SCHEMA_VERSION
    }

    /// Everything in which `other` differs, in the order of the fields.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        difference::between(self, other)
    }

    /// What makes attempts of `wanted` unfit to stand beside those of this protocol: every difference
    /// but more samples, more problems, and the preset that the values began as.
    pub fn hindrances(&self, wanted: &Self) -> Vec<Difference> {
        let mut grown = self.clone();
        grown.settings.samples = self.settings.samples.max(wanted.settings.samples);
        grown.suite.problems = self.suite.problems.max(wanted.suite.problems);
        grown.settings.preset = wanted.settings.preset;
        difference::between(&grown, wanted)
    }

    /// Why figures of the two say little about the models alone: differences in everything but the
    /// model, and the preset that the values began as.
    pub fn incomparable(&self, other: &Self) -> Vec<Difference> {
        let mut same = other.clone();
        same.model = self.model.clone();
        same.settings.preset = self.settings.preset;
        difference::between(self, &same)
    }
}

impl SuiteIdentity {
    /// The first `problems` of a suite that was loaded whole.
    pub fn new(suite: &Suite, problems: usize) -> Self {
        Self {
            name: suite.name.clone(),
            sha256: suite.sha256(),
            size: suite.size,
            problems: problems.min(suite.problems.len()),
        }
    }
}

impl Settings {
    /// The settings as a rollout takes them.
    pub fn rollout(&self) -> RolloutOptions {
        RolloutOptions {
            samples: self.samples as usize,
            response_tokens: self.response_tokens,
            max_turns: self.max_turns,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            tool: self.tool.mode,
            tool_answer_tokens: self.tool.answer_tokens,
            tool_wall_ms: self.tool.wall_ms,
            tool_memory_bytes: self.tool.memory_bytes,
            parallel_calls: self.tool.parallel_calls,
            ..RolloutOptions::default()
        }
    }

    /// The settings as a suite is loaded by: all of its problems.
    pub fn load_options(&self) -> LoadOptions {
        LoadOptions {
            prompt: Some(self.prompt.clone()),
            extraction: Some(self.extraction),
            limit: None,
            seed: self.seed,
            calls_in: self.calls_in,
            arena_hard: self.arena_hard,
        }
    }

    /// Whether there is a Python tool.
    pub fn has_tool(&self) -> bool {
        self.tool.mode != ToolMode::None
    }

    /// Every problem of the values; none if they can work. Each names its key in backquotes first.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = self.rollout().validate();
        if self.samples > MOST_SAMPLES {
            problems.push(format!("`samples` must be at most {MOST_SAMPLES}"));
        }
        problems
    }

    /// One line that says how a figure was made, for the place beside it.
    pub fn summary(&self) -> String {
        let tool = match self.tool.mode {
            ToolMode::None => "no tool".to_owned(),
            ToolMode::Stateless => format!("Python tool, {} turns", self.max_turns),
            ToolMode::Session => format!("Python session, {} turns", self.max_turns),
        };
        let cuts = [
            (self.top_p < 1.0).then(|| format!(", top-p {}", self.top_p)),
            (self.top_k > 0).then(|| format!(", top-k {}", self.top_k)),
            (self.min_p > 0.0).then(|| format!(", min-p {}", self.min_p)),
        ];
        let cuts: String = cuts.into_iter().flatten().collect();
        format!(
            "avg@{}, temperature {}{cuts}, {} tokens, {tool}, prompt `{}`, seed {}",
            self.samples,
            self.temperature,
            self.response_tokens,
            self.prompt.name(),
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::suite::Scorer;

    fn protocol() -> Protocol {
        Protocol {
            schema: SCHEMA_VERSION,
            rocstar: "0.1.0".to_owned(),
            model: ModelIdentity {
                name: "tiny".to_owned(),
                place: ModelPlace::Local {
                    path: "models/tiny".to_owned(),
                    sha256: "00".to_owned(),
                    storage: "f32".to_owned(),
                    context_tokens: 512,
                },
                template: None,
                call_format: None,
            },
            suite: SuiteIdentity {
                name: "gsm8k".to_owned(),
                sha256: "11".to_owned(),
                size: 1319,
                problems: 200,
            },
            judge: None,
            settings: Preset::Paper.settings(Scorer::Math),
        }
    }

    #[test]
    fn a_protocol_is_read_as_it_was_written() {
        let text = serde_json::to_string(&protocol()).unwrap();
        assert_eq!(serde_json::from_str::<Protocol>(&text).unwrap(), protocol());
        let unknown = text.replacen("\"seed\"", "\"sead\"", 1);
        assert!(serde_json::from_str::<Protocol>(&unknown).is_err());
    }

    #[test]
    fn growth_is_no_hindrance_and_everything_else_is() {
        let saved = protocol();
        let mut wanted = protocol();
        wanted.settings.samples = 32;
        wanted.suite.problems = 300;
        wanted.settings.preset = Preset::Greedy;
        assert_eq!(saved.hindrances(&wanted), []);
        assert_eq!(
            wanted.hindrances(&saved).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["suite.problems: 300, now 200", "settings.samples: 32, now 16"]
        );
        wanted.settings.temperature = 1.0;
        wanted.suite.sha256 = "22".to_owned();
        assert_eq!(
            saved.hindrances(&wanted).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["suite.sha256: \"11\", now \"22\"", "settings.temperature: 0.6, now 1.0"]
        );
    }

    #[test]
    fn models_may_differ_in_a_comparison_and_settings_may_not() {
        let (left, mut right) = (protocol(), protocol());
        right.model.name = "other".to_owned();
        assert_eq!(left.incomparable(&right), []);
        right.settings.tool.mode = ToolMode::None;
        assert_eq!(left.incomparable(&right).len(), 1);
        assert_eq!(left.differences(&right).len(), 2);
    }

    #[test]
    fn the_papers_preset_is_the_papers() {
        let settings = Preset::Paper.settings(Scorer::Math);
        assert_eq!(settings.validate(), Vec::<String>::new());
        assert_eq!(
            settings.summary(),
            "avg@16, temperature 0.6, 30720 tokens, Python tool, 30 turns, prompt `rstar2`, seed 0"
        );
    }
}
