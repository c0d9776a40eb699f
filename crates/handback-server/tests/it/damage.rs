//! The damage list: each file of a data directory, flipped, cut to half, emptied and removed.
//!
//! A server on such a directory does not start, and names the file; or starts with everything; or, for
//! a file that has a single held value, starts with everything else and refuses that value.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use handback_server::ServerConfig;
use handback_store::{EmbeddedOptions, EmbeddedStore, embedded};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::killed::process::Site;
use crate::killed::tools;
use crate::support::{Answer, Running, ask_over};

/// Keyed calls with a short result.
const CALLS: usize = 12;

/// Keyed calls whose result is in a file of its own.
const LONG_CALLS: usize = 2;

/// Bytes of such a result: more than a row or a value of the store has.
const LONG_BYTES: usize = 2 << 20;

const STREAMS: usize = 4;

/// A copy of a folder. Holes of journals stay holes, and second names of a file stay that.
fn copy(from: &Path, to: &Path) {
    let mut copied = BTreeMap::new();
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        if let Some(first) = copied.get(&metadata.ino()) {
            fs::hard_link(first, target).unwrap();
            continue;
        }
        let (source, made) = (File::open(&path).unwrap(), File::create(&target).unwrap());
        made.set_len(metadata.len()).unwrap();
        made.set_permissions(metadata.permissions()).unwrap();
        let mut chunk = vec![0; 1 << 16];
        for at in (0..metadata.len()).step_by(chunk.len()) {
            let read = source.read_at(&mut chunk, at).unwrap();
            if chunk[..read].iter().any(|byte| *byte != 0) {
                made.write_all_at(&chunk[..read], at).unwrap();
            }
        }
        copied.insert(metadata.ino(), target);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

/// What was acknowledged.
struct Acknowledged {
    site: Site,
    results: BTreeMap<String, Value>,
    session: String,
    /// The tools that the session shows.
    tools: Value,
}

fn config(book: &Path, data: &Path) -> Result<ServerConfig, String> {
    let config = ServerConfig::open(data).map_err(|error| with_causes(&error))?;
    Ok(config.listen("127.0.0.1:0".parse().unwrap()).tools(tools::registry(book)))
}

/// An error with its causes, as an operator reads it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn calls() -> impl Iterator<Item = (String, usize)> {
    let short = (0..CALLS).map(|number| (format!("short-{number}"), 100));
    short.chain((0..LONG_CALLS).map(|number| (format!("long-{number}"), LONG_BYTES)))
}

/// A server that is asked over real sockets.
struct Server(SocketAddr);

impl Server {
    async fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let stream = TcpStream::connect(self.0).await.unwrap();
        ask_over(stream, &self.0.to_string(), line, headers, body).await
    }

    async fn call(&self, key: &str, fill: usize) -> Answer {
        let body = json!({"arguments": {"tag": key, "fill": fill}}).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        self.ask("POST /v1/tools/act_transactional/run", &headers, &body).await
    }

    async fn mcp(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.ask("POST /mcp", &headers, &message.to_string()).await
    }

    /// The tools that a session shows.
    async fn tools(&self, session: &str) -> Result<Value, String> {
        let answer = self.mcp(Some(session), "tools/list", json!({})).await;
        let body = whole(&answer);
        // An event stream begins with an event without data.
        let mut data = body.lines().filter_map(|line| line.strip_prefix("data: {"));
        let data = data.next().map(|rest| format!("{{{rest}")).unwrap_or_default();
        let data: Value = serde_json::from_str(&data).unwrap_or_default();
        match data["result"]["tools"].as_array() {
            Some(tools) if !tools.is_empty() => Ok(data["result"]["tools"].clone()),
            _ => Err(format!("{} {:.200}", answer.status, answer.body)),
        }
    }

    /// All that a stream has.
    async fn content(&self, stream: usize) -> Result<String, String> {
        let (mut content, mut offset) = (String::new(), "-1".to_owned());
        loop {
            let line = format!("GET /v1/stream/s{stream}?offset={offset}");
            let answer = self.ask(&line, &[], "").await;
            if answer.status != 200 {
                return Err(format!("{} {:.200}", answer.status, answer.body));
            }
            content.push_str(&whole(&answer));
            if answer.headers.contains_key("stream-up-to-date") {
                return Ok(content);
            }
            offset = answer.headers["stream-next-offset"].clone();
        }
    }
}

