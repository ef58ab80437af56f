//! The same isolation for a server that is not root, through user namespaces.
//!
//! Where the tests run as root, this one runs itself again as user 65534; without root it runs as
//! it is. A host that denies user namespaces to ordinary users prints SKIP.

use std::process::Command;

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, Outcome, Request};

const INSIDE: &str = "ROCSTAR_TEST_ORDINARY_USER";

#[test]
fn isolates_without_root() {
    let name = "ordinary_user::isolates_without_root";
    if rustix::process::geteuid().is_root() {
        assert!(std::env::var_os(INSIDE).is_none(), "setpriv did not change the user");
        // The binary may lie where that user can't reach it.
        let copy = std::env::temp_dir().join(format!("rocstar-it-user-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().expect("a path"), &copy).expect("a copy");
        let output = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
            .arg(&copy)
            .args([name, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .current_dir("/")
            .output()
            .expect("util-linux's setpriv");
        let _ = std::fs::remove_file(&copy);
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
        return;
    }
    let config = Config { python: "/usr/bin/python3".into(), ..Config::default() };
    let Some(jail) = super::start(config) else { return };
    assert!(!jail.effective().degraded);
    let program = "import os\nprint(os.getuid(), sorted(os.listdir('/tmp')), [p for p in os.listdir('/proc') if p.isdigit()])\nopen('x', 'w').write('y')";
    let expected = (Outcome::Ok, "65534 [] ['1', '2']\n".to_owned());
    // Twice: nothing of the first is left for the second.
    for _ in 0..2 {
        assert_eq!(super::outcome(&jail, program), expected);
    }
    let request = Request {
        limits: rocstar_jail::Limits { wall_ms: Some(200), ..Default::default() },
        ..Request::new("import os\nfor _ in range(3): os.fork()\nwhile True: pass")
    };
    assert_eq!(super::run(&jail, &request).outcome, Outcome::Timeout);
    let denied = "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)";
    assert_eq!(super::outcome(&jail, denied).0, Outcome::Denied { what: "ptrace".to_owned() });
}
