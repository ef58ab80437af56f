//! Calls against answers: on questions of our own, on the published data where it is here, and
//! against verdicts of the published checker (`reference/bfcl.py`).
#![cfg(test)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_eval::bfcl::{BfclGold, CallsIn, Category, Question};
use rocstar_record::attempt::{Attempt, AttemptCall, AttemptTurn, TokenCounts};
use rocstar_record::episode::{Finish, TaskId, Timing, VerdictKind};
use rocstar_record::message::{Arguments, Role, ToolCall};
use serde_json::{Map, Value, json};

fn own_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bfcl_v3")
}

/// The published data, where it is on this machine.
fn published_data() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("ROCSTAR_DATA").map_or(shared, PathBuf::from).join("bfcl_v3");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIP no published data at {}", folder.display());
    None
}

fn rows(path: &Path) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The questions of a category, each with its row of answers.
fn questions(
    folder: &Path,
    category: Category,
    calls_in: CallsIn,
) -> Vec<(Question, Option<Map<String, Value>>)> {
    let path = folder.join(format!("BFCL_v3_{category}.json"));
    if !path.exists() {
        return Vec::new();
    }
    let mut answers: HashMap<String, Map<String, Value>> = HashMap::new();
    if category.compares_calls() {
        for row in rows(&folder.join(format!("possible_answer/BFCL_v3_{category}.json"))) {
            answers.insert(row["id"].as_str().unwrap().to_owned(), row);
        }
    }
    let read = |row: &Map<String, Value>| {
        let answer = answers.get(row["id"].as_str().unwrap());
        (Question::from_rows(category, calls_in, row, answer).unwrap(), answer.cloned())
    };
    rows(&path).iter().map(read).collect()
}

fn call(name: &str, arguments: Map<String, Value>) -> ToolCall {
    ToolCall { id: None, name: name.to_owned(), arguments: Arguments::Object(arguments) }
}

fn calls_of(value: &Value) -> Vec<ToolCall> {
    let call = |value: &Value| {
        let (name, arguments) = value.as_object().unwrap().iter().next().unwrap();
        call(name, arguments.as_object().unwrap().clone())
    };
    value.as_array().unwrap().iter().map(call).collect()
}

/// Values that an alternative stands for: an object's keys hold alternatives themselves.
fn values_of(alternative: &Value) -> Vec<Value> {
    match alternative {
        Value::Object(keys) => {
            let most = keys.values().filter_map(Value::as_array).map(Vec::len).max().unwrap_or(1);
            let object = |number: usize| {
                let picked = keys.iter().filter_map(|(key, values)| {
                    let values = values.as_array().unwrap();
                    let value = &values[number.min(values.len() - 1)];
                    (value != "").then(|| (key.clone(), value.clone()))
                });
                Value::Object(picked.collect())
            };
            (0..most).map(object).collect()
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
            let items: Vec<Vec<Value>> = items.iter().map(values_of).collect();
            let most = items.iter().map(Vec::len).max().unwrap_or(1);
            let list = |number: usize| {
                Value::Array(
                    items.iter().map(|item| item[number.min(item.len() - 1)].clone()).collect(),
                )
            };
            (0..most).map(list).collect()
        }
        other => vec![other.clone()],
    }
}

/// The call of an answer with the first value of each parameter, and what else each may be.
struct Right {
    calls: Vec<ToolCall>,
    /// Call, parameter, another value; `None` to leave it out.
    others: Vec<(usize, String, Option<Value>)>,
}

fn right(question: &Question) -> Right {
    let gold = &question.gold;
    let mut right = Right { calls: Vec::new(), others: Vec::new() };
    for (index, answer) in gold.answers.iter().enumerate() {
        let only = matches!(gold.category, Category::Simple | Category::LiveSimple);
        let doc = match only {
            true => &gold.functions[0],
            false => gold.functions.iter().find(|doc| doc.name == answer.function).unwrap(),
        };
        let mut arguments = Map::new();
        for (name, alternatives) in &answer.parameters {
            let must = doc.required.contains(name);
            let is_left_out = alternatives.first().is_some_and(|first| first == "") && !must;
            for alternative in alternatives {
                // An empty text says that it may be left out.
                if alternative == "" {
                    right.others.extend((!must).then(|| (index, name.clone(), None)));
                    continue;
                }
                for value in values_of(alternative) {
                    if !is_left_out && !arguments.contains_key(name) {
                        arguments.insert(name.clone(), value.clone());
                    }
                    right.others.push((index, name.clone(), Some(value)));
                }
            }
            // Of a required one that may be left out nothing but the empty text is known.
            if must && !arguments.contains_key(name) {
                arguments.insert(name.clone(), json!(""));
            }
        }
        right.calls.push(call(&doc.name_in(gold.calls_in), arguments));
    }
    right
}

