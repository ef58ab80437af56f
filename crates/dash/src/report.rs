//! stub
use crate::{Error, Run};
/// Stub.
#[derive(Debug)]
pub struct Report;
impl Report {
    /// Stub.
    ///
    /// # Errors
    /// None.
    pub fn of(_runs: &[&Run]) -> Result<Self, Error> {
        Ok(Self)
    }
    /// Stub.
    pub fn to_html(&self) -> String {
        String::new()
    }
}
