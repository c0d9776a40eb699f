//! `handback wrap`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use handback_server::file::Settings;
use handback_server::gateway::bound::Budget;
use handback_server::gateway::upstream::{
    BadName, NAME_CHARS_MAX, Place, StartLimits, StderrUse, check_name,
};
use handback_server::{ServerConfig, StartError, Startup, Upstream, connect_stdio, serve_stdio};
use handback_store::OpenError;
use handback_token::KeyRing;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use crate::args::RingArgs;
use crate::bearer::BearerArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::serve::{failure, log::Log, stopping};
use crate::{collections, config, config_file, rings, text};

/// Wraps of one command that run at once at most.
const AT_ONCE_MAX: usize = 64;

/// Stand before an MCP server on standard input and output: nothing too large, nothing lost, nothing
/// run twice
///
/// Put it in front of the command that a client starts: `handback wrap npx -y @scope/server`. Options of
/// wrap come before the command; everything after the name of the program belongs to the command. Results over the budget are held whole: the
/// client gets the first page and a handle, and reads the rest with the tool mcp_aql_read. A call with
/// an idempotency key is made once, also if the client or this program is cut off.
///
/// Held results and the record of calls are in a folder of their own for each command, below the data
/// directory, and are found again after a restart. Where several clients wrap the same command at once,
/// give each of them a --name: without one, a client may find another one's folder after a restart.
///
/// With --connect there is no command: a `handback serve` that runs already is put at standard input
/// and output, for clients that know nothing else. Held results, the record of calls and the keys are
/// that server's, and so are its limits; nothing is kept here.
///
/// What the server writes to stderr is passed on. At the end, a wrapped server has its sums written to
/// stderr, in one line. If it was started and never came up, the exit code is 6.
#[derive(Debug, Args)]
pub(crate) struct WrapArgs {
    /// How much of a result a client gets at once, in bytes (`64KiB`) or tokens (`10000t`), unless the
    /// configuration has a budget for the tool or the client
    #[arg(long, value_name = "SIZE")]
    budget: Option<Budget>,

    /// Images, audio and blobs of a result that a client gets at once, as base64 [default:
    /// 8MiB]
    #[arg(long, value_name = "SIZE")]
    media_budget: Option<Budget>,

    /// The name of the server, for what is held and for the audit [default: that of its program]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// The data directory [default: as for all commands]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The configuration, of which `gateway`, `held`, `limits`, `tokens` and `audit` count here
    /// [default: HANDBACK_CONFIG, or handback.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Write who called what, and how it ended, to the end of this file
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    /// Seconds until the server has to be there [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    start_s: Option<u32>,

    /// A running server to be put at standard input and output, in the place of a command; without a
    /// path it is asked at /mcp
    #[arg(long, value_name = "URL", conflicts_with_all = [
        "budget", "media_budget", "name", "data", "config", "audit", "start_s", "keys", "atd_mode"
    ])]
    connect: Option<Endpoint>,

    #[command(flatten)]
    bearer: BearerArgs,

    #[command(flatten)]
    ring: RingArgs,

    /// The command that starts the server, and its arguments; a `--` before it is optional
    #[arg(trailing_var_arg = true, required_unless_present = "connect", value_name = "COMMAND")]
    command: Vec<String>,
}

/// Where a running server is asked.
#[derive(Clone, Debug)]
struct Endpoint(String);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let rest = known.ok_or("it is a URL that starts with http:// or https://")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err("it has characters that no URL of a server has".to_owned());
        }
        let (host, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        if host.contains('@') {
            return Err("a credential comes from --token-file or HANDBACK_TOKEN".to_owned());
        }
        Ok(Self(match path {
            "" | "/" => format!("{}/mcp", text.trim_end_matches('/')),
            _ => text.to_owned(),
        }))
    }
}

pub(crate) fn run(args: &WrapArgs, output: Output) -> Result<Exit, Failure> {
    if let Some(Endpoint(url)) = &args.connect {
        return connect(args, url);
    }
    if args.bearer.is_given() {
        return Err(Failure::usage("--token-file is for a server that --connect names"));
    }
    let data = match &args.data {
        Some(folder) => folder.clone(),
        None => config::data_directory()?,
    };
    let (settings, _) = config_file::find(args.config.as_deref(), Some(&data))?;
    config_file::check(&settings)?;
    let name = Path::new("wrap").join(folder_name(&args.command, args.name.as_deref()));
    let folder = data.join(&name);
    // Standard output is the protocol's.
    let _log = Log::start();
    let runtime = runtime()?;
    let stop = stopping(&runtime)?;
    for number in 0..AT_ONCE_MAX {
        let ring = rings::find_or_make_in(&args.ring, Some(&data), Some(&name), output)?.ring;
        let config = wrapped(args, &settings, ring, &folder.join(number.to_string()))?;
        let served = runtime.block_on(serve_stdio(config, collections::own_uid(), stop.clone()));
        match served {
            // Another one of the same command has this folder.
            Err(StartError::Store(OpenError::Locked)) => {}
            served => {
                // What still reads standard input is not waited for.
                runtime.shutdown_background();
                return match served.map_err(failure)? {
                    Startup::NeverUp => Err(never_up(&args.command)),
                    _ => Ok(Exit::OK),
                };
            }
        }
    }
    Err(Failure::usage(format!("{AT_ONCE_MAX} of this command run already")))
}

