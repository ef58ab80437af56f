//! Where a server is and how it is spoken to, as data.
//!
//! Invariant: a key of an interface is never in here, only the name of the variable that holds it,
//! so the settings can be written down beside a result.

use rocstar_chat::calls::CallFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointOptions {
    /// Its address: `http://localhost:8000`, or with the path of its interface, as in
    /// `https://example.org/api/v1`. Without a path `/v1` is meant.
    pub url: String,
    /// The model to ask for; empty for the only one that is served.
    pub model: String,
    /// Name of the environment variable that holds the key; empty where none is needed.
    pub api_key_env: String,
    /// What serves there.
    pub kind: EndpointKind,
    /// Who finds the tool calls in what the model writes.
    pub tool_calls: ToolCalls,
    /// How calls are written where we find them: `hermes`, `llama3_json`, `pythonic`, `fenced_code`.
    pub call_format: String,
    /// The field that bounds new tokens.
    pub limit_field: LimitField,
    /// Which log-probabilities a token server gives.
    pub log_probs: ServerLogProbs,
    /// Whether thinking that the server keeps apart goes back to it with the next turn.
    pub return_reasoning: bool,
    /// Whether answers come piece by piece: then silence is noticed early, and an answer without end
    /// is cut off.
    pub stream: bool,
    /// More fields for the body of each chat request, as they are.
    pub extra: Map<String, Value>,
    /// Most requests at once.
    pub max_concurrent: usize,
    /// Most requests that begin in a minute; 0 for any number.
    pub requests_per_minute: usize,
    /// Longest time until a connection stands, in milliseconds.
    pub connect_ms: u64,
    /// Longest time until an answer begins, in milliseconds. An answer that comes whole begins when
    /// it is complete: there `request_ms` holds.
    pub first_byte_ms: u64,
    /// Longest silence within an answer, in milliseconds.
    pub idle_ms: u64,
    /// Longest time of one request, in milliseconds.
    pub request_ms: u64,
    /// Longest time that a request waits for a server that says it is full, in milliseconds.
    pub busy_ms: u64,
    /// How often a request is sent before it counts as failed, times the number of servers; and how
    /// many rounds of failures make a server count as gone.
    pub tries: usize,
    /// First pause after a failure, in milliseconds; each further one is twice as long.
    pub first_pause_ms: u64,
    /// Longest pause, in milliseconds.
    pub longest_pause_ms: u64,
    /// Longest answer, in bytes.
    pub answer_bytes: usize,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            api_key_env: String::new(),
            kind: EndpointKind::Auto,
            tool_calls: ToolCalls::Server,
            call_format: CallFormat::Hermes.to_string(),
            limit_field: LimitField::MaxTokens,
            log_probs: ServerLogProbs::Usual,
            return_reasoning: false,
            stream: true,
            extra: Map::new(),
            max_concurrent: 64,
            requests_per_minute: 0,
            connect_ms: 10_000,
            first_byte_ms: 300_000,
            idle_ms: 60_000,
            request_ms: 3_600_000,
            busy_ms: 600_000,
            tries: 6,
            first_pause_ms: 500,
            longest_pause_ms: 30_000,
            answer_bytes: 64 << 20,
        }
    }
}

/// What serves at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// To be found out by asking.
    Auto,
    /// OpenAI's chat completions and nothing more: text, no tokens.
    Chat,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// `rocstar serve`.
    Rocstar,
}

impl EndpointKind {
    /// Whether token ids go in and come out.
    pub(super) const fn has_tokens(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang | Self::Rocstar)
    }

    /// As it stands in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Chat => "chat",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Rocstar => "rocstar",
        }
    }
}

/// Who finds the tool calls in what the model writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalls {
    /// The server: tools go out and calls come back as fields of their own.
    Server,
    /// We do: the server sees text only. Tools are described in the system message, calls are found
    /// in the text, and answers go back as the user's messages.
    Ours,
}

/// The field that bounds new tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitField {
    /// The one that nearly all servers read.
    MaxTokens,
    /// The one that OpenAI's reasoning models insist on.
    MaxCompletionTokens,
}

/// Which log-probabilities a token server gives. No answer says so; the server's own flags decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerLogProbs {
    /// As its kind does unless told otherwise: vLLM raw, SGLang with the temperature and without
    /// cuts, rocstar both.
    Usual,
    /// At temperature 1, without cuts: vLLM's `--logprobs-mode raw_logprobs`, SGLang's
    /// `RETURN_ORIGINAL_LOGPROB`.
    Raw,
    /// Under the distribution that tokens are drawn from: vLLM's
    /// `--logprobs-mode processed_logprobs`.
    Processed,
}

