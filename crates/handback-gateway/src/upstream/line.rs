//! One connection to an upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::server::McpServer;
use handback_mcp::wire::Id;
use handback_tool::{Charge, Exhausted};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ears::Ears;
use super::http::Http;
use super::sanitize::{Origin, has_descriptions};
use super::spool::Limits;
use super::stdio::Stdio;
use super::{Ending, Order, Place, Raw, Spec, frame, start};

/// How a line is begun.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has two eras, and a bridge")]
pub enum Opening {
    /// Nothing is agreed beforehand: every question says what it needs in its `_meta`.
    Modern,
    /// With `initialize`, whose parameters these are, as JSON; then `notifications/initialized`.
    Legacy {
        /// The parameters.
        initialize: Bytes,
    },
    /// The same for a client of the newer era, who can be asked something in a call, and else nothing.
    Bridged {
        /// The parameters.
        initialize: Bytes,
    },
}

/// A question.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Ask {
    /// The method.
    pub method: String,
    /// The JSON of its parameters.
    pub params: Option<Bytes>,
    /// Headers that the protocol demands over HTTP, such as `Mcp-Param-*`, with their plain values:
    /// what a header cannot carry is encoded here. One that is here twice is sent twice. `Mcp-Method` is always added, and `Mcp-Name` if it
    /// is not here and demanded.
    pub headers: Vec<(String, String)>,
    /// Where what comes before the answer goes. Without it, that is dropped, and requests of the
    /// upstream are refused. It is to be received while the answer is waited for: on a line that
    /// others share, what does not fit is dropped, and a subscription ends.
    pub heard: Option<mpsc::Sender<Heard>>,
    /// For `subscriptions/listen`: the JSON that stands for the id of the subscription in what is
    /// heard of it and in its answer. Without it, that is a number of the line's own.
    pub subscription: Option<Bytes>,
    /// How long the answer may take; the upstream's own limit if nothing is said.
    pub time_limit: Option<Duration>,
    /// The caller of the request. Log messages that name no request go to a request of the one caller
    /// that asked for them.
    pub owner: Option<Arc<str>>,
}

/// What comes before the answer to a question, and belongs to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Heard {
    /// Something to be heard.
    Notification {
        /// What is said.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
    /// Something to be answered with [`Line::answer`].
    Request {
        /// What the answer is told by.
        id: Id<'static>,
        /// What is asked.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
}

/// What comes from an upstream and belongs to no question.
pub type Spontaneous = Heard;

/// The answer to a question.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no third answer")]
pub enum Answer {
    /// The JSON of the result.
    Result(Raw),
    /// The JSON of the error object.
    Error(Bytes),
}

/// The resource of [`LineError::OverQuota`], as errors and the audit name it.
pub(crate) const PROGRAMS: &str = "programs of upstreams";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It could not be reached, so that nothing was asked.
    #[error("the upstream cannot be reached: {0}")]
    Unreachable(String),
    /// It may have been asked, and did not answer.
    #[error("the upstream went away before it answered")]
    Lost,
    /// The same of a program, with the cause of its end.
    #[error("the upstream went away before it answered: {0}")]
    Ended(String),
    /// It was asked, and the call given up while it waited for an answer of its client.
    #[error("the call was given up while it waited for an answer")]
    GivenUp,
    /// It took longer than it may.
    #[error("the upstream took longer than it may")]
    TimedOut,
    /// The answer is larger than it may be.
    #[error("the answer of the upstream is larger than it may be")]
    TooLarge,
    /// The answer is large, and could not be set aside.
    #[error("the answer of the upstream could not be set aside")]
    Disk,
    /// It refused to be asked, with this status of HTTP.
    #[error("the upstream refused to be asked, with status {0}")]
    Refused(u16),
    /// Its answer is in this `Content-Encoding`, which was not requested.
    #[error("the upstream answered in the Content-Encoding `{0}`, which was not requested")]
    Encoding(String),
    /// What it says is no answer.
    #[error("the upstream does not speak the protocol: {0}")]
    Protocol(&'static str),
    /// What it is asked about goes in headers, and is too long for that.
    #[error("arguments that the upstream wants in headers are too long for that")]
    Headers,
    /// It refused to be asked, because headers and message do not fit: with this error object.
    #[error("the upstream finds that the headers do not fit the message")]
    Mismatch(Bytes),
    /// It does not speak this era.
    #[error("the upstream does not speak this revision of the protocol")]
    Era,
    /// As many programs run as may, for the caller or for all.
    #[error("{}", .0.sentence(PROGRAMS))]
    OverQuota(Exhausted),
    /// As much is under way as may be.
    #[error("too much is under way at the upstream")]
    Busy,
}

impl LineError {
    pub(crate) fn closed() -> Self {
        Self::Unreachable("the line is closed".to_owned())
    }

    /// Why an upstream refuses the handshake, which it does with this error.
    pub(super) fn not_begun(error: &[u8]) -> Self {
        #[derive(serde::Deserialize)]
        struct Told {
            code: i64,
        }
        match serde_json::from_slice(error) {
            Ok(Told { code: METHOD_NOT_FOUND | UNSUPPORTED_VERSION }) => Self::Era,
            _ => Self::Protocol("it refused the handshake"),
        }
    }

    /// Whether the upstream has certainly not been asked.
    #[must_use]
    pub const fn nothing_happened(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Busy
            | Self::OverQuota(_)
            | Self::Era
            | Self::Headers
            | Self::Mismatch(_) => true,
            // Who asked is at fault: it was not made. One that took too long, or that met another one,
            // may have been, and so may one that a server or a proxy before it broke down over.
            Self::Refused(status) => matches!(*status, 300..=499) && !matches!(*status, 408 | 409),
            _ => false,
        }
    }
}

