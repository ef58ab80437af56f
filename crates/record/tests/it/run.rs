//! Runs as they are found: being worked on, killed, torn, newer, and hostile.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_record::episode::Group;
use rocstar_record::log;
use rocstar_record::run::{Ending, Error, Problem, Reader, RunDirectory, State};
use serde_json::json;

use crate::support::groups;

fn begun(folder: &Path) -> RunDirectory {
    RunDirectory::create(&folder.join("one"), "seed = 1\n").unwrap()
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Writes a file of episodes that nobody checked.
fn write_raw(path: &Path, lines: &[serde_json::Value]) {
    let mut file = fs::File::create(path).unwrap();
    log::write(&mut file, lines).unwrap();
}

#[test]
fn how_a_run_stands_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = begun(folder.path());
    let reader = Reader::open(directory.path()).unwrap();
    let running = State::Running { process: Some(std::process::id()) };
    assert_eq!(reader.state().unwrap(), running);
    directory.event("started", json!({"step": 0})).unwrap();
    assert_eq!(reader.state().unwrap(), running);
    drop(directory);
    assert_eq!(reader.state().unwrap(), State::Died);
    let endings =
        [("stopped", Ending::Stopped), ("failed", Ending::Failed), ("finished", Ending::Finished)];
    for (event, ending) in endings {
        let mut directory = RunDirectory::open(reader.path()).unwrap();
        directory.event("resumed", json!({"step": 0})).unwrap();
        directory.event(event, json!({"step": 0})).unwrap();
        directory.event("checkpoint", json!({"step": 0})).unwrap();
        drop(directory);
        assert_eq!(reader.state().unwrap(), State::Ended(ending));
    }
}

#[test]
fn a_run_in_which_nothing_happened_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = begun(folder.path()).path().to_owned();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.state().unwrap(), State::Empty);
    assert_eq!(reader.metrics().unwrap().count(), 0);
    assert_eq!(reader.evaluations().unwrap(), []);
    for name in ["env.json", "metrics.jsonl", "events.jsonl", "lock"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    for name in ["episodes", "checkpoints"] {
        fs::remove_dir(path.join(name)).unwrap();
    }
    assert_eq!(reader.state().unwrap(), State::Empty);
    assert_eq!(reader.environment().unwrap(), None);
    assert_eq!(reader.episode_steps().unwrap(), [0; 0]);
    assert!(matches!(reader.groups(1), Err(Error::File { .. })));
    assert!(matches!(Reader::open(folder.path()), Err(Error::NoRun(_))));
}

#[test]
fn a_torn_log_is_read_to_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = begun(folder.path());
    directory.metric(&json!({"step": 1})).unwrap();
    let metrics = directory.path().join("metrics.jsonl");
    append(&metrics, b"no JSON\n{\"step\":2}\n{\"st");
    let reader = Reader::open(directory.path()).unwrap();
    let (values, notices): (Vec<_>, Vec<_>) = reader.metrics().unwrap().partition(Result::is_ok);
    let values: Vec<_> = values.into_iter().map(Result::unwrap).collect();
    assert_eq!(values, [json!({"step": 1}), json!({"step": 2})]);
    let notices: Vec<_> = notices.into_iter().map(Result::unwrap_err).collect();
    assert_eq!((notices[0].line, notices[1].line), (2, 4));
    assert!(matches!(notices[0].problem, Problem::NotJson { .. }), "{notices:?}");
    assert_eq!(notices[1].problem, Problem::Torn);
    assert!(notices[1].to_string().ends_with("metrics.jsonl:4: the last line is not whole"));
}

#[test]
fn a_newer_form_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let directory = begun(folder.path());
    let path = directory.path();
    let newer = json!({"schema": 2, "task": {"name": "an object now"}});
    let [group, _] = groups();
    let old = serde_json::to_value(&group).unwrap();
    write_raw(&path.join("episodes/step_000012.jsonl.zst"), &[old, newer]);
    let reader = Reader::open(path).unwrap();
    let found: Vec<Result<Group, Error>> = reader.groups(12).unwrap().collect();
    assert_eq!(found[0].as_ref().unwrap(), &group);
    let error = found[1].as_ref().unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().ends_with("`schema` is 2, newer than 1: use a newer rocstar"));
    fs::write(path.join("env.json"), "{\"schema\": 2}").unwrap();
    assert!(matches!(Reader::open(path), Err(Error::NewerSchema { .. })));
    drop(directory);
    assert!(matches!(RunDirectory::open(reader.path()), Err(Error::NewerSchema { .. })));
}

#[test]
fn groups_that_do_not_fit_end_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let directory = begun(folder.path());
    let [group, _] = groups();
    let mut misfit = group.clone();
    misfit.kept[0].episode.tokens.pop();
    let lines = [&group, &misfit, &group].map(|group| serde_json::to_value(group).unwrap());
    write_raw(&directory.path().join("episodes/step_000012.jsonl.zst"), &lines);
    let reader = Reader::open(directory.path()).unwrap();
    let found: Vec<Result<Group, Error>> = reader.groups(12).unwrap().collect();
    assert_eq!(found.len(), 2);
    let error = found[1].as_ref().unwrap_err().to_string();
    assert_eq!(error, "step 12, task sum-7: `spans` cover 10 tokens, `tokens` has 9");
}

