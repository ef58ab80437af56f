//! Suites: from folders of one's own, from fetched ones, from a file, and what is said of bad ones.
#![cfg(test)]

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use rocstar_eval::bfcl::CallsIn;
use rocstar_eval::problem::{Gold, Problem};
use rocstar_eval::suite::{
    ArenaHardVersion, DataPlaces, KNOWN, Known, LoadOptions, Prompt, SOURCE_FILE, Scorer, Suite,
    SuiteError, Where, load,
};
use rocstar_record::message::{Message, Role};
use rocstar_verify::Extraction;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A folder of data with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn places(folder: &TempDir) -> DataPlaces {
    DataPlaces { folders: vec![folder.path().to_owned()] }
}

fn loaded(name: &str, files: &[(&str, &str)]) -> Suite {
    let folder = folder(files);
    load(name, &places(&folder), &LoadOptions::default()).unwrap()
}

/// What is said of a suite that can't be loaded; the folder is shown as `DIR`.
fn said(name: &str, files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let error = load(name, &places(&folder), &LoadOptions::default()).expect_err("no suite");
    error.to_string().replace(folder.path().to_str().unwrap(), "DIR")
}

fn asked(problem: &Problem) -> &str {
    &problem.task.messages.last().unwrap().content
}

fn answer(problem: &Problem) -> &str {
    match &problem.gold {
        Gold::Math { answer, .. } => answer,
        other => panic!("{other:?}"),
    }
}

const BOXED: &str = "\n\nReason step by step, and put the final answer inside \\boxed{}.";

#[test]
fn the_hubs_layouts_of_mathematics_are_read() {
    let gsm8k = "{\"question\": \"2 + 2?\", \"answer\": \"It is <<2+2=4>>4.\\n#### 1,004\"}\n";
    let suite = loaded("gsm8k", &[("gsm8k_test.jsonl", gsm8k)]);
    assert_eq!((suite.scorer, suite.prompt.clone(), suite.size), (Scorer::Math, Prompt::Boxed, 1));
    assert_eq!(asked(&suite.problems[0]), format!("2 + 2?{BOXED}"));
    assert_eq!(answer(&suite.problems[0]), "1004");
    assert_eq!(suite.problems[0].task.id.0, "gsm8k-1");
    let math = "{\"problem\": \"p\", \"solution\": \"s\", \"answer\": \"\\\\frac12\", \
                \"subject\": \"Algebra\", \"level\": 2, \"unique_id\": \"test/a/1.json\"}\n";
    let suite = loaded("math500", &[("math500/test.jsonl", math)]);
    let task = &suite.problems[0].task;
    assert_eq!((task.id.0.as_str(), answer(&suite.problems[0])), ("test/a/1.json", "\\frac12"));
    assert_eq!(task.meta.get("level"), Some(&json!(2)));
    assert_eq!(task.meta.get("solution"), None);
    let first = "{\"question\": \"p\", \"answer\": \"70\"}\n";
    let second = "{\"question\": \"q\", \"answer\": 588}\n";
    let files = [("aime25/aime2025-I.jsonl", first), ("aime25/aime2025-II.jsonl", second)];
    let suite = loaded("aime25", &files);
    let ids: Vec<&str> = suite.problems.iter().map(|it| it.task.id.0.as_str()).collect();
    assert_eq!(ids, ["aime25-1", "aime25-2"]);
    assert_eq!(answer(&suite.problems[1]), "588");
    assert_eq!(suite.files.len(), 2);
}

#[test]
fn questions_with_choices_are_shuffled_by_the_seed() {
    let row =
        |question: &str| format!("{question},right {question},\"wrong, 1\",wrong 2,wrong 3\n");
    let head = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\n";
    let rows: String = (0..20).map(|number| row(&format!("q{number}"))).collect();
    let folder = folder(&[("gpqa_diamond.csv", &format!("{head}{rows}"))]);
    let letters = |seed| {
        let options = LoadOptions { seed, ..LoadOptions::default() };
        let suite = load("gpqa-diamond", &places(&folder), &options).unwrap();
        let letter = |problem: &Problem| match problem.gold {
            Gold::Choice { letter, choices: 4 } => letter,
            ref other => panic!("{other:?}"),
        };
        suite.problems.iter().map(letter).collect::<String>()
    };
    assert_eq!(letters(1), letters(1));
    assert_ne!(letters(1), letters(2));
}