/// One connection to an upstream. Clones are the same one; with the last of them it ends.
#[derive(Clone, Debug)]
pub struct Line {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    way: Way,
    era: Era,
    hello: Option<Bytes>,
    time_limit: Duration,
    is_shared: bool,
    origin: Origin,
    limits: Arc<Limits>,
    opened: Instant,
}

/// The transports.
#[derive(Debug)]
enum Way {
    Stdio(Stdio),
    Http(Http),
}

impl Way {
    fn ears(&self) -> &Ears {
        match self {
            Self::Stdio(stdio) => stdio.ears(),
            Self::Http(http) => http.ears(),
        }
    }
}

impl Line {
    /// Opens a line. What belongs to no question goes to `spontaneous`; what does not fit into it is
    /// dropped, and requests are refused then.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it does not come about.
    pub async fn open(
        spec: &Spec,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Result<Self, LineError> {
        Self::open_under(spec, opening, spontaneous, &Ending::default(), None).await
    }

    /// Opens a line that ends with all others that are opened under the same. A program is counted by
    /// `charge` until it has ended.
    pub(crate) async fn open_under(
        spec: &Spec,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
        ending: &Ending,
        charge: Option<Charge>,
    ) -> Result<Self, LineError> {
        let era = era_of(&opening);
        let way = match &spec.place {
            Place::Command { .. } => {
                let lasting = (ending, charge.map(Arc::new));
                Way::Stdio(Stdio::start(spec, era, spontaneous, lasting)?)
            }
            Place::Http { url, headers } => {
                Way::Http(Http::new(spec, (url, headers), era, spontaneous, ending)?)
            }
        };
        let is_bridged = matches!(opening, Opening::Bridged { .. });
        if is_bridged {
            way.ears().only_in_calls();
        }
        let limit = spec.start.total;
        let hello = match (opening, &way) {
            (Opening::Modern, _) => None,
            (
                Opening::Legacy { initialize } | Opening::Bridged { initialize },
                Way::Stdio(stdio),
            ) => match stdio.begin(initialize, limit).await {
                Ok(hello) => Some(hello),
                // Its era was known: a program that refuses the handshake is another one than before.
                Err(LineError::Protocol(_)) if is_bridged => return Err(LineError::Era),
                Err(why) => return Err(start::cause(stdio, spec, why).await),
            },
            (Opening::Legacy { initialize } | Opening::Bridged { initialize }, Way::Http(http)) => {
                Some(http.begin(&initialize, limit).await?)
            }
        };
        Self::begun(spec, (way, era), hello, ending)
    }

    /// Starts a program whose era is not known, and opens a line in the era that it accepts. Where the
    /// process ends, or refuses, a new one gets the requests in the other order, if it `may_restart`.
    pub(crate) async fn open_either(
        spec: &Spec,
        initialize: &Bytes,
        (mut order, mut may_restart): (Order, bool),
        spontaneous: mpsc::Sender<Spontaneous>,
        (ending, charge): (&Ending, Option<Arc<Charge>>),
    ) -> Result<Self, LineError> {
        let until = Instant::now() + spec.start.total;
        loop {
            let lasting = (ending, charge.clone());
            let stdio = Stdio::start(spec, Era::Modern, spontaneous.clone(), lasting)?;
            if !spec.is_shared {
                stdio.ears().only_in_calls();
            }
            let left = until.saturating_duration_since(Instant::now());
            match start::begin(&stdio, initialize.clone(), order, left).await {
                Ok((era, hello)) => {
                    return Self::begun(spec, (Way::Stdio(stdio), era), Some(hello), ending);
                }
                Err(failed) if failed.is_of_order && may_restart && !ending.is_over() => {
                    tracing::info!(upstream = %spec.name, why = %failed.why, "it is started again");
                    (order, may_restart) = (Order::Initialize, false);
                }
                Err(failed) => return Err(start::cause(&stdio, spec, failed.why).await),
            }
        }
    }

    fn begun(
        spec: &Spec,
        (way, era): (Way, Era),
        hello: Option<Bytes>,
        ending: &Ending,
    ) -> Result<Self, LineError> {
        let (origin, limits) = (spec.origin(), Limits::of(spec, ending.aside()));
        let hello = hello.map(|hello| origin.hello(hello)).transpose()?;
        let is_shared = spec.is_shared && era == Era::Legacy;
        let hello = if is_shared { hello.map(without_what_is_for_all) } else { hello };
        let time_limit = spec.time_limit;
        let opened = Instant::now();
        let inner = Inner { way, era, hello, time_limit, is_shared, origin, limits, opened };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A line to our own tools, in this process, for one caller.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it does not come about.
    pub async fn open_own(
        server: &McpServer,
        caller: &Caller,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Result<Self, LineError> {
        let era = era_of(&opening);
        let (ours, theirs) = tokio::io::duplex(OWN_BYTES_WAITING);
        let server = server.clone().for_caller(caller.clone());
        tokio::spawn(async move {
            if let Err(error) = server.serve_io(tokio::io::split(theirs)).await {
                tracing::debug!(%error, "our own tools were left");
            }
        });
        let stdio = Stdio::over(OWN, tokio::io::split(ours), era, spontaneous);
        let hello = match opening {
            Opening::Modern => None,
            Opening::Legacy { initialize } | Opening::Bridged { initialize } => {
                Some(stdio.begin(initialize, OWN_TIME_LIMIT).await?)
            }
        };
        let (way, time_limit) = (Way::Stdio(stdio), OWN_TIME_LIMIT);
        let (origin, limits) = (Origin::Handback, Limits::in_process());
        let (is_shared, opened) = (false, Instant::now());
        let inner = Inner { way, era, hello, time_limit, is_shared, origin, limits, opened };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A line of the older era to whoever is at the other end of a pipe, for a client of the newer one.
    #[cfg(test)]
    pub(crate) fn bridged(pipe: tokio::io::DuplexStream) -> Self {
        let (spontaneous, _) = mpsc::channel(1);
        let era = Era::Legacy;
        let stdio = Stdio::over("test", tokio::io::split(pipe), era, spontaneous);
        stdio.ears().only_in_calls();
        let (way, time_limit) = (Way::Stdio(stdio), OWN_TIME_LIMIT);
        let (origin, limits) = (Origin::Upstream, Limits::in_process());
        let hello = None;
        let (is_shared, opened) = (false, Instant::now());
        let inner = Inner { way, era, hello, time_limit, is_shared, origin, limits, opened };
        Self { inner: Arc::new(inner) }
    }

    /// Whether another one is the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The era that is spoken on it.
    #[must_use]
    pub fn era(&self) -> Era {
        self.inner.era
    }

    /// Whether what is asked on it has headers that say some of it once more.
    pub(crate) fn has_headers(&self) -> bool {
        matches!(self.inner.way, Way::Http(_)) && self.inner.era == Era::Modern
    }

    /// Whether it is of the older era, and several callers are on it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.inner.is_shared
    }

    /// The result of `initialize`, in the older era; in the newer one that of `server/discover`, where the
    /// line began with it.
    #[must_use]
    pub fn hello(&self) -> Option<&Bytes> {
        self.inner.hello.as_ref()
    }

    /// Asks. Whoever drops the future does not want the answer any more, and the upstream is told so.
    ///
    /// # Errors
    ///
    /// [`LineError`] if there is no answer.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, LineError> {
        let limit = ask.time_limit.unwrap_or(self.inner.time_limit);
        let has_descriptions = has_descriptions(&ask.method);
        let Inner { way, origin, limits, .. } = &*self.inner;
        let answer = match way {
            Way::Stdio(stdio) => stdio.ask(ask, limit).await,
            Way::Http(http) => http.ask(ask, limit).await,
        };
        match answer {
            Ok(answer) if origin.is_plain(has_descriptions, &answer) => Ok(answer),
            Ok(answer) => Box::pin(origin.answer(has_descriptions, answer, limits)).await,
            Err(LineError::Mismatch(error)) => Err(LineError::Mismatch(origin.error(error)?)),
            Err(why) => Err(why),
        }
    }

    /// Says something that is not answered.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it could not be said.
    pub async fn tell(&self, method: &str, params: Option<Bytes>) -> Result<(), LineError> {
        self.say(Some(method), frame::notification(method, params.as_deref())).await
    }

    /// Answers a request of the upstream: with the JSON of a result, or of an error object.
    ///
    /// # Errors
    ///
    /// [`LineError`] if it could not be said.
    pub async fn answer(
        &self,
        id: Id<'static>,
        with: Result<Bytes, Bytes>,
    ) -> Result<(), LineError> {
        let with = with.as_ref().map(|json| json.as_ref()).map_err(|json| json.as_ref());
        self.say(None, frame::answer(&id, with)).await
    }

    /// Whether nothing can be asked on it any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.inner.way {
            Way::Stdio(stdio) => stdio.is_closing(),
            Way::Http(http) => http.is_closing(),
        }
    }

