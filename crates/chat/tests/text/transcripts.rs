//! Transcripts: tokens with their authors, growing at the end only.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rocstar_chat::{Error, Family, Provenance, Show, Special, Tokenizer, Transcript};
use rocstar_record::message::{Message, Role};
use serde_json::json;

use crate::{
    families::family,
    support::{
        assistant, call, calling, nasty_text, small_tokenizer, system, tool, tool_spec, user,
    },
};

/// Runs of one author, as text.
fn runs(tokenizer: &Tokenizer, transcript: &Transcript) -> Vec<(Provenance, String)> {
    let mut runs: Vec<(Provenance, Vec<u32>)> = Vec::new();
    for (&token, &author) in transcript.tokens().iter().zip(transcript.provenance()) {
        match runs.last_mut() {
            Some((last, tokens)) if *last == author => tokens.push(token),
            _ => runs.push((author, vec![token])),
        }
    }
    runs.into_iter()
        .map(|(author, tokens)| (author, tokenizer.decode(&tokens, Show::All)))
        .collect()
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, Special::Parse).expect("tokens")
}

#[test]
fn each_token_has_its_author() {
    use Provenance::{Policy, System, Template, Tool, User};
    let tokenizer = small_tokenizer();
    let family = Family::chatml().expect("a family");
    let mut transcript =
        Transcript::new(&tokenizer, &family, &[system("s"), user("u")], &[]).expect("one");
    transcript.open_assistant().expect("a turn");
    transcript.push_policy(&encode(&tokenizer, "call")).expect("a turn");
    transcript.push_policy(&encode(&tokenizer, "!<|im_end|>")).expect("a turn");
    transcript.push_tool_results(&[tool("t1"), tool("t2")]).expect("a turn");
    transcript.open_assistant().expect("a turn");
    transcript.push_policy(&encode(&tokenizer, "cut off")).expect("a turn");
    transcript.push_user(&user("v")).expect("a turn");
    let text = |author, text: &str| (author, text.to_owned());
    assert_eq!(
        runs(&tokenizer, &transcript),
        [
            text(System, "<|im_start|>system\ns<|im_end|>\n"),
            text(Template, "<|im_start|>user\n"),
            text(User, "u"),
            text(Template, "<|im_end|>\n<|im_start|>assistant\n"),
            text(Policy, "call!<|im_end|>"),
            text(Template, "\n<|im_start|>user\n<tool_response>\n"),
            text(Tool, "t1"),
            text(Template, "\n</tool_response>\n<tool_response>\n"),
            text(Tool, "t2"),
            text(Template, "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"),
            text(Policy, "cut off"),
            text(Template, "<|im_end|>\n<|im_start|>user\n"),
            text(User, "v"),
            text(Template, "<|im_end|>\n"),
        ]
    );
    let trained: Vec<_> = transcript.provenance().iter().map(|&author| author == Policy).collect();
    assert_eq!(transcript.loss_mask(), trained);
}

#[test]
fn the_forced_opener_is_not_the_policys() {
    let tokenizer = small_tokenizer();
    let family = Family::rstar2().expect("a family");
    let chat = [user("q"), assistant("<reason>so</reason>"), user("r"), assistant("yes</reason>")];
    let transcript = Transcript::from_messages(&tokenizer, &family, &chat, &[]).expect("a sample");
    let policy: Vec<_> = runs(&tokenizer, &transcript)
        .into_iter()
        .filter(|(author, _)| *author == Provenance::Policy)
        .map(|(_, text)| text)
        .collect();
    assert_eq!(policy, ["so</reason><|im_end|>", "yes</reason><|im_end|>"]);
    let opener = "<|im_start|>assistant\n<reason>";
    assert_eq!(family.assistant_opening(), opener);
    let text = tokenizer.decode(transcript.tokens(), Show::All);
    assert_eq!(text.matches(opener).count(), 2);
}

