//! A file of pairs: each line comes back with its verdict, in the order of the file.
//!
//! Invariant: a line is written with all its fields, or the whole file is refused before anything
//! is written, its numbers and texts as they stood; lines are verified on all cores, which changes
//! neither order nor verdicts.

use std::borrow::Cow;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use indexmap::IndexMap;
use rayon::prelude::*;
use rocstar_rollout::Opinion;
use rocstar_verify::{Options, verify};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::name;
use super::second::{self, Question, Second};
use crate::failure::WrongUse;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// What to read and where to write.
pub(super) struct Batch<'b> {
    pub(super) input: &'b Path,
    pub(super) output: Option<&'b Path>,
    pub(super) json: bool,
    /// Where a second opinion is asked of undecided pairs; nowhere, if there is none.
    pub(super) second: Option<&'b SandboxOptions>,
}

/// Verdicts of a file.
#[derive(Debug, Default, Serialize)]
struct Counts {
    lines: usize,
    right: usize,
    wrong: usize,
    unparseable: usize,
    undecided: usize,
    /// Pairs that a second verifier was asked about, and those of them that it decided; the counts
    /// above are those after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_opinions: Option<Asked>,
}

/// How often a second verifier was asked, and what came of it.
#[derive(Debug, Default, Serialize)]
struct Asked {
    asked: usize,
    decided: usize,
    failed: usize,
}

/// One line: its fields, and what to compare how.
struct Pair {
    fields: IndexMap<String, Box<RawValue>>,
    verdict: &'static str,
    gold: String,
    answer: String,
    options: Options,
}

impl Batch<'_> {
    pub(super) fn run(&self, options: &Options, terminal: Terminal) -> anyhow::Result<()> {
        let mut pairs = self.read(options)?;
        let verdicts = verify_all(&mut pairs, terminal)?;
        let asked = match self.second {
            Some(sandbox) => Some(ask_second(&mut pairs, verdicts, sandbox, terminal)?),
            None => None,
        };
        let counts = Counts { second_opinions: asked, ..counted(&pairs) };
        self.write(&pairs, terminal)?;
        self.conclude(&counts, terminal)
    }

    fn read(&self, options: &Options) -> anyhow::Result<Vec<Pair>> {
        let place = || format!("can't read {}", self.input.display());
        let mut bytes = Vec::new();
        if self.input == Path::new("-") {
            std::io::stdin().lock().read_to_end(&mut bytes).with_context(place)?;
        } else {
            bytes = std::fs::read(self.input).with_context(place)?;
        }
        // Some editors of another system begin a file so.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut pairs = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let text = std::str::from_utf8(line).map_err(|_| WrongUse::error("not UTF-8"));
            let pair = text.and_then(|line| pair(line, options));
            let place = || format!("{}, line {}", self.input.display(), index + 1);
            pairs.push(pair.with_context(place)?);
        }
        Ok(pairs)
    }

    fn write(&self, pairs: &[Pair], terminal: Terminal) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for pair in pairs {
            serde_json::to_writer(&mut bytes, &pair.fields)?;
            bytes.push(b'\n');
        }
        let Some(path) = self.output else { return terminal.data(&bytes) };
        let place = || format!("can't write {}", path.display());
        let mut file = BufWriter::new(std::fs::File::create(path).with_context(place)?);
        file.write_all(&bytes).and_then(|()| file.flush()).with_context(place)
    }

    fn conclude(&self, counts: &Counts, terminal: Terminal) -> anyhow::Result<()> {
        if self.json {
            terminal.note(serde_json::to_string(counts)?);
            return Ok(());
        }
        let rows = [
            ("right", counts.right),
            ("wrong", counts.wrong),
            ("unparseable", counts.unparseable),
            ("undecided", counts.undecided),
            ("lines", counts.lines),
        ];
        for (title, count) in rows {
            let percent = 100.0 * count as f64 / counts.lines.max(1) as f64;
            terminal.note(format_args!("{title:<12} {count:>9} {percent:>6.1} %"));
        }
        if let Some(Asked { asked, decided, failed }) = &counts.second_opinions {
            terminal.note(format_args!(
                "second opinions: {asked} asked, {decided} decided, {failed} failed"
            ));
        }
        Ok(())
    }
}

