//! Lines to servers of our own making.

use std::time::Duration;

use bytes::Bytes;
use handback_gateway::upstream::{
    Answer, Ask, Heard, Line, LineError, Opening, Place, Raw, Spec, StartLimits, StderrUse,
};
use handback_page::json::ByteSource as _;
use rustix::process::Pid;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What an upstream here may do.
pub(crate) fn spec(place: Place) -> Spec {
    Spec {
        name: "peer".to_owned(),
        place,
        time_limit: LONG,
        answer_bytes_max: 256 << 20,
        memory_bytes_max: 1 << 20,
        spool: std::env::temp_dir(),
        is_shared: false,
        withheld: Vec::new(),
        passes_marks: false,
        start: StartLimits::default(),
        stderr: StderrUse::default(),
    }
}

/// A program that does what it is told, and should not.
pub(crate) const PEER: &str = "tests/it/peers/peer.py";

/// The upstream that this program is.
pub(crate) fn peer() -> Spec {
    spec(Place::Command {
        program: "python3".to_owned(),
        args: vec!["-u".to_owned(), PEER.to_owned()],
        env: Vec::new(),
    })
}

/// How a line of the older era begins.
pub(crate) fn legacy() -> Opening {
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    Opening::Legacy { initialize: Bytes::from(initialize.to_string()) }
}

/// A line, and what comes over it by itself.
pub(crate) struct World {
    pub(crate) line: Line,
    pub(crate) spontaneous: mpsc::Receiver<Heard>,
}

impl World {
    pub(crate) async fn open(spec: &Spec, opening: Opening) -> Result<Self, LineError> {
        let (sender, spontaneous) = mpsc::channel(16);
        Ok(Self { line: Line::open(spec, opening, sender).await?, spontaneous })
    }

    /// Asks, and reads the answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, LineError> {
        let answer = self.line.ask(ask(method, params)).await?;
        Ok(serde_json::from_slice(&result(answer)).unwrap())
    }

    pub(crate) async fn next(&mut self) -> Heard {
        tokio::time::timeout(LONG, self.spontaneous.recv()).await.unwrap().unwrap()
    }
}

pub(crate) fn ask(method: &str, params: Value) -> Ask {
    Ask {
        method: method.to_owned(),
        params: Some(Bytes::from(params.to_string())),
        headers: Vec::new(),
        heard: None,
        subscription: None,
        time_limit: None,
        owner: None,
    }
}

/// The same, with somebody who hears.
pub(crate) fn ask_heard(method: &str, params: Value) -> (Ask, mpsc::Receiver<Heard>) {
    let (sender, receiver) = mpsc::channel(16);
    (Ask { heard: Some(sender), ..ask(method, params) }, receiver)
}

/// The bytes of a result.
pub(crate) fn result(answer: Answer) -> Vec<u8> {
    let Answer::Result(raw) = answer else { panic!("a result: {answer:?}") };
    bytes(&raw)
}

pub(crate) fn bytes(raw: &Raw) -> Vec<u8> {
    raw.read(0..raw.size_bytes()).unwrap().into_owned()
}

/// A notification that was heard.
pub(crate) fn notification(heard: Option<Heard>) -> (String, Value) {
    match heard {
        Some(Heard::Notification { method, params }) => {
            (method, params.map_or(Value::Null, |json| serde_json::from_slice(&json).unwrap()))
        }
        other => panic!("a notification: {other:?}"),
    }
}

/// Whether there is no answer to a request that may have been taken up, since its program is gone.
pub(crate) fn is_lost(why: &LineError) -> bool {
    matches!(why, LineError::Lost | LineError::Ended(_))
}

/// The process that a program said it is.
pub(crate) fn process(pid: &Value) -> Pid {
    Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap()
}

/// Waits until a process is gone, whether somebody asked what became of it or not.
pub(crate) async fn ended(process: Pid) {
    let is_there = || {
        let path = format!("/proc/{}/stat", process.as_raw_nonzero());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // Behind its name, which is in brackets.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    let ended = async {
        while is_there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.unwrap();
}