#[test]
fn a_sample_is_what_the_same_turns_sampled_would_be() {
    let tokenizer = small_tokenizer();
    let calls = vec![call("f", json!({"x": "</tool_call>\n"})), call("f", json!({}))];
    let chat = [
        system("s"),
        user("hello"),
        calling("\n\nhello", calls),
        tool("\nhello"),
        tool("2"),
        assistant("done"),
        user("more"),
        assistant("ok"),
    ];
    for name in ["qwen2_5_like.jinja", "rstar2.jinja", "chatml.jinja"] {
        let family = family(name);
        let tools = [tool_spec("f")];
        let learned = Transcript::from_messages(&tokenizer, &family, &chat, &tools).expect("one");
        let mut grown = Transcript::new(&tokenizer, &family, &chat[..2], &tools).expect("one");
        for policy in runs(&tokenizer, &learned).iter().filter(|run| run.0 == Provenance::Policy) {
            grown.open_assistant().expect("a turn");
            grown.push_policy(&encode(&tokenizer, &policy.1)).expect("a turn");
            match grown.provenance().iter().filter(|&&author| author == Provenance::Tool).count() {
                0 => grown.push_tool_results(&chat[3..5]).expect("a turn"),
                _ if policy.1.starts_with("done") => grown.push_user(&chat[6]).expect("a turn"),
                _ => grown.close_assistant().expect("an end"),
            }
        }
        assert_eq!(grown.tokens(), learned.tokens(), "{name}");
        assert_eq!(grown.provenance(), learned.provenance(), "{name}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Policy(Vec<u32>),
    Tools(Vec<String>),
    User(String),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Any ids, control tokens and broken characters among them.
        prop::collection::vec(0_u32..277, 0..12).prop_map(Step::Policy),
        prop::collection::vec(nasty_text(), 1..3).prop_map(Step::Tools),
        nasty_text().prop_map(Step::User),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_transcript_only_grows(
        steps in prop::collection::vec(step(), 0..8),
        name in prop::sample::select(vec![
            "qwen2_5_like.jinja", "qwen3_like.jinja", "smollm2_like.jinja", "rstar2.jinja",
        ]),
    ) {
        let tokenizer = small_tokenizer();
        let mut transcript =
            Transcript::new(&tokenizer, &family(name), &[user("q")], &[]).expect("one");
        let mut sampled = Vec::new();
        for step in steps {
            let before = (transcript.tokens().to_vec(), transcript.provenance().to_vec());
            let controls = |tokens: &[u32]| tokens.iter().filter(|&&t| tokenizer.is_special(t)).count();
            match step {
                Step::Policy(tokens) => {
                    transcript.close_assistant()?;
                    transcript.open_assistant()?;
                    transcript.push_policy(&tokens)?;
                    prop_assert_eq!(transcript.open_turn(), &tokens[..]);
                    sampled.extend(tokens);
                }
                Step::Tools(texts) => {
                    let results: Vec<_> = texts.iter().map(|text| tool(text)).collect();
                    transcript.close_assistant()?;
                    let start = transcript.tokens().len();
                    transcript.push_tool_results(&results)?;
                    let turns = if name == "smollm2_like.jinja" { results.len() } else { 1 };
                    prop_assert_eq!(controls(&transcript.tokens()[start..]), 2 * turns);
                }
                Step::User(text) => {
                    transcript.close_assistant()?;
                    let start = transcript.tokens().len();
                    transcript.push_user(&user(&text))?;
                    prop_assert_eq!(controls(&transcript.tokens()[start..]), 2);
                }
            }
            prop_assert!(transcript.tokens().starts_with(&before.0));
            prop_assert!(transcript.provenance().starts_with(&before.1));
            prop_assert_eq!(transcript.tokens().len(), transcript.provenance().len());
        }
        // The policy's tokens are the sampled ones, and only they are trained on.
        let mask = transcript.loss_mask();
        let trained: Vec<_> =
            transcript.tokens().iter().zip(mask).filter(|(_, mask)| *mask).map(|(t, _)| *t).collect();
        prop_assert_eq!(trained, sampled);
    }

    #[test]
    fn nothing_that_a_tool_says_is_trained_on(text in nasty_text(), other in nasty_text()) {
        let tokenizer = small_tokenizer();
        let family = Family::rstar2()?;
        let trained = |result: &str| -> Result<Vec<u32>, Error> {
            let calls = vec![call("f", json!({"x": 1}))];
            let chat = [user("q"), calling("c", calls), tool(result), assistant("a")];
            let transcript =
                Transcript::from_messages(&tokenizer, &family, &chat, &[tool_spec("f")])?;
            let mask = transcript.loss_mask();
            Ok(transcript.tokens().iter().zip(mask).filter(|(_, m)| *m).map(|(t, _)| *t).collect())
        };
        prop_assert_eq!(trained(&text)?, trained(&other)?);
    }
}

#[test]
fn steps_out_of_order_are_errors() {
    let tokenizer = small_tokenizer();
    let family = Family::chatml().expect("a family");
    let mut transcript = Transcript::new(&tokenizer, &family, &[user("q")], &[]).expect("one");
    let before = transcript.tokens().to_vec();
    assert!(matches!(transcript.push_policy(&[5]), Err(Error::NoOpenTurn)));
    assert!(matches!(transcript.push_tool_results(&[]), Err(Error::NoToolResults)));
    let wrong = transcript.push_tool_results(&[tool("a"), user("b")]);
    assert!(matches!(
        wrong,
        Err(Error::WrongRole { message: 1, expected: Role::Tool, found: Role::User })
    ));
    assert!(matches!(
        transcript.push_user(&Message::text(Role::Tool, "")),
        Err(Error::WrongRole { .. })
    ));
    transcript.close_assistant().expect("nothing to end");
    assert_eq!(transcript.tokens(), before);
    transcript.open_assistant().expect("a turn");
    assert!(matches!(transcript.open_assistant(), Err(Error::TurnIsOpen)));
}
