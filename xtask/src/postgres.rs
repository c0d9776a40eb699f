//! A PostgreSQL server for the tests: a cluster of its own, in a scratch folder, on loopback only.
//!
//! The server must not outlive this program, and a destructor does not run on Ctrl-C or SIGTERM.
//! So a shell script (`postgres.sh`) makes, starts, stops and removes the cluster; it works until
//! its standard input ends, which is when this program drops the [`Cluster`] or is gone. A signal on
//! the death of the parent (`setpriv --pdeathsig`) would stop the server too, but leave its folder.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::Shell;
use crate::report::tail;
use crate::scratch::Scratch;

/// The superuser of the cluster.
const USER: &str = "handback";

/// Who runs the server if this program runs as root, which the server refuses to.
const ACCOUNT: &str = "postgres";

/// Nothing here has to survive a crash, so nothing waits for the disk. Paths are relative to the
/// data folder; the short one also keeps the socket's name below the limit of the system.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = '.'
fsync = off
synchronous_commit = off
full_page_writes = off
timezone = 'UTC'
log_timezone = 'UTC'";

/// Another process can take a port between its choice and the start of the server.
const PORTS_TRIED_MAX: u32 = 3;

/// More than the script's own limit for a start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// More than the script's own limits for both ways to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

const STOP_POLL: Duration = Duration::from_millis(20);

/// Where Debian keeps its servers, a folder for each version.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The folder of the server's programs: one on the search path, else the newest of Debian's.
pub(crate) fn programs(path: &OsStr) -> Option<PathBuf> {
    programs_in(path, Path::new(DEBIAN_VERSIONS))
}

/// A running server; it is stopped and removed on drop.
#[must_use]
pub(crate) struct Cluster {
    url: String,
    _keeper: Keeper,
}

impl Cluster {
    /// Makes a cluster and starts it; it accepts connections when this returns.
    pub(crate) fn start(shell: &Shell) -> Result<Self> {
        let programs =
            programs(&shell.config.path).context("failed to find the programs of the server")?;
        // Not `trust`: whoever can connect as the superuser can run commands as this user.
        let password = password().context("failed to make a password")?;
        let mut keeper = Keeper::start(shell, &programs)?;
        keeper.ask(&password).context("failed to make a cluster")?;
        let port = keeper.listen().context("failed to start the server")?;
        println!("postgresql: 127.0.0.1:{port}, by {}", programs.display());
        Ok(Self { url: url(&password, port), _keeper: keeper })
    }

    /// How to connect as the superuser, with the password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// The script that keeps the cluster.
struct Keeper {
    script: Child,
    /// `None` once the script was told to end.
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
    dir: Scratch,
}

impl Keeper {
    fn start(shell: &Shell, programs: &Path) -> Result<Self> {
        let dir = Scratch::new("postgres").context("failed to make a folder")?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700))
            .context("failed to close the folder to others")?;
        let mut command = script(dir.path(), programs);
        command.env("PATH", &shell.config.path);
        if shell.is_root()? {
            run_as(shell, &mut command, dir.path(), ACCOUNT)?;
        }
        Self::spawn(&mut command, dir)
    }

    fn spawn(command: &mut Command, dir: Scratch) -> Result<Self> {
        let mut script = command.spawn().context("failed to start a shell")?;
        let questions = script.stdin.take();
        let answers = lines(script.stdout.take().context("the shell has no output")?);
        Ok(Self { script, questions, answers, dir })
    }

    fn listen(&mut self) -> Result<u16> {
        let mut attempt = 1;
        loop {
            let port = free_port().context("failed to find a port")?;
            match self.ask(&port.to_string()) {
                Ok(()) => return Ok(port),
                Err(error) if attempt == PORTS_TRIED_MAX => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Sends a line and waits until it is done.
    fn ask(&mut self, question: &str) -> Result<()> {
        let mut pipe = self.questions.as_ref().context("the script has ended")?;
        writeln!(pipe, "{question}").context("failed to write to the script")?;
        match self.answers.recv_timeout(ANSWER_TIMEOUT).as_deref() {
            Ok("done") => Ok(()),
            Ok(_) => bail!("the server's log ends with:\n{}", self.log().join("\n")),
            Err(error) => bail!("no answer: {error}; its log has:\n{}", self.log().join("\n")),
        }
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("log"))
            .unwrap_or_else(|error| format!("(unreadable: {error})"));
        tail(&log.lines().map(str::to_owned).collect::<Vec<_>>())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.questions.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.script.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                eprintln!("warning: the PostgreSQL server of this run did not stop");
                return;
            }
            thread::sleep(STOP_POLL);
        }
    }
}

fn script(dir: &Path, programs: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", include_str!("postgres.sh"), "postgres.sh"]);
    command.arg(dir).arg(programs).args([USER, SETTINGS]);
    // Settings of clients and of the language are none of the server's business.
    command.env_clear().current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Out of the reach of Ctrl-C, which would end the script before the server.
    command.process_group(0);
    command
}

/// Lets the command run under another account, as the owner of the folder.
fn run_as(shell: &Shell, command: &mut Command, dir: &Path, account: &str) -> Result<()> {
    let id = |what: &str| -> Result<u32> {
        let id = shell.read(shell.command("id").args([what, account]));
        let id = id.with_context(|| format!("failed to find the account `{account}`"))?;
        id.trim().parse().with_context(|| format!("failed to read the number of `{account}`"))
    };
    let (user, group) = (id("-u")?, id("-g")?);
    chown(dir, Some(user), Some(group)).context("failed to hand over the folder")?;
    command.uid(user).gid(group);
    Ok(())
}

