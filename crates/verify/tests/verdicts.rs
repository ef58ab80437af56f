//! Extraction, strictness, verdicts that are neither right nor wrong, and bounded work.

#![cfg(test)]

use pretty_assertions::assert_eq;
use rocstar_verify::{Extraction, ExtractionRule, Options, Report, Rule, Side, Verdict, verify};

fn lenient(gold: &str, answer: &str) -> Report {
    verify(gold, answer, &Options::default())
}

fn strict(gold: &str, answer: &str) -> Report {
    let options = Options { extraction: Extraction::Strict, ..Options::default() };
    verify(gold, answer, &options)
}

fn extracted(answer: &str) -> (Option<ExtractionRule>, String) {
    let report = lenient("1", answer);
    (report.answer.extraction, report.answer.text)
}

#[test]
fn answers_that_other_verifiers_accept_by_mistake() {
    let pairs = [
        ("24", "2400"),
        ("24", "0.24"),
        ("500", "5"),
        ("123457", "123456"),
        ("100000", "100001"),
        ("998", "999"),
    ];
    for (gold, answer) in pairs {
        for answer in [answer.to_owned(), format!("\\boxed{{{answer}}}")] {
            assert_eq!(lenient(gold, &answer).verdict, Verdict::Wrong, "{gold} {answer}");
        }
    }
}

#[test]
fn a_box_stands_for_the_answer_even_where_a_number_follows() {
    let text = "\\boxed{7} is the number of terms, so x = 24";
    assert_eq!(extracted(text), (Some(ExtractionRule::Boxed), "7".to_owned()));
    assert_eq!(lenient("24", text).verdict, Verdict::Wrong);
}

#[test]
fn strict_extraction_reads_one_place_only() {
    let right = "<reason>…</reason>\n<answer>So \\boxed{24}.</answer>";
    assert_eq!(strict("24", right).verdict, Verdict::Right);
    assert_eq!(strict("24", right).answer.extraction, Some(ExtractionRule::BoxInTag));
    let elsewhere = [
        "\\boxed{24}",
        "<answer>24</answer>",
        "24",
        "<tool_response>\\boxed{24}</tool_response>",
        "<answer>none</answer> \\boxed{24}",
        "<answer>\\boxed{24}</answer> <answer>24</answer>",
        "",
    ];
    for text in elsewhere {
        let verdict = strict("24", text).verdict;
        assert!(
            matches!(verdict, Verdict::Unparseable { side: Side::Answer, .. }),
            "{text}: {verdict:?}"
        );
    }
    // The last box of the last answer.
    let twice = "<answer>\\boxed{7}</answer><answer>\\boxed{8} or \\boxed{24}</answer>";
    assert_eq!(strict("24", twice).verdict, Verdict::Right);
    assert_eq!(strict("7", twice).verdict, Verdict::Wrong);
}

