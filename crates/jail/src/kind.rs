//! Which zygote runs a program: the bare one, or the one with the scientific packages loaded.
//!
//! The choice only decides speed. A program that imports something in a way the scan does not see
//! still runs: the bare zygote imports it then and there.

use serde::{Deserialize, Serialize};

/// A kind of warmed interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The standard library, a few modules loaded.
    Bare,
    /// numpy, sympy, mpmath, scipy and networkx loaded and exercised, where installed.
    Scientific,
}

impl Kind {
    /// Both, in the order in which pools are kept.
    pub const ALL: [Self; 2] = [Self::Bare, Self::Scientific];

    /// The name in JSON, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Scientific => "scientific",
        }
    }

    /// Chooses by the program's imports: any line that imports a scientific package at its start,
    /// after indentation or after `;`.
    pub fn of_program(program: &str) -> Self {
        // Cheap first test: most programs name none of the packages at all.
        if !PACKAGES.iter().any(|package| program.contains(package)) {
            return Self::Bare;
        }
        let imports = program.lines().flat_map(|line| line.split(';')).any(|statement| {
            let statement = statement.trim_start();
            let modules = statement
                .strip_prefix("import ")
                .or_else(|| statement.strip_prefix("from "))
                .unwrap_or_default();
            modules.split(',').any(|module| {
                let module = module.trim_start();
                let end = module
                    .find(|character: char| !(character.is_alphanumeric() || character == '_'))
                    .unwrap_or(module.len());
                PACKAGES.contains(&&module[..end])
            })
        });
        if imports { Self::Scientific } else { Self::Bare }
    }
}

/// Beside the packages themselves, some that load them.
const PACKAGES: [&str; 7] =
    ["numpy", "sympy", "mpmath", "scipy", "networkx", "pandas", "math_verify"];

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn scans_imports() {
        for program in [
            "import numpy",
            "import numpy as np",
            "import os, sympy",
            "from scipy.optimize import minimize",
            "def f():\n    import networkx as nx",
            "x = 1; import mpmath",
        ] {
            assert_eq!(Kind::of_program(program), Kind::Scientific, "{program}");
        }
        for program in
            ["print(1)", "# numpy is not needed", "import numpyro", "print('import numpy')", ""]
        {
            assert_eq!(Kind::of_program(program), Kind::Bare, "{program}");
        }
    }
}
