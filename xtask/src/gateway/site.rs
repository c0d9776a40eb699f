//! One server and one client, with a recorder on every way between them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::NPM_PACKAGE;
use super::recording::{Answer, Exchange, Recording};
use crate::mcp;
use crate::process::Shell;
use crate::report::tail;
use crate::scratch::Scratch;
use crate::server;

/// Several times what the slowest known run takes.
const SECONDS_MAX: &str = "120";

/// Where the memory server keeps what it is told.
const MEMORY_FILE: &str = "MEMORY_FILE_PATH";

/// The programs.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) handback: PathBuf,
    pub(super) recorder: PathBuf,
    /// What runs the client, and its script.
    pub(super) client: Vec<String>,
}

/// A published server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// The end of its package's name, and the name of its plan.
    pub(super) name: &'static str,
    /// Its arguments on standard streams, `{folder}` being a folder that it may use.
    pub(super) args: &'static [&'static str],
    /// Its argument for HTTP, at the port that its environment names, if it knows that.
    pub(super) http: Option<&'static str>,
}

/// The handshake that a client begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handshake {
    /// That of 2025-11-25.
    Legacy,
    /// That of the newest revision that both sides speak.
    Auto,
}

/// One server with one client.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) shell: &'a Shell,
    pub(super) programs: &'a Programs,
    pub(super) server: Published,
    pub(super) scratch: &'a Scratch,
}

impl Site<'_> {
    /// The client starts the server.
    pub(super) fn direct(&self, name: &str) -> Result<Recording> {
        let record = self.record(name);
        self.drive(name, Handshake::Legacy, &self.recorded(&record, &self.command()?))?;
        Recording::read(&record)
    }

    /// The client starts the gateway, which starts the server: what was said on either side.
    pub(super) fn wrapped(&self, name: &str, handshake: Handshake) -> Result<[Recording; 2]> {
        let (front, back) = (self.record(&format!("{name}-front")), self.record(name));
        let data = self.scratch.path().join(format!("{name}-data"));
        let wrap = [&text(&self.programs.handback), "wrap", "--data", &text(&data), "--"];
        let mut wrap: Vec<String> = wrap.map(str::to_owned).to_vec();
        wrap.extend(self.recorded(&back, &self.command()?));
        self.drive(name, handshake, &self.recorded(&front, &wrap))?;
        Ok([Recording::read(&front)?, Recording::read(&back)?])
    }

    /// The client and the server are at an address each.
    pub(super) fn direct_http(&self, name: &str, argument: &str) -> Result<Recording> {
        let server = self.listening(name, argument)?;
        let record = self.record(name);
        let recorder = self.recorder(name, &record, &server)?;
        self.drive(name, Handshake::Legacy, &[endpoint(&recorder)])?;
        heard(&record)
    }

    /// And so is the gateway.
    pub(super) fn served(&self, name: &str, argument: &str) -> Result<[Recording; 2]> {
        let server = self.listening(name, argument)?;
        let (front, back) = (self.record(&format!("{name}-front")), self.record(name));
        let behind = self.recorder(name, &back, &server)?;
        let gateway = server::Server::start(
            self.shell,
            &format!("{name}-gateway"),
            &self.programs.handback,
            |address, data| {
                let upstream = format!("up={}", endpoint(&behind));
                let (address, data) = (address.to_string(), text(data));
                let serve = ["serve", "--no-demo", "--listen", &address, "--data", &data];
                serve.into_iter().chain(["--upstream", &upstream]).map(str::to_owned).collect()
            },
        )?;
        let before = self.recorder(&format!("{name}-front"), &front, &gateway)?;
        self.drive(name, Handshake::Legacy, &[endpoint(&before)])?;
        Ok([heard(&front)?, heard(&back)?])
    }

    /// Has the client go through the plan with a server, in a folder with nothing in it.
    fn drive(&self, name: &str, handshake: Handshake, server: &[String]) -> Result<()> {
        let folder = self.folder();
        if folder.exists() {
            fs::remove_dir_all(&folder).context("failed to clear the folder")?;
        }
        fs::create_dir(&folder).context("failed to make the folder")?;
        let mut client = self.shell.command("timeout");
        client.args(["--kill-after=10", SECONDS_MAX]).args(&self.programs.client);
        client.arg(self.plan()).arg(&folder).arg(match handshake {
            Handshake::Legacy => "legacy",
            Handshake::Auto => "auto",
        });
        client.args(server).env("PYTHONDONTWRITEBYTECODE", "1");
        client.env("HOME", self.scratch.path()).env(MEMORY_FILE, folder.join("memory.jsonl"));
        let finished = self.shell.run_showing(&mut client, |_| false)?;
        if !finished.success {
            bail!("the client failed in the run `{name}`:\n{}", tail(&finished.log).join("\n"));
        }
        Ok(())
    }

    /// A command with a recorder in front of it.
    fn recorded(&self, record: &Path, command: &[String]) -> Vec<String> {
        let recorder = [text(&self.programs.recorder), text(record), "--".to_owned()];
        recorder.into_iter().chain(command.iter().cloned()).collect()
    }

    /// A recorder in front of somebody at an address.
    fn recorder(
        &self,
        name: &str,
        record: &Path,
        server: &server::Server,
    ) -> Result<server::Server> {
        let label = format!("{name}-recorder");
        server::Server::start(self.shell, &label, &self.programs.recorder, |address, _| {
            vec![text(record), address.to_string(), endpoint(server)]
        })
    }

    /// The server at an address.
    fn listening(&self, name: &str, argument: &str) -> Result<server::Server> {
        let program = self.program()?;
        server::Server::start(self.shell, name, Path::new("env"), |address, _| {
            let port = std::iter::once(format!("PORT={}", address.port()));
            port.chain(program.iter().cloned()).chain([argument.to_owned()]).collect()
        })
    }

    /// The command of the server on standard streams.
    fn command(&self) -> Result<Vec<String>> {
        let folder = text(&self.folder());
        let args = self.server.args.iter().map(|arg| arg.replace("{folder}", &folder));
        Ok(self.program()?.into_iter().chain(args).collect())
    }

    fn program(&self) -> Result<[String; 2]> {
        let dir = self.shell.config.npm(NPM_PACKAGE);
        let package = format!("node_modules/@modelcontextprotocol/server-{}", self.server.name);
        let script = dir.join(package).join("dist").join("index.js");
        Ok([text(&mcp::node(&dir)?), text(&script)])
    }

    /// The file with what is asked.
    pub(super) fn plan(&self) -> PathBuf {
        let plans = self.shell.config.root.join(NPM_PACKAGE).join("plans");
        plans.join(format!("{}.json", self.server.name))
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("folder")
    }

    fn record(&self, name: &str) -> PathBuf {
        self.scratch.path().join(format!("{name}.txt"))
    }
}

