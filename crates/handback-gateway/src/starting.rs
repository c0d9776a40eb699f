//! Requests that wait for the start of an upstream.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use crate::gateway::Gateway;
use crate::session::progress_token;
use crate::talk::{Talk, ToClient};

/// Time until a client is told that its request waits. Most servers are there before.
const FIRST_PROGRESS: Duration = Duration::from_secs(1);

/// Time between two notifications after that: clients that wait for progress give up after 60 s or more.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Progress of one notification. The server counts its own work from 0 or 1, and progress may only grow.
const STEP: f64 = 0.001;

/// Waits for an upstream to be there. Where the parameters of the request have a progress token, its client
/// gets progress with this message meanwhile.
pub(crate) async fn with_progress<T>(
    talk: &Talk,
    params: Option<&[u8]>,
    message: &str,
    opening: impl Future<Output = T>,
) -> T {
    let mut opening = std::pin::pin!(opening);
    let Some(token) = params.and_then(progress_token) else { return opening.await };
    let mut pause = FIRST_PROGRESS;
    let mut steps = 0_u32;
    loop {
        tokio::select! {
            biased;
            opened = &mut opening => return opened,
            () = sleep(pause) => {}
        }
        (pause, steps) = (PROGRESS_EVERY, steps.saturating_add(1));
        let progress = f64::from(steps) * STEP;
        let params = json!({"progressToken": token, "progress": progress, "message": message});
        let method = "notifications/progress".to_owned();
        let params = Some(params.to_string().into());
        // A client that takes nothing is not waited for.
        let _ = talk.out.try_send(ToClient::Notification { method, params });
    }
}

/// Waits for upstreams that are starting, of those that have never listed anything. Returns whether one of
/// them came up: a name that nobody has may be its own.
pub(crate) async fn came_up(gateway: &Gateway, talk: &Talk, unlisted: Vec<usize>) -> bool {
    let late = &gateway.common_catalogs().late;
    let is_hopeful = |which: &usize| !late.unstarted().contains(which);
    let starts = unlisted.into_iter().filter(is_hopeful).map(async |which| {
        let mut line = std::pin::pin!(gateway.line(talk, which));
        // One that is there, and only says nothing, is not starting.
        if futures_util::poll!(&mut line).is_ready() {
            return false;
        }
        if line.await.is_err() {
            late.unstarted().insert(which);
            return false;
        }
        // It answers now what it did not answer before.
        late.forget(which);
        if let Some(session) = &talk.session {
            session.catalogs.late.forget(which);
        }
        true
    });
    join_all(starts).await.into_iter().any(|came_up| came_up)
}
