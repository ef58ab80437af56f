//! A run as the person sees it: a bar with speed and time left, or plain lines, or lines of JSON.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rocstar_rollout::Progress;
use rocstar_train::rl::metrics::{RlEvaluationMetrics, RlStepMetrics};
use rocstar_train::{EvaluationMetrics, Event, Observer, StagePlan, StepMetrics};

use super::stop::Stop;
use crate::terminal::Terminal;

/// Least time between two lines of steps.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// Steps of which each has its line.
const FIRST_STEPS: u64 = 3;
/// Weight of the newest step in the speed that is shown.
const NEWEST: f64 = 0.2;

/// Shows a run.
#[derive(Debug)]
pub(super) struct Show {
    terminal: Terminal,
    json: bool,
    stop: Stop,
    stage: Option<Shown>,
    told_stop: bool,
    /// What went wrong with standard output.
    failure: Option<anyhow::Error>,
}

/// The stage that is shown.
#[derive(Debug)]
struct Shown {
    plan: StagePlan,
    bar: ProgressBar,
    done_steps: u64,
    tokens_per_s: Option<f64>,
    last_line: Option<Instant>,
}

impl Show {
    pub(super) const fn new(terminal: Terminal, json: bool, stop: Stop) -> Self {
        Self { terminal, json, stop, stage: None, told_stop: false, failure: None }
    }

    /// Takes the bar away.
    ///
    /// # Errors
    /// Standard output could not be written: the run was stopped for it.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.clear();
        self.failure.map_or(Ok(()), Err)
    }

    fn clear(&mut self) {
        if let Some(stage) = self.stage.take() {
            stage.bar.finish_and_clear();
        }
    }

    fn note(&self, text: &str) {
        match &self.stage {
            Some(stage) => stage.bar.suspend(|| self.terminal.note(text)),
            None => self.terminal.note(text),
        }
    }

    fn begin_stage(&mut self, plan: &StagePlan) {
        self.clear();
        for line in super::outlook::lines(plan) {
            self.note(&line);
        }
        // Steps over conversations may differ in size, so the time left follows the tokens.
        let (length, done) = match plan.rollouts {
            Some(_) => (plan.steps, plan.done_steps),
            None => {
                let per_step = plan.tokens.checked_div(plan.steps).unwrap_or(0);
                (plan.tokens, per_step * plan.done_steps)
            }
        };
        let bar = self.terminal.bar("training", length);
        bar.set_position(done);
        bar.reset_eta();
        self.stage = Some(Shown {
            plan: plan.clone(),
            bar,
            done_steps: plan.done_steps,
            tokens_per_s: None,
            last_line: None,
        });
    }

    fn step(&mut self, step: &StepMetrics) {
        let shows_bars = self.terminal.shows_bars();
        let Some(stage) = &mut self.stage else { return };
        stage.done_steps += 1;
        let speed = stage
            .tokens_per_s
            .map_or(step.tokens_per_s, |speed| speed + NEWEST * (step.tokens_per_s - speed));
        stage.tokens_per_s = Some(speed);
        let line = format!(
            "step {}/{} · loss {:.4} · {speed:.0} tokens/s · rate {:.2e} · gradient {:.2}",
            stage.done_steps, stage.plan.steps, step.loss, step.learning_rate, step.gradient_norm
        );
        stage.bar.inc(step.tokens);
        stage.bar.set_message(line.clone());
        let is_first = stage.done_steps - stage.plan.done_steps <= FIRST_STEPS;
        let is_last = stage.done_steps == stage.plan.steps;
        let waited = stage.last_line.is_none_or(|last| last.elapsed() >= BETWEEN_LINES);
        if !shows_bars && (is_first || is_last || waited) {
            stage.last_line = Some(Instant::now());
            let left = stage.plan.steps - stage.done_steps;
            let line = format!("{line} · {} left", time_left(stage, speed, left));
            self.terminal.note(line);
        }
    }

    fn evaluation(&self, metrics: &EvaluationMetrics) {
        self.note(&format!(
            "step {} · evaluation loss {:.4} on {} sequences in {:.1} s",
            metrics.step, metrics.loss, metrics.sequences, metrics.seconds
        ));
    }

    fn rl_step(&mut self, step: &RlStepMetrics) {
        let Some(stage) = &mut self.stage else { return };
        stage.done_steps += 1;
        stage.bar.inc(1);
        let line = rl_line(step, stage.done_steps, stage.plan.steps);
        stage.bar.set_message(line.clone());
        if !self.terminal.shows_bars() {
            self.terminal.note(line);
        }
    }

    fn rl_evaluation(&self, metrics: &RlEvaluationMetrics) {
        self.note(&format!(
            "step {} · accuracy {} on {} tasks, {} of the calls in right episodes failed, {:.1} s",
            metrics.step,
            percent(metrics.accuracy),
            metrics.tasks,
            percent(metrics.tool_error_share_right),
            metrics.seconds
        ));
    }

    fn tell_stop(&mut self) {
        if self.stop.is_asked() && !self.told_stop {
            self.told_stop = true;
            self.note("stopping: the state is saved; a second signal stops at once");
        }
    }
}

