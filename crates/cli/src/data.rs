//! Where data lies on this machine: a folder of one's own, and the one that `rocstar data fetch`
//! fills.
//!
//! Invariant: a name never turns into a download here; only `rocstar data fetch` uses the network.

use std::path::PathBuf;

use clap::Args;
use rocstar_eval::suite::DataPlaces;

use crate::env_vars;
use crate::python::cache_directory;

/// The folder of data that a command is given.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DataFolder {
    /// A folder with data, looked at before what `rocstar data fetch` brought
    #[arg(long, value_name = "DIR", env = env_vars::DATA, hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
}

impl DataFolder {
    /// Every place in which data is looked for.
    ///
    /// # Errors
    /// There is no cache directory.
    pub(crate) fn places(&self) -> anyhow::Result<DataPlaces> {
        let own = self.data_dir.clone();
        Ok(DataPlaces { folders: own.into_iter().chain([data_directory()?]).collect() })
    }
}

/// The folder of fetched data.
///
/// # Errors
/// There is no cache directory.
pub(crate) fn data_directory() -> anyhow::Result<PathBuf> {
    Ok(cache_directory()?.join("data"))
}
