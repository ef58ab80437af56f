//! What SandboxFusion's clients send and rely on.

use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::Server;

/// The body of verl's tool, with `code` in it.
fn verl(code: &str) -> Value {
    json!({
        "compile_timeout": 10, "run_timeout": 10, "code": code, "stdin": null,
        "memory_limit_MB": 1024, "language": "python", "files": {}, "fetch_files": [],
    })
}

#[tokio::test]
async fn programs_run() {
    let Some(server) = Server::start().await else { return };
    let answer = server.answer("/run_code", &verl("print(123)")).await;
    let time = answer["run_result"]["execution_time"].clone();
    assert!(time.is_f64(), "{answer}");
    assert_eq!(
        answer,
        json!({
            "status": "Success", "message": "", "compile_result": null,
            "run_result": {
                "status": "Finished", "execution_time": time, "return_code": 0,
                "stdout": "123\n", "stderr": "",
            },
            "executor_pod_name": null, "files": {},
        })
    );
    for (code, in_stderr) in
        [("assert 1 == 2", "AssertionError"), ("int a = 1", "SyntaxError: invalid syntax")]
    {
        let answer = server.answer("/run_code", &verl(code)).await;
        assert_eq!((&answer["status"], &answer["message"]), (&json!("Failed"), &json!("")));
        assert_eq!(answer["run_result"]["status"], "Finished");
        assert_eq!(answer["run_result"]["return_code"], 1);
        let stderr = answer["run_result"]["stderr"].as_str().unwrap();
        assert!(stderr.contains(in_stderr), "{stderr}");
    }
}

#[tokio::test]
async fn time_is_limited() {
    let Some(server) = Server::start().await else { return };
    let body = json!({
        "language": "python", "run_timeout": 0.1,
        "code": "print('so far', flush=True)\nimport time; time.sleep(60)",
    });
    let answer = server.answer("/run_code", &body).await;
    assert_eq!(answer["status"], "Failed");
    let run = &answer["run_result"];
    assert_eq!(
        (&run["status"], &run["return_code"], &run["stdout"]),
        (&json!("TimeLimitExceeded"), &Value::Null, &json!("so far\n"))
    );
}

#[tokio::test]
async fn output_is_kept_and_cut_with_a_mark() {
    let Some(server) = Server::start().await else { return };
    let run = async |code: &str| {
        let answer = server.answer("/run_code", &verl(code)).await;
        assert_eq!(answer["status"], "Success", "{}", answer["message"]);
        answer["run_result"]["stdout"].as_str().unwrap().to_owned()
    };
    assert_eq!(run("print('a' * 300_000)").await.len(), 300_001);
    let cut = run("print('a' * 5_000_000)").await;
    assert!(cut.contains("bytes cut"), "{}", cut.len());
    assert_eq!(run("import os; os.write(1, b'\\xff')").await, "\\xff");
}

#[tokio::test]
async fn files_and_stdin_go_in_and_files_come_back() {
    let Some(server) = Server::start().await else { return };
    let answer = server
        .answer(
            "/run_code",
            &json!({
                "language": "python", "stdin": "65535",
                "code": "print(int(input()), open('dir1/dir2/flag').read())\n\
                         open('a.txt', 'w').write('secret')",
                "files": {"dir1/dir2/flag": "aGVsbG8=", "skipped": null},
                "fetch_files": ["a.txt", "missing", "/etc/passwd"],
            }),
        )
        .await;
    assert_eq!(answer["run_result"]["stdout"], "65535 hello\n");
    assert_eq!(answer["files"], json!({"a.txt": "c2VjcmV0"}));

    let body = json!({"language": "python", "code": "", "files": {"/etc/flag": "aGVsbG8="}});
    let answer = server.answer("/run_code", &body).await;
    assert_eq!((&answer["status"], &answer["run_result"]), (&json!("SandboxError"), &Value::Null));
}

#[tokio::test]
async fn what_is_not_python_has_no_runner() {
    let Some(server) = Server::start().await else { return };
    let body = json!({"language": "sql", "code": "select 1"});
    let answer = server.answer("/run_code", &body).await;
    assert_eq!(answer["status"], "SandboxError");
    let (status, answer) =
        server.post("/run_code", &json!({"language": "cobol", "code": ""})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["detail"][0]["loc"], json!(["body", "language"]));
    let nul = server.answer("/run_code", &verl("a\u{0}")).await;
    assert_eq!((&nul["status"], &nul["run_result"]["return_code"]), (&json!("Failed"), &json!(1)));
    assert_eq!(server.get("/v1/ping").await, (StatusCode::OK, "\"pong\"".to_owned()));
}

#[tokio::test]
async fn notebooks_share_their_state() {
    let Some(server) = Server::start().await else { return };
    let body = json!({
        "cells": [
            "a = 'hello'",
            "a",
            "import sys\nsys.stderr.write('This is an error message\\n');",
            "assert False",
            "print(a, open('in').read())\nopen('out', 'w').write('x');",
        ],
        "files": {"in": "aGk="}, "fetch_files": ["out"],
    });
    let answer = server.answer("/run_jupyter", &body).await;
    assert_eq!(answer["status"], "Success", "{answer}");
    assert_eq!(answer["driver"]["status"], "Finished");
    let cells = &answer["cells"];
    let nothing = json!({"stdout": "", "stderr": "", "display": [], "error": []});
    assert_eq!(cells[0], nothing);
    assert_eq!(cells[1]["display"], json!([{"text/plain": "'hello'"}]));
    assert_eq!(cells[2]["stderr"], "This is an error message\n");
    assert_eq!(cells[3]["error"][0]["ename"], "AssertionError");
    assert_eq!(cells[3]["stderr"], "");
    assert_eq!(cells[4]["stdout"], "hello hi\n");
    assert_eq!(answer["files"], json!({"out": "eA=="}));
    assert_eq!(server.sandbox.stats().sessions.open, 0);
}

