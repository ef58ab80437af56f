//! Models on the Hugging Face hub, over its HTTP interface.
//!
//! Invariant: only files with plain names that a model consists of are written, each compared with
//! the size that the hub lists and, where the hub knows it (for weights it does), the SHA-256. The
//! published client library was left out: it brings three hundred crates, joins the hub's file names
//! to the folder unchecked, and compares no sums.
//!
//! Templates in `additional_chat_templates/` are not fetched.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use rocstar_nn::files;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::env_vars;
use crate::failure::HintExt as _;
use crate::partial::Partial;
use crate::terminal::Terminal;

const PUBLIC_HUB: &str = "https://huggingface.co";

/// Read first: whether the model can be used at all.
const SHAPE_FILES: [&str; 2] = ["config.json", "generation_config.json"];

/// What is about text. Weights in safetensors come too, pickled ones, which may run code, never.
const TEXT_FILES: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "model.safetensors.index.json",
];

/// Longest answer of the hub that is no file, and most pages of a list.
const MAX_ANSWER_BYTES: u64 = 32 << 20;
const MAX_PAGES: usize = 100;

/// Brings the model `name` into `folder`.
pub(super) fn fetch(
    name: &str,
    revision: Option<&str>,
    folder: &Path,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let hub = Hub::new();
    let context = || format!("can't fetch `{name}` from the hub");
    let (commit, entries) = hub.list(name, revision).with_context(context)?;
    let partial = Partial::beside(folder)?;
    let chosen = |wanted: fn(&str) -> bool| {
        entries.iter().filter(move |entry| entry.kind == "file" && wanted(&entry.path))
    };
    let (shape, rest) = (chosen(|path| SHAPE_FILES.contains(&path)), chosen(is_wanted));
    let bar =
        terminal.byte_bar("downloading", shape.clone().chain(rest.clone()).map(|it| it.size).sum());
    for entry in shape {
        hub.download(name, &commit, entry, &partial.path(), &bar).with_context(context)?;
    }
    // An unsupported model is refused before its weights have come.
    files::config(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    for entry in rest {
        hub.download(name, &commit, entry, &partial.path(), &bar).with_context(context)?;
    }
    bar.finish_and_clear();
    files::inspect(&partial.path()).with_context(|| format!("`{name}` can't be used"))?;
    partial.put_in_place(folder)
}

/// Weights, texts and licences, by plain names only: a name with a separator never matches.
fn is_wanted(path: &str) -> bool {
    let plain = !path.contains(['/', '\\']);
    let weights = path.starts_with("model") && path.ends_with(".safetensors");
    plain && (weights || TEXT_FILES.contains(&path) || path.starts_with("LICENSE"))
}

struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A file as the hub lists it.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
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

impl Hub {
    fn new() -> Self {
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

    /// The commit that `revision` is now, and its files.
    fn list(&self, name: &str, revision: Option<&str>) -> anyhow::Result<(String, Vec<Entry>)> {
        let revision = escaped(revision.unwrap_or("main"));
        let url = format!("{}/api/models/{name}/revision/{revision}", self.endpoint);
        let Revision { sha } = read_json(self.get(&url)?.into_body())?;
        let mut url = Some(format!("{}/api/models/{name}/tree/{}", self.endpoint, escaped(&sha)));
        let mut entries = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = url.take() else { break };
            let response = self.get(&page)?;
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

    fn get(&self, url: &str) -> anyhow::Result<ureq::http::Response<Body>> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request.call().map_err(explained)
    }

    /// Streams a file into `folder`, and compares it with what the hub lists.
    fn download(
        &self,
        name: &str,
        commit: &str,
        entry: &Entry,
        folder: &Path,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        let path = &entry.path;
        let url = format!("{}/{name}/resolve/{}/{}", self.endpoint, escaped(commit), escaped(path));
        let mut body = self.get(&url)?.into_body().into_reader();
        let mut file =
            File::create(folder.join(path)).with_context(|| format!("can't write `{path}`"))?;
        let mut sum = Sha256::new();
        let mut size = 0_u64;
        let mut piece = vec![0; 1 << 20];
        loop {
            let read = body
                .read(&mut piece)
                .with_context(|| format!("the download of `{path}` broke off"))?;
            if read == 0 {
                break;
            }
            size += read as u64;
            sum.update(&piece[..read]);
            file.write_all(&piece[..read]).with_context(|| format!("can't write `{path}`"))?;
            bar.inc(read as u64);
        }
        file.sync_all().with_context(|| format!("can't write `{path}`"))?;
        if size != entry.size {
            anyhow::bail!("`{path}` has {size} bytes where the hub lists {}", entry.size);
        }
        let found: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        match &entry.lfs {
            Some(large) if large.oid != found => {
                anyhow::bail!("`{path}` has the SHA-256 {found} where the hub lists {}", large.oid)
            }
            _ => Ok(()),
        }
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
fn explained(error: ureq::Error) -> anyhow::Error {
    let hint = match &error {
        ureq::Error::StatusCode(404) => {
            "check the spelling; a private or gated model needs a token in `HF_TOKEN`"
        }
        ureq::Error::StatusCode(401 | 403) => {
            "the model needs a token in `HF_TOKEN`, and perhaps its licence accepted on its page"
        }
        ureq::Error::StatusCode(_) => "try again later",
        _ => {
            "the hub can't be reached; set `HF_ENDPOINT` to a mirror, or copy a Hugging Face \
             folder or `.gguf` file here and give its path"
        }
    };
    anyhow::Error::new(error).hint(hint)
}
