//! What code-judge's clients send and rely on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use rocstar_sandbox::http::{CodeJudgeConfig, HttpConfig};
use serde_json::{Value, json};

use crate::{Server, endless, small};

fn python(solution: &str, input: &str, expected_output: &str) -> Value {
    json!({
        "type": "python", "solution": solution, "input": input, "expected_output": expected_output,
    })
}

fn verdict(result: &Value) -> (bool, bool) {
    (result["run_success"].as_bool().unwrap(), result["success"].as_bool().unwrap())
}

#[tokio::test]
async fn submissions_run_and_are_judged() {
    let Some(server) = Server::start().await else { return };
    for (submission, expected) in [
        (python("print(input())", "a", "a"), (true, true)),
        (python("print(input())", "a", "b"), (true, false)),
        (python("print(input())", "", "a"), (false, false)),
        (python("open('test.txt', 'w').write('Hello')", "", ""), (true, true)),
        (python("import sys; sys.exit(3)", "", ""), (false, false)),
        (python("print('@@E')", "", "@@E"), (true, true)),
    ] {
        let run = server.answer("/run", &submission).await;
        let mut keys: Vec<&String> = run.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(
            keys,
            ["cost", "reason", "run_success", "stderr", "stdout", "sub_id", "success"]
        );
        assert_eq!(verdict(&run), expected, "{submission}: {run}");
        assert_eq!(run["reason"], "");
        let judged = server.answer("/judge", &submission).await;
        assert_eq!(verdict(&judged), expected, "{submission}");
        assert_eq!(judged.get("stdout"), None);
    }
}

#[tokio::test]
async fn a_time_out_is_a_worker_timeout() {
    let code_judge = CodeJudgeConfig { execution_ms: 1_000, ..CodeJudgeConfig::default() };
    let config = HttpConfig { code_judge, ..HttpConfig::default() };
    let Some(server) = Server::with(small(), config).await else { return };
    let sleep = python("print('so far', flush=True)\nfrom time import sleep\nsleep(1)", "a", "a");
    let run = server.answer("/run", &sleep).await;
    assert_eq!(verdict(&run), (false, false));
    assert_eq!(run["reason"], "worker_timeout");
    assert_eq!(run["stdout"], "so far\nSuicide from timeout.\n");
    assert!(run["cost"].as_f64().unwrap() >= 1.0);
    // A parent that waits for its child is stopped with it.
    let waits = "from multiprocessing import Process\nfrom time import sleep\n\
                 p = Process(target=sleep, args=(100,))\np.start()";
    let run = server.answer("/run", &python(waits, "", "a")).await;
    assert_eq!((verdict(&run), &run["reason"]), ((false, false), &json!("worker_timeout")));
}

#[tokio::test]
async fn a_batch_keeps_its_order_and_its_bad_members() {
    let Some(server) = Server::start().await else { return };
    let submissions = json!([
        {"type": "cpp", "solution": "int main(){}", "sub_id": "0"},
        {"type": "python", "solution": "print(1)", "sub_id": "1"},
        {"type": "python", "solution": "a\u{0}", "sub_id": "2"},
        {"type": "python", "solution": "print(3)", "sub_id": "3"},
        {"type": "math", "solution": "1", "sub_id": "4"},
    ]);
    let body = json!({"type": "batch", "sub_id": "b", "submissions": submissions});
    for path in ["/run/batch", "/run/long-batch"] {
        let answer = server.answer(path, &body).await;
        assert_eq!(answer["sub_id"], "b");
        let results = answer["results"].as_array().unwrap();
        let seen: Vec<(&str, &str, &Value)> = results
            .iter()
            .map(|result| {
                let text = |name: &str| result[name].as_str().unwrap();
                (text("sub_id"), text("reason"), &result["stdout"])
            })
            .collect();
        let (one, three) = (json!("1\n"), json!("3\n"));
        assert_eq!(
            seen,
            [
                ("0", "internal_error", &Value::Null),
                ("1", "", &one),
                ("2", "invalid_input", &Value::Null),
                ("3", "", &three),
                ("4", "internal_error", &Value::Null),
            ]
        );
    }
    let judged = server.answer("/judge/long-batch", &body).await;
    assert_eq!(judged["results"][1].as_object().unwrap().len(), 5);
}