#[test]
fn names_and_links_lead_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let directory = begun(folder.path());
    let path = directory.path();
    let outside = folder.path().join("outside");
    fs::write(&outside, "{\"secret\": 1}\n").unwrap();
    let suite = path.join("eval/sums");
    fs::create_dir_all(&suite).unwrap();
    fs::create_dir_all(path.join("eval/.hidden")).unwrap();
    for link in ["eval/sums/step_000001.json", "episodes/step_000001.jsonl.zst"] {
        std::os::unix::fs::symlink(&outside, path.join(link)).unwrap();
    }
    fs::remove_file(path.join("metrics.jsonl")).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("metrics.jsonl")).unwrap();
    let reader = Reader::open(path).unwrap();
    assert_eq!(reader.evaluations().unwrap(), [("sums".to_owned(), vec![1])]);
    let refused = |error: Error| assert!(error.to_string().contains("no ordinary file"), "{error}");
    refused(reader.evaluation("sums", 1).unwrap_err());
    refused(reader.groups(1).unwrap_err());
    refused(reader.metrics().unwrap_err());
    for suite in ["..", "../..", "a/b", ""] {
        assert!(matches!(reader.evaluation(suite, 1), Err(Error::SuiteName(_))), "{suite}");
    }
}

#[test]
fn a_small_file_that_is_huge_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let directory = begun(folder.path());
    let file = fs::File::create(directory.path().join("config.toml")).unwrap();
    file.set_len(1 << 40).unwrap();
    let reader = Reader::open(directory.path()).unwrap();
    let error = reader.config().unwrap_err().to_string();
    assert!(error.contains("more than 16777216 bytes"), "{error}");
}

#[test]
fn a_line_that_could_not_be_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = begun(folder.path());
    directory.metric(&json!({"step": 1})).unwrap();
    let before = directory.sync_metrics().unwrap();
    let error = directory.metric(&"x".repeat(2 << 20)).unwrap_err().to_string();
    assert!(error.contains("metrics.jsonl: a line of 2097154 bytes"), "{error}");
    assert_eq!(directory.sync_metrics().unwrap(), before);
}

/// Set in the process that may write files of a few kilobytes only.
const LIMITED: &str = "ROCSTAR_TEST_LIMITED_FILES";

/// Runs a test in such a process: a limit on the size of files does what a full disk does.
fn in_limited_process(test: &str) {
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\" --nocapture";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited]).arg(std::env::current_exe().unwrap()).arg(test);
    let output = command.env(LIMITED, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_full_disk_costs_only_what_was_being_written() {
    if std::env::var_os(LIMITED).is_none() {
        return in_limited_process("run::a_full_disk_costs_only_what_was_being_written");
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = begun(folder.path());
    let groups = groups();
    directory.write_episodes(12, &groups).unwrap();
    let mut large = groups.clone();
    // Letters in which no compressor finds a pattern.
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'@' + (state >> 58) as u8)
    };
    large[0].answer = (0..100_000).map(|_| letter()).collect();
    let error = directory.write_episodes(12, &large).unwrap_err();
    assert!(matches!(&error, Error::File { action: "write", .. }), "{error}");
    let reader = Reader::open(directory.path()).unwrap();
    assert_eq!(reader.groups(12).unwrap().filter(Result::is_ok).count(), 2);
    let episodes = directory.path().join("episodes");
    assert_eq!(fs::read_dir(episodes).unwrap().count(), 1, "nothing is left behind");
}

/// The last line that a nearly full disk takes is taken in part.
#[test]
fn a_line_of_which_a_part_fits_leaves_nothing_of_it() {
    if std::env::var_os(LIMITED).is_some() {
        return fill_metrics_and_events();
    }
    in_limited_process("run::a_line_of_which_a_part_fits_leaves_nothing_of_it");
}

fn fill_metrics_and_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = begun(folder.path());
    let line = |step: usize| json!({ "step": step, "of": "a line that is none of the shortest" });
    let metrics = (1..).find(|step| directory.metric(&line(*step)).is_err()).unwrap() - 1;
    let events = (1..).find(|step| directory.event("step", line(*step)).is_err()).unwrap() - 1;
    assert!(metrics > 20 && events > 20, "{metrics} and {events}");
    let reader = Reader::open(directory.path()).unwrap();
    for (lines, count) in [(reader.metrics(), metrics), (reader.events(), events)] {
        let steps: Vec<_> = lines.unwrap().map(|line| line.unwrap()["step"].clone()).collect();
        assert_eq!(steps, (1..=count).map(|step| json!(step)).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever became of a file, reading it ends, and gives all of it or what is whole before the
    /// damage together with an error. (A few bits of a frame's head mean nothing to its content.)
    #[test]
    fn any_damage_is_told(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
        let folder = tempfile::tempdir().unwrap();
        let directory = begun(folder.path());
        let groups = groups();
        directory.write_episodes(12, &groups).unwrap();
        let path = directory.path().join("episodes/step_000012.jsonl.zst");
        let mut bytes = fs::read(&path).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % bytes.len());
        fs::write(&path, &bytes).unwrap();
        let reader = Reader::open(directory.path()).unwrap();
        let (found, errors): (Vec<_>, Vec<_>) = reader.groups(12).unwrap().partition(Result::is_ok);
        let found: Vec<Group> = found.into_iter().map(Result::unwrap).collect();
        prop_assert!(groups.starts_with(&found));
        prop_assert!(errors.len() == 1 || errors.is_empty() && found == groups);
    }
}
