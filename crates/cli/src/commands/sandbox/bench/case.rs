//! What the benchmark runs: programs with the text that they must print.
//!
//! Invariant: a program's text and its expected output are made together, so an answer can be
//! checked without running anything here; trivial programs differ from call to call, so an answer
//! that was given to the wrong call is seen.

use clap::ValueEnum;

/// A mix of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// `print(1+N)`
    Trivial,
    /// Solves an equation with sympy and a linear system with numpy
    Science,
    /// Three trivial programs, then a science one
    Mix,
    /// Trivial programs while four infinite loops of another client run
    Loop,
}

/// One program and what it must print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) program: String,
    pub(crate) expected: String,
}

const SCIENCE_PROGRAM: &str = r#"import numpy
import sympy

x = sympy.symbols("x")
print(sympy.solve(x**2 - 5 * x + 6, x))
print(numpy.linalg.solve(numpy.array([[2.0, 1.0], [1.0, 3.0]]), numpy.array([3.0, 5.0])))
"#;
const SCIENCE_OUTPUT: &str = "[2, 3]\n[0.8 1.4]\n";

/// A program that never ends.
pub(crate) const INFINITE_LOOP: &str = "while True:\n    pass\n";

impl Case {
    /// The name in tables and JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Science => "science",
            Self::Mix => "mix",
            Self::Loop => "loop",
        }
    }

    /// Packages that the programs import.
    pub(crate) const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Science | Self::Mix => &["numpy", "sympy"],
            Self::Trivial | Self::Loop => &[],
        }
    }

    /// Calls of a run that names no number: a few seconds' worth on two cores.
    pub(crate) const fn default_calls(self) -> usize {
        match self {
            Self::Trivial => 4_000,
            Self::Science => 400,
            Self::Mix => 800,
            Self::Loop => 100,
        }
    }

    /// The program of call number `index`.
    pub(crate) fn job(self, index: usize) -> Job {
        match self {
            Self::Science => science(),
            Self::Mix if index % 4 == 3 => science(),
            Self::Trivial | Self::Mix | Self::Loop => {
                Job { program: format!("print(1+{index})\n"), expected: format!("{}\n", index + 1) }
            }
        }
    }
}

fn science() -> Job {
    Job { program: SCIENCE_PROGRAM.to_owned(), expected: SCIENCE_OUTPUT.to_owned() }
}