/// The tool of rStar2-Agent sends a cell in base64 inside a wrapper, which shows the value of the
/// last expression and ends the process itself after an error.
fn wrapped(cell: &str) -> String {
    format!(
        "import ast, base64, contextlib, io, linecache, os, sys, traceback\n\
         cell = base64.b64decode('{}').decode()\n\
         names = {{}}\n\
         try:\n    \
             tree = ast.parse(cell)\n    \
             last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None\n    \
             with contextlib.redirect_stderr(io.StringIO()):\n        \
                 exec(compile(tree, 'cell', 'exec'), names)\n    \
             if last is not None:\n        \
                 print(repr(eval(compile(ast.Expression(last.value), 'cell', 'eval'), names)))\n\
         except Exception as error:\n    \
             line = traceback.extract_tb(error.__traceback__)[-1].lineno\n    \
             print(f'{{type(error).__name__}} at line {{line}}: {{error}}', file=sys.stderr, flush=True)\n    \
             os._exit(1)\n",
        STANDARD.encode(cell)
    )
}

#[tokio::test]
async fn rstars_tool_calls_work() {
    let Some(server) = Server::start().await else { return };
    let submission = |cell: &str, input: Value| json!({"type": "python", "solution": wrapped(cell), "input": input});
    let body = json!({
        "type": "batch",
        "submissions": [
            submission("x = 20\nx + 22", Value::Null),
            submission("1 / 0", Value::Null),
            submission("print(input())", json!("from stdin")),
        ],
    });
    let answer = server.answer("/run/long-batch", &body).await;
    let of = |index: usize| {
        let result = &answer["results"][index];
        (result["run_success"].clone(), result["stdout"].clone(), result["stderr"].clone())
    };
    assert_eq!(of(0), (json!(true), json!("42\n"), json!("")));
    let error = json!("ZeroDivisionError at line 1: division by zero\n");
    assert_eq!(of(1), (json!(false), json!(""), error));
    assert_eq!(of(2), (json!(true), json!("from stdin\nNone\n"), json!("")));
}

#[tokio::test]
async fn a_submission_that_can_not_start_is_a_queue_timeout() {
    let mut service = small();
    service.active_calls = 1;
    service.jail.slots = 1;
    service.queue_calls = 3;
    let code_judge = CodeJudgeConfig { start_within_ms: 1, ..CodeJudgeConfig::default() };
    let config = HttpConfig { code_judge, ..HttpConfig::default() };
    let Some(server) = Server::with(service, config).await else { return };
    let mut hogs = tokio::task::JoinSet::new();
    let hog = || server.request(reqwest::Method::POST, "/v1/execute").json(&endless()).send();
    hogs.spawn(hog());
    server.until(|stats| stats.running == 1).await;

    let submission = python("print(1)", "", "1");
    let late = server.answer("/run", &submission).await;
    assert_eq!((&late["reason"], &late["stdout"]), (&json!("queue_timeout"), &Value::Null));
    // The queue has room for two more only: a batch of three is refused, each member told so.
    hogs.spawn(hog());
    server.until(|stats| stats.queued == 1).await;
    let batch = json!({"type": "batch", "submissions": [submission, submission, submission]});
    let full = server.answer("/run/long-batch", &batch).await;
    let reasons: Vec<&Value> =
        full["results"].as_array().unwrap().iter().map(|result| &result["reason"]).collect();
    assert_eq!(reasons, ["queue_timeout"; 3]);
}

#[tokio::test]
async fn status_and_refusals_have_code_judges_form() {
    let Some(server) = Server::start().await else { return };
    assert_eq!(server.get("/ping").await, (StatusCode::OK, "\"pong\"".to_owned()));
    let (_, status) = server.get("/status").await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status, json!({"queue": 0, "num_workers": 8}));
    let (status, answer) = server.post("/run", &json!({"type": "python"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        answer,
        json!({"detail": [{
            "type": "missing", "loc": ["body", "solution"], "msg": "Field required",
            "input": {"type": "python"},
        }]})
    );
}
