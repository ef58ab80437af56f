//! The registry of metrics: what each number that a run logs is called, counted in and means, and
//! between what values a healthy run keeps it.
//!
//! Invariant: a name has one entry, and every number of a line of `metrics.jsonl` has one. The
//! documentation (`docs/training-metrics.md`), TensorBoard's tags and the help texts for Prometheus
//! are made from it, so they can't say anything else.

mod table;

/// A number that is logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name in every file.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Between what values a healthy run keeps it; `None` where no value is wrong in itself.
    pub healthy: Option<Healthy>,
    /// Where it is logged.
    pub logged: &'static [Place],
    /// It depends on the machine and on what else that did, and differs when a run is repeated; all
    /// others follow from recipe, data and model.
    pub is_measured: bool,
}

/// Values of a healthy run, the ends among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Healthy {
    /// The lowest, where there is one.
    pub lowest: Option<f64>,
    /// The highest, where there is one.
    pub highest: Option<f64>,
    /// What a value outside tells.
    pub otherwise: &'static str,
}

/// Where a metric is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Each step of supervised fine-tuning.
    SftStep,
    /// Each evaluation of supervised fine-tuning.
    SftEvaluation,
    /// Each step of reinforcement learning.
    RlStep,
    /// Each evaluation of a policy by rollouts.
    RlEvaluation,
}

impl Place {
    /// An evaluation, not a step.
    pub const fn is_evaluation(self) -> bool {
        matches!(self, Self::SftEvaluation | Self::RlEvaluation)
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SftStep => "SFT step",
            Self::SftEvaluation => "SFT evaluation",
            Self::RlStep => "RL step",
            Self::RlEvaluation => "RL evaluation",
        }
    }
}

/// Metrics that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Topic {
    /// One word, also the first part of TensorBoard's tags.
    pub name: &'static str,
    /// Its metrics.
    pub metrics: &'static [Metric],
}

impl Metric {
    /// Whether a healthy run has such a value; `None` where no value is wrong in itself.
    pub fn is_healthy(&self, value: f64) -> Option<bool> {
        let Healthy { lowest, highest, .. } = self.healthy?;
        let too_low = lowest.is_some_and(|lowest| value < lowest);
        let too_high = highest.is_some_and(|highest| value > highest);
        Some(!too_low && !too_high && !value.is_nan())
    }
}

impl Healthy {
    /// As a person reads it: `0 to 0.5`, `at least 1`.
    pub fn range(&self) -> String {
        match (self.lowest, self.highest) {
            (Some(lowest), Some(highest)) => format!("{lowest} to {highest}"),
            (Some(lowest), None) => format!("at least {lowest}"),
            (None, Some(highest)) => format!("at most {highest}"),
            (None, None) => "any".to_owned(),
        }
    }
}

/// All metrics, by topic.
pub const fn topics() -> &'static [Topic] {
    table::TOPICS
}

/// The metric of this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    find_with_topic(name).map(|(_, metric)| metric)
}

/// The metric of this name, with its topic.
pub fn find_with_topic(name: &str) -> Option<(&'static Topic, &'static Metric)> {
    let mut all =
        topics().iter().flat_map(|topic| topic.metrics.iter().map(move |one| (topic, one)));
    all.find(|(_, metric)| metric.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use super::*;

    /// `docs/training-metrics.md`.
    fn document() -> String {
        let mut document = String::from(
            "# Metrics of training\n\nGenerated from the registry; refresh with `ROCSTAR_REFRESH=1 \
             cargo test -p rocstar-record metric`.\n\nEvery line of a run's `metrics.jsonl` has \
             some of these numbers and a `kind`. A number that is not finite is `null` there. A \
             share lies between 0 and 1. TensorBoard shows them as `topic/name`, Prometheus gets \
             them as `rocstar_train_name`; of evaluations they are `evaluation/name` and \
             `rocstar_train_evaluation_name`. Where a healthy run keeps a number within a range, the \
             range is given, with what a value outside tells. A number marked † depends on the \
             machine and on what else that did; all others are the same, to the last digit, when a \
             run is repeated, or stopped and resumed.\n",
        );
        for topic in topics() {
            let _ = write!(
                document,
                "\n## {}\n\n| name | unit | meaning | healthy | logged |\n|---|---|---|---|---|\n",
                topic.name
            );
            for metric in topic.metrics {
                let healthy = metric.healthy.map_or_else(
                    || "–".to_owned(),
                    |healthy| format!("{}; else {}", healthy.range(), healthy.otherwise),
                );
                let logged: Vec<&str> = metric.logged.iter().map(|place| place.name()).collect();
                let Metric { name, unit, meaning, .. } = metric;
                let mark = if metric.is_measured { " †" } else { "" };
                let logged = logged.join(", ");
                let _ = writeln!(
                    document,
                    "| `{name}`{mark} | {unit} | {meaning} | {healthy} | {logged} |"
                );
            }
        }
        document
    }

    #[test]
    fn the_document_is_the_registry() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/training-metrics.md");
        if std::env::var_os("ROCSTAR_REFRESH").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            committed,
            document(),
            "refresh docs/training-metrics.md: ROCSTAR_REFRESH=1 cargo test -p rocstar-record metric"
        );
    }

    #[test]
    fn every_entry_is_complete_and_there_once() {
        let mut names = BTreeSet::new();
        for metric in topics().iter().flat_map(|topic| topic.metrics) {
            assert!(names.insert(metric.name), "{} is there twice", metric.name);
            let plain =
                |letter: char| letter.is_ascii_lowercase() || "_0123456789".contains(letter);
            assert!(metric.name.chars().all(plain), "{}", metric.name);
            assert!(!metric.logged.is_empty() && !metric.meaning.contains('|'), "{}", metric.name);
            assert!(!metric.unit.is_empty() && !metric.meaning.ends_with('.'), "{}", metric.name);
            let healthy = metric.healthy;
            assert!(healthy.is_none_or(|it| it.lowest.is_some() || it.highest.is_some()));
        }
        assert!(find("no_such_metric").is_none());
    }

    #[test]
    fn health_is_said_of_values() {
        let share = find("truncated_share").unwrap();
        assert_eq!(share.is_healthy(0.05), Some(true));
        assert_eq!(share.is_healthy(0.5), Some(false));
        assert_eq!(share.is_healthy(f64::NAN), Some(false));
        assert_eq!(find("loss").unwrap().is_healthy(-3.0), None);
        assert_eq!(share.healthy.unwrap().range(), "at most 0.1");
    }
}
