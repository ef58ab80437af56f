//! The program in a completion, found as SandboxFusion finds it.
//!
//! In this order: the first fenced block in Python, the first fenced block, a fence that is never
//! closed, the first function or class in plain text. Invariant: linear in the completion, which is
//! model output.

const FENCE: &str = "```";
const PYTHON_TAGS: [&str; 6] = ["python", "Python", "py", "Python3", "python3", "PY"];

/// The Python program in `completion`; empty where there is none.
pub(super) fn program(completion: &str) -> String {
    let blocks = fenced(completion);
    let chosen = blocks.iter().find(|block| block.is_python()).or_else(|| blocks.first());
    if let Some(block) = chosen {
        return block.code.to_owned();
    }
    match unclosed(completion) {
        Some(code) => code.to_owned(),
        None => definition(completion),
    }
}

struct Block<'a> {
    tag: &'a str,
    code: &'a str,
}

impl Block<'_> {
    fn is_python(&self) -> bool {
        PYTHON_TAGS.contains(&self.tag.trim())
    }
}

fn fenced(completion: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = completion;
    while let Some((tag, body)) = opening(rest) {
        let Some((code, behind)) = closing(body) else { break };
        blocks.push(Block { tag, code });
        rest = behind;
    }
    blocks
}

/// The tag of the next fence, and the text below its line.
fn opening(text: &str) -> Option<(&str, &str)> {
    let (_, behind) = text.split_once(FENCE)?;
    behind.split_once('\n')
}

/// The code up to a fence that stands first on its line, and the text behind that fence.
fn closing(body: &str) -> Option<(&str, &str)> {
    body.match_indices(FENCE).find_map(|(position, fence)| {
        let code_and_space = &body[..position];
        let space_starts = code_and_space.trim_end().len();
        let line_break = space_starts + code_and_space[space_starts..].find('\n')?;
        Some((&body[..line_break], &body[position + fence.len()..]))
    })
}

fn unclosed(completion: &str) -> Option<&str> {
    opening(completion).map(|(_, code)| code)
}

/// The first `def` or `class` with an indented body, and the imports and comments right above it.
/// Blank lines do not count.
fn definition(completion: &str) -> String {
    let lines: Vec<&str> = completion.split('\n').filter(|line| !line.trim().is_empty()).collect();
    let starts = |line: &str, words: &[&str]| {
        words.iter().any(|word| line.len() > word.len() && line.starts_with(word))
    };
    for (position, line) in lines.iter().enumerate() {
        let body = lines[position + 1..].iter().take_while(|line| line.starts_with([' ', '\t']));
        let body = body.count();
        if body == 0 || !starts(line, &["def ", "class "]) {
            continue;
        }
        let above = lines[..position].iter().rev();
        let above = above.take_while(|line| starts(line, &["import", "from", "#"])).count();
        let mut code = lines[position - above..=position + body].join("\n");
        code.push('\n');
        return code;
    }
    String::new()
}

/// The program without what a module does when it is run rather than imported.
pub(super) fn without_entry_point(code: &str) -> String {
    ["if __name__ == \"__main__\":", "# Example usage"].iter().fold(
        code.to_owned(),
        |code, mark| match code.split_once(mark) {
            Some((before, _)) => before.trim().to_owned(),
            None => code,
        },
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_program() {
        for (completion, expected) in [
            ("Words\n```python\nprint(1)\n```\nmore", "print(1)"),
            ("```bash\npip\n```\n```py\nprint(2)\n```", "print(2)"),
            ("```bash\npip\n```\n```js\nlet a\n```", "pip"),
            ("```\na\n\n  ```\n", "a"),
            ("```python\na = '```'\nb\n```", "a = '```'\nb"),
            ("``` python \na\n```", "a"),
            ("Words\n```python\ndef main():\n    pass\nmore\n", "def main():\n    pass\nmore\n"),
            ("```python\n```", "```"),
            (
                "So:\nimport math\n\ndef f(x):\n\n    return x\nDone.",
                "import math\ndef f(x):\n    return x\n",
            ),
            ("no program here", ""),
            ("", ""),
        ] {
            assert_eq!(program(completion), expected, "{completion:?}");
        }
    }

    #[test]
    fn the_entry_point_goes() {
        assert_eq!(without_entry_point("a\n\nif __name__ == \"__main__\":\n    a()"), "a");
        assert_eq!(without_entry_point("a\n# Example usage\nb"), "a");
        assert_eq!(without_entry_point("a\n"), "a\n");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_program(completion in "[`\\n a-d#é]{0,60}") {
            let program = program(&completion);
            prop_assert!(program.len() <= completion.len() + 1);
        }
    }
}
