//! The locked list of scientific packages: exact versions and file hashes, compiled in.

/// The list in the form that `pip install --require-hashes -r` reads.
pub(crate) const TEXT: &str = include_str!("packages.lock");

/// A package of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Locked {
    /// Its name.
    pub(crate) name: &'static str,
    /// The one version that is accepted.
    pub(crate) version: &'static str,
}

impl Locked {
    /// The module that it brings.
    pub(crate) fn module(&self) -> String {
        match self.name {
            "antlr4-python3-runtime" => "antlr4".to_owned(),
            name => name.replace('-', "_"),
        }
    }
}

/// Every package of the list.
pub(crate) fn packages() -> impl Iterator<Item = Locked> {
    TEXT.lines().filter(|line| !line.starts_with(['#', ' '])).filter_map(|line| {
        let (name, rest) = line.split_once("==")?;
        Some(Locked { name, version: rest.split_whitespace().next()? })
    })
}

#[cfg(test)]
mod tests {
    use super::{Locked, TEXT, packages};

    #[test]
    fn lists_each_package_with_a_version_and_hashes() {
        let names: Vec<&str> = packages().map(|package| package.name).collect();
        let of_math_verify = ["antlr4-python3-runtime", "latex2sympy2-extended", "math-verify"];
        assert_eq!(names[..3], of_math_verify);
        assert_eq!(names[3..], ["mpmath", "networkx", "numpy", "scipy", "sympy"]);
        for Locked { name, version } in packages() {
            let entry = TEXT.split(&format!("{name}=={version}")).nth(1).unwrap();
            assert!(entry.trim_start_matches([' ', '\\', '\n']).starts_with("--hash=sha256:"));
        }
    }
}
