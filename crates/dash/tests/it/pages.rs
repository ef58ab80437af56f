//! What the page asks for of a run that is whole.

use hyper::StatusCode;
use pretty_assertions::assert_eq;
use rocstar_dash::{Environment, Seen};
use rocstar_record::run::{Moment, RunDirectory, SandboxState};
use serde_json::{Value, json};

use crate::support::{SMALL, serve_folder, serve_with, served};
use crate::synthetic::{self, Size};

fn all<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no list `{name}` in {value}"))
}

#[tokio::test]
async fn runs_and_curves_are_those_of_the_directory() {
    let served = served(|_, _, _| None).await;
    let runs = served.json("/api/runs").await;
    let run = &all(&runs, "runs")[0];
    assert_eq!(run["name"], "run");
    assert_eq!(run["state"], "finished");
    assert_eq!((&run["step"], &run["steps"]), (&json!(4), &json!(4)));
    assert_eq!(run["notices"], json!([]));
    let curves = served.json("/api/runs/run/curves").await;
    let steps = all(&curves, "kinds").iter().find(|kind| kind["kind"] == "rl_step").unwrap();
    assert_eq!(steps["rows"]["steps"], json!([1, 2, 3, 4]));
    let generation = curves["generation"].as_u64().unwrap();
    let known = |generation: u64| {
        format!("/api/runs/run/curves?generation={generation}&rows=rl_step:3,rl_evaluation:2")
    };
    let other = served.json(&known(generation - 1)).await;
    assert_eq!(
        other["kinds"], curves["kinds"],
        "what is known of another reading counts for nothing"
    );
    let rest = served.json(&known(generation)).await;
    let steps = all(&rest, "kinds").iter().find(|kind| kind["kind"] == "rl_step").unwrap();
    assert_eq!((&steps["first"], &steps["rows"]["steps"]), (&json!(3), &json!([4])));
    served.stop().await;
}

#[tokio::test]
async fn a_step_shows_every_episode_once_with_its_cause() {
    let served = served(|_, _, _| None).await;
    let step = served.json("/api/runs/run/steps/2").await;
    assert_eq!((&step["previous"], &step["next"]), (&json!(1), &json!(3)));
    let groups = all(&step, "groups");
    assert_eq!(groups.len(), SMALL.groups);
    for group in groups {
        let episodes = all(group, "episodes");
        assert_eq!(episodes.len(), SMALL.samples);
        for episode in episodes {
            assert_eq!(episode["kept"] == true, episode["cause"].is_null(), "{episode}");
            assert_eq!(episode["kept"] == true, episode["advantage"].is_number(), "{episode}");
        }
        let problem = group["problem"].as_str().unwrap();
        assert!(problem.starts_with("How much is"), "{problem}");
    }
    let last = served.json("/api/runs/run/steps/2/groups/2").await;
    assert_eq!((all(&last, "groups").len(), &last["all_groups"]), (1, &json!(SMALL.groups)));
    let missing = served.get("/api/runs/run/steps/9").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND, "{}", missing.text);
    served.stop().await;
}

/// The run's own settings keep what is written down; others are answered by the same algorithm.
#[tokio::test]
async fn what_if_agrees_with_what_was_kept() {
    let served = served(|_, _, _| None).await;
    let own = json!({"mode": "paper", "keep": 4, "epsilon": 0.05, "released_minimum": 2});
    for step in 1..=SMALL.steps {
        let path = format!("/api/runs/run/steps/{step}/what-if");
        let body = json!({ "selection": own }).to_string();
        let answer = served.send("POST", &path, &[], body).await.json();
        assert_eq!(answer["agrees"], true, "{answer}");
        assert_eq!(answer["before"], answer["after"]);
        for group in all(&answer, "groups") {
            assert_eq!((&group["gained"], &group["lost"]), (&json!([]), &json!([])));
        }
    }
    let off = json!({"mode": "off", "keep": 4, "epsilon": 0.05, "released_minimum": 2});
    let path = "/api/runs/run/steps/2/what-if";
    let body = json!({ "selection": off, "group": 1 }).to_string();
    let answer = served.send("POST", path, &[], body).await.json();
    assert_eq!((all(&answer, "groups").len(), &answer["groups"][0]["number"]), (1, &json!(1)));
    let mut used = 0;
    for step in 1..=SMALL.steps {
        let path = format!("/api/runs/run/steps/{step}/what-if");
        let body = json!({ "selection": off }).to_string();
        let answer = served.send("POST", &path, &[], body).await.json();
        for group in all(&answer, "groups").iter().filter(|group| group["verdict"] == "used") {
            let kept = all(group, "kept").iter().map(|it| it[0].as_u64().unwrap());
            assert_eq!(kept.collect::<Vec<_>>(), [0, 1, 2, 3]);
            used += 1;
        }
    }
    assert!(used > 0, "some group teaches something without a selection");
    let bad = json!({"selection": {"mode": "paper", "keep": 0, "epsilon": 0.05}}).to_string();
    let refused = served.send("POST", path, &[], bad).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text.contains("`keep` is 0"), "{}", refused.text);
    served.stop().await;
}

