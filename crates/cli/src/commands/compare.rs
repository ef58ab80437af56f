//! `rocstar compare`: two evaluations against each other.

use std::path::{Path, PathBuf};

use clap::Args;
use rocstar_eval::compare::{CompareOptions, Comparison, compare};
use rocstar_eval::report::EvalResult;
use rocstar_eval::store::Saved;

use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::terminal::Terminal;

/// Compare two evaluations, problem by problem
///
/// The difference of the scores with its 95 % interval and p-value, by a paired bootstrap over the
/// problems that both have; which problems moved; tokens. Where protocols or problems differ, a
/// warning lists in what.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Folder of the first evaluation: what is compared with
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Folder of the second
    #[arg(value_name = "B")]
    second: PathBuf,
    /// How often problems are drawn again
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    draws: u32,
    /// Names the draws
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Problems that moved to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    moved: usize,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

impl Compare {
    /// Runs the command.
    ///
    /// # Errors
    /// A folder holds no result, or the two have no problem in common.
    pub(crate) fn run(&self, terminal: Terminal) -> anyhow::Result<Finish> {
        let (first, second) = (result(&self.first)?, result(&self.second)?);
        let options = CompareOptions { seed: self.seed, draws: self.draws as usize };
        let found = compare(&first, &second, options)
            .map_err(|error| WrongUse::error(error.to_string()))?;
        for warning in &found.warnings {
            terminal.note(format_args!("warning: {warning}"));
        }
        if self.json {
            terminal.json(&found)?;
        } else {
            self.show(&found, terminal)?;
        }
        Ok(Finish::Good)
    }

    fn show(&self, found: &Comparison, terminal: Terminal) -> anyhow::Result<()> {
        let percent = |value: f64| format!("{:.1} %", value * 100.0);
        let points = |value: f64| format!("{:+.1}", value * 100.0);
        let mut rows = vec![vec![
            "score".to_owned(),
            percent(found.scores[0]),
            percent(found.scores[1]),
            points(found.difference),
        ]];
        if let Some([first, second]) = found.response_tokens_mean {
            let difference = format!("{:+.1}", second - first);
            let (first, second) = (format!("{first:.1}"), format!("{second:.1}"));
            rows.push(vec!["tokens of a response".to_owned(), first, second, difference]);
        }
        for moved in found.moved.iter().take(self.moved) {
            let [first, second] = moved.scores;
            let name = moved.id.0.clone();
            rows.push(vec![name, percent(first), percent(second), points(second - first)]);
        }
        let [first, second] = &found.models;
        let title = format!("{} ({} problems)", found.suites[0], found.problems);
        terminal.table(&[&title, first, second, "difference"], &rows, 1)?;
        let better = found.moved.iter().filter(|it| it.scores[1] > it.scores[0]).count();
        let worse = found.moved.len() - better;
        terminal.data(
            format!(
                "difference {} points, 95 % interval {} to {}, p = {:.4}; {better} problems better, \
                 {worse} worse, {} as before\n",
                points(found.difference),
                points(found.interval[0]),
                points(found.interval[1]),
                found.p_value,
                found.problems - found.moved.len(),
            )
            .as_bytes(),
        )
    }
}

fn result(folder: &Path) -> anyhow::Result<EvalResult> {
    let saved = Saved::read(folder).map_err(|error| WrongUse::error(error.to_string()))?;
    saved
        .result
        .ok_or_else(|| WrongUse::error(format!("{} has no result yet", folder.display())))
        .hint("`rocstar eval rescore DIR` writes it from the attempts that are there")
}
