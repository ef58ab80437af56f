//! Rows of data files: forms that are read, and faults that are told with their place.

use std::path::Path;

use pretty_assertions::assert_eq;
use rocstar_record::message::{Arguments, Message, Role};
use rocstar_train::data::{Conversation, read};
use rocstar_train::recipe::DataOptions;
use serde_json::{Value, json};

use crate::support::write_rows;

fn reference(name: &str) -> Vec<Conversation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name);
    read(&[path], &DataOptions::default(), None).unwrap()
}

#[test]
fn parquet_holds_what_pyarrow_wrote_as_structures_or_as_text() {
    let all = reference("conversations.parquet");
    assert_eq!(all.len(), 2);
    let [question, call, result, answer] = &all[0].messages[..] else { panic!("{all:?}") };
    assert_eq!(*question, Message::text(Role::User, "What is 6 · 7?"));
    assert_eq!((call.content.as_str(), call.tool_calls.len()), ("", 1));
    let Arguments::Object(arguments) = &call.tool_calls[0].arguments else { panic!("{call:?}") };
    assert_eq!(arguments["code"], "print(6 * 7)");
    assert_eq!(result.role, Role::Tool);
    assert_eq!(result.tool_call_id.as_deref(), Some("call_1"));
    assert_eq!(*answer, Message::text(Role::Assistant, "42"));
    assert_eq!(all[0].tools[0].name, "python");
    assert_eq!((all[1].tools.len(), all[1].messages.len(), all[1].place.row), (0, 3, 2));

    let text = reference("conversations_as_text.parquet");
    let messages = |all: &[Conversation]| -> Vec<_> {
        all.iter().map(|one| (one.messages.clone(), one.tools.clone())).collect()
    };
    assert_eq!(messages(&text), messages(&all));
}

/// Reads rows that were written to a `.jsonl` file.
fn rows(rows: &[Value], options: &DataOptions) -> Result<Vec<Conversation>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    write_rows(&path, rows.to_vec());
    let shown = format!("{}/", folder.path().display());
    read(&[path], options, None).map_err(|error| error.to_string().replace(&shown, ""))
}

#[test]
fn prompts_with_completions_are_conversations() {
    let options = DataOptions {
        prompt_field: Some("problem".to_owned()),
        completion_field: Some("solution".to_owned()),
        system: Some("Think.".to_owned()),
        ..DataOptions::default()
    };
    let row = json!({ "id": 1, "problem": "1 + 1?", "solution": "2" });
    let all = rows(&[row], &options).unwrap();
    let expected = [
        Message::text(Role::System, "Think."),
        Message::text(Role::User, "1 + 1?"),
        Message::text(Role::Assistant, "2"),
    ];
    assert_eq!(all[0].messages, expected);
    let error = rows(&[json!({ "problem": "1 + 1?", "answer": "2" })], &options).unwrap_err();
    assert_eq!(error, "data.jsonl:1: solution: is missing; the row has `answer`");
}

#[test]
fn faults_name_file_row_and_field() {
    let good = json!({ "messages": [{ "role": "assistant", "content": "a" }] });
    let user = json!({ "role": "user", "content": "q" });
    let assistant = json!({ "role": "assistant", "content": "a" });
    for (row, expected) in [
        (json!({ "text": "a" }), "messages: is missing; the row has `text`"),
        (json!({ "messages": [] }), "messages: is empty"),
        (json!({ "messages": 3 }), "messages: must be a list, is a number"),
        (json!({ "messages": "[" }), "messages: is a text, and not the JSON of a list: EOF"),
        (json!({ "messages": [user] }), "messages[0]: the last message must be the assistant's"),
        (
            json!({ "messages": [user, { "role": "assistant", "content": "" }] }),
            "messages[1]: the assistant's message has no text and no tool calls",
        ),
        (
            json!({ "messages": [{ "role": "bot", "content": "a" }, assistant] }),
            "messages[0]: unknown variant `bot`, expected one of",
        ),
        (
            json!({ "messages": [{ "content": "a" }, assistant] }),
            "messages[0]: missing field `role`",
        ),
        (
            json!({ "messages": [{ "from": "human", "value": "q" }] }),
            "messages[0].role: is missing; `from` and `value` are not read",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "content": "a", "weight": 0 }] }),
            "messages[0].weight: weights of messages other than 1",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": "q", "tool_calls":
                [{ "name": "f", "arguments": {} }] }, assistant] }),
            "messages[0]: only the assistant makes tool calls",
        ),
        (json!({ "messages": [assistant], "tools": [{}] }), "tools[0]: "),
    ] {
        let error = rows(&[good.clone(), row], &DataOptions::default()).unwrap_err();
        assert!(error.starts_with(&format!("data.jsonl:2: {expected}")), "{error}");
    }
}

#[test]
fn broken_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("torn.jsonl"), "\n{\"messages\": [").unwrap();
    std::fs::write(path("torn.parquet"), "PAR1 and no more").unwrap();
    std::fs::write(path("data.csv"), "").unwrap();
    for (name, expected) in [
        ("torn.jsonl", "torn.jsonl:2: column 14: is not a JSON object"),
        ("torn.parquet", "torn.parquet: "),
        ("data.csv", "data.csv: data is read from files of `.jsonl` and `.parquet`"),
        ("absent.jsonl", "absent.jsonl: No such file"),
    ] {
        let error = read(&[path(name)], &DataOptions::default(), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_limit_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let good = json!({ "messages": [{ "role": "assistant", "content": "a" }] });
    write_rows(&path, [good.clone(), good, json!({})]);
    assert_eq!(read(&[path], &DataOptions::default(), Some(2)).unwrap().len(), 2);
}