#[tokio::test]
async fn notebooks_keep_to_their_time_and_keep_what_was_done() {
    let Some(server) = Server::start().await else { return };
    let endless = "while True: pass";
    let body = json!({"cells": ["print(1)", endless, "print(2)"], "total_timeout": 1});
    let answer = server.answer("/run_jupyter", &body).await;
    assert_eq!(
        (&answer["status"], &answer["driver"]["status"]),
        (&json!("Failed"), &json!("TimeLimitExceeded"))
    );
    assert_eq!(answer["cells"][0]["stdout"], "1\n");
    assert_eq!(answer["cells"].as_array().unwrap().len(), 2);

    let body = json!({"cells": [endless, "print(2)"], "cell_timeout": 0.2});
    let answer = server.answer("/run_jupyter", &body).await;
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer["cells"][0]["error"][0]["ename"], "KeyboardInterrupt");
    assert_eq!(answer["cells"][1]["stdout"], "2\n");

    let body = json!({"cells": ["print(1)", "import os\nos._exit(3)", "print(2)"]});
    let answer = server.answer("/run_jupyter", &body).await;
    assert_eq!(answer["status"], "Failed", "{answer}");
    assert_eq!(answer["cells"][0]["stdout"], "1\n");
}

fn common_oj(code: &str, extra: &Value) -> Value {
    let case = |stdin: &str, stdout: &str| json!({"input": {"stdin": stdin}, "output": {"stdout": stdout}});
    json!({
        "dataset": "anything", "id": 7,
        "completion": format!("Here:\n```python\n{code}\n```\nDone."),
        "config": {
            "dataset_type": "CommonOJDataset", "language": "python", "extra": extra,
            "provided_data": {
                "id": 7, "content": "", "labels": {},
                "test": [case("2", "4"), case("3", "6.0000001"), case("4", "8")],
            },
        },
    })
}

#[tokio::test]
async fn completions_are_judged_by_their_cases() {
    let Some(server) = Server::start().await else { return };
    let right = server.answer("/submit", &common_oj("print(int(input()) * 2)", &json!({}))).await;
    assert_eq!((&right["id"], &right["accepted"]), (&json!(7), &json!(true)));
    assert_eq!(right["extracted_code"], "print(int(input()) * 2)");
    assert_eq!(right["tests"].as_array().unwrap().len(), 3);
    assert_eq!(right["tests"][0]["exec_info"]["status"], "Success");
    assert_eq!(
        right["tests"][1]["test_info"],
        json!({"input": {"stdin": "3"}, "output": {"stdout": "6.0000001"}})
    );

    let wrong = "print(4 if int(input()) == 2 else 0)";
    let passed = async |extra: Value| {
        let answer = server.answer("/submit", &common_oj(wrong, &extra)).await;
        assert_eq!(answer["accepted"], false);
        let tests = answer["tests"].as_array().unwrap();
        tests.iter().map(|test| test["passed"].as_bool().unwrap()).collect::<Vec<bool>>()
    };
    assert_eq!(passed(json!({})).await, [true, false]);
    assert_eq!(passed(json!({"run_all_cases": true})).await, [true, false, false]);
}

#[tokio::test]
async fn completions_are_judged_by_test_code() {
    let Some(server) = Server::start().await else { return };
    let submit = async |code: &str| {
        let body = json!({
            "dataset": "anything", "id": "a", "completion": format!("```python\n{code}\n```"),
            "config": {
                "dataset_type": "AutoEvalDataset", "extra": {"append_flag": true},
                "provided_data": {
                    "id": "a", "content": "",
                    "labels": "{\"programming_language\": \"python\"}",
                    "test": {
                        "code": "#<INSERT>\nassert read() == 'hi'",
                        "asset": {"data": "aGk=", "nothing": null},
                    },
                },
            },
        });
        server.answer("/submit", &body).await
    };
    let right = submit("def read():\n    return open('data').read()").await;
    assert_eq!(right["accepted"], true, "{right}");
    assert_eq!(submit("def read():\n    return 'no'").await["accepted"], false);
    // Ending early with status 0 is no pass.
    assert_eq!(submit("import sys\nsys.exit(0)").await["accepted"], false);
}

#[tokio::test]
async fn a_submission_without_a_way_to_judge_it_is_a_400() {
    let Some(server) = Server::start().await else { return };
    let refused = async |config: Value| {
        let body = json!({"dataset": "d", "id": 1, "completion": "", "config": config});
        let (status, answer) = server.post("/submit", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        answer["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(json!({})).await, "no eval class found for dataset d");
    assert_eq!(refused(json!({"dataset_type": "X"})).await, "eval class X not found");
    assert_eq!(
        refused(json!({"dataset_type": "CommonOJDataset"})).await,
        "config.language field must exist for CommonOJDataset, got None"
    );
}