impl Acknowledged {
    /// A data directory after real calls, results, streams and a session, and a killed server.
    async fn new(options: EmbeddedOptions) -> Self {
        let site = Site::new();
        let data = site.folder().join("data");
        // A store has keys, which are made before it: so it is put in the place of another one.
        site.start().kill();
        let store = data.join("store");
        fs::remove_dir_all(&store).unwrap();
        drop(EmbeddedStore::open(&store, options).unwrap());
        let ring = fs::read(site.folder().join("ring")).unwrap();
        let mut keys = File::options();
        let mut keys = keys.write(true).create_new(true).mode(0o600).open(data.join("keys.json"));
        keys.as_mut().unwrap().write_all(&ring).unwrap();
        let (results, session) = (BTreeMap::new(), String::new());
        let mut this = Self { site, results, session, tools: Value::Null };
        this.fill().await;
        let checked = embedded::check(store).unwrap();
        assert!(checked.damage.is_empty() && checked.is_proved, "{checked:?}");
        this
    }

    async fn fill(&mut self) {
        let process = self.site.start();
        let server = Server(process.address);
        for (key, fill) in calls() {
            let answer = server.call(&key, fill).await;
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!((answer.status, &body["replayed"]), (200, &Value::Null), "{key}");
            assert_eq!(body["result"]["fill"].as_str().unwrap().len(), fill);
            self.results.insert(key, body["result"].clone());
        }
        for stream in 0..STREAMS {
            let path = format!("/v1/stream/s{stream}");
            assert_eq!(server.ask(&format!("PUT {path}"), &[], "").await.status, 201);
            for number in 0..5 {
                let line = format!("POST {path}");
                let answer = server.ask(&line, &[], &part(stream, number)).await;
                assert_eq!(answer.status, 204);
            }
        }
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        });
        let answer = server.mcp(None, "initialize", hello).await;
        self.session = answer.headers["mcp-session-id"].clone();
        self.tools = server.tools(&self.session).await.unwrap();
        process.kill();
    }

    /// Starts a server on a data directory, and gives what is not as it was acknowledged.
    async fn compare(&self, data: &Path) -> Result<Vec<String>, String> {
        let running = Running::try_start(config(self.site.folder(), data)?).await;
        let running = running.map_err(|error| with_causes(&error))?;
        let server = Server(running.address);
        let mut wrong = Vec::new();
        for (key, fill) in calls() {
            let answer = server.call(&key, fill).await;
            let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let is_same = body["replayed"] == true && body["result"] == self.results[&key];
            if !is_same {
                wrong.push(format!("{key}: {} {:.200}", answer.status, answer.body));
            }
            assert_eq!(self.site.book.effects(&key).len(), 1, "{key} was made again");
        }
        for stream in 0..STREAMS {
            let content: String = (0..5).map(|number| part(stream, number)).collect();
            match server.content(stream).await {
                Ok(found) if found == content => {}
                Ok(found) => wrong.push(format!("s{stream}: {} bytes", found.len())),
                Err(why) => wrong.push(format!("s{stream}: {why}")),
            }
        }
        match server.tools(&self.session).await {
            Ok(tools) if tools == self.tools => {}
            other => wrong.push(format!("session: {other:?}")),
        }
        Ok(wrong)
    }
}

/// The body of an answer, in one piece.
fn whole(answer: &Answer) -> String {
    if answer.headers.get("transfer-encoding").is_none_or(|coding| coding != "chunked") {
        return answer.body.clone();
    }
    let (mut body, mut rest) = (String::new(), answer.body.as_str());
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&more[..size]);
        rest = &more[size + 2..];
    }
    body
}