#[tokio::test]
async fn an_episode_has_its_text_its_calls_and_its_tokens() {
    let served =
        served(|step, group, _| (step == 3 && group == 1).then_some("<script>alert(1)</script>"))
            .await;
    let path = "/api/runs/run/steps/3/groups/1/episodes/5";
    let episode = served.json(path).await;
    assert_eq!(episode["sample"], 5);
    let last = &all(&episode, "turns")[1]["text"];
    assert!(last.as_str().unwrap().starts_with("<script>alert(1)</script> That is"), "{last}");
    let replay = episode["replay"].as_str().unwrap();
    assert!(replay.starts_with("rocstar replay ") && replay.ends_with(" --step 3"), "{replay}");
    let tokens = served.json(&format!("{path}/tokens?first=3&count=5")).await;
    let shown: Vec<&Value> = all(&tokens, "tokens").iter().map(|token| &token["text"]).collect();
    assert_eq!(shown, [" ", "m", "u", "c", "h"]);
    let whole = served.json(&format!("{path}/tokens")).await;
    let of_policy = all(&whole, "tokens").iter().filter(|token| token["author"] == "policy");
    assert_eq!(of_policy.clone().count() as u64, episode["policy_tokens"].as_u64().unwrap());
    assert!(of_policy.clone().all(|token| token["sampled"].is_number()));
    assert!(of_policy.clone().all(|token| token["now"].is_number() == (episode["kept"] == true)));
    let missing = served.get("/api/runs/run/steps/3/groups/1/episodes/99").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    served.stop().await;
}

#[tokio::test]
async fn problems_and_environment_are_gathered_from_all_steps() {
    let served = served(|_, _, _| None).await;
    let mut tasks = served.json("/api/runs/run/problems?sort=name&limit=5").await;
    while tasks["progress"]["steps"] != json!(SMALL.steps) {
        tasks = served.json("/api/runs/run/problems?sort=name&limit=5").await;
    }
    assert_eq!(tasks["found"], json!(SMALL.steps as usize * SMALL.groups));
    assert_eq!(all(&tasks, "tasks").len(), 5);
    assert_eq!(all(&tasks, "tasks")[0]["task"], "task-00000");
    let none = served.json("/api/runs/run/problems?text=no-such-task").await;
    assert_eq!(none["found"], 0);
    let environment = served.json("/api/runs/run/environment").await;
    let calls: u64 =
        all(&environment, "steps").iter().map(|step| step["calls"].as_u64().unwrap()).sum();
    assert_eq!(calls as usize, SMALL.steps as usize * SMALL.groups * SMALL.samples);
    let unknown = served.get("/api/runs/run/problems?sort=fastest").await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST, "{}", unknown.text);
    served.stop().await;
}