fn arguments(call: &mut ToolCall) -> &mut Map<String, Value> {
    match &mut call.arguments {
        Arguments::Object(map) => map,
        Arguments::Text(text) => panic!("{text}"),
    }
}

/// Every right answer of a question is right, each perturbed one wrong.
fn check_question(question: &Question, counts: &mut [usize; 2]) {
    let gold = &question.gold;
    let id = &question.id;
    let mut is_right = |calls: &[ToolCall]| {
        counts[0] += 1;
        assert_eq!(gold.check_calls(calls), Ok(()), "{id}: {calls:?}");
    };
    let Right { calls, others } = right(question);
    is_right(&calls);
    let reversed: Vec<ToolCall> = calls.iter().rev().cloned().collect();
    is_right(&reversed);
    for (index, name, value) in others {
        let mut calls = calls.clone();
        match value {
            Some(value) => arguments(&mut calls[index]).insert(name, value),
            None => arguments(&mut calls[index]).remove(&name),
        };
        is_right(&calls);
    }
    let mut is_wrong = |calls: &[ToolCall]| {
        counts[1] += 1;
        let refusal = gold.check_calls(calls).expect_err(&format!("{id}: {calls:?}"));
        assert!(!refusal.to_string().is_empty());
    };
    is_wrong(&[]);
    is_wrong(&calls[1..]);
    is_wrong(&[calls.clone(), vec![calls[0].clone()]].concat());
    for index in 0..calls.len() {
        let edited = |edit: &dyn Fn(&mut ToolCall)| {
            let mut calls = calls.clone();
            edit(&mut calls[index]);
            calls
        };
        is_wrong(&edited(&|call| call.name += "_other"));
        is_wrong(&edited(&|call| call.arguments = Arguments::Text("{".to_owned())));
        is_wrong(&edited(&|call| {
            arguments(call).insert("not_a_parameter".to_owned(), json!(1));
        }));
        for (name, alternatives) in &gold.answers[index].parameters {
            for value in wrong_values(alternatives) {
                is_wrong(&edited(&|call| {
                    arguments(call).insert(name.clone(), value.clone());
                }));
            }
            if !alternatives.iter().any(|value| value == "") {
                is_wrong(&edited(&|call| {
                    arguments(call).remove(name);
                }));
            }
        }
    }
}

/// Values that no alternative is, of its own type and of others.
fn wrong_values(alternatives: &[Value]) -> Vec<Value> {
    let mut wrong = vec![json!("no such value, surely"), json!(-987_654_321), json!([["nothing"]])];
    match alternatives.iter().find(|value| *value != "") {
        Some(Value::Array(items)) => {
            wrong.push(json!([items.as_slice(), &[json!("one more")]].concat()));
        }
        Some(Value::Object(keys)) => {
            wrong.push(json!({"no such key": keys}));
        }
        Some(Value::Number(number)) => wrong.push(json!(number.to_string())),
        _ => {}
    }
    wrong
}

fn check_folder(folder: &Path) -> [usize; 2] {
    let mut counts = [0; 2];
    for category in Category::ALL.into_iter().filter(|category| category.compares_calls()) {
        for calls_in in [CallsIn::Tools, CallsIn::Text] {
            for (question, _) in questions(folder, category, calls_in) {
                check_question(&question, &mut counts);
            }
        }
    }
    counts
}

#[test]
fn of_our_own_questions_every_answer_is_right_and_every_perturbed_one_wrong() {
    let [right, wrong] = check_folder(&own_data());
    assert!(right > 80 && wrong > 150, "{right} {wrong}");
}

#[test]
fn of_the_published_questions_every_answer_is_right_and_every_perturbed_one_wrong() {
    let Some(folder) = published_data() else { return };
    let [right, wrong] = check_folder(&folder);
    println!("{right} right and {wrong} wrong sets of calls");
    assert!(right > 10_000 && wrong > 20_000, "{right} {wrong}");
}

