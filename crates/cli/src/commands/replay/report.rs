//! What a replay found: differences, and what other settings would have chosen.

use std::path::{Path, PathBuf};

use rocstar_grpo::{GroupVerdict, RocConfig};
use rocstar_record::episode::{self, Group};
use serde::Serialize;

use super::compare::Difference;
use super::reselect::{Choice, Learnt};
use crate::commands::train::show::percent;
use crate::terminal::Terminal;

/// Differences that are shown as text; JSON has all.
const SHOWN_DIFFERENCES: usize = 20;
/// Characters of a value that are shown as text.
const SHOWN_CHARACTERS: usize = 200;

/// The findings, as `--json` prints them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    run: PathBuf,
    steps: Vec<u64>,
    groups: usize,
    episodes: usize,
    tool_calls: usize,
    /// Episodes that came out otherwise.
    differences: Vec<Difference>,
    /// Of these, those that nothing explains.
    unexplained: usize,
    /// Groups in which the run's own settings choose otherwise.
    choice_differences: Vec<ChoiceDifference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_selection: Option<Other>,
}

#[derive(Debug, Serialize)]
struct ChoiceDifference {
    step: u64,
    task: String,
    what: String,
}

/// What other settings choose.
#[derive(Debug, Serialize)]
struct Other {
    selection: RocConfig,
    /// Groups of which other rollouts are learnt from.
    changed_groups: usize,
    recorded: Learnt,
    other: Learnt,
}

impl Report {
    pub(super) fn new(run: &Path) -> Self {
        Self {
            run: run.to_owned(),
            steps: Vec::new(),
            groups: 0,
            episodes: 0,
            tool_calls: 0,
            differences: Vec::new(),
            unexplained: 0,
            choice_differences: Vec::new(),
            other_selection: None,
        }
    }

    /// Adds a step's episodes.
    pub(super) fn add_episodes(&mut self, step: u64, found: Vec<Difference>, groups: &[Group]) {
        if self.steps.last() != Some(&step) {
            self.steps.push(step);
        }
        self.groups += groups.len();
        let episodes = || groups.iter().flat_map(Group::episodes);
        self.episodes += episodes().count();
        self.tool_calls += episodes().map(|(episode, _)| episode.calls().count()).sum::<usize>();
        self.unexplained += found.iter().filter(|one| one.explained.is_none()).count();
        self.differences.extend(found);
    }

    /// Adds what is chosen in a step.
    ///
    /// # Errors
    /// Settings don't fit a group.
    pub(super) fn add_choice(
        &mut self,
        choice: &Choice<'_>,
        groups: &[Group],
        other: Option<&RocConfig>,
    ) -> anyhow::Result<()> {
        for (index, group) in groups.iter().enumerate() {
            let selection = choice.select(index, group, &choice.options.selection)?;
            if let Some(what) = choice.difference(group, &selection) {
                let (step, task) = (choice.step, group.task.0.clone());
                self.choice_differences.push(ChoiceDifference { step, task, what });
            }
            let Some(config) = other else { continue };
            let tried = choice.select(index, group, config)?;
            let result = self.other_selection.get_or_insert_with(|| Other {
                selection: config.clone(),
                changed_groups: 0,
                recorded: Learnt::default(),
                other: Learnt::default(),
            });
            let kept: Vec<u32> = group.kept.iter().map(|kept| kept.episode.sample).collect();
            let was_used = group.verdict == episode::GroupVerdict::Used;
            let is_used = tried.verdict == GroupVerdict::Used;
            let is_same = was_used == is_used && (!is_used || kept == tried.kept);
            result.changed_groups += usize::from(!is_same);
            result.recorded.add(group, was_used, &kept);
            result.other.add(group, is_used, &tried.kept);
        }
        Ok(())
    }

    /// Whether everything came out as it is written down, but for what is explained.
    pub(super) fn is_good(&self) -> bool {
        self.unexplained == 0 && self.choice_differences.is_empty()
    }

    /// Prints the findings.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(super) fn show(&self, json: bool, terminal: Terminal) -> anyhow::Result<()> {
        if json {
            return terminal.json(self);
        }
        for difference in self.differences.iter().take(SHOWN_DIFFERENCES) {
            terminal.data(told(difference).as_bytes())?;
        }
        let more = self.differences.len().saturating_sub(SHOWN_DIFFERENCES);
        if more > 0 {
            terminal.data(format!("and {more} more: `--json` lists all\n").as_bytes())?;
        }
        for one in self.choice_differences.iter().take(SHOWN_DIFFERENCES) {
            let line = format!("step {}, task {}: {}\n", one.step, one.task, one.what);
            terminal.data(line.as_bytes())?;
        }
        let explained = self.differences.len() - self.unexplained;
        let rows = [
            ("steps", self.steps.len()),
            ("episodes made again", self.episodes),
            ("tool calls", self.tool_calls),
            ("episodes that differ", self.unexplained),
            ("that differ by chance or time", explained),
            ("groups chosen again", self.groups),
            ("groups that differ", self.choice_differences.len()),
        ];
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, count)| vec![name.to_owned(), count.to_string()])
            .collect();
        terminal.table(&[&self.run.display().to_string(), ""], &rows, 1)?;
        match &self.other_selection {
            Some(other) => show_other(other, terminal),
            None => Ok(()),
        }
    }
}

fn told(difference: &Difference) -> String {
    let short = |text: &str| -> String {
        let text = text.replace('\n', "⏎");
        let mut short: String = text.chars().take(SHOWN_CHARACTERS).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    };
    let why = difference.explained.map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "step {}, task {}, sample {}: {}{why}\n  recorded: {}\n  again:    {}\n",
        difference.step,
        difference.task,
        difference.sample,
        difference.what,
        short(&difference.recorded),
        short(&difference.again)
    )
}

fn show_other(other: &Other, terminal: Terminal) -> anyhow::Result<()> {
    let share = |part: usize, of: usize| percent((of > 0).then(|| part as f64 / of as f64));
    let row = |name: &str, of: fn(&Learnt) -> (usize, Option<usize>)| {
        let shown = |learnt: &Learnt| match of(learnt) {
            (count, None) => count.to_string(),
            (part, Some(of)) => share(part, of),
        };
        vec![name.to_owned(), shown(&other.recorded), shown(&other.other)]
    };
    let rows = [
        row("groups learnt from", |it| (it.groups, None)),
        row("episodes learnt from", |it| (it.episodes, None)),
        row("right ones", |it| (it.right, Some(it.episodes))),
        row("failed calls", |it| (it.failed_calls, Some(it.calls))),
        row("failed calls in right ones", |it| (it.failed_calls_right, Some(it.calls_right))),
    ];
    let title = format!("{} groups change", other.changed_groups);
    terminal.data(b"\n")?;
    terminal.table(&[&title, "recorded", "with `--selection`"], &rows, 1)
}
