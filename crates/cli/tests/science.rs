//! Programs that use numpy, sympy and their like, in the built binary and the environment that
//! `rocstar sandbox setup` made. Where there is none, each test says SKIP with the reason.

#![cfg(test)]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

#[test]
fn solves_as_numpy_and_sympy_do() {
    let program = r#"
import numpy as np, sympy
x = sympy.Symbol("x")
print(sympy.solve(x**2 - 5*x + 6, x))
print(np.linalg.solve(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([3.0, 5.0])))
"#;
    let Some(report) = run(program, &[]) else { return };
    assert_eq!(report["outcome"], json!({"type": "ok"}), "{report:#}");
    assert_eq!(report["stdout"]["text"], "[2, 3]\n[0.8 1.4]\n");
}

#[test]
fn every_package_of_the_environment_works() {
    let program = r#"
import mpmath, networkx, scipy.integrate, scipy.optimize
print(round(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2), 9))
print(round(scipy.integrate.quad(lambda x: x * x, 0, 3)[0], 9))
print(networkx.shortest_path(networkx.cycle_graph(6), 0, 4))
mpmath.mp.dps = 30
print(mpmath.nstr(mpmath.zeta(3), 20))
"#;
    let Some(report) = run(program, &[]) else { return };
    assert_eq!(report["outcome"], json!({"type": "ok"}), "{report:#}");
    let expected = "1.414213562\n9.0\n[0, 5, 4]\n1.2020569031595942854\n";
    assert_eq!(report["stdout"]["text"], expected);
}

#[test]
fn an_array_beyond_the_limit_is_a_memory_limit() {
    let Some(report) = run("import numpy as np\nnp.ones(10**10)", &[]) else { return };
    assert_eq!(report["outcome"], json!({"type": "memory_limit"}), "{report:#}");
}

/// Native code that never returns to the interpreter is stopped from outside all the same.
#[test]
fn a_long_product_of_matrices_is_timed_out() {
    let program = "import numpy as np\na = np.ones((3000, 3000))\nwhile True: a = a @ a * 1e-9";
    let Some(report) = run(program, &["--wall", "500ms"]) else { return };
    assert_eq!(report["outcome"], json!({"type": "timeout"}), "{report:#}");
}

/// The generators of a warmed interpreter must not give every program the same numbers.
#[test]
fn two_programs_draw_different_random_numbers() {
    let program = "import random\nimport numpy as np\nprint(np.random.rand(), random.random())";
    let (Some(first), Some(second)) = (run(program, &[]), run(program, &[])) else { return };
    assert_eq!(first["outcome"], json!({"type": "ok"}), "{first:#}");
    assert_ne!(first["stdout"]["text"], second["stdout"]["text"]);
}

/// The report of one program, or nothing where it can't run here.
fn run(program: &str, options: &[&str]) -> Option<Value> {
    static LACK: LazyLock<Option<String>> = LazyLock::new(lack);
    if let Some(lack) = &*LACK {
        eprintln!("SKIP: {lack}");
        return None;
    }
    let mut command = rocstar(&["sandbox", "run", "--json"]);
    let mut child = command
        .args(options)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built binary");
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    stdin.write_all(program.as_bytes()).expect("the binary reads the program");
    drop(stdin);
    let output = child.wait_with_output().expect("the binary ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}")))
}

/// Why such programs can't run here.
fn lack() -> Option<String> {
    let output = rocstar(&["doctor", "--json"]).output().expect("the built binary");
    let Ok(found) = serde_json::from_slice::<Value>(&output.stdout) else {
        return Some(String::from_utf8_lossy(&output.stderr).into_owned());
    };
    if found["ready"] != json!(true) {
        return Some("a required isolation layer is missing, see `rocstar doctor`".to_owned());
    }
    let names: Vec<&str> = found["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| package.as_str()?.split(' ').next())
        .collect();
    let wanted = ["numpy", "sympy", "mpmath", "scipy", "networkx"];
    let missing: Vec<&str> = wanted.into_iter().filter(|name| !names.contains(name)).collect();
    (!missing.is_empty()).then(|| format!("no {}: run `rocstar sandbox setup`", missing.join(", ")))
}

/// The binary with the caller's own settings, so that it finds the environment of this machine.
fn rocstar(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocstar"));
    command.arg("--no-progress").args(arguments);
    command
}