impl LimitField {
    /// The field.
    pub const fn field(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Fields of a chat request that we set.
const FIELDS: [&str; 14] = [
    "messages",
    "model",
    "seed",
    "stream",
    "stream_options",
    "tools",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "rocstar",
];
/// Longest wait, in milliseconds: clocks add them up.
const MOST_MS: u64 = 365 * 24 * 3_600_000;

impl EndpointOptions {
    /// A server with everything else as usual.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Every problem of the values; none if they can work. Each names its key in backquotes first.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Err(problem) = super::client::Address::parse(&self.url) {
            problems.push(format!("`url` {problem}"));
        }
        if let Err(unknown) = self.call_format.parse::<CallFormat>() {
            problems.push(format!("`call_format`: {unknown}"));
        }
        let name = self.api_key_env.as_str();
        if name.contains(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            // Never shown: whoever gets this wrong has written the key itself.
            let problem = "`api_key_env` must be the name of a variable (letters, digits, `_`), \
                           not the key itself";
            problems.push(problem.to_owned());
        }
        let least_one = [
            ("max_concurrent", self.max_concurrent as u64),
            ("connect_ms", self.connect_ms),
            ("first_byte_ms", self.first_byte_ms),
            ("idle_ms", self.idle_ms),
            ("request_ms", self.request_ms),
            ("tries", self.tries as u64),
            ("answer_bytes", self.answer_bytes as u64),
        ];
        let zero = least_one.into_iter().filter(|(_, value)| *value == 0);
        problems.extend(zero.map(|(name, _)| format!("`{name}` must be at least 1")));
        if self.first_pause_ms > self.longest_pause_ms {
            problems.push("`first_pause_ms` must be at most `longest_pause_ms`".to_owned());
        }
        let waits = [
            ("connect_ms", self.connect_ms),
            ("first_byte_ms", self.first_byte_ms),
            ("idle_ms", self.idle_ms),
            ("request_ms", self.request_ms),
            ("busy_ms", self.busy_ms),
            ("longest_pause_ms", self.longest_pause_ms),
        ];
        let long = waits.into_iter().filter(|(_, value)| *value > MOST_MS);
        problems
            .extend(long.map(|(name, _)| format!("`{name}` must be at most {MOST_MS}, a year")));
        let taken = FIELDS.into_iter().filter(|name| self.extra.contains_key(*name));
        problems.extend(taken.map(|name| format!("`extra` must not hold `{name}`: we set it")));
        problems
    }

    /// Settings that can change what a model answers and aren't as usual, under their names: what a
    /// figure's protocol must hold beside the model, the kind of server and who finds calls.
    pub fn facts_of_figures(&self) -> Map<String, Value> {
        let usual = Self::default();
        let mut facts = Map::new();
        if self.limit_field != usual.limit_field {
            facts.insert("limit_field".to_owned(), self.limit_field.field().into());
        }
        if self.return_reasoning != usual.return_reasoning {
            facts.insert("return_reasoning".to_owned(), self.return_reasoning.into());
        }
        if self.extra != usual.extra {
            facts.insert("extra".to_owned(), Value::Object(self.extra.clone()));
        }
        facts
    }

    /// The format of calls where we find them; `None` where the server does.
    pub fn own_call_format(&self) -> Option<&str> {
        (self.tool_calls == ToolCalls::Ours).then_some(self.call_format.as_str())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn all_problems_are_told_at_once_and_no_key_is_shown() {
        let mut extra = Map::new();
        extra.insert("seed".to_owned(), json!(1));
        let options = EndpointOptions {
            url: "localhost:8000".to_owned(),
            api_key_env: "sk-secret".to_owned(),
            call_format: "hermés".to_owned(),
            max_concurrent: 0,
            busy_ms: u64::MAX,
            first_pause_ms: 2,
            longest_pause_ms: 1,
            extra,
            ..EndpointOptions::default()
        };
        let problems = options.validate();
        let keys: Vec<&str> = problems.iter().filter_map(|line| line.split('`').nth(1)).collect();
        let expected = [
            "url",
            "call_format",
            "api_key_env",
            "max_concurrent",
            "first_pause_ms",
            "busy_ms",
            "extra",
        ];
        assert_eq!(keys, expected);
        assert!(problems.iter().all(|problem| !problem.contains("sk-secret")), "{problems:?}");
        assert_eq!(EndpointOptions::at("http://localhost:8000").validate(), Vec::<String>::new());
    }

    #[test]
    fn what_changes_figures_is_told_and_nothing_else() {
        let usual = EndpointOptions::at("http://localhost:8000");
        let patient = EndpointOptions {
            tries: 9,
            stream: false,
            api_key_env: "K".to_owned(),
            ..usual.clone()
        };
        assert_eq!((patient.facts_of_figures(), patient.own_call_format()), (Map::new(), None));
        let mut extra = Map::new();
        extra.insert("reasoning_effort".to_owned(), json!("low"));
        let other = EndpointOptions {
            limit_field: LimitField::MaxCompletionTokens,
            return_reasoning: true,
            tool_calls: ToolCalls::Ours,
            extra,
            ..usual
        };
        let expected = json!({"limit_field": "max_completion_tokens", "return_reasoning": true,
                              "extra": {"reasoning_effort": "low"}});
        assert_eq!(Value::Object(other.facts_of_figures()), expected);
        assert_eq!(other.own_call_format(), Some("hermes"));
    }
}
