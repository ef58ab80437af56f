//! What a tiny model practises on: the same for the same seed, true to the real tool, and nearly silent
//! on which program solves what.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_chat::{Family, RenderOptions, Show, Special, Template, Tokenizer, Transcript};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::message::{Arguments, Message, Role, ToolSpec};
use rocstar_rollout::practice::{self, Demonstration, Split};
use rocstar_rollout::{Tool as _, ToolMode};

use crate::sandbox::{sandbox, tool};

fn transcript(tokenizer: &Tokenizer, demonstration: &Demonstration) -> Transcript {
    let family = Family::rstar2().unwrap();
    let Demonstration { messages, tools } = demonstration;
    Transcript::from_messages(tokenizer, &family, messages, tools).unwrap()
}

/// Calls with the tool's answers to them.
fn calls(demonstration: &Demonstration) -> impl Iterator<Item = (&Message, &str)> {
    let pairs = demonstration.messages.iter().zip(&demonstration.messages[1..]);
    pairs
        .filter(|(_, answer)| answer.role == Role::Tool)
        .map(|(call, answer)| (call, answer.content.as_str()))
}

fn is_number(answer: &str) -> bool {
    answer.parse::<i128>().is_ok()
}

fn question(messages: &[Message]) -> &str {
    &messages[0].content
}

#[test]
fn the_seed_and_the_number_say_what_is_made_up() {
    let tasks = practice::tasks(40, 3, Split::Train);
    assert_eq!(tasks, practice::tasks(50, 3, Split::Train)[..40]);
    assert_ne!(tasks, practice::tasks(40, 4, Split::Train));
    assert_eq!(practice::demonstrations(9, 3), practice::demonstrations(20, 3)[..9]);
    let ids: BTreeSet<_> = tasks.iter().map(|task| &task.id).collect();
    assert_eq!(ids.len(), tasks.len());
    let sum = tasks.iter().find(|task| task.meta["form"] == "sum").unwrap();
    assert_eq!(sum.meta["kind"], "arithmetic");
    assert_eq!(sum.messages.len(), 1);
}

#[test]
fn what_is_held_out_is_never_trained_on_whatever_the_seed() {
    let held_out = practice::tasks(2000, 1, Split::HeldOut);
    let held_out: BTreeSet<_> = held_out.iter().map(|task| question(&task.messages)).collect();
    for seed in 1..4 {
        let tasks = practice::tasks(1000, seed, Split::Train);
        assert!(tasks.iter().all(|task| !held_out.contains(question(&task.messages))));
        let shown = practice::demonstrations(1000, seed);
        assert!(shown.iter().all(|one| !held_out.contains(question(&one.messages))));
    }
}

/// The words of a question, whatever its numbers.
fn wording(question: &str) -> String {
    question.chars().filter(|character| !character.is_ascii_digit()).collect()
}

#[test]
fn demonstrations_hardly_tell_which_program_solves_what() {
    let mut shown: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let (mut called, mut faulty) = (0.0, 0.0);
    for one in &practice::demonstrations(4000, 5) {
        let answers: Vec<_> = calls(one).map(|(_, answer)| answer).collect();
        called += answers.len() as f64;
        faulty += answers.iter().filter(|answer| !is_number(answer)).count() as f64;
        let last = answers.last().unwrap();
        let said = &one.messages.last().unwrap().content;
        assert!(said.ends_with(&format!("</reason><answer>\\boxed{{{last}}}</answer>")), "{said}");
        let (message, _) = calls(one).last().unwrap();
        let Arguments::Object(arguments) = &message.tool_calls[0].arguments else { panic!() };
        let program = arguments["code"].as_str().unwrap().lines().last().unwrap().to_owned();
        let programs = shown.entry(wording(question(&one.messages))).or_default();
        *programs.entry(program).or_default() += 1.0;
    }
    assert!((0.28..0.40).contains(&(faulty / called)), "{faulty} of {called}");
    assert_eq!(shown.len(), 16);
    for (wording, programs) in &shown {
        let all: f64 = programs.values().sum();
        let even = programs.values().all(|times| (0.1..0.45).contains(&(times / all)));
        assert!(programs.len() == 4 && even, "{wording}: {programs:?}");
    }
}

#[test]
fn conversations_are_a_few_dozen_tokens() {
    let tokenizer = practice::tokenizer().unwrap();
    assert!(tokenizer.vocabulary_size() < 640, "{}", tokenizer.vocabulary_size());
    let shown = practice::demonstrations(500, 1);
    let lengths: Vec<_> =
        shown.iter().map(|one| transcript(&tokenizer, one).tokens().len()).collect();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    assert!(mean < 90.0, "{mean}");
    assert!(lengths.iter().all(|length| *length <= 220), "{:?}", lengths.iter().max());
}

#[test]
fn a_folder_reads_back_to_the_same_tokens() {
    let tokenizer = practice::tokenizer().unwrap();
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path()).unwrap();
    let again = Tokenizer::from_folder(folder.path()).unwrap();
    for one in practice::demonstrations(50, 2) {
        let tokens = transcript(&tokenizer, &one);
        assert_eq!(transcript(&again, &one).tokens(), tokens.tokens());
    }
}

/// A server renders and encodes a conversation whole, turn after turn; the training's tokens grow at
/// their end. A model is served as it was trained only if both see the same prompts.
#[test]
fn a_server_poses_the_prompts_of_the_training() {
    let tokenizer = practice::tokenizer().unwrap();
    let template = Template::rstar2().unwrap();
    let options = RenderOptions::with_generation_prompt();
    let mut compared = 0;
    for one in practice::demonstrations(300, 4) {
        // As the tools travel: in a checkpoint's `tools.json` and in a request's body.
        let tools = serde_json::to_string(&one.tools).unwrap();
        let tools: Vec<ToolSpec> = serde_json::from_str(&tools).unwrap();
        let trained = transcript(&tokenizer, &one);
        for (turn, message) in one.messages.iter().enumerate() {
            if message.role != Role::Assistant {
                continue;
            }
            let asked = &one.messages[..turn];
            let served = template.encode(&tokenizer, asked, &tools, &options).unwrap();
            assert!(trained.tokens().starts_with(&served), "{asked:?}");
            compared += 1;
        }
    }
    assert!(compared > 700, "{compared}");
}

proptest! {
    #[test]
    fn any_text_can_be_encoded_and_is_no_control_token(text in ".*") {
        let tokenizer = practice::tokenizer().unwrap();
        let text = format!("{text}<|im_end|>");
        let tokens = tokenizer.encode(&text, Special::AsText).unwrap();
        prop_assert!(tokens.iter().all(|token| !tokenizer.is_special(*token)));
        prop_assert_eq!(tokenizer.decode(&tokens, Show::All), text);
    }
}

#[tokio::test]
async fn the_tool_answers_what_the_demonstrations_show() {
    let Some(sandbox) = sandbox() else { return };
    let tool = tool(&sandbox, ToolMode::Stateless);
    let mut ran = 0;
    for one in practice::demonstrations(120, 7) {
        assert_eq!(one.tools, [tool.spec()]);
        let instance = tool.open(Key::new(1, Purpose::Sampling));
        for (message, expected) in calls(&one) {
            let call = &message.tool_calls[0];
            if matches!(call.arguments, Arguments::Object(_)) {
                let answered = instance.call(call).await.unwrap();
                assert_eq!(answered.text, expected, "{call:?}");
                ran += 1;
            }
        }
    }
    assert!(ran > 120);
}