/// What was heard over HTTP, without what is another each time there. A server tells and asks whether
/// or not somebody listens already: how many changed lists are told, and whether a question is refused
/// because nobody can be asked, depends on who is faster. And it names the session in what it logs.
fn heard(record: &Path) -> Result<Recording> {
    let mut recording = Recording::read(record)?;
    recording.told.retain(|note| !note.method.ends_with("/list_changed"));
    for note in &mut recording.told {
        note.params = without_session(&note.params);
    }
    recording.asked_back.retain(|exchange| !is_refused(exchange));
    Ok(recording)
}

fn is_refused(exchange: &Exchange) -> bool {
    matches!(&exchange.answer, Some(Answer::Error(error)) if error.contains(r#""code":-32601"#))
}

fn without_session(text: &str) -> String {
    const BEFORE: &str = " from session ";
    let Some((before, after)) = text.split_once(BEFORE) else { return text.to_owned() };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-');
    format!("{before}{BEFORE}…{rest}")
}

fn endpoint(server: &server::Server) -> String {
    format!("http://{}/mcp", server.address())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_left_out_and_nothing_else() {
        let text = r#"{"data":"for a from session 60100baf-cec6-49b7-9a98-bd11529de785","b":1}"#;
        assert_eq!(without_session(text), r#"{"data":"for a from session …","b":1}"#);
        assert_eq!(without_session(r#"{"data":"a"}"#), r#"{"data":"a"}"#);
    }
}
