//! The configuration of the code environment, from its layers to one checked value.
//!
//! Layers, the later ones winning: defaults, `--config` files from left to right, environment
//! variables, named options, `--set a.b=c`. Invariant: a [`Settings`] that [`SettingsOptions::resolve`]
//! gave is complete and checked; an unknown key in any layer was refused, with the nearest known one.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use rocstar_sandbox::ServiceConfig;
use rocstar_sandbox::http::HttpConfig;
use serde::{Deserialize, Serialize};

use crate::env_vars;
use crate::failure::WrongUse;
use crate::layers::{Layered, Layers};
use crate::python;

/// Everything that can be configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// `HOST:PORT` that the service listens on.
    pub(crate) listen: String,
    /// Serve without a token on an address that other machines reach.
    pub(crate) allow_public_without_token: bool,
    /// Milliseconds that running calls may still take when the service is told to stop.
    pub(crate) shutdown_grace_ms: u64,
    /// The HTTP interface.
    pub(crate) http: HttpConfig,
    /// Queue, sessions and, in `service.jail`, the isolation.
    pub(crate) service: ServiceConfig,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8088".to_owned(),
            allow_public_without_token: false,
            shutdown_grace_ms: 10_000,
            http: HttpConfig::default(),
            service: ServiceConfig::default(),
        }
    }
}

/// The options that every command with its own code environment takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Code environment")]
pub(crate) struct SettingsOptions {
    /// Configuration file (TOML); of several, later ones win
    #[arg(long = "config", value_name = "FILE")]
    config_files: Vec<PathBuf>,
    /// One setting by its path, such as `service.jail.turn_ms=20`; wins over everything else
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// Python that runs the programs; otherwise the environment that `rocstar sandbox setup`
    /// built, or else `python3`
    #[arg(long, value_name = "PATH", env = env_vars::PYTHON, hide_env_values = true)]
    python: Option<PathBuf>,
    /// Most programs of each kind alive at once
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Start even where this host can't give a required isolation layer; every result then says
    /// `degraded`
    #[arg(long)]
    allow_degraded: bool,
}

/// The code environment of a command whose `--set` and `--config` are something else's.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Code environment")]
pub(crate) struct SandboxOptions {
    /// Configuration file of the code environment (TOML); of several, later ones win
    #[arg(long = "sandbox-config", value_name = "FILE")]
    config_files: Vec<PathBuf>,
    /// Python that runs the programs; otherwise the environment that `rocstar sandbox setup`
    /// built, or else `python3`
    #[arg(long, value_name = "PATH", env = env_vars::PYTHON, hide_env_values = true)]
    python: Option<PathBuf>,
    /// Start even where this host can't give a required isolation layer; the run then says
    /// `degraded`
    #[arg(long)]
    allow_degraded: bool,
}

impl SandboxOptions {
    /// Puts the layers together.
    ///
    /// # Errors
    /// As [`SettingsOptions::resolve`].
    pub(crate) fn resolve(&self) -> anyhow::Result<Settings> {
        let Self { config_files, python, allow_degraded } = self.clone();
        let options =
            SettingsOptions { config_files, python, allow_degraded, ..SettingsOptions::default() };
        options.resolve(|_| {})
    }

    /// The same options as words of a command line, but for what the environment says.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for path in &self.config_files {
            words.extend(["--sandbox-config".to_owned(), path.to_string_lossy().into_owned()]);
        }
        let in_environment = std::env::var_os(env_vars::PYTHON);
        if let Some(python) = &self.python
            && in_environment.as_deref() != Some(python.as_os_str())
        {
            words.extend(["--python".to_owned(), python.to_string_lossy().into_owned()]);
        }
        if self.allow_degraded {
            words.push("--allow-degraded".to_owned());
        }
        words
    }
}

impl Layered for Settings {
    const EXAMPLE: &'static str = "service.jail.slots=16";
}

impl SettingsOptions {
    /// Puts the layers together. `named` adds what a command's own options say, which come
    /// between the files and `--set`.
    ///
    /// # Errors
    /// A file that can't be read, an unknown key, or values that can't work, all of them at once.
    pub(crate) fn resolve(&self, named: impl FnOnce(&mut Layers)) -> anyhow::Result<Settings> {
        let mut layers = Layers::default();
        for path in &self.config_files {
            layers.add_file::<Settings>(path)?;
        }
        self.named_options(&mut layers)?;
        named(&mut layers);
        for assignment in &self.assignments {
            layers.assign::<Settings>(assignment, &format!("--set {assignment}"))?;
        }
        let python_is_chosen = layers.value(&["service", "jail", "python"]).is_some();
        let mut settings: Settings = layers.resolve()?;
        if !python_is_chosen && let Some(python) = python::built_environment() {
            settings.service.jail.python = python;
        }
        settings.validate()?;
        Ok(settings)
    }

