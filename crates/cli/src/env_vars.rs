//! Every environment variable that the command line reads, in one place.
//!
//! Those that stand for an option are read by the argument parser and shown in `--help`.

/// Address that a service listens on: `--listen`.
pub(crate) const LISTEN: &str = "ROCSTAR_LISTEN";
/// Bearer token of a service, for the server and for clients: `--token`.
pub(crate) const TOKEN: &str = "ROCSTAR_TOKEN";
/// The Python that runs programs: `--python`.
pub(crate) const PYTHON: &str = "ROCSTAR_PYTHON";
/// Begins the name of a variable that sets a value of a recipe: `ROCSTAR_TRAIN__RUN__NAME`.
pub(crate) const TRAIN_PREFIX: &str = "ROCSTAR_TRAIN__";
/// Base of the cache directory, by the XDG rule; `~/.cache` where it is unset.
pub(crate) const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The home directory.
pub(crate) const HOME: &str = "HOME";
/// Where pyenv keeps its interpreters; `~/.pyenv` where it is unset.
pub(crate) const PYENV_ROOT: &str = "PYENV_ROOT";
/// A folder with data of suites: `--data-dir`.
pub(crate) const DATA: &str = "ROCSTAR_DATA";
/// Address of the hub that models and data come from, for mirrors.
pub(crate) const HF_ENDPOINT: &str = "HF_ENDPOINT";
/// Token for the hub.
pub(crate) const HF_TOKEN: &str = "HF_TOKEN";
/// The screen of X11, where there is one: whether a browser can be opened.
pub(crate) const DISPLAY: &str = "DISPLAY";
/// The same of Wayland.
pub(crate) const WAYLAND_DISPLAY: &str = "WAYLAND_DISPLAY";