/// Questions that the published checker lets nobody answer, since they contradict their own answer.
const CONTRADICTORY: [&str; 7] = [
    "live_multiple_862-181-3",
    "live_multiple_964-207-0",
    "live_simple_106-63-0",
    "live_simple_112-68-0",
    // Parameters that the answer knows, optional, and the function doesn't.
    "live_parallel_9-5-0",
    "parallel_multiple_12",
    "parallel_multiple_26",
];

/// Compares verdicts with those of the published checker.
fn compare(folder: &Path, cases: &Path) {
    let mut known: HashMap<String, BfclGold> = HashMap::new();
    for category in Category::ALL {
        for (question, _) in questions(folder, category, CallsIn::Text) {
            known.insert(question.id, question.gold);
        }
    }
    let (mut same, mut rearranged) = (0, 0);
    for case in rows(cases) {
        let id = case["id"].as_str().unwrap();
        let Some(gold) = known.get(id) else { continue };
        let calls = calls_of(&case["calls"]);
        let ours = gold.check_calls(&calls);
        match (ours.is_ok(), case["valid"].as_bool().unwrap()) {
            (left, right) if left == right => same += 1,
            (true, false) if CONTRADICTORY.contains(&id) => {}
            // A full matching finds what taking the first call that fits does not.
            (true, false) if gold.answers.len() > 1 => rearranged += 1,
            _ => panic!("{id}: {ours:?} {case:?}"),
        }
    }
    println!("{same} verdicts are the published ones, {rearranged} need calls to be rearranged");
    assert!(rearranged * 1_000 <= same.max(1_000) * 10);
}

#[test]
fn verdicts_are_those_of_the_published_checker() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    compare(&own_data(), &reference.join("bfcl_cases.jsonl"));
}

/// `ROCSTAR_BFCL_CASES` names what `reference/bfcl.py` wrote of the published data.
#[test]
fn verdicts_on_published_questions_are_those_of_the_published_checker() {
    let Some(folder) = published_data() else { return };
    let Some(cases) = std::env::var_os("ROCSTAR_BFCL_CASES") else {
        println!("SKIP ROCSTAR_BFCL_CASES is not set; reference/bfcl.py makes the cases");
        return;
    };
    compare(&folder, Path::new(&cases));
}

fn question(category: Category, calls_in: CallsIn, index: usize) -> Question {
    questions(&own_data(), category, calls_in).remove(index).0
}

fn refusal(question: &Question, calls: &Value) -> String {
    question.gold.check_calls(&calls_of(calls)).expect_err("wrong calls").to_string()
}

#[test]
fn a_refusal_says_which_call_which_parameter_what_was_expected_and_what_was_there() {
    let simple = question(Category::Simple, CallsIn::Tools, 0);
    let cases = [
        (json!([]), "1 call is expected, got 0"),
        (
            json!([{"kettle_heat": {}}, {"kettle_heat": {}}]),
            "1 call is expected, got 2: kettle_heat, kettle_heat",
        ),
        (
            json!([{"kettle.heat": {"degrees": 80, "litres": 2}}]),
            "call 1 (`kettle_heat`): the function is `kettle.heat`, expected `kettle_heat`",
        ),
        (
            json!([{"kettle_heat": {"degrees": 80}}]),
            "call 1 (`kettle_heat`): `litres` is missing, expected 2",
        ),
        (
            json!([{"kettle_heat": {"degrees": 80, "litres": 2.0}}]),
            "call 1 (`kettle_heat`): `litres` must be of type integer, got float: 2.0",
        ),
        (
            json!([{"kettle_heat": {"degrees": 81, "litres": 2}}]),
            "call 1 (`kettle_heat`): `degrees` is 81, expected 80.0",
        ),
        (
            json!([{"kettle_heat": {"degrees": 80, "litres": 2, "note": "coffee"}}]),
            "call 1 (`kettle_heat`): `note` is \"coffee\", expected \"tea water\" or nothing",
        ),
        (
            json!([{"kettle_heat": {"degrees": 80, "litres": 2, "lid": true}}]),
            "call 1 (`kettle_heat`): `lid` is not expected, got true",
        ),
    ];
    for (calls, said) in cases {
        assert_eq!(refusal(&simple, &calls), said);
    }
    let route = question(Category::Simple, CallsIn::Tools, 2);
    let stops = json!([{"name": "park"}, {"name": "the tower"}]);
    assert_eq!(
        refusal(&route, &json!([{"route_plan": {"start": [51.5, -0.1], "stops": stops}}])),
        "call 1 (`route_plan`): `stops[1].name` is \"the tower\", expected \"the bridge\" or \"bridge\""
    );
    let parallel = question(Category::ParallelMultiple, CallsIn::Tools, 0);
    let calls = json!([
        {"lamp_set": {"rooms": ["hall"], "on": true}},
        {"kettle_heat": {"degrees": 95.5, "litres": 1}},
    ]);
    assert_eq!(
        refusal(&parallel, &calls),
        "no call answers part 2 (`lamp_set`); call 1: `on` is true, expected false"
    );
}

