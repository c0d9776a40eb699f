//! The task behind a duplex: one connection after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::core::Core;
use super::socket::Trouble;
use super::status::{Finished, Phase};
use super::{DuplexError, DuplexOptions, Event};
use crate::http::Http;
use crate::state::Ended;

/// Events that wait for the application at most: a commit is sent whole, whatever the credit is.
pub(super) const READY_MAX: usize = 100_000;

/// Attempts of our own that were not answered, and may still reach the server after the next one:
/// then that one is superseded, though by nobody else.
const GHOSTS_MAX: u32 = 4;

pub(super) struct Driver {
    pub(super) core: Arc<Core>,
    pub(super) options: DuplexOptions,
    pub(super) http: Http,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) events: mpsc::Sender<Event>,
    /// Events that there was no room for yet.
    pub(super) ready: VecDeque<Event>,
    /// Whether a server has welcomed this duplex.
    pub(super) is_welcomed: bool,
    pub(super) last_welcome: Instant,
    /// Whether the last connection brought anything.
    pub(super) is_moving: bool,
}

impl Driver {
    pub(super) async fn run(mut self) {
        let mut outcome = self.drive().await;
        let noted = match &outcome {
            Ok(finished) => self.core.over(finished).await,
            Err(why) => self.note(why).await,
        };
        // What could not be cleared is found again later, and is finished then.
        if let (Ok(_), Err(why)) = (&outcome, noted) {
            outcome = Err(why);
        }
        self.core.finish(outcome);
        for event in self.ready.drain(..) {
            if self.events.send(event).await.is_err() {
                return;
            }
        }
    }

    /// Notes that there is nothing to resume, where that is so.
    async fn note(&self, why: &DuplexError) -> Result<(), DuplexError> {
        let ended = match why {
            DuplexError::Superseded => Ended::Superseded,
            DuplexError::Expired => Ended::Expired,
            DuplexError::Invalid => Ended::Invalid,
            DuplexError::Refused { .. }
            | DuplexError::Misbehaved(_)
            | DuplexError::Unproved(_)
            | DuplexError::RolledBack { .. }
            | DuplexError::NotOpened { .. } => Ended::Failed,
            _ => return Ok(()),
        };
        self.core.ended(ended).await
    }

    async fn drive(&mut self) -> Result<Finished, DuplexError> {
        let give_up = Duration::from_millis(self.options.settings.retry_lookback_window_ms);
        let mut attempts = 0;
        let mut ghosts = 0;
        loop {
            self.is_moving = false;
            let welcomed = self.last_welcome;
            self.core.tell(|status| {
                status.phase = Phase::Connecting;
                status.attempts = attempts;
            });
            let (after, why) = match self.connection().await {
                Ok(finished) => return Ok(finished),
                Err(Trouble::Fatal(DuplexError::Superseded)) if ghosts > 0 => {
                    ghosts -= 1;
                    (None, "an earlier attempt arrived late".to_owned())
                }
                Err(Trouble::Fatal(why)) => return Err(why),
                Err(Trouble::Again { after, why }) => (after, why),
            };
            if self.last_welcome == welcomed {
                ghosts = GHOSTS_MAX.min(ghosts + 1);
            }
            if !self.options.idempotent && self.is_welcomed {
                return Err(DuplexError::Cut(why));
            }
            if self.last_welcome.elapsed() > give_up {
                return Err(DuplexError::Unreachable(why));
            }
            attempts = if self.is_moving { 0 } else { attempts + 1 };
            let wait = self.wait(attempts.saturating_sub(1), after);
            self.core.tell(|status| {
                status.phase = Phase::Waiting;
                status.attempts = attempts;
                status.retry_in = Some(wait);
                status.last_error = Some(why);
            });
            self.pause(wait).await?;
        }
    }

    pub(super) fn wait(&self, attempts: u32, hint: Option<Duration>) -> Duration {
        self.options.backoff.wait(attempts, hint, &mut rand::rng())
    }

    /// Waits, and hands out what is there meanwhile.
    async fn pause(&mut self, wait: Duration) -> Result<(), DuplexError> {
        let waited = sleep(wait);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => return Ok(()),
                permit = self.events.reserve(), if !self.ready.is_empty() => {
                    let permit = permit.map_err(|_| DuplexError::Stopped)?;
                    if let Some(event) = self.ready.pop_front() {
                        permit.send(event);
                    }
                }
            }
        }
    }
}