fn never_up(command: &[String]) -> Failure {
    let program = command.first().map_or("", String::as_str);
    Failure::of(Exit::NEVER_UP, format!("the server `{}` never came up", text::one_line(program)))
        .hint("the warnings before this say why; --start-s gives it more time")
}

/// Puts a server that runs already at standard input and output.
fn connect(args: &WrapArgs, url: &str) -> Result<Exit, Failure> {
    if !args.command.is_empty() {
        let hint = "start the server with it: handback serve --upstream NAME=COMMAND";
        return Err(Failure::usage("--connect takes no command: the server has its own").hint(hint));
    }
    let headers = args.bearer.header()?.into_iter().collect();
    // Standard output is the protocol's.
    let _log = Log::start();
    let runtime = runtime()?;
    let stop = stopping(&runtime)?;
    let served = runtime.block_on(connect_stdio(url.to_owned(), headers, stop));
    // What still reads standard input is not waited for.
    runtime.shutdown_background();
    served.map(|()| Exit::OK).map_err(failure)
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error).about("cannot start a runtime".to_owned()))
}

fn wrapped(
    args: &WrapArgs,
    settings: &Settings,
    ring: KeyRing,
    folder: &Path,
) -> Result<ServerConfig, Failure> {
    let mut words = args.command.iter().cloned();
    let program = words.next().unwrap_or_default();
    let name = args.name.clone().unwrap_or_else(|| name_of(&program));
    let place = Place::Command { program, args: words.collect(), env: Vec::new() };
    let mut start = StartLimits::default();
    if let Some(time) = args.start_s {
        start.total = Duration::from_secs(time.into());
    }
    let (start, stderr) = (config::start_limits(start), StderrUse::PassedOn);
    let mut options = settings.gateway_options()?;
    options.budget = args.budget.unwrap_or(options.budget);
    options.media_budget = args.media_budget.or(options.media_budget);
    let mut config = ServerConfig::new(ring, folder.to_path_buf())
        .signing(false)
        .limits(settings.limits())
        .tokens(settings.tokens())
        .upstream(Upstream { name, place, is_shared: false, start, stderr })
        .gateway(options);
    if let Some(file) = args.audit.as_ref().or(settings.audit.as_ref()) {
        config = config.audit(file.clone());
    }
    #[cfg(debug_assertions)]
    {
        config = config::faults(config);
    }
    Ok(config)
}

/// Reads the name of a server.
fn name(text: &str) -> Result<String, BadName> {
    check_name(text).map(|()| text.to_owned())
}

/// The name of a server that has none: that of its program, with what no name has left out.
fn name_of(program: &str) -> String {
    let stem = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |sign: &char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
    let mut name = String::new();
    for sign in stem.chars().filter(allowed).take(NAME_CHARS_MAX) {
        if !(sign == '_' && name.ends_with('_')) {
            name.push(sign);
        }
    }
    name.truncate(name.trim_end_matches('_').len());
    if check_name(&name).is_ok() { name } else { "server".to_owned() }
}

/// The same for the same command under the same name, wherever it is started.
fn folder_name(command: &[String], name: Option<&str>) -> String {
    let mut hash = Sha256::new();
    for word in command {
        hash.update((word.len() as u64).to_be_bytes());
        hash.update(word.as_bytes());
    }
    // No word is as long as that.
    if let Some(name) = name {
        hash.update(u64::MAX.to_be_bytes());
        hash.update(name.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_at_its_endpoint() {
        let url = |text: &str| text.parse::<Endpoint>().map(|Endpoint(url)| url);
        assert_eq!(url("http://127.0.0.1:8420"), Ok("http://127.0.0.1:8420/mcp".to_owned()));
        assert_eq!(url("https://a.example/"), Ok("https://a.example/mcp".to_owned()));
        assert_eq!(url("https://a.example/x?y=1"), Ok("https://a.example/x?y=1".to_owned()));
        let secret = "http://me:secret@a.example/";
        for wrong in ["", "a.example", "ftp://a.example", "http://", "http:///mcp", secret] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_goes_by_its_program() {
        for (program, expected) in [
            ("/usr/bin/python3", "python3"),
            ("./my server.v2.py", "myserverv2"),
            ("a__b_", "a_b"),
            ("handback", "server"),
            ("handback.exe", "server"),
            ("é", "server"),
            ("", "server"),
            (&"x".repeat(40), &"x".repeat(NAME_CHARS_MAX)),
        ] {
            assert_eq!(name_of(program), expected, "{program}");
        }
    }

    #[test]
    fn a_folder_for_each_command() {
        let folder = |words: &[&str], name| {
            folder_name(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), name)
        };
        let name = |words: &[&str]| folder(words, None);
        assert_eq!(name(&["a", "b"]), name(&["a", "b"]));
        assert_ne!(name(&["a", "b"]), name(&["ab"]));
        assert_ne!(name(&["a", "b"]), name(&["b", "a"]));
        assert_ne!(name(&["a"]), folder(&["a"], Some("mine")));
        assert_ne!(folder(&["a", "b"], None), folder(&["a"], Some("b")));
        assert_eq!(name(&["a"]).len(), 16);
    }
}
