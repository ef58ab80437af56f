//! A run as the person sees it: a status block with speed and time left, or plain lines, or lines of
//! JSON.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rocstar_rollout::Progress;
use rocstar_train::rl::metrics::{RlEvaluationMetrics, RlStepMetrics};
use rocstar_train::{EvaluationMetrics, Event, Observer, StagePlan, StepMetrics};

use super::stop::Stop;
use crate::terminal::Terminal;

/// Least time between two lines of steps.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// Least time between two lines of rollouts that run.
const BETWEEN_ROLLOUT_LINES: Duration = Duration::from_secs(15);
/// Steps of which each has its line.
const FIRST_STEPS: u64 = 3;
/// Weight of the newest step in the speed that is shown.
const NEWEST: f64 = 0.2;

/// Shows a run.
#[derive(Debug)]
pub(crate) struct Show {
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
    /// Of fine-tuning: tokens a second; of reinforcement learning: steps a second.
    pace: Option<f64>,
    last_line: Option<Instant>,
    /// What the last step came to, and where its time went.
    status: String,
    /// What goes on.
    now: String,
}

impl Shown {
    fn new(plan: &StagePlan, terminal: Terminal) -> Self {
        // Steps over conversations may differ in size, so the time left follows the tokens.
        let bar = if plan.rollouts.is_some() {
            let bar = terminal.block("starting", plan.steps);
            bar.set_position(plan.done_steps);
            bar
        } else {
            let per_step = plan.tokens.checked_div(plan.steps).unwrap_or(0);
            let bar = terminal.bar("training", plan.tokens);
            bar.set_position(per_step * plan.done_steps);
            bar
        };
        bar.reset_eta();
        Self {
            plan: plan.clone(),
            bar,
            done_steps: plan.done_steps,
            pace: None,
            last_line: None,
            status: String::new(),
            now: String::new(),
        }
    }

    /// Takes the pace of the newest step into account; gives the mean.
    fn pace(&mut self, newest: f64) -> f64 {
        let pace = self.pace.map_or(newest, |pace| pace + NEWEST * (newest - pace));
        *self.pace.insert(pace)
    }

    /// The time left, or nothing while the pace is not known.
    fn left(&self) -> Option<String> {
        let steps = self.plan.steps.saturating_sub(self.done_steps) as f64;
        let per_step = match self.plan.rollouts {
            Some(_) => 1.0,
            None => self.plan.tokens as f64 / self.plan.steps as f64,
        };
        self.pace.map(|pace| format!("{} left", show_seconds(per_step * steps / pace)))
    }

    /// Puts status, what goes on and the time left into the block.
    fn draw(&self) {
        // The bar of fine-tuning shows the time left itself.
        let left = self.plan.rollouts.as_ref().and_then(|_| self.left());
        let parts = [Some(self.now.clone()).filter(|now| !now.is_empty()), left];
        let last: Vec<String> = parts.into_iter().flatten().collect();
        let lines = [self.status.clone(), last.join(" · ")];
        let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        self.bar.set_message(lines.join("\n"));
    }

    /// Whether a plain line is due, the last one being at least so long ago; then it is now.
    fn line_is_due(&mut self, between: Duration) -> bool {
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= between);
        if is_due {
            self.last_line = Some(Instant::now());
        }
        is_due
    }
}

impl Show {
    pub(crate) const fn new(terminal: Terminal, json: bool, stop: Stop) -> Self {
        Self { terminal, json, stop, stage: None, told_stop: false, failure: None }
    }

