//! Fenced code as a call.

use pretty_assertions::assert_eq;
use rocstar_chat::calls::{CallFormat, CodeTool, Event, FailureKind, MAX_CALL_BYTES};
use rocstar_record::message::ToolCall;

use crate::{calls_and_text, check_faults, named, one, only_failure};

const FENCED: CallFormat = CallFormat::FencedCode(CodeTool::DEFAULT);

fn python(code: &str) -> ToolCall {
    named("python", one("code", code))
}

#[test]
fn a_block_is_a_call_with_its_code_to_the_letter() {
    for (block, code) in [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```python\n\n  x = 1\n\n```", "\n  x = 1\n"),
        ("```python\n```", ""),
        ("```python  \r\nx\r\n```  ", "x\r"),
        ("``` python\nx\n`````", "x"),
        ("````python\n```\nx\n```\n````", "```\nx\n```"),
        ("```python\ns = '```'\n ```\n```", "s = '```'\n ```"),
        ("```python\n```python\n```", "```python"),
        ("```python\n``\n``` x\n```", "``\n``` x"),
    ] {
        let text = format!("First\n{block}\nand");
        let (calls, rest) = calls_and_text(&FENCED, &text);
        assert_eq!(calls, [python(code)], "{block:?}");
        assert_eq!(rest, "First\n\nand");
        assert_eq!(calls_and_text(&FENCED, block).0, [python(code)], "{block:?} ends the text");
    }
}

#[test]
fn the_tool_is_the_one_that_was_asked_for() {
    let tool = CodeTool::new("jupyter_code").expect("a name");
    let format = CallFormat::FencedCode(tool);
    let (calls, _) = calls_and_text(&format, "```python\nx\n```");
    assert_eq!(calls, [named("jupyter_code", one("code", "x"))]);
}

#[test]
fn other_fences_and_what_is_in_them_is_text() {
    for text in [
        "```\nx\n```",
        "```py\nx\n```",
        "```python3\nx\n```",
        "```python x\ny\n```",
        "```pyth",
        "``python\nx\n``",
        " ```python\nx\n ```",
        "use ```python\nx\n```",
        "```python `x`\ny",
        "```markdown\n```python\nx\n```",
        "````text\n```python\nx\n```\n````",
        "```text\n```python\nnever closed",
        "~~~python\nx\n~~~",
    ] {
        let (calls, rest) = calls_and_text(&FENCED, text);
        assert_eq!((calls, rest.as_str()), (vec![], text));
    }
}

#[test]
fn a_block_of_text_ends_and_code_after_it_runs() {
    let text = "```text\n5\n```\n```python\nx\n```\n```\n```\n```python\ny\n```\n";
    let (calls, rest) = calls_and_text(&FENCED, text);
    assert_eq!(calls, [python("x"), python("y")]);
    assert_eq!(rest, "```text\n5\n```\n\n```\n```\n\n");
}

#[test]
fn code_that_is_not_closed_is_not_run() {
    check_faults(
        &FENCED,
        &[
            ("```python", FailureKind::Unclosed, 9),
            ("```python\n", FailureKind::Unclosed, 10),
            ("```python\nprint(1)", FailureKind::Unclosed, 18),
            ("````python\nprint(1)\n```\n", FailureKind::Unclosed, 24),
            ("```python\nprint(1)```", FailureKind::Unclosed, 21),
            ("```python\nprint(1)\n``", FailureKind::Unclosed, 21),
        ],
    );
    assert_eq!(
        only_failure(&FENCED, "```python\nprint(1)").to_string(),
        "Tool call could not be read: the text ends before a line of 3 backticks closes the code \
         (line 2, column 9, after ````python\\nprint(1)`)"
    );
}

#[test]
fn size_has_a_limit() {
    let text = format!("```python\n{}\n```", "x".repeat(MAX_CALL_BYTES));
    assert_eq!(only_failure(&FENCED, &text).kind, FailureKind::TooLarge);
    let fits = "x".repeat(MAX_CALL_BYTES - 1);
    assert_eq!(calls_and_text(&FENCED, &format!("```python\n{fits}\n```")).0, [python(&fits)]);
}

#[test]
fn text_goes_out_as_soon_as_its_line_opens_no_block() {
    let mut parser = FENCED.parser();
    let text = |text: &str| vec![Event::Text(text.to_owned())];
    assert_eq!(parser.push("a ``` b"), text("a ``` b"));
    assert_eq!(parser.push("\n``"), text("\n"));
    assert_eq!(parser.push("x"), text("``x"));
    assert_eq!(parser.push("\n```p"), text("\n"));
    assert_eq!(parser.push("l"), text("```pl"));
    assert_eq!(parser.push("\n```"), text("\n"));
    assert_eq!(parser.push("\n```python\nx\n```"), text("```\n"));
    let events = parser.finish();
    assert!(matches!(events.as_slice(), [Event::Call(_)]), "{events:?}");
}
