//! Where the answer stands in what models write around it. A half of an answer is none, and a bound or
//! a denial is no value.

#![cfg(test)]

use pretty_assertions::assert_eq;
use rocstar_verify::{Extraction, Options, Verdict, verify};

fn is_right(gold: &str, answer: &str) -> bool {
    let options = Options { extraction: Extraction::Lenient, ..Options::default() };
    verify(gold, answer, &options).verdict == Verdict::Right
}

const RIGHT: &[(&str, &str)] = &[
    ("42", "Thus $\\boxed{42}$. The answer is in the range 0 to 999."),
    ("42", "\\boxed{42}. This answer is consistent with 3 checks."),
    ("42", "\\boxed{42}. Since the answer is an integer between 0 and 999, we are done."),
    ("42", "\\boxed{42}. The answer is an integer less than 1000."),
    ("B", "\\boxed{B}. The answer is not A because 3 is odd."),
    ("43", "\\boxed{42}. The final answer is 43."),
    ("B", "**B**"),
    ("A", "**(A)**"),
    ("D", "**Answer: D**"),
    ("D", "**Answer:** D"),
    ("A", "The answer is **A**."),
    ("A", "**A)** 5"),
    ("A", "**A. 42**"),
    ("B", "**B.** 42"),
    ("\\text{Spain}", "**Spain**"),
    ("\\text{blue}", "**Blue**"),
    ("18", "**\\$18 per day**"),
    ("5", "__5__"),
    ("8", "2**3"),
    ("x^2y^2", "x**2*y**2"),
    ("(1,2)", "The point is (1, 2)."),
    ("(2,3)", "The intersection point is (2, 3)."),
    ("2,3", "The solutions are 2 and 3."),
    ("2,3", "The solutions are $2$ and $3$."),
    ("2,3", "The solutions are x = 2 and x = 3."),
    ("2,3", "So $x=2$ or $x=3$."),
    ("(2,3)", "Therefore the solution is x = 2 and y = 3."),
    ("\\frac34", "So $x = \\frac{3}{4}$, and we are done."),
    ("42", "The answer is 42, not 43."),
    ("42", "The answer is 42 because 6 times 7 is 42."),
    ("42", "The expression simplifies to $42$."),
    ("42", "It is not 41 but $42$."),
    ("42", "<b>42</b>"),
    ("72", "So the total is 48 + 24 = 72 clips."),
    ("42", "<answer>The result is 42</answer>"),
    ("42", "I am not sure, perhaps 7, I tried 42."),
    (
        "19",
        "Final Answer: The maximum number of points in the domain of $f(x)$ is 19. <|im_start|>user",
    ),
    ("C", "The answer is C because energy is conserved."),
    ("A", "\\boxed{A: 5}"),
    ("Alice", "The winner is Alice."),
    ("\\text{Friday}", "It is Friday."),
    (
        "12 \\text{ and } 13",
        "Final Answer: The final answer is \\\"$12 $ and $13 $\\\". I hope it is correct.",
    ),
];

const NOT_RIGHT: &[(&str, &str)] = &[
    ("42", "\\boxed{43}. The answer is in the range 41 to 42."),
    ("3", "The point is (1, 3)."),
    ("3", "We get (1, 3)"),
    ("2", "The solutions are 1 and 2."),
    ("2", "The answer is between 1 and 2."),
    ("42", "The answer is more than 42."),
    ("42", "The answer is at least 42"),
    ("42", "The answer can't be 42."),
    ("42", "It's not 42."),
    ("1/2", "The probability is not 1/2."),
    ("43", "The answer is 42, not 43."),
    ("Alice", "The winner is not Alice."),
    ("A", "The answer is not A because 3 is odd."),
    ("3", "**(1, 3)**"),
    ("42", "The answer is not $42$."),
    ("42", "It is not $42$."),
    ("42", "The answer is not \\(42\\)."),
    ("42", "The answer is at least $42$."),
    ("42", "The answer is greater than $42$."),
    ("42", "The answer cannot be $x = 42$."),
    ("42", "We do not get $42$."),
    ("42", "We don’t get $42$."),
    ("\\sqrt2", "The answer is not $\\sqrt2$."),
    ("42", "The answer is > 42."),
    ("42", "#### > 42"),
];

#[test]
fn what_is_said_around_an_answer_is_not_it() {
    let missed: Vec<_> = RIGHT.iter().filter(|(gold, answer)| !is_right(gold, answer)).collect();
    assert_eq!(missed, Vec::<&(&str, &str)>::new(), "right, and not taken for it");
    let taken: Vec<_> = NOT_RIGHT.iter().filter(|(gold, answer)| is_right(gold, answer)).collect();
    assert_eq!(taken, Vec::<&(&str, &str)>::new(), "not right, and taken for it");
}

#[test]
fn strict_extraction_takes_no_prose() {
    let options = Options { extraction: Extraction::Strict, ..Options::default() };
    for (gold, answer) in RIGHT {
        let verdict = verify(gold, answer, &options).verdict;
        assert!(matches!(verdict, Verdict::Unparseable { .. }), "{answer}: {verdict:?}");
    }
}