/// Reads on a thread of its own, so that waiting for a line can end.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        // Nobody waits for more if the receiver is gone.
        lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    receiver
}

fn password() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A port of loopback that nobody listens on, at this moment.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn url(password: &str, port: u16) -> String {
    format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres")
}

fn programs_in(path: &OsStr, versions: &Path) -> Option<PathBuf> {
    std::env::split_paths(path)
        .chain(by_version(versions).into_iter().map(|dir| dir.join("bin")))
        .find(|dir| dir.is_absolute() && PROGRAMS.iter().all(|name| dir.join(name).is_file()))
}

/// The folders that are named for a version, the newest first.
fn by_version(versions: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(versions) else { return Vec::new() };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|path| Some((version(path.file_name()?.to_str()?)?, path)))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// `15`, or `9.6` before that.
fn version(name: &str) -> Option<Vec<u32>> {
    name.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Makes a folder with these programs.
    fn fill(dir: &Path, programs: &[&str]) {
        fs::create_dir_all(dir).unwrap();
        for program in programs {
            fs::write(dir.join(program), "").unwrap();
        }
    }

    /// Makes the Debian folders of these versions and looks for a server, on this path.
    fn check(label: &str, versions: &[&str], path: &str, expected: Option<&str>) {
        let scratch = Scratch::new(label).unwrap();
        let root = scratch.path();
        for version in versions {
            fill(&root.join("versions").join(version).join("bin"), &PROGRAMS);
        }
        fill(&root.join("server"), &PROGRAMS);
        fill(&root.join("client"), &["psql", "pg_ctl"]);
        let path = std::env::join_paths(path.split_whitespace().map(|dir| root.join(dir))).unwrap();
        let found = programs_in(&path, &root.join("versions"));
        assert_eq!(found, expected.map(|expected| root.join(expected)));
    }

    #[test]
    fn takes_the_newest_version_by_number() {
        check("pg-number", &["9.6", "15", "9.10"], "", Some("versions/15/bin"));
        check("pg-minor", &["9.6", "9.10"], "", Some("versions/9.10/bin"));
        check("pg-digits", &["8", "17", "100"], "", Some("versions/100/bin"));
    }

    #[test]
    fn prefers_the_search_path() {
        check("pg-path", &["15"], "empty server", Some("server"));
    }

    #[test]
    fn passes_over_folders_without_a_whole_server() {
        check("pg-client", &[], "client", None);
        check("pg-both", &["15"], "client", Some("versions/15/bin"));
    }

    #[test]
    fn passes_over_folders_that_name_no_version() {
        check("pg-names", &["15", "common", "16beta", "99."], "", Some("versions/15/bin"));
    }

    #[test]
    fn finds_nothing_where_nothing_is() {
        assert_eq!(programs_in(OsStr::new(""), Path::new("/nonexistent")), None);
    }

    #[test]
    fn passwords_need_no_escape_in_a_url() {
        let password = password().unwrap();
        assert_eq!(password.len(), 32);
        assert!(password.chars().all(|c| c.is_ascii_hexdigit()));
        assert_eq!(url("00ff", 5433), "postgres://handback:00ff@127.0.0.1:5433/postgres");
    }

    /// Runs the script with programs that only succeed (`true`) or fail (`false`).
    fn keeper(label: &str, initdb: &str, pg_ctl: &str) -> (Keeper, Scratch) {
        let programs = Scratch::new(&format!("{label}-programs")).unwrap();
        for (name, outcome) in [("initdb", initdb), ("pg_ctl", pg_ctl)] {
            symlink(Path::new("/usr/bin").join(outcome), programs.path().join(name)).unwrap();
        }
        let dir = Scratch::new(label).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        (Keeper::spawn(&mut script(dir.path(), programs.path()), dir).unwrap(), programs)
    }

    #[test]
    fn the_script_removes_everything_when_its_input_ends() {
        let (mut keeper, _programs) = keeper("pg-end", "true", "true");
        keeper.ask("secret").unwrap();
        keeper.listen().unwrap();
        let dir = keeper.dir.path().to_owned();
        let settings = fs::read_to_string(dir.join("data/postgresql.conf")).unwrap();
        assert_eq!(settings.trim_end(), SETTINGS);
        drop(keeper.questions.take());
        assert!(keeper.script.wait().unwrap().success());
        assert!(!dir.exists());
    }

    #[test]
    fn the_script_removes_everything_after_a_failure() {
        let (mut keeper, _programs) = keeper("pg-failure", "false", "false");
        assert!(keeper.ask("secret").is_err());
        let dir = keeper.dir.path().to_owned();
        drop(keeper.questions.take());
        assert!(keeper.script.wait().unwrap().success());
        assert!(!dir.exists());
    }

    #[test]
    fn shows_the_log_of_a_server_that_does_not_start() {
        let (mut keeper, _programs) = keeper("pg-log", "true", "false");
        keeper.ask("secret").unwrap();
        fs::write(keeper.dir.path().join("log"), "FATAL: no room\n").unwrap();
        assert!(keeper.listen().unwrap_err().to_string().ends_with("FATAL: no room"));
    }

    #[test]
    fn debug_does_not_show_the_password() {
        let (keeper, _programs) = keeper("pg-debug", "true", "true");
        let cluster = Cluster { url: url("secret", 1), _keeper: keeper };
        assert!(!format!("{cluster:?}").contains("secret"));
    }
}
