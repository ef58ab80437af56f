//! A file of pairs: each line comes back with its verdict, in the order of the file.
//!
//! Invariant: a line is written with all its fields, or the whole file is refused before anything
//! is written; lines are verified on all cores, which changes neither order nor verdicts.

use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use rocstar_rollout::Opinion;
use rocstar_verify::{Options, verify};
use serde::Serialize;
use serde_json::{Map, Value};

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
    fields: Map<String, Value>,
    gold: String,
    answer: String,
    options: Options,
}

impl Batch<'_> {
    pub(super) fn run(&self, options: &Options, terminal: Terminal) -> anyhow::Result<()> {
        let mut pairs = self.read(options)?;
        let verdicts = verify_all(&mut pairs, terminal);
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
        let mut text = String::new();
        if self.input == Path::new("-") {
            std::io::stdin().lock().read_to_string(&mut text).with_context(place)?;
        } else {
            text = std::fs::read_to_string(self.input).with_context(place)?;
        }
        let mut pairs = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let pair = pair(line, options)
                .with_context(|| format!("{}, line {}", self.input.display(), index + 1))?;
            pairs.push(pair);
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
    let fields = match serde_json::from_str(line) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(WrongUse::error("not a JSON object")),
        Err(error) => return Err(WrongUse::error(format!("not JSON: {error}"))),
    };
    let text = |name: &str| match fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        // Data sets of whole numbers hold them as numbers.
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(WrongUse::error(format!("field `{name}`: not a text"))),
        None => Err(WrongUse::error(format!("field `{name}` is missing"))),
    };
    let flag = |name: &str, default: bool| match fields.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(WrongUse::error(format!("field `{name}`: neither true nor false"))),
    };
    let precision = match fields.get("precision") {
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
    Ok(Pair { gold: text("gold")?, answer: text("answer")?, options, fields })
}

/// Adds `verdict` and `rule` to each pair's fields; the questions of those left undecided.
fn verify_all(pairs: &mut [Pair], terminal: Terminal) -> Vec<Option<Question>> {
    let bar = terminal.bar("verifying", pairs.len() as u64);
    let questions = pairs.par_iter_mut().map(|pair| {
        let report = verify(&pair.gold, &pair.answer, &pair.options);
        let rule = serde_json::to_value(report.rule).unwrap_or(Value::Null);
        pair.fields.insert("verdict".to_owned(), name(&report.verdict).into());
        pair.fields.insert("rule".to_owned(), rule);
        bar.inc(1);
        second::question(&report, &pair.options)
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
        pair.fields.insert("verdict".to_owned(), second::verdict(&opinion).into());
        pair.fields.insert("second_opinion".to_owned(), opinion.to_string().into());
    }
    Ok(asked)
}

/// How often each verdict was given.
fn counted(pairs: &[Pair]) -> Counts {
    let count = |wanted: &str| {
        pairs
            .iter()
            .filter(|pair| pair.fields.get("verdict").is_some_and(|it| it == wanted))
            .count()
    };
    Counts {
        lines: pairs.len(),
        right: count("right"),
        wrong: count("wrong"),
        unparseable: count("unparseable"),
        undecided: count("undecided"),
        second_opinions: None,
    }
}
