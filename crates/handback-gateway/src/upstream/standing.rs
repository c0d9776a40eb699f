//! The session of a line of the older era: its standing stream, and its end.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use tokio::time::{sleep, timeout};

use super::LineError;
use super::events::Events;
use super::faults::Fault;
use super::http::{RETRY, RETRY_MAX, Shared};
use super::said::{Said, Unsaid};

/// How long ending a session may take. Nobody waits for it, and it ends by itself some day.
const END_TIME: Duration = Duration::from_secs(5);

/// Keeps a session until nobody wants it or it is gone, and ends it.
pub(super) async fn keep(shared: Arc<Shared>) {
    tokio::select! {
        biased;
        () = shared.closing.cancelled() => {}
        () = listen(&shared) => shared.closing.cancelled().await,
    }
    if shared.is_known() {
        let mut headers = shared.headers().clone();
        headers.remove(CONTENT_TYPE);
        // An upstream may not allow it.
        let _ = timeout(END_TIME, shared.request(Method::DELETE, headers)).await;
    }
    shared.closed.cancel();
}

/// Listens to what the upstream says by itself, as long as it lets.
async fn listen(shared: &Arc<Shared>) {
    let mut last = None;
    let mut retry = None;
    let mut failures = 0_u32;
    loop {
        match shared.stream(last.as_ref()).await {
            Ok(body) => {
                let mut events = Events::new(body, &shared.limits, None);
                shared.standing.send_replace(true);
                match hear(shared, &mut events).await {
                    // It said something, so that it is worth trying again soon.
                    0 => failures += 1,
                    _ => failures = 0,
                }
                shared.standing.send_replace(false);
                last = events.last.or(last);
                retry = events.retry.or(retry);
            }
            // It has no such stream, or none for us.
            Err(LineError::Refused(_) | LineError::Protocol(_) | LineError::Encoding(_)) => return,
            Err(why) => {
                tracing::debug!(upstream = %shared.ears.name(), %why, "there is no standing stream");
                failures += 1;
            }
        }
        if shared.closing.is_cancelled() {
            return;
        }
        let pause = RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10));
        sleep(retry.map_or(pause, |retry| pause.max(retry)).min(RETRY_MAX)).await;
    }
}

/// Hears what comes over a stream, to its end. Returns how many messages that were.
async fn hear(shared: &Arc<Shared>, events: &mut Events) -> usize {
    let mut heard = 0;
    loop {
        let whole = match events.next().await {
            Ok(Some(whole)) => whole,
            Ok(None) | Err(LineError::Lost) => return heard,
            Err(_) => {
                shared.ears.faults.note(Fault::TooLarge);
                return heard;
            }
        };
        match Said::of(whole) {
            Ok(said) => {
                heard += 1;
                shared.ears.faults.good();
                if let Some(reply) = shared.ears.hear(said) {
                    shared.say_aside(reply);
                }
            }
            Err(Unsaid::TooLarge(_)) => shared.ears.faults.note(Fault::TooLarge),
            Err(Unsaid::TooLargeRequest(id)) => shared.say_aside(shared.ears.too_large(&id)),
            Err(Unsaid::Malformed) if shared.ears.faults.malformed() => {
                tracing::warn!(upstream = %shared.ears.name(), "it does not speak the protocol");
                shared.close();
                return heard;
            }
            Err(Unsaid::Malformed) => {}
        }
    }
}
