//! The rules that split text into words before merging, by the names that GGUF files give them.
//!
//! The patterns are facts about trained vocabularies: another split gives other ids. A name that
//! isn't listed is an error, because a wrong rule would work and quietly make the model worse.

use serde_json::{Value, json};

use crate::error::{Error, FieldProblem};

/// One rule.
pub(super) struct PreTokenizer {
    /// Patterns applied one after another, each to the pieces that the last one left.
    patterns: &'static [Pattern],
    /// Unicode normalisation that the family's tokenizer applies first.
    pub(super) normalizer: Option<&'static str>,
    /// Whether a word that is a token is taken whole, whatever the merges say.
    pub(super) ignore_merges: bool,
}

enum Pattern {
    /// Matches and gaps become pieces.
    Isolate(&'static str),
    /// Each decimal digit becomes a piece.
    Digits,
    /// GPT-2's own pattern, which the byte-level step carries.
    Gpt2,
}

/// Contractions in any case, words with one leading sign, one digit each, signs, line ends, spaces.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As [`QWEN2`], with up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-2's pattern without its last alternative, as llama.cpp's default has it.
const DEFAULT_WORDS: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

const GPT2: PreTokenizer =
    PreTokenizer { patterns: &[Pattern::Gpt2], normalizer: None, ignore_merges: false };
const DIGITS_THEN_GPT2: PreTokenizer =
    PreTokenizer { patterns: &[Pattern::Digits, Pattern::Gpt2], ..GPT2 };
const DEFAULT: PreTokenizer = PreTokenizer {
    patterns: &[
        Pattern::Isolate(r"[\p{P}\$\+<=>\^~\|]+"),
        Pattern::Isolate(DEFAULT_WORDS),
        Pattern::Isolate(r"\p{N}+"),
        Pattern::Isolate(r"[0-9][0-9][0-9]"),
    ],
    ..GPT2
};

/// Names and their rules.
const RULES: &[(&str, PreTokenizer)] = &[
    ("default", DEFAULT),
    ("gpt-2", GPT2),
    ("smollm", DIGITS_THEN_GPT2),
    ("starcoder", DIGITS_THEN_GPT2),
    ("refact", DIGITS_THEN_GPT2),
    (
        "qwen2",
        PreTokenizer { patterns: &[Pattern::Isolate(QWEN2)], normalizer: Some("NFC"), ..GPT2 },
    ),
    (
        "deepseek-r1-qwen",
        PreTokenizer { patterns: &[Pattern::Isolate(QWEN2)], normalizer: Some("NFC"), ..GPT2 },
    ),
    (
        "llama-bpe",
        PreTokenizer { patterns: &[Pattern::Isolate(LLAMA3)], ignore_merges: true, ..GPT2 },
    ),
];

/// The rule of a name.
pub(super) fn by_name(name: Option<&str>) -> Result<&'static PreTokenizer, Error> {
    let known = || {
        let names: Vec<_> = RULES.iter().map(|(known, _)| format!("`{known}`")).collect();
        names.join(", ")
    };
    let Some(name) = name else {
        return Err(super::field("pre", FieldProblem::NoPreTokenizer { known: known() }));
    };
    RULES.iter().find(|(known, _)| *known == name).map(|(_, rule)| rule).ok_or_else(|| {
        let problem = FieldProblem::Unknown { found: name.to_owned(), known: known() };
        super::field("pre", problem)
    })
}

impl PreTokenizer {
    /// As the `pre_tokenizer` of a tokenizer.json.
    pub(super) fn value(&self, add_prefix_space: bool) -> Value {
        let uses_gpt2 = self.patterns.iter().any(|pattern| matches!(pattern, Pattern::Gpt2));
        let mut steps: Vec<Value> = self
            .patterns
            .iter()
            .filter_map(|pattern| match pattern {
                Pattern::Isolate(regex) => Some(json!({
                    "type": "Split",
                    "pattern": {"Regex": regex},
                    "behavior": "Isolated",
                    "invert": false,
                })),
                Pattern::Digits => Some(json!({"type": "Digits", "individual_digits": true})),
                Pattern::Gpt2 => None,
            })
            .collect();
        steps.push(json!({
            "type": "ByteLevel",
            "add_prefix_space": add_prefix_space,
            "trim_offsets": true,
            "use_regex": uses_gpt2,
        }));
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}
