//! A row of the data as a question: what is asked, which functions there are, which calls answer it.

use rocstar_record::message::{Message, Role, ToolSpec};
use serde_json::{Map, Value};

use super::schema::FunctionDoc;
use super::{Answer, BfclGold, CallsIn, Category, text};

/// A question that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its identity.
    pub id: String,
    /// What the model is shown.
    pub messages: Vec<Message>,
    /// Functions that it is offered; none where they stand in the text.
    pub functions: Vec<ToolSpec>,
    /// What its calls are scored against.
    pub gold: BfclGold,
}

/// A row that is no question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadRow {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// Whether it is in the answer's row.
    pub in_answer: bool,
}

impl Question {
    /// Reads a row of a category's questions, with the row of its answers where there is one.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn from_rows(
        category: Category,
        calls_in: CallsIn,
        row: &Map<String, Value>,
        answer: Option<&Map<String, Value>>,
    ) -> Result<Self, BadRow> {
        let fault = |field: &str, problem: &str| BadRow {
            field: field.to_owned(),
            problem: problem.to_owned(),
            in_answer: false,
        };
        let id =
            row.get("id").and_then(Value::as_str).ok_or_else(|| fault("id", "must be a text"))?;
        let functions = functions(row).map_err(|(field, problem)| fault(&field, &problem))?;
        let answers = match answer {
            Some(answer) if category.compares_calls() => {
                answers(answer).map_err(|(field, problem)| BadRow {
                    field,
                    problem: problem.to_owned(),
                    in_answer: true,
                })?
            }
            Some(_) | None => Vec::new(),
        };
        let gold = BfclGold { category, calls_in, functions, answers };
        gold.fits_together().map_err(|problem| BadRow {
            field: "ground_truth".to_owned(),
            problem,
            in_answer: true,
        })?;
        let messages = messages(row).map_err(|problem| fault("question", &problem))?;
        let (messages, functions) = match calls_in {
            CallsIn::Tools => (messages, gold.functions.iter().map(FunctionDoc::spec).collect()),
            CallsIn::Text => (text::with_functions(messages, &gold.functions), Vec::new()),
        };
        Ok(Self { id: id.to_owned(), messages, functions, gold })
    }
}

impl BfclGold {
    /// What is wrong with the answers for these functions.
    fn fits_together(&self) -> Result<(), String> {
        if !self.category.compares_calls() {
            return Ok(());
        }
        if self.answers.is_empty() {
            return Err("is missing: this category needs the calls that are right".to_owned());
        }
        if !self.category.is_parallel() && self.answers.len() != 1 {
            return Err(format!("has {} calls, this category has one", self.answers.len()));
        }
        let names = self.functions.iter().map(|doc| doc.name_in(self.calls_in));
        let names: std::collections::HashSet<String> = names.collect();
        if names.len() != self.functions.len() {
            return Err("two functions have one name, where `.` and `_` are the same".to_owned());
        }
        let unknown = self.answers.iter().find(|answer| {
            !self.category.has_one_function()
                && !self.functions.iter().any(|doc| doc.name == answer.function)
        });
        unknown.map_or(Ok(()), |answer| {
            Err(format!("calls `{}`, which is no function of the question", answer.function))
        })
    }
}

fn functions(row: &Map<String, Value>) -> Result<Vec<FunctionDoc>, (String, String)> {
    // Some rows hold one function without a list around it.
    let list = match row.get("function") {
        Some(Value::Array(list)) => list.as_slice(),
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => return Err(("function".to_owned(), "must be a list of functions".to_owned())),
    };
    let read = |(index, value)| {
        let at = |(field, problem)| (format!("function[{index}].{field}"), problem);
        FunctionDoc::read(value).map_err(at)
    };
    list.iter().enumerate().map(read).collect()
}

/// One turn: a list that holds one list of messages.
fn messages(row: &Map<String, Value>) -> Result<Vec<Message>, String> {
    let shape = "must be a list with one list of messages";
    let turns = row.get("question").and_then(Value::as_array).ok_or(shape)?;
    let [turn] = turns.as_slice() else { return Err(shape.to_owned()) };
    let messages: Vec<Message> =
        serde_json::from_value(turn.clone()).map_err(|error| format!("{shape}: {error}"))?;
    match messages.last() {
        Some(last) if last.role == Role::User => Ok(messages),
        _ => Err("must end with a message of the user".to_owned()),
    }
}

fn answers(row: &Map<String, Value>) -> Result<Vec<Answer>, (String, &'static str)> {
    let field = || "ground_truth".to_owned();
    let list = row.get("ground_truth").and_then(Value::as_array);
    let list = list.ok_or_else(|| (field(), "must be a list of calls"))?;
    let read = |(index, call): (usize, &Value)| {
        let at = || format!("ground_truth[{index}]");
        let call = call.as_object().filter(|call| call.len() == 1);
        let (function, parameters) = call
            .and_then(|call| call.iter().next())
            .ok_or_else(|| (at(), "must be an object with one function's name"))?;
        let parameters =
            parameters.as_object().ok_or_else(|| (at(), "must hold an object of parameters"))?;
        let alternatives = |(name, values): (&String, &Value)| match values {
            // No value at all is right for it but the empty list.
            Value::Array(values) if values.is_empty() => {
                Ok((name.clone(), vec![Value::Array(Vec::new())]))
            }
            Value::Array(values) => Ok((name.clone(), values.clone())),
            _ => Err((format!("{}.{function}.{name}", at()), "must be a list of values")),
        };
        let parameters = parameters.iter().map(alternatives).collect::<Result<_, _>>()?;
        Ok(Answer { function: function.clone(), parameters })
    };
    list.iter().enumerate().map(read).collect()
}