/// Lanes and episodes of a step, by the times that are written down.
#[tokio::test]
async fn a_step_has_a_timeline_of_what_was_done_when() {
    let served = served(|_, _, _| None).await;
    let timeline = served.json("/api/runs/run/steps/2/timeline").await;
    assert_eq!((&timeline["has_starts"], &timeline["total_us"]), (&json!(true), &json!(1_500_000)));
    let part_us = timeline["part_us"].as_f64().unwrap();
    let sum = |name: &str| {
        let sum: f64 = all(&timeline, name).iter().map(|it| it.as_f64().unwrap()).sum();
        (sum * part_us).round()
    };
    let episodes = (SMALL.groups * SMALL.samples) as f64;
    assert_eq!((sum("generating"), sum("verifying")), (episodes * 58_000.0, episodes * 1_000.0));
    let trainer: Vec<(&str, u64, u64)> = all(&timeline, "trainer")
        .iter()
        .map(|it| {
            let us = |name: &str| it[name].as_u64().unwrap();
            (it["what"].as_str().unwrap(), us("from_us"), us("us"))
        })
        .collect();
    let expected = [
        ("waiting", 0, 1_300_000),
        ("updating", 1_300_000, 200_000),
        ("loading weights", 1_500_000, 0),
        ("writing down", 1_500_000, 0),
    ];
    assert_eq!(trainer, expected);
    let lines = all(&timeline, "episodes");
    assert_eq!(lines.len() as u64, timeline["all_episodes"].as_u64().unwrap());
    assert!(lines.iter().all(|line| all(line, "activities").len() == 4));
    // Cards of a group don't carry it.
    let step = served.json("/api/runs/run/steps/2").await;
    assert!(step["groups"][0]["episodes"][0]["timing"]["activities"].is_null());
    served.stop().await;
}

/// What a run that works tells of its code environment; nothing, something, something unreadable.
#[tokio::test]
async fn the_environment_is_shown_as_it_is_now() {
    let served = served(|_, _, _| None).await;
    let path = "/api/runs/run/environment/now";
    let none = served.json(path).await;
    assert_eq!((&none["state"], &none["run"]), (&Value::Null, &json!("finished")));
    let run = RunDirectory::open(&served.run()).unwrap();
    let moment = Moment { unix_ms: 5_000, answered: 7, running: 2, waiting: 1 };
    let state =
        SandboxState { unix_ms: 5_000, slots: 8, recent: vec![moment], ..SandboxState::default() };
    run.sandbox_file().write(&state).unwrap();
    let now = served.json(path).await;
    assert_eq!((&now["state"]["slots"], &now["run"]), (&json!(8), &json!("running")));
    assert_eq!(now["state"]["recent"][0]["answered"], 7);
    assert!(now["now_ms"].as_u64().unwrap() > 5_000);
    drop(run);
    std::fs::write(served.run().join("sandbox.json"), "{\"schema\": 99}").unwrap();
    let newer = served.json(path).await;
    assert_eq!((&newer["state"], &newer["run"]), (&Value::Null, &json!("finished")));
    assert!(newer["notice"].as_str().unwrap().contains("newer"), "{newer}");
    served.stop().await;
}

/// A code environment that somebody else looks at: seen, then out of reach.
#[tokio::test]
async fn another_environment_is_shown_where_one_is_looked_at() {
    let none = served(|_, _, _| None).await;
    assert_eq!(none.get("/api/environment").await.status, StatusCode::NOT_FOUND);
    none.stop().await;
    let (tell, told) = tokio::sync::watch::channel(Seen::default());
    let served = serve_with(tempfile::tempdir().unwrap(), Environment(told)).await;
    assert_eq!(served.json("/api/runs").await["environment"], true);
    let state = SandboxState { unix_ms: 5_000, slots: 8, ..SandboxState::default() };
    tell.send_modify(|seen| seen.state = Some(state));
    let seen = served.json("/api/environment").await;
    assert_eq!((&seen["state"]["slots"], &seen["run"]), (&json!(8), &json!("running")));
    tell.send_modify(|seen| seen.notice = Some("refused".to_owned()));
    let seen = served.json("/api/environment").await;
    assert_eq!((&seen["state"]["slots"], &seen["run"]), (&json!(8), &json!("unreachable")));
    served.stop().await;
}

#[tokio::test]
async fn search_finds_what_was_written_and_says_how_far_it_came() {
    let served = served(|step, _, sample| (step == 2 && sample == 3).then_some("Eureka")).await;
    let found = served.json("/api/runs/run/search?text=eureka").await;
    let hits = all(&found, "hits");
    assert_eq!(hits.len(), SMALL.groups);
    assert_eq!((&hits[0]["step"], &hits[0]["sample"]), (&json!(2), &json!(3)));
    assert_eq!((&hits[0]["found"], &found["left"]), (&json!("Eureka"), &json!(0)));
    let earlier = served.json("/api/runs/run/search?text=eureka&before=2").await;
    assert_eq!(earlier["hits"], json!([]));
    served.stop().await;
}