/// A part of a stream.
fn part(stream: usize, number: usize) -> String {
    format!("[{stream}/{number}]").repeat(2_000)
}

/// The file that an error names for a damaged one.
fn named(file: &Path) -> PathBuf {
    // The second name of a journal stands for the first one: docs/guide/store.md.
    match file.strip_prefix("store/journals") {
        Ok(journal) => Path::new("store/fjall").join(journal),
        Err(_) => file.to_owned(),
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// A bit, at a part of the content.
    Flipped(u64),
    CutToHalf,
    Emptied,
    Removed,
}

const CHANGES: [Change; 6] = [
    Change::Flipped(0),
    Change::Flipped(50),
    Change::Flipped(100),
    Change::CutToHalf,
    Change::Emptied,
    Change::Removed,
];

impl Change {
    /// Changes a file. False if that makes no difference.
    fn make(self, path: &Path) -> bool {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        let content = fs::read(path).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64);
        match self {
            _ if length == 0 && !matches!(self, Self::Removed) => return false,
            Self::Flipped(percent) => {
                let at = end * percent / 100;
                let byte = content[usize::try_from(at).unwrap()] ^ 0x04;
                file.write_all_at(&[byte], at).unwrap();
            }
            Self::CutToHalf => file.set_len(length / 2).unwrap(),
            Self::Emptied => file.set_len(0).unwrap(),
            Self::Removed => fs::remove_file(path).unwrap(),
        }
        true
    }
}

/// Changes every file in every way. Gives how often a server was refused, had everything, and had
/// everything but one held value.
async fn damage_list(site: &Acknowledged) -> (usize, usize, usize) {
    let data = site.site.folder().join("data");
    let (mut counts, mut unnamed) = ((0, 0, 0), Vec::new());
    for path in files(&data) {
        let name = path.strip_prefix(&data).unwrap();
        for change in CHANGES {
            let copied = TempDir::new().unwrap();
            let folder = copied.path().join("data");
            copy(&data, &folder);
            if !change.make(&folder.join(name)) {
                continue;
            }
            let about = format!("{} {change:?}", name.display());
            match site.compare(&folder).await {
                Err(error) => {
                    let file = folder.join(named(name)).display().to_string();
                    let mut words = error.split_whitespace();
                    let is_named = words.any(|word| word.trim_end_matches([',', ':', ';']) == file);
                    if !is_named {
                        unnamed.push(format!("{about}: {error}"));
                    }
                    counts.0 += 1;
                }
                Ok(wrong) if wrong.is_empty() => counts.1 += 1,
                Ok(wrong) => {
                    // An error, not another value.
                    let is_refused = |wrong: &str| {
                        let status = wrong.strip_prefix("long-").and_then(|rest| rest.get(3..4));
                        status.is_some_and(|digit| digit != "2")
                    };
                    let is_one = wrong.len() == 1 && is_refused(&wrong[0]);
                    assert!(name.starts_with("held") && is_one, "{about}: {wrong:?}");
                    counts.2 += 1;
                }
            }
        }
    }
    assert!(unnamed.is_empty(), "errors that do not name the file:\n{}", unnamed.join("\n"));
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_damage_list_of_a_small_data_directory_loses_nothing_in_silence() {
    let site = Acknowledged::new(EmbeddedOptions::new()).await;
    let (refused, whole, held) = damage_list(&site).await;
    assert!(refused > 60 && whole > 5 && held >= 8, "{refused} {whole} {held}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_damage_list_of_a_data_directory_with_tables_loses_nothing_in_silence() {
    let site = Acknowledged::new(EmbeddedOptions::new().memtable_bytes(64 << 10)).await;
    let tables = files(&site.site.folder().join("data/store/fjall/keyspaces"));
    let tables = tables.iter().filter(|path| path.parent().unwrap().ends_with("tables"));
    assert!(tables.count() > 2, "nothing was flushed");
    let (refused, whole, held) = damage_list(&site).await;
    assert!(refused > 80 && whole > 5 && held >= 8, "{refused} {whole} {held}");
}