#[test]
fn calls_that_fit_two_answers_are_assigned_as_it_works_out() {
    let question = question(Category::Parallel, CallsIn::Tools, 1);
    let (jam, honey) =
        (json!({"list_add": {"item": "jam"}}), json!({"list_add": {"item": "honey"}}));
    for calls in [json!([jam, honey]), json!([honey, jam]), json!([jam, jam])] {
        assert_eq!(question.gold.check_calls(&calls_of(&calls)), Ok(()));
    }
    assert_eq!(
        refusal(&question, &json!([honey, honey])),
        "no call answers part 2 (`list.add`); call 2: `item` is \"honey\", expected \"jam\""
            .replace("list.add", "list_add")
    );
}

fn attempt(turns: Vec<AttemptTurn>) -> Attempt {
    Attempt {
        schema: rocstar_record::attempt::SCHEMA_VERSION,
        problem: TaskId("question".to_owned()),
        sample: 0,
        turns,
        finish: Finish::Done,
        tokens: TokenCounts::default(),
        timing: Timing::default(),
        generator: "test".to_owned(),
    }
}

fn said(text: &str) -> Attempt {
    attempt(vec![AttemptTurn { text: text.to_owned(), ..AttemptTurn::default() }])
}

fn called(calls: Vec<Option<ToolCall>>) -> Attempt {
    let calls = calls.into_iter().map(|call| AttemptCall { call, run: None }).collect();
    attempt(vec![AttemptTurn { calls, ..AttemptTurn::default() }])
}

#[test]
fn calls_are_read_from_the_text_where_functions_stand_in_the_prompt() {
    let question = question(Category::ParallelMultiple, CallsIn::Text, 0);
    assert!(question.functions.is_empty());
    assert_eq!(question.messages[0].role, Role::System);
    assert!(question.messages[0].content.contains("\"name\":\"kettle.heat\""));
    let right = "kettle.heat(degrees=95.5, litres=1), lamp_set(rooms=['hall'], on=False)";
    for text in [right.to_owned(), format!("[{right}]"), format!("```\n[{right}]\n```")] {
        let score = question.gold.check(&said(&text));
        assert_eq!((score.value, score.verdict.kind), (1.0, VerdictKind::Right), "{score:?}");
    }
    for text in ["", "I can't.", "[kettle.heat(95.5)]", "[lamp_set(rooms=hall)]", "[f()] and more"]
    {
        let score = question.gold.check(&said(text));
        assert_eq!(score.value, 0.0, "{text}");
        assert_eq!(score.verdict.kind == VerdictKind::Wrong, text.is_empty(), "{text} {score:?}");
    }
}

#[test]
fn where_no_function_fits_only_silence_is_right_and_where_one_fits_any_call() {
    let lamp = || call("lamp_set", Map::new());
    let irrelevant = question(Category::Irrelevance, CallsIn::Tools, 0).gold;
    let relevant = question(Category::LiveRelevance, CallsIn::Tools, 0).gold;
    let cases = [
        (said("It is sunny."), 1.0, 0.0),
        (called(vec![Some(lamp())]), 0.0, 1.0),
        (called(vec![Some(lamp()), Some(lamp())]), 0.0, 1.0),
        // What can't be read is no call.
        (called(vec![None]), 1.0, 0.0),
    ];
    for (attempt, without, with) in cases {
        assert_eq!(irrelevant.check(&attempt).value, without, "{attempt:?}");
        assert_eq!(relevant.check(&attempt).value, with, "{attempt:?}");
    }
    let score = irrelevant.check(&called(vec![Some(lamp()), Some(lamp())]));
    assert_eq!(
        score.verdict.explanation,
        "no function fits the question, but `lamp_set` was called first of 2"
    );
    let irrelevant = question(Category::Irrelevance, CallsIn::Text, 0).gold;
    assert_eq!(irrelevant.check(&said("None of them can tell the weather.")).value, 1.0);
    assert_eq!(irrelevant.check(&said("[lamp_set(on=True)]")).value, 0.0);
}