    /// The time at which the line came about.
    pub(crate) fn opened(&self) -> Instant {
        self.inner.opened
    }

    /// The number of clones of the line.
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.inner)
    }

    /// Resolves when what the upstream says by itself is heard, or is not: a program is always heard, and
    /// over HTTP there is a stream for it, or there is none.
    pub(crate) async fn hears(&self, does: bool) {
        match &self.inner.way {
            Way::Stdio(_) if does => {}
            Way::Stdio(_) => std::future::pending().await,
            Way::Http(http) => http.hears(does).await,
        }
    }

    /// Resolves when the line is gone for good.
    pub async fn closed(&self) {
        match &self.inner.way {
            Way::Stdio(stdio) => stdio.closed().await,
            Way::Http(http) => http.closed().await,
        }
    }

    async fn say(&self, method: Option<&str>, message: Vec<u8>) -> Result<(), LineError> {
        match &self.inner.way {
            Way::Stdio(stdio) => stdio.say(message),
            Way::Http(http) => http.say(method, message, self.inner.time_limit).await,
        }
    }
}

/// Leaves out of what an upstream says of itself what it cannot do where several callers are on the
/// line: say something to one of them without being asked, or remember something for one.
fn without_what_is_for_all(hello: Bytes) -> Bytes {
    let Ok(mut told) = serde_json::from_slice::<Map<String, Value>>(&hello) else { return hello };
    let Some(Value::Object(capabilities)) = told.get_mut("capabilities") else { return hello };
    capabilities.remove("logging");
    capabilities.remove("tasks");
    for about in ["tools", "prompts", "resources"] {
        if let Some(Value::Object(about)) = capabilities.get_mut(about) {
            about.remove("listChanged");
            about.remove("subscribe");
        }
    }
    Value::Object(told).to_string().into()
}

