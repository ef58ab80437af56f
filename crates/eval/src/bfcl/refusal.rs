//! Why calls don't answer a question.
//!
//! Invariant: a refusal names the call by its number from 1, and wherever there are any the function,
//! the parameter, what was expected and what was there.

use std::fmt;

use serde_json::Value;

/// Why calls don't answer a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// No function fits, and the model called some.
    NoneWanted {
        /// The first of them.
        first: String,
        /// All of them.
        calls: Vec<String>,
    },
    /// A function fits, and the model called none.
    NoCall,
    /// Too many calls, or too few.
    Count {
        /// Calls that answer the question.
        expected: usize,
        /// What was called.
        calls: Vec<String>,
    },
    /// The only call is wrong.
    Call {
        /// The function that had to be called.
        function: String,
        /// What is wrong.
        refusal: CallRefusal,
    },
    /// No call is left for one of the answers.
    Unanswered {
        /// The answer's number, from 1.
        answer: usize,
        /// Its function.
        function: String,
        /// Each call that was not taken by another answer, by its number from 1, and what is wrong
        /// with it.
        tried: Vec<(usize, CallRefusal)>,
    },
}

/// What is wrong with one call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallRefusal {
    /// Another function.
    Function {
        /// What had to be called.
        expected: String,
        /// What was.
        got: String,
    },
    /// Arguments that are no JSON object.
    Arguments {
        /// Their text.
        got: String,
    },
    /// An argument that has to be there isn't.
    Missing {
        /// The parameter.
        parameter: String,
        /// Values that are right, where the answer knows some.
        expected: Vec<Value>,
    },
    /// An argument that the function or the answer doesn't know.
    Unexpected {
        /// Its name.
        parameter: String,
        /// Its value.
        got: Box<Value>,
    },
    /// A value of another type.
    Type {
        /// The parameter.
        parameter: String,
        /// Its type.
        expected: String,
        /// The type that was there.
        got_type: &'static str,
        /// The value that was there.
        got: Box<Value>,
    },
    /// A value that is not among the right ones.
    Value {
        /// The parameter, with a path to the key inside where there is one.
        parameter: String,
        /// Values that are right.
        expected: Vec<Value>,
        /// What was there.
        got: Box<Value>,
    },
    /// An object without a key that has to be there.
    MissingKey {
        /// The parameter, with a path to the key inside.
        parameter: String,
        /// Values that are right.
        expected: Vec<Value>,
    },
    /// An object with a key that no answer knows.
    UnexpectedKey {
        /// The parameter, with a path to the key inside.
        parameter: String,
        /// Its value.
        got: Box<Value>,
    },
    /// A list of objects of another length.
    Length {
        /// The parameter.
        parameter: String,
        /// The right length.
        expected: usize,
        /// What was there.
        got: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneWanted { first, calls } => {
                write!(formatter, "no function fits the question, but `{first}` was called")?;
                match calls.len() {
                    0 | 1 => Ok(()),
                    count => write!(formatter, " first of {count}"),
                }
            }
            Self::NoCall => {
                formatter.write_str("a function fits the question, but none was called")
            }
            Self::Count { expected, calls } => {
                let verb = if *expected == 1 { "call is" } else { "calls are" };
                write!(formatter, "{expected} {verb} expected, got {}", calls.len())?;
                if calls.is_empty() { Ok(()) } else { write!(formatter, ": {}", calls.join(", ")) }
            }
            Self::Call { function, refusal } => {
                write!(formatter, "call 1 (`{function}`): {refusal}")
            }
            Self::Unanswered { answer, function, tried } => {
                write!(formatter, "no call answers part {answer} (`{function}`)")?;
                for (number, refusal) in tried {
                    write!(formatter, "; call {number}: {refusal}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for CallRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function { expected, got } => {
                write!(formatter, "the function is `{got}`, expected `{expected}`")
            }
            Self::Arguments { got } => {
                write!(formatter, "the arguments are no JSON object: {got}")
            }
            Self::Missing { parameter, expected } if expected.is_empty() => {
                write!(formatter, "`{parameter}` is required and missing")
            }
            Self::Missing { parameter, expected } => {
                write!(formatter, "`{parameter}` is missing, expected {}", any_of(expected))
            }
            Self::Unexpected { parameter, got } => {
                write!(formatter, "`{parameter}` is not expected, got {got}")
            }
            Self::Type { parameter, expected, got_type, got } => {
                write!(formatter, "`{parameter}` must be of type {expected}, got {got_type}: {got}")
            }
            Self::Value { parameter, expected, got } => {
                write!(formatter, "`{parameter}` is {got}, expected {}", any_of(expected))
            }
            Self::MissingKey { parameter, expected } => {
                write!(formatter, "`{parameter}` is missing, expected {}", any_of(expected))
            }
            Self::UnexpectedKey { parameter, got } => {
                write!(formatter, "`{parameter}` is a key that is not expected, got {got}")
            }
            Self::Length { parameter, expected, got } => {
                write!(formatter, "`{parameter}` has {got} elements, expected {expected}")
            }
        }
    }
}

/// Values that are right, as a reader takes them.
fn any_of(values: &[Value]) -> String {
    let is_optional = values.iter().any(|value| value == "");
    let shown: Vec<String> =
        values.iter().filter(|value| *value != "").map(Value::to_string).collect();
    match (shown.is_empty(), is_optional) {
        (true, _) => "nothing".to_owned(),
        (false, false) => shown.join(" or "),
        (false, true) => format!("{} or nothing", shown.join(" or ")),
    }
}
