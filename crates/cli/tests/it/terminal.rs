//! `rocstar chat` and `watch` in a terminal of their own, which `script` of util-linux makes: the line
//! editor, its history, Ctrl-C while a reply comes, and where text goes; a run that is watched.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Pace, Reply, Script};

use crate::harness::Harness;

const PROMPT: &str = "you> ";
/// Longer than anything takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in a terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    bytes: Receiver<Vec<u8>>,
    /// What was shown since something was last waited for.
    rest: String,
}

impl Terminal {
    /// `None` where this machine has no `script`.
    fn start(harness: &Harness, arguments: &str) -> Option<Self> {
        // A screen of which nothing is hidden.
        let size = "stty rows 44 cols 110";
        let command = format!("{size} && exec {} {arguments}", env!("CARGO_BIN_EXE_rocstar"));
        let mut script = Command::new("script");
        script.args(["-qefc", &command, "/dev/null"]).current_dir(harness.path());
        script.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        script.env("HOME", harness.path()).env("TERM", "xterm").env("NO_COLOR", "1");
        let spawned = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            println!("SKIP: no `script` (util-linux) on this machine");
            return None;
        };
        let (mut screen, keys) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                let _ = sender.send(buffer[..count].to_vec());
            }
        });
        Some(Self { child, keys, bytes, rest: String::new() })
    }

    /// Everything up to `text`, which must come.
    fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.rest.find(text) {
                let rest = self.rest.split_off(at + text.len());
                return std::mem::replace(&mut self.rest, rest);
            }
            let more = self.bytes.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no `{text}` in {:?}", self.rest));
            self.rest += &String::from_utf8_lossy(&more);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    /// A test that failed leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server(pace: Pace) -> FakeEndpoint {
    let script = Script::new(|question| {
        let text = question.last_text();
        let words = if text.starts_with("long") { 2000 } else { 1 };
        Reply::text(format!("heard {text:?}{}", " and so on".repeat(words)))
    });
    FakeEndpoint::start(Behaviour { script, pace, ..Behaviour::default() }).unwrap()
}

/// An episode is opened and closed; the terminal is given back at the end.
#[test]
fn a_run_is_watched_until_q() {
    let harness = crate::dash::with_run();
    let Some(mut terminal) = Terminal::start(&harness, "watch runs/run_1") else { return };
    // Blanks are skipped, so single words are waited for: of the list, an episode, the list.
    terminal.until("verdict");
    terminal.press("j\r");
    terminal.until("closes");
    terminal.press("\u{1b}");
    terminal.until("verdict");
    terminal.press("q");
    // The other screen is left.
    terminal.until("\u{1b}[?1049l");
    assert!(terminal.child.wait().unwrap().success());
}

#[test]
fn lines_have_a_history_and_ctrl_c_stops_a_reply() {
    let (harness, server) = (Harness::new(), server(Pace::Every(Duration::from_millis(20))));
    let arguments = format!("chat {} --tool none", server.url());
    let Some(mut terminal) = Terminal::start(&harness, &arguments) else { return };
    terminal.until(PROMPT);
    terminal.press("first\\\rsecond\r");
    assert!(terminal.until("seed").contains("heard \"first\\nsecond\" and so on"));
    terminal.until(PROMPT);
    terminal.press("long story\r");
    terminal.until("and so on");
    terminal.press("\u{3}");
    let stopped = terminal.until("forgotten");
    assert!(stopped.contains("stopped"), "{stopped}");
    terminal.until(PROMPT);
    // The key for up, twice: the message of two lines stands there again.
    terminal.press("\u{1b}[A\u{1b}[A");
    terminal.until("second");
    terminal.press("\r");
    assert!(terminal.until("seed").contains("heard \"first\\nsecond\""));
    terminal.until(PROMPT);
    terminal.press("/nwe\r");
    terminal.until("there is no `/nwe`; see /help");
    terminal.until(PROMPT);
    terminal.press("\u{4}");
    assert!(terminal.child.wait().unwrap().success());
    // What was asked again was asked with the same conversation: the one that was stopped is none.
    let asked: Vec<usize> =
        server.seen().iter().map(|it| it.body["messages"].as_array().unwrap().len()).collect();
    assert_eq!(asked, [1, 3, 3]);
    let history = std::fs::read_to_string(harness.path().join(".cache/rocstar/chat_history"));
    assert!(history.unwrap().contains("long story"));
}

#[test]
fn what_goes_to_a_file_is_the_reply_alone() {
    let (harness, server) = (Harness::new(), server(Pace::AtOnce));
    let arguments = format!("chat {} --tool none > reply.txt", server.url());
    let Some(mut terminal) = Terminal::start(&harness, &arguments) else { return };
    terminal.until(PROMPT);
    terminal.press("hello\r");
    terminal.until(PROMPT);
    terminal.press("/quit\r");
    assert!(terminal.child.wait().unwrap().success());
    let reply = std::fs::read_to_string(harness.path().join("reply.txt")).unwrap();
    assert_eq!(reply, "heard \"hello\" and so on\n");
}