/// A line's fields, checked.
fn pair(line: &str, defaults: &Options) -> anyhow::Result<Pair> {
    let fields: IndexMap<String, Box<RawValue>> = match serde_json::from_str(line) {
        Ok(fields) => fields,
        Err(error) if error.is_data() => return Err(WrongUse::error("not a JSON object")),
        Err(error) => return Err(WrongUse::error(format!("not JSON: {error}"))),
    };
    let field = |name: &str| -> anyhow::Result<Option<Value>> {
        let Some(raw) = fields.get(name) else { return Ok(None) };
        let value = serde_json::from_str(&with_whole_characters(raw.get()));
        value.map(Some).map_err(|error| WrongUse::error(format!("field `{name}`: {error}")))
    };
    let text = |name: &str| match field(name)? {
        Some(Value::String(text)) => Ok(text),
        // Data sets of whole numbers hold them as numbers.
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(WrongUse::error(format!("field `{name}`: not a text"))),
        None => Err(WrongUse::error(format!("field `{name}` is missing"))),
    };
    let flag = |name: &str, default: bool| match field(name)? {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(value)) => Ok(value),
        Some(_) => Err(WrongUse::error(format!("field `{name}`: neither true nor false"))),
    };
    let precision = match field("precision")? {
        None | Some(Value::Null) => defaults.precision,
        Some(value) => value
            .as_u64()
            .and_then(|digits| u32::try_from(digits).ok())
            .filter(|digits| *digits <= 1_000)
            .ok_or_else(|| WrongUse::error("field `precision`: not a number from 0 to 1000"))?,
    };
    let options = Options {
        extraction: defaults.extraction,
        precision,
        strict: flag("strict", defaults.strict)?,
        allow_set_relation_comp: flag("allow_set_relation_comp", defaults.allow_set_relation_comp)?,
    };
    let (gold, answer) = (text("gold")?, text("answer")?);
    Ok(Pair { gold, answer, options, fields, verdict: "" })
}

/// Half a character (`\ud800` alone) is what Python writes of text that is no UTF-8, as models may
/// make it; it stands for a character that is not known.
fn with_whole_characters(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::with_capacity(json.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        at += found;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                whole.push_str(&json[kept..at]);
                whole.push_str("\\ufffd");
                kept = at + 6;
                6
            }
            // What is escaped may be a backslash itself.
            _ => 2,
        };
        at = json.len().min(at + length);
        while !json.is_char_boundary(at) {
            at += 1;
        }
    }
    whole.push_str(&json[kept..]);
    Cow::Owned(whole)
}

/// Adds `verdict` and `rule` to each pair's fields; the questions of those left undecided.
fn verify_all(pairs: &mut [Pair], terminal: Terminal) -> anyhow::Result<Vec<Option<Question>>> {
    let bar = terminal.bar("verifying", pairs.len() as u64);
    let questions = pairs.par_iter_mut().map(|pair| {
        let report = verify(&pair.gold, &pair.answer, &pair.options);
        pair.set_verdict(name(&report.verdict))?;
        pair.fields.insert("rule".to_owned(), to_raw_value(&report.rule)?);
        bar.inc(1);
        Ok(second::question(&report, &pair.options))
    });
    let questions = questions.collect();
    bar.finish_and_clear();
    questions
}

/// Asks about what was left undecided; its pairs get the verdict and `second_opinion`.
fn ask_second(
    pairs: &mut [Pair],
    questions: Vec<Option<Question>>,
    sandbox: &SandboxOptions,
    terminal: Terminal,
) -> anyhow::Result<Asked> {
    let (open, questions): (Vec<&mut Pair>, Vec<Question>) = pairs
        .iter_mut()
        .zip(questions)
        .filter_map(|(pair, question)| Some((pair, question?)))
        .unzip();
    let mut asked = Asked { asked: open.len(), ..Asked::default() };
    if open.is_empty() {
        return Ok(asked);
    }
    let opinions = Second::start(sandbox, terminal)?.ask(questions)?;
    for (pair, opinion) in open.into_iter().zip(opinions) {
        asked.decided += usize::from(matches!(opinion, Opinion::Right | Opinion::Wrong));
        asked.failed += usize::from(matches!(opinion, Opinion::Failed { .. }));
        pair.set_verdict(second::verdict(&opinion))?;
        pair.fields.insert("second_opinion".to_owned(), to_raw_value(&opinion.to_string())?);
    }
    Ok(asked)
}

impl Pair {
    fn set_verdict(&mut self, verdict: &'static str) -> anyhow::Result<()> {
        self.verdict = verdict;
        self.fields.insert("verdict".to_owned(), to_raw_value(verdict)?);
        Ok(())
    }
}

/// How often each verdict was given.
fn counted(pairs: &[Pair]) -> Counts {
    let count = |wanted: &str| pairs.iter().filter(|pair| pair.verdict == wanted).count();
    Counts {
        lines: pairs.len(),
        right: count("right"),
        wrong: count("wrong"),
        unparseable: count("unparseable"),
        undecided: count("undecided"),
        second_opinions: None,
    }
}
