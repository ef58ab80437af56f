//! GPQA: the published layout, and choices in an order that seed and number alone decide.
#![cfg(test)]

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use rocstar_eval::gpqa::{GpqaQuestion, letter_in};
use serde_json::json;

const CSV: &str = include_str!("data/gpqa.csv");

fn questions() -> Vec<GpqaQuestion> {
    GpqaQuestion::read_csv(CSV.as_bytes()).unwrap()
}

#[test]
fn a_file_with_other_columns_quotes_and_line_ends_is_read() {
    let questions = questions();
    assert_eq!(questions.len(), 3);
    assert_eq!(
        questions[1],
        GpqaQuestion {
            question: "Two trains leave at noon,\none \"express\" at 120 km/h. How far apart are \
                       they at 1 p.m.?"
                .to_owned(),
            correct: "200 km".to_owned(),
            incorrect: ["40 km".to_owned(), "120 km".to_owned(), "80 km, or less".to_owned()],
        }
    );
}

#[test]
fn a_row_of_json_is_the_same_question() {
    let row = json!({
        "Question": " What is the capital of France? ",
        "Correct Answer": "Paris\n",
        "Incorrect Answer 1": "Lyon",
        "Incorrect Answer 2": "Nice",
        "Incorrect Answer 3": "Lille",
        "Subdomain": "Geography",
    });
    assert_eq!(GpqaQuestion::from_row(&row).unwrap(), questions()[0]);
}

#[test]
fn the_problem_shows_every_choice_with_its_letter() {
    let question = &questions()[0];
    let problem = question.shuffled(7, 0);
    let listed: Vec<String> = ["A", "B", "C", "D"]
        .iter()
        .zip(&problem.choices)
        .map(|(letter, choice)| format!("{letter}) {choice}"))
        .collect();
    assert_eq!(
        problem.text,
        format!(
            "What is the capital of France?\n\n{}\n\nOne of the choices is right. Give its letter \
             as the final answer.",
            listed.join("\n")
        )
    );
    let right = (u32::from(problem.letter) - u32::from('A')) as usize;
    assert_eq!(problem.choices[right], "Paris");
    let mut choices = problem.choices;
    choices.sort_unstable();
    assert_eq!(choices, ["Lille", "Lyon", "Nice", "Paris"]);
}

/// The letters are part of the contract: a change moves every figure.
#[test]
fn the_order_is_fixed_by_seed_and_number() {
    let question = &questions()[0];
    let letters = |seed| (0..16).map(move |number| question.shuffled(seed, number).letter);
    assert_eq!(letters(1).collect::<String>(), letters(1).collect::<String>());
    assert_ne!(letters(1).collect::<String>(), letters(2).collect::<String>());
    assert_eq!(letters(0).collect::<String>(), FIXED);
}

#[test]
fn every_letter_is_right_equally_often() {
    let question = &questions()[0];
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for number in 0..4_000 {
        *counts.entry(question.shuffled(3, number).letter).or_default() += 1;
    }
    assert_eq!(counts.keys().collect::<String>(), "ABCD");
    assert!(counts.values().all(|count| (880..=1_120).contains(count)), "{counts:?}");
}

#[test]
fn faults_name_line_and_column() {
    let fault = |text: &str| GpqaQuestion::read_csv(text.as_bytes()).unwrap_err().to_string();
    let header = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3";
    assert_eq!(
        fault("Question,Correct Answer\nWhy?,So"),
        "line 1: `Incorrect Answer 1` is no column of the file"
    );
    assert_eq!(
        fault(&format!("{header}\nWhy?,So,a,b,c\nHow?,,a,b,c")),
        "line 3: `Correct Answer` must be a text that is not blank"
    );
    assert_eq!(
        fault(&format!("{header}\nWhy?,So,a,So,c")),
        "line 2: `Incorrect Answer 2` is the same as the correct answer"
    );
    assert!(
        fault(&format!("{header}\nWhy?,So"))
            .starts_with("line 2: `row` is no row of comma-separated values"),
    );
    let row = json!({"Question": "Why?"});
    assert_eq!(GpqaQuestion::from_row(&row).unwrap_err().field, "Incorrect Answer 1");
}

#[test]
fn letters_in_the_piece_that_holds_the_answer() {
    for named in [
        "C",
        "(C)",
        "C.",
        "C) Argon",
        "(C): Argon",
        "\\text{C}",
        "\\mathrm{(C)}",
        "\\textbf{C}",
        "$C$",
        "c",
        "option C",
        "The correct choice is C, since it glows",
        "C. vitamin B",
        "Option C is right.",
    ] {
        assert_eq!(letter_in(named, 4), Some('C'), "{named}");
    }
    for none in ["", "E", "42", "Argon", "CD", "a noble gas", "I see", "C3", "\\C"] {
        assert_eq!(letter_in(none, 4), None, "{none}");
    }
    assert_eq!(letter_in("E", 5), Some('E'));
}

/// From `tests/reference/gpqa.py`.
const FIXED: &str = "BAABCBBCADCDCABA";