    /// The same options as arguments for another process of this program.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: &OsStr| arguments.extend([name.into(), value.to_owned()]);
        for path in &self.config_files {
            add("--config", path.as_os_str());
        }
        if let Some(python) = &self.python {
            add("--python", python.as_os_str());
        }
        if let Some(slots) = self.slots {
            add("--slots", slots.to_string().as_ref());
        }
        for assignment in &self.assignments {
            add("--set", assignment.as_ref());
        }
        if self.allow_degraded {
            arguments.push("--allow-degraded".into());
        }
        arguments
    }

    fn named_options(&self, layers: &mut Layers) -> anyhow::Result<()> {
        if let Some(python) = &self.python {
            let python = python.to_str().context("the path of the Python is not valid UTF-8")?;
            layers.set(&["service", "jail", "python"], python);
        }
        if let Some(slots) = self.slots {
            let slots =
                i64::try_from(slots).map_err(|_| WrongUse::error("--slots is too large"))?;
            layers.set(&["service", "jail", "slots"], slots);
        }
        if self.allow_degraded {
            layers.set(&["service", "jail", "allow_degraded"], true);
        }
        Ok(())
    }
}

impl Settings {
    /// Whether the values can work together.
    ///
    /// # Errors
    /// Every problem that was found, at once.
    fn validate(&self) -> anyhow::Result<()> {
        let mut problems = Vec::new();
        if let Err(invalid) = self.service.validate() {
            problems.push(format!("`service`: {invalid}"));
        }
        let jail = &self.service.jail;
        if jail.turn_ms == 0 {
            problems.push("`service.jail.turn_ms` must be at least 1, is 0".to_owned());
        }
        let (default, maximum) = (&jail.default_limits, &jail.maximum_limits);
        for (name, default, maximum) in [
            ("wall_ms", default.wall_ms, maximum.wall_ms),
            ("cpu_ms", default.cpu_ms, maximum.cpu_ms),
            ("memory_bytes", default.memory_bytes, maximum.memory_bytes),
            ("processes", default.processes, maximum.processes),
            ("file_bytes", default.file_bytes, maximum.file_bytes),
            ("tmp_bytes", default.tmp_bytes, maximum.tmp_bytes),
            ("output_bytes", default.output_bytes, maximum.output_bytes),
            ("kept_bytes", default.kept_bytes, maximum.kept_bytes),
        ] {
            if default == 0 || default > maximum {
                problems.push(format!(
                    "`service.jail.default_limits.{name}` must be from 1 to the maximum \
                     ({maximum}), is {default}"
                ));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(WrongUse::error(format!("the configuration can't work: {}", problems.join("; "))))
    }

    /// The settings as a file that gives the same settings, the token left out.
    ///
    /// # Errors
    /// A value that TOML can't hold.
    pub(crate) fn to_toml(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        let note = match shown.http.token.take() {
            Some(_) => "# http.token is set and not shown\n",
            None => "",
        };
        Ok(format!("{note}{}", toml::to_string_pretty(&shown)?))
    }
}

#[cfg(test)]
mod tests {
    use super::SettingsOptions;

    fn resolve(assignments: &[&str]) -> anyhow::Result<super::Settings> {
        let options = SettingsOptions {
            assignments: assignments.iter().map(|&text| text.to_owned()).collect(),
            python: Some("python3".into()),
            slots: Some(7),
            ..SettingsOptions::default()
        };
        options.resolve(|layers| layers.set(&["listen"], "from-option"))
    }

    #[test]
    fn later_layers_win() {
        let settings = resolve(&[]).unwrap();
        assert_eq!((settings.listen.as_str(), settings.service.jail.slots), ("from-option", 7));
        let settings = resolve(&["listen=[::1]:9", "service.jail.slots=9"]).unwrap();
        assert_eq!((settings.listen.as_str(), settings.service.jail.slots), ("[::1]:9", 9));
    }

    #[test]
    fn resolved_settings_read_back_as_the_same() {
        let settings = resolve(&["http.token=secret"]).unwrap();
        let text = settings.to_toml().unwrap();
        assert!(!text.contains("secret"), "{text}");
        let read: super::Settings = toml::from_str(&text).unwrap();
        assert_eq!(read.to_toml().unwrap(), text.split_once('\n').unwrap().1);
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let error = resolve(&["service.jail.slots=0", "service.jail.turn_ms=0"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("jail.slots") && text.contains("jail.turn_ms"), "{text}");
    }
}
