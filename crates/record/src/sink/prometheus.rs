//! The latest values as text that Prometheus scrapes. Serving it is somebody else's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{At, Sink};
use crate::metric;

/// The latest values of a run; clones share them, so that one is told and another is asked.
#[derive(Debug, Clone)]
pub struct Prometheus {
    run: String,
    latest: Arc<Mutex<Latest>>,
}

#[derive(Debug, Default)]
struct Latest {
    /// By whether they are of an evaluation, and name.
    values: BTreeMap<(bool, String), f64>,
    unix_s: Option<f64>,
}

impl Prometheus {
    /// Values of the run of this name, which becomes the label `run`.
    pub fn new(run: &str) -> Self {
        Self { run: run.to_owned(), latest: Arc::default() }
    }

    /// The latest values in the text format 0.0.4: gauges `rocstar_train_…` with the registry's
    /// meanings. A value that was told once stays until another comes.
    pub fn render(&self) -> String {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Some(unix_s) = latest.unix_s {
            let help = "When the last values were told (s since 1970)";
            self.gauge(&mut text, "updated_seconds", help, unix_s);
        }
        for ((is_of_evaluation, name), value) in &latest.values {
            let help = metric::find(name)
                .map_or_else(String::new, |metric| format!("{} ({})", metric.meaning, metric.unit));
            let prefix = if *is_of_evaluation { "evaluation_" } else { "" };
            self.gauge(&mut text, &format!("{prefix}{name}"), &help, *value);
        }
        text
    }

    fn gauge(&self, text: &mut String, name: &str, help: &str, value: f64) {
        let name: String = name.chars().map(|it| if is_plain(it) { it } else { '_' }).collect();
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let run = self.run.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let value = match value {
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            value => value.to_string(),
        };
        // Writing to a text can't fail.
        let _ = write!(
            text,
            "# HELP rocstar_train_{name} {help}\n# TYPE rocstar_train_{name} gauge\n\
             rocstar_train_{name}{{run=\"{run}\"}} {value}\n"
        );
    }
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

impl Sink for Prometheus {
    fn take(&mut self, at: At, values: &[(&str, f64)]) -> io::Result<()> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |name: &str| (at.place.is_evaluation(), name.to_owned());
        latest.values.extend(values.iter().map(|(name, value)| (key(name), *value)));
        latest.values.insert(key("step"), at.step as f64);
        latest.unix_s = Some(at.unix_s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::metric::Place;

    #[test]
    fn the_latest_values_are_rendered() {
        let mut told = Prometheus::new("a \"run\"");
        let asked = told.clone();
        assert_eq!(asked.render(), "");
        let at = |place, step, unix_s| At { step, place, unix_s };
        let values = [("accuracy", 0.25), ("mismatch_max_ratio", f64::INFINITY)];
        told.take(at(Place::RlStep, 1, 1.5), &values).unwrap();
        told.take(at(Place::RlEvaluation, 1, 2.0), &[("accuracy", 0.75)]).unwrap();
        let values = [("accuracy", 0.5), ("of my own", f64::NAN)];
        told.take(at(Place::RlStep, 2, 2.5), &values).unwrap();
        let samples: Vec<String> = asked
            .render()
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.replace("{run=\"a \\\"run\\\"\"}", ""))
            .collect();
        let expected = [
            "rocstar_train_updated_seconds 2.5",
            "rocstar_train_accuracy 0.5",
            "rocstar_train_mismatch_max_ratio +Inf",
            "rocstar_train_of_my_own NaN",
            "rocstar_train_step 2",
            "rocstar_train_evaluation_accuracy 0.75",
            "rocstar_train_evaluation_step 1",
        ];
        assert_eq!(samples, expected);
        let help = "# HELP rocstar_train_accuracy right final answers among all rollouts that came \
                    to an episode (share)\n# TYPE rocstar_train_accuracy gauge\n";
        assert!(asked.render().contains(help), "{}", asked.render());
    }
}
