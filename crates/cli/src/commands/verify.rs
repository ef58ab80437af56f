//! `rocstar verify`: is this answer right? One pair from the command line, or a file of pairs.
//!
//! Invariant: for a pair, exit status 0 means right, and nothing else does; for a file, that all of
//! it was read and written.

mod batch;
mod second;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rocstar_verify::{Extraction, Options, Report, Verdict, verify};

use self::second::Second;
use crate::failure::Finish;
use crate::settings::SandboxOptions;
use crate::terminal::Terminal;

/// Tell whether an answer is right, exactly and with reasons
///
/// Exit status 0 if it is right, or else 1. With `--batch` each line of a file is verified and
/// written back with `verdict` and `rule`; then the exit status only says whether the work was done.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The answer that is right
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "batch",
        allow_hyphen_values = true
    )]
    gold: Option<String>,
    /// The answer to check: itself, or a text that holds it
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "batch",
        allow_hyphen_values = true
    )]
    answer: Option<String>,
    /// Verify each line of a JSONL file with `gold`, `answer`, and optional `precision`, `strict`
    /// and `allow_set_relation_comp`; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gold", "answer", "explain"])]
    batch: Option<PathBuf>,
    /// With `--batch`: write the lines here instead of to standard output
    #[arg(long, short, value_name = "FILE", requires = "batch")]
    output: Option<PathBuf>,
    /// Show both sides as they were understood, and where they differ
    #[arg(long)]
    explain: bool,
    /// Print JSON: the report of a pair; with `--batch`, the counts go to standard error as JSON
    #[arg(long)]
    json: bool,
    /// Digits after the decimal point that count where a side is a decimal
    #[arg(long, value_name = "DIGITS", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000))]
    precision: u32,
    /// Names of variables don't matter: f(x) is f(y)
    #[arg(long)]
    not_strict: bool,
    /// A relation may be given where a set is asked for
    #[arg(long)]
    allow_set_relation_comp: bool,
    /// Where the answer is looked for
    #[arg(long, value_enum, default_value_t = Where::Lenient)]
    extraction: Where,
    /// Who is asked about answers that are neither shown right nor wrong: `math-verify`, the Python
    /// package, runs in the code environment that `rocstar sandbox setup` builds
    #[arg(long, value_enum, value_name = "WHO")]
    second_opinion: Option<Who>,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// A second verifier.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Who {
    /// The Python package Math-Verify
    MathVerify,
}

/// Where an answer is looked for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Where {
    /// Only the last `\boxed{…}` inside the last `<answer>…</answer>`
    Strict,
    /// Boxes, tags, phrases, formulas, numbers, words
    Lenient,
}

impl Verify {
    /// Runs the command.
    ///
    /// # Errors
    /// The file of pairs can't be read, or a result can't be written.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let options = self.options();
        let second = self.second_opinion.map(|Who::MathVerify| &self.sandbox);
        if let Some(input) = &self.batch {
            let batch =
                batch::Batch { input, output: self.output.as_deref(), json: self.json, second };
            batch.run(&options, terminal)?;
            return Ok(Finish::Good);
        }
        let gold = self.gold.as_deref().unwrap_or_default();
        let report = verify(gold, self.answer.as_deref().unwrap_or_default(), &options);
        let opinion = match (second, second::question(&report, &options)) {
            (Some(sandbox), Some(question)) => {
                Second::start(sandbox, terminal)?.ask(vec![question])?.pop()
            }
            _ => None,
        };
        let verdict = opinion.as_ref().map_or_else(|| name(&report.verdict), second::verdict);
        if self.json {
            let mut all = serde_json::to_value(&report)?;
            all["verdict"] = verdict.into();
            if let Some(opinion) = &opinion {
                all["second_opinion"] = opinion.to_string().into();
            }
            terminal.json(&all)?;
        } else {
            let mut text = text(&report, verdict, self.explain);
            if let Some(opinion) = opinion.filter(|_| self.explain) {
                text += &format!("second opinion: {opinion}\n");
            }
            terminal.data(text.as_bytes())?;
        }
        Ok(Finish::from_good(verdict == name(&Verdict::Right)))
    }

    const fn options(&self) -> Options {
        Options {
            extraction: match self.extraction {
                Where::Strict => Extraction::Strict,
                Where::Lenient => Extraction::Lenient,
            },
            precision: self.precision,
            strict: !self.not_strict,
            allow_set_relation_comp: self.allow_set_relation_comp,
        }
    }
}

/// A verdict's name, as JSON has it.
const fn name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Right => "right",
        Verdict::Wrong => "wrong",
        Verdict::Unparseable { .. } => "unparseable",
        Verdict::Undecided { .. } => "undecided",
    }
}

/// An enum's name in JSON.
fn label(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

fn text(report: &Report, verdict: &str, explain: bool) -> String {
    let mut text = format!("{verdict}\n");
    if !explain {
        return text;
    }
    if let Some(rule) = &report.rule {
        text += &format!("rule: {}\n", label(rule));
    }
    match &report.verdict {
        Verdict::Unparseable { side, position, message } => {
            text += &format!("{}: byte {position}: {message}\n", label(side));
        }
        Verdict::Right | Verdict::Wrong | Verdict::Undecided { .. } => {}
    }
    if let Some(difference) = &report.difference {
        text += &format!("difference: {difference}\n");
    }
    for (side, understood) in [("gold", &report.gold), ("answer", &report.answer)] {
        let rule = understood.extraction.map_or_else(|| "nothing".to_owned(), |it| label(&it));
        text += &format!("{side}: {} (found by: {rule})\n", understood.text);
        text += &format!("{side} normal form: {}\n", understood.normal_form);
    }
    text
}
