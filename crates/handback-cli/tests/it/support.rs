//! A sandbox for one test: a folder, an environment, and the binary.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// 32 random-looking bytes in base64, as ATD servers share them.
pub(crate) const ATD_KEY: &str = "mTG6gHkzYI2l3wL0Qn5vXr8uJ1cE7sPaBdFoKtWyZxA=";

pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    environment: Vec<(OsString, OsString)>,
}

/// What a run of the binary gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    /// Nothing is set but HOME, and there is no ring.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = (OsString::from("HOME"), folder.path().into());
        Self { folder, environment: vec![home] }
    }

    /// With a ring in the data directory.
    pub(crate) fn with_ring() -> Self {
        let sandbox = Self::new();
        sandbox.ok("keys generate");
        sandbox
    }

    /// With one more variable.
    pub(crate) fn set(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The key file in the data directory.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.path(".local/share/handback/keys.json")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handback"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command line whose words have no spaces.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_words(&words(line))
    }

    pub(crate) fn run_words(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs a command line that must succeed, and gives its stdout without the line end.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        self.run(line).expect_code(0).stdout.trim_end().to_owned()
    }

    /// Runs a command line that must succeed, and gives the members of its answer.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --output json")).expect_code(0).json()
    }

    pub(crate) fn run_with_stdin(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut child = self
            .command(&words(line))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that has read enough leaves, and the rest cannot be written.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Why `token open` with these flags refuses the token; `opened` if it does not.
    #[track_caller]
    pub(crate) fn reason(&self, token: &str, flags: &str) -> String {
        let ran = self.run(&format!("token open {token} {flags} --output json"));
        let answer = ran.json();
        if ran.code == 0 {
            assert_eq!(answer["kind"], "opened");
            return "opened".to_owned();
        }
        assert_eq!((ran.code, &answer["kind"]), (3, &Value::from("refused")));
        answer["reason"].as_str().unwrap().to_owned()
    }
}

impl Ran {
    pub(crate) fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended it"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Everything that it wrote.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Everything that it wrote, for a snapshot.
    pub(crate) fn shown(&self) -> String {
        format!("code: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// The text of a key file.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The keys in a key file.
pub(crate) fn keys_in(path: &Path) -> Vec<String> {
    let ring: Value = serde_json::from_str(&read(path)).unwrap();
    let slots = ring["slots"].as_array().unwrap();
    slots.iter().map(|slot| slot["key"].as_str().unwrap().to_owned()).collect()
}

/// The ring's id in a key file.
pub(crate) fn id_in(path: &Path) -> String {
    let ring: Value = serde_json::from_str(&read(path)).unwrap();
    ring["id"].as_str().unwrap().to_owned()
}

/// Makes every slot of a key file older.
pub(crate) fn age(path: &Path, seconds: u64) {
    let mut ring: Value = serde_json::from_str(&read(path)).unwrap();
    for slot in ring["slots"].as_array_mut().unwrap() {
        slot["since"] = (slot["since"].as_u64().unwrap() - seconds).into();
    }
    fs::write(path, ring.to_string()).unwrap();
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// How large the files of a process may be that it writes: with 0, nothing can be written down. Nothing
/// is no limit.
#[cfg(target_os = "linux")]
pub(crate) fn limit_files(pid: u32, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}