#[test]
fn arena_hard_joins_prompts_with_the_baselines_answers_in_old_and_new_layouts() {
    let new = [
        (
            "arena-hard-v2.0/question.jsonl",
            "{\"uid\": \"a\", \"category\": \"hard_prompt\", \"prompt\": \"p\"}\n\
             {\"uid\": \"b\", \"category\": \"creative_writing\", \"prompt\": \"q\"}\n",
        ),
        (
            "arena-hard-v2.0/model_answer/o3-mini-2025-01-31.jsonl",
            "{\"uid\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"p\"}, \
             {\"role\": \"assistant\", \"content\": {\"answer\": \"one\"}}]}\n",
        ),
        (
            "arena-hard-v2.0/model_answer/gemini-2.0-flash-001.jsonl",
            "{\"uid\": \"b\", \"messages\": [{\"role\": \"assistant\", \"content\": \"two\"}]}\n",
        ),
    ];
    let folder = folder(&new);
    let options = |arena_hard| LoadOptions { arena_hard, ..LoadOptions::default() };
    let suite = load("arena-hard", &places(&folder), &options(ArenaHardVersion::V20)).unwrap();
    let baselines: Vec<&str> = suite
        .problems
        .iter()
        .map(|problem| match &problem.gold {
            Gold::Judged { baseline, .. } => baseline.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(baselines, ["one", "two"]);
    let missing = load("arena-hard", &places(&folder), &options(ArenaHardVersion::V01));
    assert!(matches!(missing, Err(SuiteError::Missing { .. })), "{missing:?}");
    let old = [
        (
            "arena-hard/data/arena-hard-v0.1/question.jsonl",
            "{\"question_id\": \"a\", \"turns\": [{\"content\": \"p\"}]}\n",
        ),
        (
            "arena-hard/data/arena-hard-v0.1/model_answer/gpt-4-0314.jsonl",
            "{\"question_id\": \"a\", \"choices\": [{\"turns\": [{\"content\": \"one\"}]}]}\n",
        ),
    ];
    let suite = loaded("arena-hard", &old);
    assert_eq!((asked(&suite.problems[0]), suite.scorer), ("p", Scorer::Judge));
}

#[test]
fn a_file_of_ones_own_is_a_suite() {
    let rows = "{\"id\": \"x\", \"problem\": \"1 + 1?\", \"answer\": \"2\"}\n\
                {\"problem\": \"2 + 2?\", \"answer\": 4}\n\
                {\"problem\": \"1 + 1?\", \"answer\": \"2\"}\n";
    let folder = folder(&[("mine.jsonl", rows)]);
    let path = folder.path().join("mine.jsonl");
    let suite =
        load(path.to_str().unwrap(), &DataPlaces::default(), &LoadOptions::default()).unwrap();
    let ids: Vec<&str> = suite.problems.iter().map(|it| it.task.id.0.as_str()).collect();
    assert_eq!(ids, ["x", "mine.jsonl:2"]);
    assert_eq!(asked(&suite.problems[1]), format!("2 + 2?{BOXED}"));
    let note = suite.note.unwrap();
    assert!(note.contains("1 have a problem that is there already"), "{note}");
    assert_eq!(suite.files[0].sha256, hexadecimal(rows.as_bytes()));
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn practice_needs_no_data_and_has_as_many_problems_as_are_asked_for() {
    let options = |seed| LoadOptions { seed, ..LoadOptions::default() };
    let made = |name: &str, seed| load(name, &DataPlaces::default(), &options(seed)).unwrap();
    let suite = made("practice", 0);
    assert_eq!((suite.problems.len(), suite.files.len()), (200, 0));
    assert_eq!(made("practice/300", 0).problems.len(), 300);
    assert_eq!(made("practice", 0).sha256(), suite.sha256());
    assert_ne!(made("practice", 1).sha256(), suite.sha256());
    let Gold::Math { extraction, .. } = suite.problems[0].gold else { panic!("no value") };
    assert_eq!(extraction, Extraction::Strict);
}

#[test]
fn the_limit_keeps_the_first_problems_and_the_size() {
    let rows: String =
        (1..=5).map(|n| format!("{{\"problem\": \"p{n}\", \"answer\": \"{n}\"}}\n")).collect();
    let folder = folder(&[("aime24.jsonl", &rows)]);
    let options = LoadOptions { limit: Some(2), ..LoadOptions::default() };
    let suite = load("aime24", &places(&folder), &options).unwrap();
    let answers: Vec<&str> = suite.problems.iter().map(answer).collect();
    assert_eq!((answers, suite.size), (vec!["1", "2"], 5));
}

#[test]
fn wordings_change_the_users_message_and_add_a_system_message() {
    let user = |text: &str| vec![Message::text(Role::User, text)];
    assert_eq!(Prompt::Plain.apply(&user("p")), user("p"));
    assert_eq!(Prompt::Boxed.apply(&user("p")), user(&format!("p{BOXED}")));
    let worded = Prompt::RStar2.apply(&user("p"));
    assert_eq!(worded.iter().map(|it| it.role).collect::<Vec<_>>(), [Role::System, Role::User]);
    assert!(worded[0].content.contains("<reason>"), "{worded:?}");
    assert!(worded[1].content.ends_with("This is the problem:\np"), "{worded:?}");
    let custom =
        Prompt::Custom { system: Some("Be brief.".to_owned()), user: "Q: {problem}".to_owned() };
    let messages = [Message::text(Role::System, "Old."), Message::text(Role::User, "p")];
    let worded = custom.apply(&messages);
    assert_eq!(worded[0].content, "Be brief.\n\nOld.");
    assert_eq!(worded[1].content, "Q: p");
    for prompt in [Prompt::Plain, Prompt::Boxed, Prompt::RStar2] {
        assert_eq!(Prompt::named(prompt.name()), Some(prompt));
    }
}

#[test]
fn the_rstar2_wording_is_read_strictly_unless_something_else_is_asked_for() {
    let folder = folder(&[("aime24.jsonl", "{\"problem\": \"p\", \"answer\": \"1\"}\n")]);
    let extraction = |options: LoadOptions| {
        let suite = load("aime24", &places(&folder), &options).unwrap();
        match suite.problems[0].gold {
            Gold::Math { extraction, .. } => extraction,
            ref other => panic!("{other:?}"),
        }
    };
    let rstar2 = || LoadOptions { prompt: Some(Prompt::RStar2), ..LoadOptions::default() };
    assert_eq!(extraction(LoadOptions::default()), Extraction::Lenient);
    assert_eq!(extraction(rstar2()), Extraction::Strict);
    let lenient = LoadOptions { extraction: Some(Extraction::Lenient), ..rstar2() };
    assert_eq!(extraction(lenient), Extraction::Lenient);
}

#[test]
fn bad_data_is_told_with_file_line_and_field() {
    let file = |text| [("aime24.jsonl", text)];
    let cases = [
        ("{\"problem\": \"p\"", "DIR/aime24.jsonl:1: column 15: is not a JSON object: "),
        (
            "{\"problem\": \"p\", \"answer\": \"1\"}\n{\"text\": \"p\", \"answer\": \"1\"}",
            "DIR/aime24.jsonl:2: problem: is missing, and so is `question`; the row has `text`, \
             `answer`",
        ),
        (
            "{\"problem\": \" \", \"answer\": \"1\"}",
            "DIR/aime24.jsonl:1: problem: must be a text that is not blank",
        ),
        (
            "{\"problem\": \"p\"}",
            "DIR/aime24.jsonl:1: answer: is missing: a problem needs the right answer",
        ),
        (
            "{\"problem\": \"p\", \"answer\": [1]}",
            "DIR/aime24.jsonl:1: answer: must be a text or a number",
        ),
        (
            "{\"problem\": \"p\", \"answer\": \"#### \"}",
            "DIR/aime24.jsonl:1: answer: is blank: a problem needs the right answer",
        ),
        (
            "{\"id\": 1, \"problem\": \"p\", \"answer\": \"1\"}\n\
             {\"id\": 1, \"problem\": \"q\", \"answer\": \"1\"}",
            "DIR/aime24.jsonl:2: id: `aime24-1` is there twice: remove one of the rows",
        ),
    ];
    for (text, expected) in cases {
        let said = said("aime24", &file(text));
        assert!(said.starts_with(expected), "{said}");
    }
    let row = "{\"key\": 1, \"prompt\": \"p\", \"instruction_id_list\": [\"no:such\"], \
               \"kwargs\": [{}]}";
    let said_of_it = said("ifeval", &[("ifeval_input.jsonl", row)]);
    let expected = "DIR/ifeval_input.jsonl:1: instruction_id_list[0]: ";
    assert!(said_of_it.starts_with(expected), "{said_of_it}");
    let question = "{\"id\": \"simple_0\", \"question\": [[]], \"function\": []}";
    let answer = "{\"id\": \"simple_1\", \"ground_truth\": []}";
    let files = [
        ("bfcl_v3/BFCL_v3_simple.json", question),
        ("bfcl_v3/possible_answer/BFCL_v3_simple.json", answer),
    ];
    assert_eq!(
        said("bfcl-v3/simple", &files),
        "DIR/bfcl_v3/BFCL_v3_simple.json:1: id: has no answer in `possible_answer`"
    );
    let csv = "Question,Correct Answer\nq,a\n";
    assert_eq!(
        said("gpqa-diamond", &[("gpqa_diamond.csv", csv)]),
        "DIR/gpqa_diamond.csv:1: Incorrect Answer 1: is no column of the file"
    );
}

#[test]
fn a_suite_that_is_not_there_is_told_with_what_to_do() {
    for (name, nearest) in [("gsm8", "gsm8k"), ("GSM8K", "gsm8k"), ("bfcl", "bfcl-v3")] {
        let expected = format!("no suite is called `{name}`; did you mean `{nearest}`?");
        assert_eq!(said(name, &[]), expected);
    }
    let unknown = said("riddles", &[]);
    assert!(unknown.ends_with(", or the path of a file of your own"), "{unknown}");
    assert_eq!(
        said("aime24", &[]),
        "the data of `aime24` is not here: bring it with `rocstar data fetch aime24`, or name its \
         folder with `--data-dir` (looked for DIR/aime24.jsonl, DIR/aime24)"
    );
    let file = said("./no/such.jsonl", &[]);
    assert!(file.starts_with("can't open ./no/such.jsonl: "), "{file}");
    assert_eq!(
        said("aime24/first", &[]),
        "no part of a suite is called `aime24/first`; it has no parts"
    );
    let part = said("bfcl-v3/java", &[]);
    assert!(
        part.starts_with("no part of a suite is called `bfcl-v3/java`; there are live, "),
        "{part}"
    );
    assert!(said("practice/0", &[]).starts_with("no part of a suite is called `practice/0`"));
}

#[test]
fn a_fetched_file_brings_its_revision_and_may_not_be_changed() {
    let text = "{\"problem\": \"p\", \"answer\": \"1\"}\n";
    let source = json!({
        "dataset": "HuggingFaceH4/MATH-500",
        "revision": "abc",
        "files": [{"path": "test.jsonl", "bytes": text.len(), "sha256": hexadecimal(text.as_bytes())}],
    });
    let source_path = format!("math500/{SOURCE_FILE}");
    let files = [("math500/test.jsonl", text), (source_path.as_str(), &source.to_string())];
    let suite = loaded("math500", &files);
    assert_eq!(suite.files[0].revision.as_deref(), Some("abc"));
    let changed = text.replace('1', "2");
    let files = [("math500/test.jsonl", changed.as_str()), files[1]];
    let said = said("math500", &files);
    assert!(said.starts_with("DIR/math500/test.jsonl: was changed since it was fetched"), "{said}");
}

#[test]
fn where_data_is_can_be_asked() {
    let empty = DataPlaces::default();
    let named = |name| Known::named(name).unwrap();
    assert_eq!(named("practice").place(&empty), Where::MadeUp);
    assert!(KNOWN.iter().filter(|known| known.place(&empty) == Where::Nowhere).count() == 9);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let Where::Here { path, parts } =
        named("bfcl-v3").place(&DataPlaces { folders: vec![own.clone()] })
    else {
        panic!("our own questions are not found")
    };
    assert_eq!(path, own.join("bfcl_v3"));
    let expected =
        ["simple", "multiple", "parallel", "parallel_multiple", "irrelevance", "live_relevance"];
    assert_eq!(parts, expected);
}

#[test]
fn categories_of_calls_are_loaded_alone_together_and_as_text() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let places = DataPlaces { folders: vec![own] };
    let count = |name: &str| load(name, &places, &LoadOptions::default()).map(|suite| suite.size);
    assert_eq!(count("bfcl-v3/simple").unwrap(), 4);
    assert_eq!(count("bfcl-v3/parallel,multiple").unwrap(), 3);
    assert_eq!(count("bfcl-v3/non-live").unwrap(), 9);
    let error = count("bfcl-v3").expect_err("no category of live_simple").to_string();
    assert!(error.starts_with("the data of `bfcl-v3/live_simple` is not here"), "{error}");
    let options = LoadOptions { calls_in: CallsIn::Text, ..LoadOptions::default() };
    let suite = load("bfcl-v3/simple", &places, &options).unwrap();
    assert!(suite.problems[0].task.functions.is_empty());
    assert_eq!(suite.problems[0].task.meta.get("category"), Some(&json!("simple")));
}

#[test]
fn questions_without_answers_may_share_an_identity_as_two_published_ones_do() {
    let row = "{\"id\": \"live_relevance_0\", \"question\": [[{\"role\": \"user\", \"content\": \"q\"}]], \
               \"function\": []}\n";
    let rows = row.repeat(2);
    let suite = loaded("bfcl-v3/live_relevance", &[("bfcl_v3/BFCL_v3_live_relevance.json", &rows)]);
    let ids: Vec<&str> = suite.problems.iter().map(|it| it.task.id.0.as_str()).collect();
    assert_eq!(ids, ["live_relevance_0", "live_relevance_0#2"]);
}

/// The data that lies beside the repository, where it does.
#[test]
fn the_published_data_loads_whole() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("ROCSTAR_DATA").map_or(shared, PathBuf::from);
    if !folder.is_dir() {
        println!("SKIP no published data at {}", folder.display());
        return;
    }
    let places = DataPlaces { folders: vec![folder] };
    let options = LoadOptions::default();
    for known in KNOWN.iter().filter(|known| known.hub.is_some()) {
        match known.place(&places) {
            Where::Here { parts, .. } if parts.is_empty() => {
                let suite = load(known.name, &places, &options).unwrap();
                assert_eq!(suite.problems.len(), known.problems, "{}", known.name);
            }
            Where::Here { parts, .. } => {
                for part in parts {
                    let name = format!("{}/{part}", known.name);
                    let suite = load(&name, &places, &options).unwrap();
                    let category = rocstar_eval::bfcl::Category::named(part).unwrap();
                    assert_eq!(suite.size, category.questions(), "{name}");
                }
            }
            Where::MadeUp | Where::Nowhere => println!("SKIP no data of {}", known.name),
        }
    }
}
