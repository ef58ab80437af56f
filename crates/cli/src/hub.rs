//! The Hugging Face hub, over its HTTP interface: what a repository holds at a commit, and its files.
//!
//! Invariant: a file that [`Hub::download`] leaves under its name has the size that the hub lists
//! and, where the hub or the caller knows it, the SHA-256; what is not complete yet is called `.part`
//! and is gone on with where the server can do that. The published client library was left out: it
//! brings three hundred crates, joins the hub's file names to the folder unchecked, and compares no
//! sums.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::env_vars;
use crate::failure::HintExt as _;
use crate::sums;

const PUBLIC_HUB: &str = "https://huggingface.co";

/// Longest answer of the hub that is no file, and most pages of a list.
const MAX_ANSWER_BYTES: u64 = 32 << 20;
const MAX_PAGES: usize = 100;

/// Kinds of repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Weights and tokenizers.
    Model,
    /// Data.
    Dataset,
}

/// A repository of the hub.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repository<'n> {
    pub(crate) kind: Kind,
    /// `owner/name`.
    pub(crate) name: &'n str,
}

impl Repository<'_> {
    fn api(self) -> String {
        match self.kind {
            Kind::Model => format!("api/models/{}", self.name),
            Kind::Dataset => format!("api/datasets/{}", self.name),
        }
    }

    fn files(self) -> String {
        match self.kind {
            Kind::Model => self.name.to_owned(),
            Kind::Dataset => format!("datasets/{}", self.name),
        }
    }

    const fn word(self) -> &'static str {
        match self.kind {
            Kind::Model => "model",
            Kind::Dataset => "data set",
        }
    }
}

/// A connection to the hub.
#[derive(Debug)]
pub(crate) struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A file or folder as the hub lists it.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    #[serde(rename = "type")]
    kind: String,
    /// Its path in the repository.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) size: u64,
    /// Of large files.
    lfs: Option<LargeFile>,
}

#[derive(Debug, Deserialize)]
struct LargeFile {
    /// SHA-256, in hexadecimal.
    oid: String,
}

#[derive(Debug, Deserialize)]
struct Revision {
    sha: String,
}

impl Entry {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == "file"
    }
}

impl Hub {
    /// The hub that the environment names.
    pub(crate) fn new() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = set(env_vars::HF_ENDPOINT).unwrap_or_else(|| PUBLIC_HUB.to_owned());
        // The machine's own certificates, so that proxies and mirrors of an organisation work.
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .build();
        Self {
            agent: agent.into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: set(env_vars::HF_TOKEN),
        }
    }

    /// The commit that `revision` is now.
    ///
    /// # Errors
    /// The hub can't be reached, doesn't have it, or doesn't show it to this person.
    pub(crate) fn commit(
        &self,
        repository: Repository<'_>,
        revision: &str,
    ) -> anyhow::Result<String> {
        let url = format!("{}/{}/revision/{}", self.endpoint, repository.api(), escaped(revision));
        let found = self.get(&url, 0).map_err(|error| explained(error, repository))?;
        let Revision { sha } = read_json(found.into_body())?;
        Ok(sha)
    }

    /// The commit that `revision` is now, and its files; those in folders too where the repository
    /// holds data.
    ///
    /// # Errors
    /// The hub can't be reached, doesn't have it, or doesn't show it to this person.
    pub(crate) fn list(
        &self,
        repository: Repository<'_>,
        revision: Option<&str>,
    ) -> anyhow::Result<(String, Vec<Entry>)> {
        let sha = self.commit(repository, revision.unwrap_or("main"))?;
        let api = format!("{}/{}", self.endpoint, repository.api());
        let explain = |error| explained(error, repository);
        let depth = match repository.kind {
            Kind::Model => "",
            Kind::Dataset => "?recursive=true",
        };
        let mut url = Some(format!("{api}/tree/{}{depth}", escaped(&sha)));
        let mut entries = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = url.take() else { break };
            let response = self.get(&page, 0).map_err(explain)?;
            let link = response.headers().get("link").and_then(|link| link.to_str().ok());
            url = link.and_then(next_page);
            // The token goes to this hub only.
            if let Some(next) = &url
                && !next.starts_with(&format!("{}/", self.endpoint))
            {
                anyhow::bail!("the hub's list goes on at another address: {next}");
            }
            entries.extend(read_json::<Vec<Entry>>(response.into_body())?);
        }
        if url.is_some() {
            anyhow::bail!("the hub lists more than {MAX_PAGES} pages of files");
        }
        Ok((sha, entries))
    }

    fn get(&self, url: &str, from: u64) -> Result<ureq::http::Response<Body>, ureq::Error> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request.call()
    }

    /// Brings a file to `target`, whose folder is there, and gives its SHA-256. Goes on with what an
    /// earlier call left beside it as `.part`; a file that is there whole is checked again. `sha256` is what it must be, where that is known.
    ///
    /// # Errors
    /// The download breaks off, what came is not what the hub lists, or it can't be written.
    pub(crate) fn download(
        &self,
        repository: Repository<'_>,
        commit: &str,
        entry: &Entry,
        target: &Path,
        sha256: Option<&str>,
        bar: &ProgressBar,
    ) -> anyhow::Result<String> {
        let path = &entry.path;
        let part = part_of(target);
        if target.exists() {
            std::fs::rename(target, &part)
                .with_context(|| format!("can't go on with `{}`", target.display()))?;
        }
        let (mut sum, had) = summed(&part, entry.size)?;
        let segments: Vec<String> = path.split('/').map(escaped).collect();
        let files = format!("{}/{}", self.endpoint, repository.files());
        let url = format!("{files}/resolve/{}/{}", escaped(commit), segments.join("/"));
        let mut size = had;
        if had < entry.size || had == 0 {
            let response = self.get(&url, had).map_err(|error| explained(error, repository))?;
            // A server that can't go on sends all of it.
            if had > 0 && response.status() != 206 {
                (sum, size) = (Sha256::new(), 0);
            }
            bar.inc(size);
            let writing = || format!("can't write `{}`", part.display());
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .append(size > 0)
                .truncate(size == 0)
                .open(&part)
                .with_context(writing)?;
            let mut body = response.into_body().into_reader();
            let mut piece = vec![0; 1 << 20];
            loop {
                let broke_off = || format!("the download of `{path}` broke off");
                let read = body.read(&mut piece).with_context(broke_off)?;
                if read == 0 {
                    break;
                }
                size += read as u64;
                sum.update(&piece[..read]);
                file.write_all(&piece[..read]).with_context(writing)?;
                bar.inc(read as u64);
            }
            file.sync_all().with_context(writing)?;
        } else {
            bar.inc(had);
        }
        let found = sums::hexadecimal(&sum.finalize());
        check(entry, size, &found, sha256).inspect_err(|_| {
            // What is wrong is not gone on with; a part that can't be removed is overwritten.
            if size >= entry.size {
                let _ = std::fs::remove_file(&part);
            }
        })?;
        std::fs::rename(&part, target)
            .with_context(|| format!("can't write `{}`", target.display()))?;
        Ok(found)
    }
}

