//! `rocstar sandbox run`: one program, its output passed through, its outcome told.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgGroup, Args};
use rocstar_jail::{
    Captured, Control, InputFile, Jail, Kind, Limits, Outcome, Report, Request, Stream,
};

use crate::failure::{Finish, WrongUse};
use crate::quantity::{parse_duration, parse_size, show_size};
use crate::settings::{Settings, SettingsOptions};
use crate::terminal::Terminal;

const SAMPLE: &str = include_str!("sample.py");

/// Run one Python program in the sandbox
///
/// Its standard output and error are passed through. The outcome, a line on standard error, decides
/// the exit status: 0 if the program ended well, or else 1.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["program", "sample"])))]
pub(crate) struct Run {
    /// The program, or `-` to read it from standard input
    #[arg(value_name = "FILE")]
    program: Option<PathBuf>,
    /// Run a built-in program that computes something and tries what it must not
    #[arg(long)]
    sample: bool,
    /// The program's arguments
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
    /// File that the program reads on its standard input, or `-`; otherwise it reads nothing
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Place a local file in the program's directory
    #[arg(long = "file", value_name = "PATH=LOCAL", value_parser = parse_pair)]
    files: Vec<(String, PathBuf)>,
    /// Save a file of the program's directory when it has ended
    #[arg(long = "fetch", value_name = "PATH=LOCAL", value_parser = parse_pair)]
    fetches: Vec<(String, PathBuf)>,
    /// Show the value of the program's last expression
    #[arg(long)]
    value: bool,
    /// Print the full report as JSON instead of the output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    settings: SettingsOptions,
}

/// Limits of the program; the configuration has the defaults and the most that may be asked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitOptions {
    /// Wall-clock time, such as `5s`
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wall: Option<Duration>,
    /// CPU time of the program and what it starts
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cpu: Option<Duration>,
    /// Memory, such as `256MiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Processes and threads alive at once
    #[arg(long, value_name = "N")]
    processes: Option<u64>,
    /// Largest file that may be written
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    file_size: Option<u64>,
    /// Size of the private /tmp
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    tmp: Option<u64>,
    /// Output of one stream before the program is stopped
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    output: Option<u64>,
    /// Output of one stream that is kept: its head and tail
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    keep: Option<u64>,
}

impl LimitOptions {
    fn to_limits(&self, settings: &Settings) -> Limits {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // A person wants the whole output; a service is content with head and tail.
        let maximum = settings.service.jail.maximum_limits.kept_bytes;
        Limits {
            wall_ms: self.wall.map(milliseconds),
            cpu_ms: self.cpu.map(milliseconds),
            memory_bytes: self.memory,
            processes: self.processes,
            file_bytes: self.file_size,
            tmp_bytes: self.tmp,
            output_bytes: self.output,
            kept_bytes: Some(self.keep.unwrap_or(maximum)),
        }
    }
}

fn parse_pair(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((path, local)) if !path.is_empty() && !local.is_empty() => {
            Ok((path.to_owned(), PathBuf::from(local)))
        }
        _ => Err("write `PATH-IN-THE-SANDBOX=LOCAL-FILE`".to_owned()),
    }
}

