//! Cases whose output is an answer: compared as mathematics, by `rocstar-verify`.
//!
//! Invariant: neither side enters the sandbox, and the comparison is bounded by steps of work, so a
//! hostile output costs no more than a dull one. What can't be decided is no verdict on the program.

use rocstar_verify::{Extraction, Options, Side, verify};

use crate::{AnswerCase, AnswerVerdict, Comparison, Verdict};

/// Compares what a program printed with the expected answer.
pub(super) fn compare(case: &AnswerCase, printed: &str) -> (Verdict, Comparison) {
    let options = Options {
        extraction: Extraction::Lenient,
        precision: case.precision,
        strict: case.strict,
        allow_set_relation_comp: case.allow_set_relation_comp,
    };
    let report = verify(&case.expected_answer, printed, &options);
    let (of_case, verdict, explanation) = match report.verdict {
        rocstar_verify::Verdict::Right => (Verdict::Passed, AnswerVerdict::Right, None),
        rocstar_verify::Verdict::Wrong => {
            (Verdict::WrongOutput, AnswerVerdict::Wrong, report.difference)
        }
        rocstar_verify::Verdict::Unparseable { side, position, message } => {
            // An expected answer that can't be read says nothing of the program.
            let (of_case, name) = match side {
                Side::Gold => (Verdict::Undecided, "expected answer"),
                Side::Answer => (Verdict::WrongOutput, "output"),
            };
            let explanation = format!("{name}, byte {position}: {message}");
            (of_case, AnswerVerdict::Unparseable, Some(explanation))
        }
        rocstar_verify::Verdict::Undecided { why } => {
            (Verdict::Undecided, AnswerVerdict::Undecided, Some(why))
        }
    };
    (of_case, Comparison { verdict, rule: report.rule, explanation })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rocstar_verify::Rule;

    use super::compare;
    use crate::{AnswerCase, AnswerVerdict, Verdict};

    fn outcome(case: &AnswerCase, printed: &str) -> (Verdict, AnswerVerdict, Option<Rule>) {
        let (verdict, comparison) = compare(case, printed);
        (verdict, comparison.verdict, comparison.rule)
    }

    #[test]
    fn an_answer_is_compared_as_mathematics() {
        let half = AnswerCase::new("\\frac{1}{2}");
        for (printed, expected) in [
            ("0.5\n", (Verdict::Passed, AnswerVerdict::Right, Some(Rule::Exact))),
            ("So the answer is 2/4.", (Verdict::Passed, AnswerVerdict::Right, Some(Rule::Exact))),
            ("0.51", (Verdict::WrongOutput, AnswerVerdict::Wrong, None)),
            ("1 +", (Verdict::WrongOutput, AnswerVerdict::Unparseable, None)),
            ("", (Verdict::WrongOutput, AnswerVerdict::Unparseable, None)),
            ("1/0", (Verdict::Undecided, AnswerVerdict::Undecided, None)),
        ] {
            assert_eq!(outcome(&half, printed), expected, "{printed:?}");
        }
        let unreadable = AnswerCase::new("1 +");
        let undecided = (Verdict::Undecided, AnswerVerdict::Unparseable, None);
        assert_eq!(outcome(&unreadable, "2"), undecided);
    }

    #[test]
    fn options_are_those_of_the_case() {
        let third = AnswerCase::new("1/3");
        assert_eq!(outcome(&third, "0.33").0, Verdict::WrongOutput);
        assert_eq!(outcome(&AnswerCase { precision: 2, ..third }, "0.33").0, Verdict::Passed);
        let square = AnswerCase::new("x^2");
        assert_eq!(outcome(&square, "y^2").0, Verdict::WrongOutput);
        assert_eq!(outcome(&AnswerCase { strict: false, ..square }, "y^2").0, Verdict::Passed);
        let interval = AnswerCase::new("(5, \\infty)");
        assert_eq!(outcome(&interval, "x > 5").0, Verdict::WrongOutput);
        let either = AnswerCase { allow_set_relation_comp: true, ..interval };
        assert_eq!(outcome(&either, "x > 5").0, Verdict::Passed);
    }
}