#[test]
fn where_the_answer_stands() {
    let cases = [
        ("So \\boxed{5}.", ExtractionRule::Boxed, "5"),
        ("First \\boxed{5}, no: \\boxed{\\frac{1}{2}}", ExtractionRule::Boxed, "\\frac{1}{2}"),
        ("\\fbox{5}", ExtractionRule::Boxed, "5"),
        ("\\boxed 5", ExtractionRule::Boxed, "5"),
        ("\\boxed{\\text{a \\boxed{5}}}", ExtractionRule::Boxed, "\\text{a \\boxed{5}}"),
        ("cut off: \\boxed{\\frac{1}{2}", ExtractionRule::Boxed, "\\frac{1}{2}"),
        ("<answer>5</answer>", ExtractionRule::Tag, "5"),
        ("<answer>5", ExtractionRule::Tag, "5"),
        ("The answer is 5.", ExtractionRule::Phrase, "5."),
        ("Final Answer: 5", ExtractionRule::Phrase, "5"),
        ("She sold 3 + 2 = 5 of them.\n#### 5", ExtractionRule::Phrase, "5"),
        ("5", ExtractionRule::Whole, "5"),
        ("We see that $x^2 = 25$ gives $x = 5$.", ExtractionRule::Formula, "x = 5"),
        ("That makes a total of 5 apples", ExtractionRule::Number, "5"),
    ];
    for (text, rule, piece) in cases {
        assert_eq!(extracted(text), (Some(rule), piece.to_owned()), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_neither_right_nor_wrong() {
    let texts = [
        "",
        "\\boxed{}",
        "\\weird{5}",
        "\\weird{3} + 5",
        "\\boxed{\\weird{5}}",
        "5 +",
        "x^",
        "\\frac{1}{",
        "((5)",
        "<answer></answer>",
        "∜16",
        "1 + \\unknown 5",
        "\\{x | y > 3\\}",
        "\\{x | x < 1, x > 2\\}",
    ];
    for text in texts {
        let verdict = lenient("5", text).verdict;
        assert!(
            matches!(verdict, Verdict::Unparseable { side: Side::Answer, .. }),
            "{text}: {verdict:?}"
        );
    }
    let Verdict::Unparseable { side, position, message } = lenient("3 +", "3").verdict else {
        panic!("a gold text that ends in a sign can't be read")
    };
    assert_eq!((side, position, message.as_str()), (Side::Gold, 3, "expected a value"));
}

#[test]
fn what_is_no_set_is_not_another_than_itself() {
    let verdict = lenient("\\infty\\setminus0", "\\infty\\setminus0").verdict;
    assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict:?}");
}

#[test]
fn names_in_another_order_than_places_are_undecided() {
    for (gold, answer) in [("(1,2,3)", "z=1,y=2,x=3"), ("b=1,a=2", "(1,2)")] {
        let verdict = lenient(gold, answer).verdict;
        assert!(matches!(verdict, Verdict::Undecided { .. }), "{gold} | {answer}: {verdict:?}");
        assert_eq!(lenient("(1,2)", "x=2,y=1").verdict, Verdict::Wrong);
    }
}

#[test]
fn notation_that_is_not_known_is_not_read_as_another() {
    for text in ["\\frac{d}{dx}x^2", "\\overline{3+4i}", "0.\\dot{1}8"] {
        let verdict = lenient("2", text).verdict;
        let Verdict::Unparseable { side, .. } = verdict else { panic!("{text}: {verdict:?}") };
        assert_eq!(side, Side::Answer, "{text}");
    }
}

#[test]
fn what_has_no_value_is_undecided() {
    let texts = [
        "\\frac{1}{0}",
        "1/0",
        "\\frac{0}{0}",
        "\\log 0",
        "\\ln(1-1)",
        "\\tan\\frac{\\pi}{2}",
        "\\cot 0",
        "\\frac{1}{\\sqrt{2}\\sqrt{2}-2}",
        "\\infty - \\infty",
        "0 \\cdot \\infty",
    ];
    for text in texts {
        for other in ["0", "1", "5", text] {
            let verdict = lenient(other, text).verdict;
            assert!(matches!(verdict, Verdict::Undecided { .. }), "{other} | {text}: {verdict:?}");
        }
    }
}

#[test]
fn each_rule_can_fire() {
    let cases = [
        ("\\weird{5}", "\\weird{5}", Rule::Text),
        ("\\text{east}", "East", Rule::Words),
        ("5", "5.0", Rule::Exact),
        ("(x+1)^2", "x^2+2x+1", Rule::Algebra),
        ("5\\%", "0.05", Rule::Unit),
        ("(a+b+c+d)^{30}", "(d+c+b+a)^{30}", Rule::Modular),
        ("\\sin^2 x+\\cos^2 x", "1", Rule::Numeric),
        ("\\frac13", "0.333333", Rule::Decimal),
    ];
    for (gold, answer, rule) in cases {
        let report = lenient(gold, answer);
        assert_eq!(
            (report.verdict, report.rule),
            (Verdict::Right, Some(rule)),
            "{gold} | {answer}"
        );
    }
}

#[test]
fn a_difference_is_shown_with_both_normal_forms() {
    let report = lenient("(1, 2x + x)", "(1, 4x)");
    assert_eq!(report.verdict, Verdict::Wrong);
    assert_eq!(report.difference.as_deref(), Some("element 2: 3*x and 4*x"));
    assert_eq!(report.gold.normal_form, "(1, 3*x)");
    assert_eq!(report.answer.normal_form, "(1, 4*x)");
}

#[test]
fn large_and_deep_texts_end_after_bounded_work() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(5_000), close.repeat(5_000));
    let long_numbers = vec!["9".repeat(900); 100].join(" + ");
    let fractions: Vec<String> =
        (1..180).map(|it| format!("\\frac{{{it}}}{{{}{it}7}}", "31".repeat(it))).collect();
    let texts = [
        "10^{10^{10}}".to_owned(),
        "10^{10^{10^{10}}}".to_owned(),
        "2^{2^{2^{2^{2^{2}}}}}".to_owned(),
        "9^{9^{9^9}}!".to_owned(),
        "100000!".to_owned(),
        "((100!)!)!".to_owned(),
        "\\sin(10^{10^{8}})".to_owned(),
        "\\exp(\\exp(\\exp(\\exp(5))))".to_owned(),
        "\\binom{10^{9}}{10^{8}}".to_owned(),
        "\\sum_{k=1}^{10^{9}} k^{k}".to_owned(),
        "\\sum_{a=1}^{199}\\sum_{b=1}^{199}\\sum_{c=1}^{199}\\sqrt{a+b+c}".to_owned(),
        "\\prod_{k=1}^{199} (x+k+y^k)".to_owned(),
        "(a+b+c+d+f+g)^{64}(a-b)^{64}".to_owned(),
        "(((x+\\sqrt{y})^{64}+1)^{64}+1)^{64}".to_owned(),
        "1e4000".to_owned(),
        "1e999999999".to_owned(),
        deep("(", ")"),
        deep("\\frac{1}{", "}"),
        deep("\\sqrt{", "}"),
        deep("{", "}"),
        deep("|", "|"),
        deep("\\boxed{", "}"),
        deep("\\text{", "}"),
        "x".repeat(1_000_000),
        "7".repeat(1_000_000),
        "the answer is ".repeat(80_000),
        "\\boxed{1}".repeat(100_000),
        "$".repeat(1_000_000),
        format!("\\boxed{{{}}}", "1+".repeat(90_000)),
        format!("\\boxed{{{}}}", "\\pm 1,".repeat(300)),
        format!("\\boxed{{{}}}", "|".repeat(1_500)),
        format!("\\boxed{{{long_numbers}}}"),
        format!("\\boxed{{{}}}", fractions.join("+")),
        format!(
            "\\boxed{{\\{{{}\\}}}}",
            (1..300).map(|it| format!("\\sin {it}")).collect::<Vec<_>>().join(",")
        ),
    ];
    for text in &texts {
        for (gold, answer) in [("5", text.as_str()), (text.as_str(), text.as_str()), (text, "x+1")]
        {
            let report = lenient(gold, answer);
            let shown: String = text.chars().take(60).collect();
            // Our own limits never make an answer wrong where it is the same text.
            assert!(
                gold != answer || report.verdict != Verdict::Wrong,
                "{shown}: {:?}",
                report.verdict
            );
        }
    }
}

#[test]
fn the_budget_ends_in_undecided() {
    let roots: Vec<String> = (2..70).map(|it| format!("\\sqrt[3]{{{it}+\\sin {it}}}")).collect();
    let sum = roots.join("+");
    let other =
        format!("{}+0\\cdot\\sin 1", roots.iter().rev().cloned().collect::<Vec<_>>().join("+"));
    let verdict =
        lenient(&format!("\\boxed{{({sum})({sum})}}"), &format!("\\boxed{{({other})^2}}")).verdict;
    assert!(matches!(verdict, Verdict::Right | Verdict::Undecided { .. }), "{verdict:?}");
}

#[test]
fn a_report_is_json() {
    let report = lenient("5", "6");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["verdict"], "wrong");
    assert_eq!(json["difference"], "5 and 6");
    assert_eq!(json["answer"]["extraction"], "whole");
}