/// What a step has beyond what is listed is told.
#[tokio::test]
async fn a_step_with_more_hits_than_are_listed_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let size = Size { steps: 1, groups: 51, samples: 8 };
    synthetic::write(&folder.path().join("run"), size, |_, _, _| Some("Eureka")).unwrap();
    let served = serve_folder(folder).await;
    let found = served.json("/api/runs/run/search?text=eureka").await;
    assert_eq!(all(&found, "hits").len(), 400);
    let notice = "step 1: more than 400 episodes have it: only these are listed";
    assert_eq!(found["notices"], json!([notice]));
    served.stop().await;
}

#[tokio::test]
async fn evaluations_have_a_matrix_of_their_problems() {
    let served = served(|_, _, _| None).await;
    let suites = served.json("/api/runs/run/evaluations").await;
    assert_eq!(all(&suites, "suites")[0]["name"], "held_out");
    let matrix = served.json("/api/runs/run/evaluations/held_out").await;
    assert_eq!(matrix["steps"], json!([1, 4]));
    assert_eq!(all(&matrix, "tasks").len(), 64);
    let path = "/api/runs/run/evaluations/held_out/4/tasks/2/episodes/0";
    let episode = served.json(path).await;
    assert_eq!((&episode["kept"], &episode["step"]), (&Value::Null, &json!(4)));
    let absent = served.get("/api/runs/run/evaluations/absent").await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    served.stop().await;
}

#[tokio::test]
async fn notes_are_kept_and_no_other_site_writes_them() {
    let served = served(|_, _, _| None).await;
    let notes = json!({"tags": ["baseline"], "text": "the first"});
    let foreign = [("sec-fetch-site", "cross-site")];
    let path = "/api/runs/run/notes";
    let refused = served.send("PUT", path, &foreign, notes.to_string()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let kept = served.send("PUT", path, &[], notes.to_string()).await;
    assert_eq!(kept.status, StatusCode::OK, "{}", kept.text);
    assert_eq!(served.json("/api/runs").await["runs"][0]["notes"], notes);
    let rebound = served.send("GET", "/api/runs", &[("host", "evil.example")], String::new()).await;
    assert_eq!(rebound.status, StatusCode::FORBIDDEN, "{}", rebound.text);
    served.stop().await;
}

/// Every address that is no file and no question gets the page, with its policy.
#[tokio::test]
async fn links_get_the_page_and_the_page_its_policy() {
    let served = served(|_, _, _| None).await;
    for path in ["/", "/runs/run/steps/2/groups/0/episodes/1?view=tokens", "/compare?runs=a,b"] {
        let page = served.get(path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.text.starts_with("<!doctype html>"), "{path}");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    let script = served.get("/assets/app.js").await;
    assert_eq!(script.headers["content-type"], "text/javascript; charset=utf-8");
    for path in ["/api/absent", "/assets/absent.js", "/api/runs/absent", "/api/runs/..%2Frun"] {
        assert_eq!(served.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    served.stop().await;
}

/// The report is one file, without scripts, in which nothing that a model wrote is markup.
#[tokio::test]
async fn the_report_is_one_file_and_escapes_what_was_written() {
    let served = served(|_, _, _| Some("<svg onload=alert(1)><script>alert(2)</script>")).await;
    let report = served.get("/report/run").await;
    assert_eq!(report.status, StatusCode::OK, "{}", report.text);
    let text = &report.text;
    assert!(text.contains("&lt;svg onload=alert(1)&gt;&lt;script&gt;"), "{text}");
    for markup in ["<script", "<svg onload", "http://", "https://", "src=", "href="] {
        assert!(!text.contains(markup), "{markup}");
    }
    assert!(text.contains("<polyline") && text.contains("held-out accuracy"));
    let policy = report.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
    let run = rocstar_dash::Run::open(&served.run()).unwrap();
    let markdown = rocstar_dash::report::Report::of(&[&run, &run]).unwrap().to_markdown();
    let rows = markdown.lines().filter(|line| line.contains("| paper, 4 of 8, ε 0.05 |")).count();
    assert_eq!(rows, 2, "{markdown}");
    served.stop().await;
}
