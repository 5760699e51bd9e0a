//! The real program in a pseudo-terminal, which `script` makes, and what it draws there.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::tool;

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const COLUMNS: u16 = 100;
pub(crate) const LINES: u16 = 30;

/// Whether there is a program that makes pseudo-terminals. When not, says so aloud.
pub(crate) fn exists(test: &str) -> bool {
    let known = Command::new("script").arg("--version").output();
    let is_known = known.is_ok_and(|output| output.status.success());
    if !is_known {
        let required = std::env::var("BTRPRESS_ORACLE").is_ok_and(|value| value == "require");
        assert!(!required, "{test} must run, but `script` is missing");
        let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: missing: program `script`");
    }
    is_known
}

/// The program in a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
    dir: TempDir,
}

impl Terminal {
    /// Starts the program on an image, with colours and all signs.
    pub(crate) fn start(image: &Path) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let program = env!("CARGO_BIN_EXE_btrpress");
        // The process that writes its number is the one that becomes the program.
        let inside = format!(
            "stty rows {LINES} cols {COLUMNS}; echo $$ >{0}/pid; cd {0}; exec '{program}' '{1}' 2>{0}/errors",
            dir.path().display(),
            image.display()
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &inside, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let keys = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(size(LINES), size(COLUMNS), 0)));
        let drawn = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                drawn.lock().expect("no panic").process(&bytes[..count]);
            }
        });
        Self { child, keys, screen, dir }
    }

    /// What is seen.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().expect("no panic").screen().contents()
    }

    /// Whether the program has the terminal for itself.
    pub(crate) fn is_taken(&self) -> bool {
        self.screen.lock().expect("no panic").screen().alternate_screen()
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        // Where the program has ended meanwhile, its end is what a test goes on with.
        let _ = self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush());
    }

    /// Waits until something is seen; what is seen then.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str) -> String {
        self.wait_until(what, |text| text.contains(what))
    }

    /// Waits until what is seen is as wanted.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if is_there(&text) {
                return text;
            }
            assert!(Instant::now() < until, "never seen: {what}\n{text}\n{}", self.errors());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends the program itself a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = fs::read_to_string(self.dir.path().join("pid")).expect("it has started");
        tool::run("kill", &["-s", name, pid.trim()]);
    }

    /// What the program wrote to standard error.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.dir.path().join("errors")).unwrap_or_default()
    }

    /// A file that the program left in its current directory.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Waits for the program's end; the terminal must be as it was before.
    #[track_caller]
    pub(crate) fn wait(mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < until, "it does not end\n{}", self.text());
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(self.errors(), "");
        let screen = self.screen.lock().expect("no panic");
        let screen = screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the terminal is restored");
        let mouse = screen.mouse_protocol_mode();
        assert_eq!(mouse, vt100::MouseProtocolMode::None, "the mouse is given back");
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed assertion it may still be there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns_or_lines: u16) -> NonZero<u16> {
    NonZero::new(columns_or_lines).expect("a terminal has some")
}
