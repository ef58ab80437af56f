//! Instructions that a program can check: did the response follow them?

/// The instructions of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct IfEvalGold {}