#[test]
fn functions_are_offered_with_json_schema() {
    let question = question(Category::Simple, CallsIn::Tools, 2);
    let tool = &question.functions[0];
    assert_eq!(tool.name, "route_plan");
    assert_eq!(
        tool.parameters,
        Some(json!({
            "type": "object",
            "properties": {
                "start": {
                    "type": "array",
                    "items": {"type": "number", "format": "float"},
                    "description": "Latitude and longitude."
                },
                "stops": {
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "Stops in order."
                },
                "options": {
                    "type": "object",
                    "properties": {
                        "mode": {"type": "string", "description": "How to travel."},
                        "tolls": {"type": "boolean", "description": "Whether tolls are fine."}
                    },
                    "description": "Options."
                }
            },
            "required": ["start"]
        }))
    );
    assert_eq!(question.messages[0].content, "You plan routes.");
}

#[test]
fn a_row_that_is_no_question_is_told_with_its_field() {
    let row = rows(&own_data().join("BFCL_v3_simple.json")).remove(0);
    let answer = rows(&own_data().join("possible_answer/BFCL_v3_simple.json")).remove(0);
    type Edit = fn(&mut Map<String, Value>, &mut Map<String, Value>);
    let cases: [(Edit, &str); 7] = [
        (|row, _| drop(row.remove("id")), "id: must be a text"),
        (|row, _| drop(row.remove("function")), "function: must be a list of functions"),
        (
            |row, _| {
                row["function"][0]["parameters"]["properties"]["litres"]["type"] = json!("int")
            },
            "function[0].parameters.properties.litres.type: must be one of string, integer, float, \
             boolean, array, tuple, dict, any",
        ),
        (
            |row, _| row["question"] = json!("Heat water."),
            "question: must be a list with one list of messages",
        ),
        (|_, answer| drop(answer.remove("ground_truth")), "ground_truth: must be a list of calls"),
        (
            |_, answer| answer["ground_truth"] = json!([]),
            "ground_truth: is missing: this category needs the calls that are right",
        ),
        (
            |_, answer| answer["ground_truth"][0]["kettle.heat"]["litres"] = json!(2),
            "ground_truth[0].kettle.heat.litres: must be a list of values",
        ),
    ];
    for (edit, said) in cases {
        let (mut row, mut answer) = (row.clone(), answer.clone());
        edit(&mut row, &mut answer);
        let read = Question::from_rows(Category::Simple, CallsIn::Tools, &row, Some(&answer));
        assert_eq!(read.expect_err("a bad row").to_string(), said);
    }
}

/// Any JSON value, not deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        (-5_i64..5).prop_map(|number| json!(number as f64 / 2.0)),
        prop_oneof![Just(""), Just("jam"), Just("Jam."), Just("honey")].prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..2)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever is called, there is a verdict, and the order of parallel calls doesn't matter.
    #[test]
    fn the_order_of_parallel_calls_does_not_matter(
        values in prop::collection::vec((value(), prop::option::of(value())), 0..4),
    ) {
        let gold = question(Category::Parallel, CallsIn::Tools, 1).gold;
        let mut calls: Vec<ToolCall> = values.into_iter().map(|(item, count)| {
            let mut arguments = Map::from_iter([("item".to_owned(), item)]);
            arguments.extend(count.map(|count| ("count".to_owned(), count)));
            call("list_add", arguments)
        }).collect();
        let there = gold.check_calls(&calls).is_ok();
        calls.reverse();
        prop_assert_eq!(gold.check_calls(&calls).is_ok(), there);
    }

    /// Texts are compared without case, spaces and some signs, and nothing else.
    #[test]
    fn spelling_of_a_text_does_not_matter(spaces in "[ ,./_*^-]{0,4}", upper in any::<bool>()) {
        let gold = question(Category::Simple, CallsIn::Tools, 0).gold;
        let note = format!("tea{spaces}water{spaces}");
        let note = if upper { note.to_uppercase() } else { note };
        let arguments = json!({"degrees": 80, "litres": 2, "note": note});
        let calls = [call("kettle_heat", arguments.as_object().unwrap().clone())];
        prop_assert_eq!(gold.check_calls(&calls), Ok(()));
    }
}
