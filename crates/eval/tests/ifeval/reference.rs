//! What the published checker said of the same texts; `tests/reference/ifeval.py` made the file.

use serde_json::Value;

use crate::check;

#[test]
fn the_published_checker_says_the_same() {
    let mut count = 0;
    for line in include_str!("../reference/ifeval_cases.jsonl").lines() {
        let (id, kwargs, text, strict, loose): (String, Value, String, bool, bool) =
            serde_json::from_str(line).unwrap();
        let report = &check(&id, &kwargs, &text).instructions[0];
        assert_eq!((report.strict, report.loose), (strict, loose), "{text:?}: {report:?}");
        count += 1;
    }
    assert_eq!(count, 300);
}
