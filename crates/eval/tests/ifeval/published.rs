//! The 541 published prompts: all load, and every instruction in them can be followed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rocstar_eval::ifeval::{Bound, IfEvalGold, Instruction, Relation};
use serde_json::Value;

/// The rows, or nothing where the file is not here.
fn rows() -> Option<Vec<Value>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../../shared/data/ifeval_input.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("SKIP {} is not here", path.display());
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn all_541_prompts_load_and_every_instruction_occurs() {
    let Some(rows) = rows() else { return };
    assert_eq!(rows.len(), 541);
    let golds: Vec<IfEvalGold> =
        rows.iter().map(|row| IfEvalGold::from_row(row).unwrap()).collect();
    let all = golds.iter().flat_map(|gold| &gold.instructions);
    let ids: BTreeSet<&str> = all.clone().map(Instruction::id).collect();
    assert_eq!((ids.len(), all.count()), (25, 834));
}

#[test]
fn a_response_that_is_made_for_an_instruction_follows_it() {
    let Some(rows) = rows() else { return };
    for row in &rows {
        for instruction in IfEvalGold::from_row(row).unwrap().instructions {
            let response = following(&instruction);
            let gold = IfEvalGold { instructions: vec![instruction] };
            let report = gold.check(&response);
            assert!(report.prompt_strict(), "{:?}: {response:?}: {report:?}", gold.instructions);
        }
    }
}

#[test]
fn the_prompt_itself_follows_few_instructions() {
    let Some(rows) = rows() else { return };
    let followed = rows.iter().filter(|row| {
        let prompt = row["prompt"].as_str().unwrap();
        IfEvalGold::from_row(row).unwrap().check(prompt).prompt_strict()
    });
    let followed = followed.count();
    assert!((1..=150).contains(&followed), "{followed} of 541");
}

/// So many times, or none where less is asked.
fn repeated(text: &str, bound: Bound) -> String {
    match bound.relation {
        Relation::AtLeast => text.repeat(bound.threshold),
        Relation::LessThan => "None.".to_owned(),
    }
}

fn joined(count: usize, separator: &str, piece: impl Fn(usize) -> String) -> String {
    (1..=count).map(piece).collect::<Vec<_>>().join(separator)
}

/// A response that follows `instruction`.
fn following(instruction: &Instruction) -> String {
    match instruction {
        Instruction::KeywordsExist(keywords) => keywords.join(" and "),
        Instruction::KeywordFrequency(keyword, bound) => repeated(&format!("{keyword} "), *bound),
        Instruction::ForbiddenWords(_) => "Xyzzy.".to_owned(),
        Instruction::LetterFrequency(letter, bound) => match bound.relation {
            Relation::AtLeast => letter.to_string().repeat(bound.threshold),
            Relation::LessThan => "1 2 3".to_owned(),
        },
        Instruction::ResponseLanguage(language) => {
            let texts = crate::language::TEXTS;
            texts.iter().find(|(code, _)| *code == language.code()).unwrap().1.to_owned()
        }
        Instruction::SentenceCount(bound) => repeated("So it is. ", *bound),
        Instruction::ParagraphCount(count) => joined(*count, "\n***\n", |at| format!("Part {at}")),
        Instruction::WordCount(bound) => repeated("word ", *bound),
        Instruction::NthParagraphFirstWord { paragraphs, nth, first_word } => {
            joined(*paragraphs, "\n\n", |at| {
                if at == *nth {
                    format!("{first_word}, so it is")
                } else {
                    "Other words".to_owned()
                }
            })
        }
        Instruction::Placeholders(count) => joined(*count, " ", |at| format!("[item {at}]")),
        Instruction::Postscript(marker) => format!("Bye.\n{marker} One more thing."),
        Instruction::BulletPoints(count) => joined(*count, "\n", |at| format!("* Point {at}")),
        Instruction::ConstrainedResponse => "My answer is maybe.".to_owned(),
        Instruction::HighlightedSections(count) => joined(*count, " ", |at| format!("*part {at}*")),
        Instruction::Sections { marker, at_least } => {
            joined(*at_least, "\n", |at| format!("{marker} {at}\nText"))
        }
        Instruction::Json => "```json\n{\"a\": 1}\n```".to_owned(),
        Instruction::Title => "<<A title>>\nText".to_owned(),
        Instruction::TwoResponses => "One.\n******\nTwo.".to_owned(),
        Instruction::RepeatPrompt(prompt) => format!("{prompt}\nThe answer."),
        Instruction::EndPhrase(phrase) => format!("Text. {phrase}"),
        Instruction::Quotation => "\"Text.\"".to_owned(),
        Instruction::CapitalWords(bound) => repeated("WORD ", *bound),
        Instruction::EnglishCapital => "THIS IS THE ANSWER TO ALL OF IT.".to_owned(),
        Instruction::EnglishLowercase => "this is the answer to all of it.".to_owned(),
        Instruction::NoComma => "No such sign.".to_owned(),
    }
}