/// Bytes that wait between us and our own tools.
const OWN_BYTES_WAITING: usize = 64 << 10;

/// The name of our own tools in the log.
const OWN: &str = "handback";

/// How long our own tools may take: longer than any of them may by itself.
const OWN_TIME_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

const fn era_of(opening: &Opening) -> Era {
    match opening {
        Opening::Modern => Era::Modern,
        Opening::Legacy { .. } | Opening::Bridged { .. } => Era::Legacy,
    }
}

/// There is no such method: how a server of the newer era refuses the handshake.
const METHOD_NOT_FOUND: i64 = -32601;

/// The version is not spoken: how a server of the newer era may refuse it too.
const UNSUPPORTED_VERSION: i64 = -32022;

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::LineError::Refused;
    use super::*;
    use crate::upstream::{StartLimits, StderrUse};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_program_is_not_started_again_once_the_end_has_begun() {
        let file = std::env::temp_dir().join(format!("handback-starts-{}", std::process::id()));
        let script = format!("echo started >> {}; while read -r _; do :; done", file.display());
        let (program, args) = ("sh".to_owned(), vec!["-c".to_owned(), script]);
        let spec = Spec {
            name: "peer".to_owned(),
            place: Place::Command { program, args, env: Vec::new() },
            time_limit: OWN_TIME_LIMIT,
            start: StartLimits::default(),
            stderr: StderrUse::Logged,
            answer_bytes_max: 1 << 20,
            memory_bytes_max: 1 << 16,
            spool: std::env::temp_dir(),
            is_shared: false,
            withheld: Vec::new(),
            passes_marks: false,
        };
        let (ending, initialize) = (Ending::default(), Bytes::from_static(b"{}"));
        let (spontaneous, _heard) = mpsc::channel(1);
        let order = (Order::Discover(OWN_TIME_LIMIT), true);
        let opened = Line::open_either(&spec, &initialize, order, spontaneous, (&ending, None));
        let ended = async {
            while !file.exists() {
                sleep(Duration::from_millis(5)).await;
            }
            ending.end(std::future::pending()).await;
        };
        let (opened, ()) = tokio::join!(opened, ended);
        assert!(opened.is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "started\n");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn who_broke_down_may_have_done_it() {
        for status in [408, 409, 500, 502, 503, 504] {
            assert!(!Refused(status).nothing_happened(), "{status}");
        }
        for status in [301, 400, 401, 403, 404, 405, 406, 413, 415, 429] {
            assert!(Refused(status).nothing_happened(), "{status}");
        }
    }
}
