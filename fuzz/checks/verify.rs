//! What must hold for any gold text and any answer: a verdict, the same one each
//! time, no wrong verdict for a text against itself, and a report that can be written.
//!
//! Shared by the fuzz target `verify` and by the replay of its corpus in an ordinary test. The first
//! line is the gold text, the rest the answer.

use rocstar_verify::{Extraction, Options, Verdict, verify};

/// Panics where the verifier breaks a promise.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (gold, answer) = text.split_once('\n').unwrap_or((text, text));
    for extraction in [Extraction::Strict, Extraction::Lenient] {
        let options = Options { extraction, ..Options::default() };
        let report = verify(gold, answer, &options);
        assert_eq!(report, verify(gold, answer, &options), "a verdict is the same each time");
        assert_eq!(
            report.rule.is_some(),
            report.verdict == Verdict::Right,
            "a rule fired exactly where the answer is right"
        );
        assert!(serde_json::to_string(&report).is_ok(), "a report is JSON");
    }
    for text in [gold, answer] {
        let report = verify(text, text, &Options::default());
        assert_ne!(report.verdict, Verdict::Wrong, "{text:?} against itself: {report:?}");
    }
}