/// Where a file is collected.
fn part_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    target.with_file_name(name)
}

/// The sum of what an earlier call left, and how much that is; nothing of a part that is too long.
fn summed(part: &Path, size: u64) -> anyhow::Result<(Sha256, u64)> {
    let mut sum = Sha256::new();
    let reading = || format!("can't read `{}`", part.display());
    let mut file = match File::open(part) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((sum, 0)),
        Err(error) => return Err(error).with_context(reading),
    };
    if file.metadata().with_context(reading)?.len() > size {
        return Ok((sum, 0));
    }
    let (mut piece, mut had) = (vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut piece).with_context(reading)? {
            0 => return Ok((sum, had)),
            read => {
                sum.update(&piece[..read]);
                had += read as u64;
            }
        }
    }
}

/// Compares a file with what the hub lists, and with what it must be.
fn check(entry: &Entry, size: u64, found: &str, sha256: Option<&str>) -> anyhow::Result<()> {
    let path = &entry.path;
    if size != entry.size {
        anyhow::bail!("`{path}` has {size} bytes where the hub lists {}", entry.size);
    }
    if let Some(large) = &entry.lfs
        && large.oid != found
    {
        anyhow::bail!("`{path}` has the SHA-256 {found} where the hub lists {}", large.oid);
    }
    match sha256 {
        Some(expected) if expected != found => {
            anyhow::bail!("`{path}` has the SHA-256 {found}, it must be {expected}")
        }
        _ => Ok(()),
    }
}

fn read_json<T: serde::de::DeserializeOwned>(body: Body) -> anyhow::Result<T> {
    let reader = body.into_reader().take(MAX_ANSWER_BYTES);
    serde_json::from_reader(reader).context("the hub's answer is not what was expected")
}

/// The address of the next page in a `Link` header (RFC 8288).
fn next_page(link: &str) -> Option<String> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0.to_owned())
}

/// `text` as one segment of a path.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let escape =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

/// The hub's error with what to do about it.
fn explained(error: ureq::Error, repository: Repository<'_>) -> anyhow::Error {
    let word = repository.word();
    let hint = match &error {
        ureq::Error::StatusCode(404) => {
            format!("check the spelling; a private or gated {word} needs a token in `HF_TOKEN`")
        }
        ureq::Error::StatusCode(401 | 403) => format!(
            "the {word} needs a token in `HF_TOKEN`, and perhaps its licence accepted on its page"
        ),
        ureq::Error::StatusCode(_) => "try again later".to_owned(),
        _ => {
            let copy = match repository.kind {
                Kind::Model => "copy a Hugging Face folder or `.gguf` file here and give its path",
                Kind::Dataset => "copy its files here and name their folder with `--data-dir`",
            };
            format!("the hub can't be reached; set `HF_ENDPOINT` to a mirror, or {copy}")
        }
    };
    anyhow::Error::new(error).hint(hint)
}
