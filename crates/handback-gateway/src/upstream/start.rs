//! The start of a program whose era is not known.
//!
//! It gets `server/discover` first. Without an answer within [`StartLimits::discovery`], or with an error, the
//! same process gets `initialize` as well, and its era is that of the request that it accepts:
//!
//! | `server/discover` | `initialize` | era |
//! |---|---|---|
//! | result | not sent | newer |
//! | error, nothing, or a late result | result | older: a server that greeted a client keeps to that |
//! | late result | error | newer |
//! | late result | nothing within [`StartLimits::discovery`] after it | newer |
//! | error | error | none; a new process gets `initialize` first |
//! | the process ends | | none; a new process gets `initialize` first |
//!
//! A request of ours that comes back is no answer: see `ECHO` in `stdio`.

use std::time::Duration;

use bytes::Bytes;
use handback_mcp::Era;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};

use super::stdio::{ECHO, Stdio};
use super::{Answer, Ask, LineError, REVISION, Raw, Spec, own_params};

#[cfg(doc)]
use super::StartLimits;

/// The order of the first requests to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `server/discover`, and `initialize` after this time.
    Discover(Duration),
    /// `initialize`, and `server/discover` where that is refused.
    Initialize,
}

/// The era of a program, and its answer to the request that it accepted.
pub(super) type Begun = (Era, Bytes);

/// A start that failed.
pub(super) struct Failed {
    pub(super) why: LineError,
    /// Whether a new process may do better that is asked in the other order.
    pub(super) is_of_order: bool,
}

impl From<LineError> for Failed {
    fn from(why: LineError) -> Self {
        Self { why, is_of_order: false }
    }
}

const DISCOVER: &str = "server/discover";

/// Finds the era of a program, within a limit.
pub(super) async fn begin(
    stdio: &Stdio,
    initialize: Bytes,
    order: Order,
    limit: Duration,
) -> Result<Begun, Failed> {
    let begun = async {
        match order {
            Order::Discover(patience) => discover_first(stdio, initialize, patience, limit).await,
            Order::Initialize => initialize_first(stdio, initialize, limit).await,
        }
    };
    let begun = timeout(limit, begun).await.unwrap_or(Err(LineError::TimedOut.into()));
    if let Ok((era, _)) = &begun {
        stdio.ears().settle(*era);
    }
    begun
}

async fn discover_first(
    stdio: &Stdio,
    initialize: Bytes,
    patience: Duration,
    limit: Duration,
) -> Result<Begun, Failed> {
    let mut discovery = std::pin::pin!(discovered(stdio, limit));
    let mut is_discovering = true;
    match timeout(patience, &mut discovery).await {
        Ok(Ok(Some(hello))) => return Ok((Era::Modern, hello)),
        Ok(Ok(None)) => is_discovering = false,
        // It may have ended over the method.
        Ok(Err(why)) => return Err(Failed { is_of_order: has_ended(&why), why }),
        Err(_) => {
            tracing::info!(upstream = %stdio.ears().name(), "no answer to `server/discover` yet");
        }
    }
    let mut greeting = std::pin::pin!(stdio.begin(initialize, limit));
    let mut refused = None;
    let mut newer: Option<(Bytes, Instant)> = None;
    loop {
        let given_up = newer.as_ref().map(|(_, until)| *until);
        tokio::select! {
            biased;
            greeted = &mut greeting, if refused.is_none() => match (greeted, newer.take()) {
                (Ok(hello), _) => return Ok((Era::Legacy, hello)),
                (Err(why), Some((hello, _))) if is_refusal(&why) => {
                    tracing::debug!(%why, "`initialize` is refused");
                    return Ok((Era::Modern, hello));
                }
                (Err(why), None) if is_refusal(&why) && is_discovering => refused = Some(why),
                (Err(why), _) => {
                    return Err(Failed { is_of_order: is_refusal(&why) || has_ended(&why), why });
                }
            },
            found = &mut discovery, if is_discovering => {
                is_discovering = false;
                match (found, refused.take()) {
                    (Ok(Some(hello)), Some(_)) => return Ok((Era::Modern, hello)),
                    (Ok(Some(hello)), None) => newer = Some((hello, Instant::now() + patience)),
                    (Ok(None), Some(why)) => return Err(Failed { why, is_of_order: true }),
                    (Ok(None), None) => {}
                    (Err(why), _) => return Err(Failed { is_of_order: has_ended(&why), why }),
                }
            }
            () = sleep_until(given_up.unwrap_or_else(Instant::now)), if given_up.is_some() => {
                if let Some((hello, _)) = newer.take() {
                    return Ok((Era::Modern, hello));
                }
            }
        }
    }
}

async fn initialize_first(
    stdio: &Stdio,
    initialize: Bytes,
    limit: Duration,
) -> Result<Begun, Failed> {
    match stdio.begin(initialize, limit).await {
        Ok(hello) => Ok((Era::Legacy, hello)),
        Err(why) if is_refusal(&why) => match discovered(stdio, limit).await {
            Ok(Some(hello)) => Ok((Era::Modern, hello)),
            Ok(None) => Err(why.into()),
            Err(ended) => Err(ended.into()),
        },
        Err(why) => Err(Failed { is_of_order: has_ended(&why), why }),
    }
}

/// The result of `server/discover`, if there is a valid one.
async fn discovered(stdio: &Stdio, limit: Duration) -> Result<Option<Bytes>, LineError> {
    let ask = Ask {
        method: DISCOVER.to_owned(),
        params: Some(own_params(Era::Modern, None)),
        headers: Vec::new(),
        heard: None,
        subscription: None,
        time_limit: None,
        owner: None,
    };
    match stdio.ask(ask, limit).await {
        Ok(Answer::Result(Raw::Memory(hello))) => {
            Ok(Some(hello).filter(|hello| has_revision(hello)))
        }
        Ok(_) => Ok(None),
        // Nothing that does anything was requested.
        Err(LineError::Ended(cause)) => Err(LineError::Unreachable(cause)),
        Err(why) => Err(why),
    }
}

/// Whether the result of `server/discover` has the revision of this gateway.
fn has_revision(hello: &[u8]) -> bool {
    let hello: Option<Map<String, Value>> = serde_json::from_slice(hello).ok();
    let versions = hello.as_ref().and_then(|hello| hello.get("supportedVersions")?.as_array());
    versions.is_some_and(|versions| versions.iter().any(|version| version == REVISION))
}

const fn is_refusal(why: &LineError) -> bool {
    matches!(why, LineError::Era | LineError::Protocol(_))
}

/// Whether the process ended by itself. One that sends back what it is sent does so in any order.
fn has_ended(why: &LineError) -> bool {
    match why {
        LineError::Unreachable(cause) => cause != ECHO,
        why => *why == LineError::Lost,
    }
}

/// A failure of a start in words, with the last lines on standard error.
pub(super) async fn cause(stdio: &Stdio, spec: &Spec, why: LineError) -> LineError {
    match why {
        LineError::TimedOut => {
            let time = spec.start.total.as_secs();
            stdio.with_tail(format!("it did not answer within {time} s of its start")).await
        }
        LineError::Protocol(why) => stdio.with_tail(why.to_owned()).await,
        why => why,
    }
}