fn time_left(stage: &Shown, tokens_per_s: f64, steps: u64) -> String {
    let per_step = stage.plan.tokens as f64 / stage.plan.steps as f64;
    show_seconds(per_step * steps as f64 / tokens_per_s)
}

/// A step of reinforcement learning: what came out, and where its time went.
fn rl_line(step: &RlStepMetrics, done: u64, of: u64) -> String {
    let share = |seconds: f64| 100.0 * seconds / step.seconds;
    format!(
        "step {done}/{of} · reward {} · tool errors in right episodes {} · {:.0} tokens long · {} of \
         {} groups used · {:.0} tokens/s · {:.1} s: {:.0} % generating, {:.0} % updating, {:.0} % \
         waiting for tools",
        step.reward_mean.map_or_else(|| "–".to_owned(), |reward| format!("{reward:.3}")),
        percent(step.tool_error_share_right),
        step.response_tokens_mean.unwrap_or(0.0),
        step.groups_used,
        step.groups,
        step.tokens_per_s,
        step.seconds,
        share(step.seconds_generating),
        share(step.seconds_updating),
        share(step.seconds_tools_waiting)
    )
}

/// A share for people; `–` of nothing.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// A time for people: `42 s`, `12 min`, `3 h 05 min`.
pub(super) fn show_seconds(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7_200 => format!("{} min", (whole + 30) / 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

impl Observer for Show {
    fn event(&mut self, event: &Event) {
        if self.json
            && let Err(error) = self.terminal.json_line(event)
        {
            self.failure.get_or_insert(error);
        }
        match event {
            Event::Resumed { step } => self.note(&format!("going on after step {step}")),
            Event::Stage(plan) => self.begin_stage(plan),
            Event::Evaluating { .. } => {
                if let Some(stage) = &self.stage {
                    stage.bar.set_message("evaluating");
                }
            }
            Event::Step(step) => self.step(step),
            Event::Evaluation(metrics) => self.evaluation(metrics),
            Event::Filtered { tasks, left_out } => {
                self.note(&format!("{left_out} of {tasks} tasks are solved already and left out"));
            }
            Event::RollingOut { progress, .. } => {
                if let Some(stage) = &self.stage {
                    let Progress { ended, of, .. } = progress;
                    stage.bar.set_message(format!("{ended} of {of} rollouts"));
                }
            }
            Event::RlStep(step) => self.rl_step(step),
            Event::RlEvaluation(metrics) => self.rl_evaluation(metrics),
            Event::Checkpoint { path, seconds, .. } => {
                self.note(&format!("saved {} in {seconds:.1} s", path.display()));
            }
        }
    }

    fn wants_stop(&mut self) -> bool {
        self.tell_stop();
        self.stop.is_asked() || self.failure.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::show_seconds;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        let all = [0.4, 61.0, 130.0, 7_100.0, 11_100.0].map(show_seconds);
        assert_eq!(all, ["0 s", "61 s", "2 min", "118 min", "3 h 05 min"]);
    }
}