impl Run {
    /// Runs the command.
    ///
    /// # Errors
    /// A file can't be read or written, the request is refused, or the jail does not start.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let settings = self.settings.resolve(|_| {})?;
        let request = self.request(&settings)?;
        // One program needs one zygote, and of its own kind only.
        let mut config = settings.service.jail;
        config.zygotes = 1;
        config.slots = 1;
        config.sessions = 0;
        let wants_packages = Kind::of_program(&request.program) == Kind::Scientific;
        config.scientific = wants_packages;
        let spinner = terminal.spinner("warming the interpreter");
        let started = Jail::start(config);
        spinner.finish_and_clear();
        let jail = started?;
        let effective = jail.effective();
        terminal.note(format_args!("python: {} at {}", effective.python_version, effective.python));
        if wants_packages && effective.packages.is_empty() {
            terminal.note("hint: `rocstar sandbox setup` adds numpy, sympy and others");
        }
        let report = jail.run(&request, &Control::default()).map_err(refused)?;
        if self.json {
            terminal.json(&report)?;
        } else {
            terminal.pass_through(&output(&report.stdout)?, &output(&report.stderr)?)?;
            if let Some(value) = &report.value {
                terminal.data(format!("{value}\n").as_bytes())?;
            }
        }
        self.save_files(&report, terminal)?;
        terminal.note(summary(&report));
        Ok(Finish::from_good(report.outcome.is_success()))
    }

    fn request(&self, settings: &Settings) -> anyhow::Result<Request> {
        let from_input = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if from_input(&self.program) && from_input(&self.stdin) {
            return Err(WrongUse::error("the program and its input can't both be `-`"));
        }
        let program = match &self.program {
            Some(path) => String::from_utf8(read(path)?)
                .map_err(|error| WrongUse::error(error.to_string()))
                .with_context(|| format!("can't run {}", path.display()))?,
            None => SAMPLE.to_owned(),
        };
        let mut files = Vec::new();
        for (path, local) in &self.files {
            files.push(InputFile { path: path.clone(), content: read(local)? });
        }
        Ok(Request {
            program,
            stdin: self.stdin.as_deref().map(read).transpose()?,
            argv: self.arguments.clone(),
            files,
            fetch: self.fetches.iter().map(|(path, _)| path.clone()).collect(),
            last_expression: self.value,
            kind: None,
            limits: self.limits.to_limits(settings),
        })
    }

    fn save_files(&self, report: &Report, terminal: Terminal) -> anyhow::Result<()> {
        for ((path, local), fetched) in self.fetches.iter().zip(&report.files) {
            match &fetched.content {
                Some(content) => std::fs::write(local, content)
                    .with_context(|| format!("can't write {}", local.display()))?,
                None => terminal.note(format_args!(
                    "not fetched: `{path}`: {}",
                    fetched.problem.as_deref().unwrap_or("no reason was given")
                )),
            }
        }
        Ok(())
    }
}

/// A request that the jail refuses is the person's: exit status 2.
fn refused(error: rocstar_jail::Error) -> anyhow::Error {
    match error {
        rocstar_jail::Error::Invalid(invalid) => WrongUse::error(invalid.to_string()),
        other => other.into(),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let result = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map(drop)
    };
    result.with_context(|| format!("can't read {}", path.display()))?;
    Ok(bytes)
}

/// The bytes as the program wrote them; where something was cut, the text with the mark instead.
fn output(captured: &Captured) -> anyhow::Result<Vec<u8>> {
    match &captured.base64 {
        Some(encoded) if captured.cut_bytes == 0 => {
            STANDARD.decode(encoded).context("the report holds invalid base64")
        }
        _ => Ok(captured.text.clone().into_bytes()),
    }
}

/// One line that tells how the program ended, what it cost, and what stood around it.
fn summary(report: &Report) -> String {
    let layers = if report.degraded {
        format!("DEGRADED: only {} layers held", report.isolation.len())
    } else {
        format!("{} isolation layers held", report.isolation.len())
    };
    format!(
        "{} · {:.1} ms · CPU {:.1} ms · {} · {layers}",
        describe(&report.outcome),
        milliseconds(report.wall_us),
        milliseconds(report.cpu_us),
        show_size(report.peak_memory_bytes),
    )
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1_000.0
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Exception { name, line: Some(line), .. } => format!("{name} at line {line}"),
        Outcome::Exception { name, line: None, .. } => name.clone(),
        Outcome::Exit { code } => format!("exit status {code}"),
        Outcome::Signal { name, .. } => format!("killed by {name}"),
        Outcome::Timeout => "timeout".to_owned(),
        Outcome::CpuLimit => "CPU limit".to_owned(),
        Outcome::MemoryLimit => "memory limit".to_owned(),
        Outcome::OutputLimit { stream: Stream::Stdout } => "output limit on stdout".to_owned(),
        Outcome::OutputLimit { stream: Stream::Stderr } => "output limit on stderr".to_owned(),
        Outcome::ProcessLimit => "process limit".to_owned(),
        Outcome::FileLimit => "file size limit".to_owned(),
        Outcome::TmpLimit => "/tmp limit".to_owned(),
        Outcome::Denied { what } => format!("stopped at `{what}`, which is never allowed"),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Infrastructure { cause } => format!("the sandbox failed: {cause}"),
    }
}
