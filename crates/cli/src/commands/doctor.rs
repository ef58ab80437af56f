//! `rocstar doctor`: what this machine gives the code environment, with a fix for each lack.

use clap::Args;
use rocstar_jail::{Config, Effective, Jail, Layer};
use serde::Serialize;

use crate::failure::Finish;
use crate::host::{self, Facts};
use crate::python;
use crate::settings::SettingsOptions;
use crate::terminal::Terminal;

/// Tell what this machine gives, and how to mend what it lacks
///
/// Starts a jail, tries each isolation layer and looks at the machine. Exit status 0 if every
/// required layer holds, or else 1.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsOptions,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Examination {
    /// A jail started and every required layer holds.
    ready: bool,
    /// Why no jail could be started.
    problem: Option<String>,
    /// Empty where no jail could be started.
    layers: Vec<LayerRow>,
    /// The interpreter that runs programs.
    python: String,
    python_version: Option<String>,
    /// Scientific packages that it has, as `name version`.
    packages: Vec<String>,
    /// Every interpreter found, newest first.
    interpreters: Vec<InterpreterRow>,
    machine: Facts,
}

#[derive(Debug, Serialize)]
struct LayerRow {
    layer: &'static str,
    required: bool,
    holds: bool,
    /// Where it does not: why.
    lack: Option<String>,
    /// Where it does not: what would change that.
    fix: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct InterpreterRow {
    path: String,
    version: String,
    /// Whether `rocstar sandbox setup` can build on it.
    usable_for_setup: bool,
}

impl Doctor {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong settings. A jail that does not start is a finding.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let settings = self.settings.resolve(|_| {})?;
        let spinner = terminal.spinner("examining this machine");
        let examination = Examination::new(settings.service.jail);
        spinner.finish_and_clear();
        if self.json {
            terminal.json(&examination)?;
        } else {
            examination.print(terminal)?;
        }
        Ok(Finish::from_good(examination.ready))
    }
}

/// Starts the smallest jail, whatever the host lacks, and asks what holds.
fn examine(mut config: Config) -> Result<Effective, rocstar_jail::Error> {
    config.allow_degraded = true;
    config.zygotes = 1;
    config.slots = 1;
    config.sessions = 0;
    Ok(Jail::start(config)?.effective().clone())
}

impl Examination {
    fn new(config: Config) -> Self {
        let interpreters =
            python::find_interpreters().into_iter().map(|interpreter| InterpreterRow {
                path: interpreter.executable.display().to_string(),
                version: interpreter.version.to_string(),
                usable_for_setup: interpreter.is_supported() && interpreter.can_build,
            });
        let found = Self {
            ready: false,
            problem: None,
            layers: Vec::new(),
            python: config.python.display().to_string(),
            python_version: None,
            packages: Vec::new(),
            interpreters: interpreters.collect(),
            machine: Facts::collect(),
        };
        let required = config.required.clone();
        let effective = match examine(config) {
            Ok(effective) => effective,
            Err(error) => return Self { problem: Some(error.to_string()), ..found },
        };
        let rows = effective.layers.into_iter().map(|state| LayerRow {
            layer: state.layer.name(),
            required: required.contains(&state.layer),
            fix: (!state.holds).then(|| fix(state.layer)),
            holds: state.holds,
            lack: state.lack,
        });
        let layers: Vec<LayerRow> = rows.collect();
        Self {
            ready: layers.iter().all(|row| row.holds || !row.required),
            layers,
            python: effective.python,
            python_version: Some(effective.python_version),
            packages: effective.packages,
            ..found
        }
    }

    fn print(&self, terminal: Terminal) -> anyhow::Result<()> {
        if !self.layers.is_empty() {
            let layers: Vec<Vec<String>> = self.layers.iter().map(LayerRow::cells).collect();
            terminal.table(&["isolation layer", "required", "holds"], &layers, 3)?;
            terminal.data(b"\n")?;
        }
        let version = self.python_version.as_deref().unwrap_or("unknown version");
        let mut machine = vec![vec!["python".to_owned(), format!("{version} at {}", self.python)]];
        let packages = if self.packages.is_empty() {
            "none: programs have the standard library only".to_owned()
        } else {
            self.packages.join(", ")
        };
        machine.push(vec!["packages".to_owned(), packages]);
        for row in &self.interpreters {
            let use_for = if row.usable_for_setup { "" } else { " (not usable for `setup`)" };
            machine.push(vec![
                "python found".to_owned(),
                format!("{} at {}{use_for}", row.version, row.path),
            ]);
        }
        machine.extend(self.machine.rows());
        terminal.table(&["this machine", ""], &machine, 2)?;
        if let Some(problem) = &self.problem {
            terminal.note(format_args!("no jail could be started: {problem}"));
        }
        for hint in self.hints() {
            terminal.note(format_args!("hint: {hint}"));
        }
        Ok(())
    }

    /// What to do about each lack.
    fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        // Layers that one thing would bring back are told together.
        let lacks = self.layers.iter().filter(|row| !row.holds);
        let mut fixes: Vec<(&str, Vec<String>)> = Vec::new();
        for row in lacks {
            let lack = row.lack.as_deref().unwrap_or("the probe gave no reason");
            let lack = format!("`{}` ({lack})", row.layer);
            let fix = row.fix.unwrap_or_default();
            match fixes.iter_mut().find(|(known, _)| *known == fix) {
                Some((_, lacks)) => lacks.push(lack),
                None => fixes.push((fix, vec![lack])),
            }
        }
        hints.extend(fixes.iter().map(|(fix, lacks)| format!("for {}: {fix}", lacks.join(", "))));
        if self.packages.is_empty() {
            hints.push("`rocstar sandbox setup` adds numpy, sympy and others".to_owned());
        }
        hints.extend(host::hints(&self.machine));
        hints
    }
}

/// What usually brings a missing layer back.
const fn fix(layer: Layer) -> &'static str {
    match layer {
        Layer::PidNamespace
        | Layer::MountNamespace
        | Layer::IpcNamespace
        | Layer::UtsNamespace
        | Layer::NetworkNamespace
        | Layer::UnprivilegedUser => {
            "run as root, or allow user namespaces: `sysctl -w user.max_user_namespaces=10000`, \
             and where they exist `kernel.unprivileged_userns_clone=1` and \
             `kernel.apparmor_restrict_unprivileged_userns=0`; a container has to be started with \
             them allowed, for example `--privileged`"
        }
        Layer::MemoryCgroup | Layer::PidsCgroup | Layer::CpuCgroup => {
            "run as root, or with a control group of its own: `systemd-run --user --scope \
             --property=Delegate=yes rocstar …`; resource limits stand in meanwhile"
        }
        Layer::Seccomp => "use a kernel built with `CONFIG_SECCOMP_FILTER`",
        Layer::NoCapabilities | Layer::NoNewPrivileges | Layer::ResourceLimits => {
            "every kernel gives this: something around this process forbids it"
        }
    }
}

impl LayerRow {
    fn cells(&self) -> Vec<String> {
        let required = if self.required { "yes" } else { "no" };
        let holds = if self.holds { "yes" } else { "NO" };
        vec![self.layer.to_owned(), required.to_owned(), holds.to_owned()]
    }
}
