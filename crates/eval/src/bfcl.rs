//! Function calls as data: is a model's call one of those that answer the question?

/// What a question's calls are scored against.
#[derive(Debug, Clone, PartialEq)]
pub struct BfclGold {}
