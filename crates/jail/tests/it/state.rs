//! Nothing of one call is left for the next.

use pretty_assertions::assert_eq;
use rocstar_jail::{Config, Control, Outcome, Request};

use super::{outcome, start};

/// Plants something and looks for it in the same slot.
#[test]
fn nothing_stays() {
    // One slot, so that the second program follows the first one in it.
    let Some(jail) = start(Config { slots: 1, ..Config::default() }) else { return };
    for (plant, look) in [
        ("open('/tmp/planted', 'w').write('x')", "import os; print(os.listdir('/tmp'))"),
        (
            "import os; os.environ['PLANTED'] = '1'",
            "import os; print([k for k in os.environ if k == 'PLANTED'])",
        ),
        (
            "import math; math.planted = 1",
            "import math; print([n for n in vars(math) if n == 'planted'])",
        ),
        ("import builtins; builtins.print = None", "print([])"),
        (
            "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(60)",
            "import os; print([p for p in os.listdir('/proc') if p.isdigit() and int(p) > 2])",
        ),
        (
            "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0planted'); s.listen()\nimport os\nif os.fork() == 0:\n    import time; time.sleep(60)",
            "import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0planted'); print('there')\nexcept ConnectionRefusedError: print([])",
        ),
        (
            "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {10})",
            "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))",
        ),
        ("import os; os.nice(5); os.umask(0)", "import os; print([x for x in (os.nice(0),) if x])"),
    ] {
        let (first, _) = outcome(&jail, plant);
        assert_eq!(first, Outcome::Ok, "{plant}");
        assert_eq!(outcome(&jail, look), (Outcome::Ok, "[]\n".to_owned()), "{plant}");
    }
}

#[test]
fn random_numbers_differ_between_calls_and_text_hashes_do_not() {
    let Some(jail) = super::jail() else { return };
    let random = "import random, uuid; print(random.random(), uuid.uuid4())";
    assert_ne!(outcome(jail, random).1, outcome(jail, random).1);
    let hash = "print(hash('text'), list({'a', 'b', 'c', 'd'}))";
    assert_eq!(outcome(jail, hash).1, outcome(jail, hash).1);
}

#[test]
fn calls_at_once_see_only_themselves() {
    let Some(jail) = super::jail() else { return };
    let program = "import os, time\nopen('mine', 'w').write('x')\ntime.sleep(0.05)\nprint(sorted(os.listdir('/tmp')), [int(p) for p in os.listdir('/proc') if p.isdigit()])";
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| jail.run(&Request::new(program), &Control::default())))
            .collect();
        for thread in threads {
            let report = thread.join().expect("no panic").expect("a report");
            assert_eq!(report.stdout.text, "['mine'] [1, 2]\n");
        }
    });
}

#[test]
fn calls_at_once_share_no_abstract_socket_names() {
    let Some(jail) = super::jail() else { return };
    // Both bind the same name, and hold it while the other one tries.
    let program = "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0name'); s.listen()\ntime.sleep(0.3)\nprint('bound')";
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| jail.run(&Request::new(program), &Control::default())))
            .collect();
        for thread in threads {
            let report = thread.join().expect("no panic").expect("a report");
            assert_eq!(report.stdout.text, "bound\n", "{}", report.stderr.text);
        }
    });
}

/// A server started with `&` in a script ignores SIGINT, and a process inherits that.
#[test]
fn signals_that_the_server_ignores_are_not_ignored_in_programs() {
    const INSIDE: &str = "ROCSTAR_TEST_IGNORING";
    let name = "state::signals_that_the_server_ignores_are_not_ignored_in_programs";
    if std::env::var_os(INSIDE).is_none() {
        let binary = std::env::current_exe().expect("a path");
        let script = format!(
            "trap '' INT TERM; {INSIDE}=1 exec {} {name} --exact --nocapture",
            binary.display()
        );
        let output = std::process::Command::new("sh").args(["-c", &script]).output();
        let output = output.expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let Some(jail) = super::jail() else { return };
    let program = "import signal\nprint([s.name for s in signal.valid_signals() if isinstance(s, signal.Signals) and signal.getsignal(s) == signal.SIG_IGN])";
    assert_eq!(outcome(jail, program).1, "['SIGPIPE', 'SIGXFSZ']\n");
}

/// The kernel counts a user's processes wherever they run.
#[test]
fn two_servers_on_one_machine_do_not_share_user_ids() {
    const INSIDE: &str = "ROCSTAR_TEST_SECOND_SERVER";
    let Some(jail) = super::jail() else { return };
    let user = || outcome(jail, "import os; print('user', os.getuid())").1;
    if std::env::var_os(INSIDE).is_some() {
        print!("{}", user());
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: without root, programs run in user namespaces of their own");
        return;
    }
    let name = "state::two_servers_on_one_machine_do_not_share_user_ids";
    let output = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("this binary");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let second = text.lines().find_map(|line| line.split_once("user ").map(|(_, id)| id.trim()));
    let block = |id: &str| id.parse::<u32>().map(|id| id / 1000).expect("a user id");
    let second = second.unwrap_or_else(|| panic!("{text}"));
    assert_ne!(block(user().trim_start_matches("user ").trim()), block(second));
}
