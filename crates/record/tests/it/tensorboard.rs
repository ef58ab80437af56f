//! Event files are read back by TensorBoard itself.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::process::Command;

use pretty_assertions::assert_eq;
use rocstar_record::metric::Place;
use rocstar_record::sink::{At, Sink, TensorBoard};
use serde_json::{Value, json};

/// A Python that has the package, or why there is none.
fn python() -> Result<OsString, String> {
    let asked = std::env::var_os("ROCSTAR_TENSORBOARD_PYTHON");
    let python = asked.unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", "import tensorboard"]).output();
    match found {
        Ok(output) if output.status.success() => Ok(python),
        Ok(_) => Err(format!("{} has no package tensorboard", python.display())),
        Err(error) => Err(format!("{}: {error}", python.display())),
    }
}

fn at(step: u64) -> At {
    At { step, place: Place::SftStep, unix_s: 1000.0 + step as f64 }
}

#[test]
fn tensorboard_reads_what_is_written() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("SKIP {why}; ROCSTAR_TENSORBOARD_PYTHON names one that has"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = TensorBoard::create(folder.path(), 1000.0, None).expect("a file");
    for step in 1..=5 {
        let values = [("loss", -0.5 * step as f64), ("mine", f64::INFINITY)];
        first.take(at(step), &values).expect("written");
    }
    // Killed in step 6: half a record is there.
    let bytes = std::fs::read(first.path()).expect("read");
    first.take(at(6), &[("loss", 9.0)]).expect("written");
    let file = OpenOptions::new().write(true).open(first.path()).expect("opened");
    file.set_len(bytes.len() as u64 + 20).expect("cut");
    // The run goes on from step 3, within the same second.
    let mut second = TensorBoard::create(folder.path(), 1000.0, Some(4)).expect("a file");
    for step in 4..=6 {
        second.take(at(step), &[("loss", step as f64)]).expect("written");
    }
    let evaluated = At { place: Place::SftEvaluation, ..at(6) };
    second.take(evaluated, &[("loss", 0.25)]).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/read_events.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text").replace("Infinity", "\"Infinity\"");
    let read: Value = serde_json::from_str(&text).expect("JSON");
    let endless = [1, 2, 3].map(|step| json!([step, "Infinity"]));
    let expected = json!({
        "scalars": {
            "evaluation/loss": [[6, 0.25]],
            "other/mine": endless,
            "update/loss": [[1, -0.5], [2, -1.0], [3, -1.5], [4, 4.0], [5, 5.0], [6, 6.0]],
        },
        "version": 2.0,
    });
    assert_eq!(read, expected);
}