    /// Takes the bar away.
    ///
    /// # Errors
    /// Standard output could not be written: the run was stopped for it.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
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
        let what = match plan.rollouts {
            Some(_) => "reinforcement learning",
            None => "fine-tuning",
        };
        let done = match plan.done_steps {
            0 => String::new(),
            done => format!(", {done} of them done"),
        };
        self.note(&format!("stage {} begins: {what}, {} steps{done}", plan.stage, plan.steps));
        self.stage = Some(Shown::new(plan, self.terminal));
    }

    fn step(&mut self, step: &StepMetrics) {
        let shows_bars = self.terminal.shows_bars();
        let Some(stage) = &mut self.stage else { return };
        stage.done_steps += 1;
        let speed = stage.pace(step.tokens_per_s);
        let line = format!(
            "step {}/{} · loss {:.4} · {speed:.0} tokens/s · rate {:.2e} · gradient {:.2}",
            stage.done_steps, stage.plan.steps, step.loss, step.learning_rate, step.gradient_norm
        );
        stage.bar.inc(step.tokens);
        stage.bar.set_message(line.clone());
        let is_first = stage.done_steps - stage.plan.done_steps <= FIRST_STEPS;
        let is_last = stage.done_steps == stage.plan.steps;
        if !shows_bars && (stage.line_is_due(BETWEEN_LINES) || is_first || is_last) {
            let left = stage.left().unwrap_or_default();
            self.terminal.note(format_args!("{line} · {left}"));
        }
    }

    fn evaluation(&self, metrics: &EvaluationMetrics) {
        self.note(&format!(
            "step {} · evaluation loss {:.4} on {} sequences in {:.1} s",
            metrics.step, metrics.loss, metrics.sequences, metrics.seconds
        ));
    }

    fn rolling_out(&mut self, progress: Progress) {
        let shows_bars = self.terminal.shows_bars();
        let Some(stage) = &mut self.stage else { return };
        let Progress { ended, of, .. } = progress;
        stage.now = format!("{ended} of {of} rollouts");
        stage.draw();
        if !shows_bars && stage.line_is_due(BETWEEN_ROLLOUT_LINES) {
            self.terminal.note(&stage.now);
        }
    }

    fn rl_step(&mut self, step: &RlStepMetrics) {
        let shows_bars = self.terminal.shows_bars();
        let Some(stage) = &mut self.stage else { return };
        stage.done_steps += 1;
        stage.pace(1.0 / step.seconds);
        let [result, time] = rl_lines(step);
        stage.status = format!("{result}\n{time}");
        stage.now = "rolling out".to_owned();
        stage.bar.inc(1);
        stage.draw();
        if !shows_bars {
            stage.last_line = Some(Instant::now());
            let (done, of) = (stage.done_steps, stage.plan.steps);
            let left = stage.left().unwrap_or_default();
            self.terminal.note(format_args!("step {done}/{of} · {result} · {time} · {left}"));
        }
    }

    fn rl_evaluation(&self, metrics: &RlEvaluationMetrics) {
        self.note(&format!(
            "step {} · held out: accuracy {} on {} tasks, {} of the calls in right episodes failed, \
             {:.1} s",
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

    fn show(&mut self, event: &Event) {
        match event {
            Event::Resumed { step } => self.note(&format!("going on after step {step}")),
            Event::Stage(plan) => self.begin_stage(plan),
            Event::Evaluating { .. } => {
                if let Some(stage) = &mut self.stage {
                    stage.now = "evaluating".to_owned();
                    stage.draw();
                }
            }
            Event::Step(step) => self.step(step),
            Event::Evaluation(metrics) => self.evaluation(metrics),
            Event::Filtered { tasks, left_out } => {
                self.note(&format!("{left_out} of {tasks} tasks are solved already and left out"));
            }
            Event::RollingOut { progress, .. } => self.rolling_out(*progress),
            Event::RlStep(step) => self.rl_step(step),
            Event::RlEvaluation(metrics) => self.rl_evaluation(metrics),
            Event::Checkpoint { path, seconds, .. } => {
                self.note(&format!("saved {} in {seconds:.1} s", path.display()));
            }
        }
    }
}

impl Observer for Show {
    fn event(&mut self, event: &Event) {
        if self.json
            && let Err(error) = self.terminal.json_line(event)
        {
            self.failure.get_or_insert(error);
        }
        self.show(event);
    }

    fn wants_stop(&mut self) -> bool {
        self.tell_stop();
        self.stop.is_asked() || self.failure.is_some()
    }
}

/// A step of reinforcement learning: what came out, and where its time went.
fn rl_lines(step: &RlStepMetrics) -> [String; 2] {
    let share = |seconds: f64| 100.0 * seconds / step.seconds;
    let reward = step.reward_mean.map_or_else(|| "–".to_owned(), |reward| format!("{reward:.3}"));
    [
        format!(
            "reward {reward} · accuracy {} · tool errors in right episodes {} · {:.0} tokens long \
             · {} of {} groups used",
            percent(step.accuracy),
            percent(step.tool_error_share_right),
            step.response_tokens_mean.unwrap_or(0.0),
            step.groups_used,
            step.groups,
        ),
        format!(
            "{:.0} tokens/s · {:.1} s: {:.0} % generating, {:.0} % updating, {:.0} % waiting for \
             tools",
            step.tokens_per_s,
            step.seconds,
            share(step.seconds_generating),
            share(step.seconds_updating),
            share(step.seconds_tools_waiting)
        ),
    ]
}

/// A share for people; `–` of nothing.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// A time for people: `42 s`, `12 min`, `3 h 05 min`.
pub(crate) fn show_seconds(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7_200 => format!("{} min", (whole + 30) / 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use rocstar_train::rl::metrics::RlStepMetrics;

    use super::{rl_lines, show_seconds};

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        let all = [0.4, 61.0, 130.0, 7_100.0, 11_100.0].map(show_seconds);
        assert_eq!(all, ["0 s", "61 s", "2 min", "118 min", "3 h 05 min"]);
    }

    #[test]
    fn a_step_tells_what_came_out_and_where_its_time_went() {
        let step = RlStepMetrics {
            reward_mean: Some(0.5),
            accuracy: Some(0.5),
            response_tokens_mean: Some(61.5),
            groups: 16,
            groups_used: 12,
            seconds: 4.0,
            seconds_generating: 2.5,
            seconds_updating: 1.25,
            seconds_tools_waiting: 0.15,
            tokens_per_s: 8_400.0,
            ..RlStepMetrics::default()
        };
        let [result, time] = rl_lines(&step);
        assert_eq!(
            result,
            "reward 0.500 · accuracy 50.0 % · tool errors in right episodes – · 62 tokens long · 12 \
             of 16 groups used"
        );
        assert_eq!(
            time,
            "8400 tokens/s · 4.0 s: 62 % generating, 31 % updating, 4 % waiting for tools"
        );
    }
}
