//! Commands that wait to be written.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use handback_stream::{Command, Reply};
use tokio::sync::oneshot;

use super::driver::{NotTaken, lock};

/// Bytes of commands that may wait for the writer: what a second of writing clears.
pub const WAITING_BYTES_MAX: usize = 64 << 20;

/// What a command counts besides its payload.
pub const COMMAND_BYTES: usize = 512;

/// Bytes of commands that go into one commit.
const COMMIT_BYTES_MAX: usize = 8 << 20;

/// Commands that go into one commit.
const COMMIT_COMMANDS_MAX: usize = 4096;

/// Why nothing is taken after somebody panicked who had the writer.
pub(super) const PANICKED: &str = "the writer panicked";

/// Gets the reply to a command.
pub(super) type Answer = oneshot::Receiver<Result<Reply, NotTaken>>;

/// Gives it.
pub(super) type Teller = oneshot::Sender<Result<Reply, NotTaken>>;

/// A command that waits, and who waits for it.
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) reply: Teller,
    bytes: usize,
}

/// All of them.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when the keeper has something to do at once.
    urgent: Condvar,
    /// Told when the clerk has something to do.
    crowd: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Somebody is on the way to take what waits.
    is_attended: bool,
    /// The clerk was called.
    is_crowd: bool,
    /// Why nothing is taken for now.
    refusing: Option<String>,
    is_stopped: bool,
}

/// What the keeper is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// What is done from time to time.
    Routine,
    /// To bring the store back.
    Recover,
    /// To end.
    Stop,
}

impl Queue {
    /// Adds a command. Says whether somebody has to come and take it.
    pub(super) fn push(
        &self,
        command: Command,
        payload: usize,
    ) -> Result<(Answer, bool), NotTaken> {
        let bytes = payload + COMMAND_BYTES;
        let mut state = lock(&self.state);
        if state.is_stopped {
            return Err(NotTaken::Stopping);
        }
        if let Some(reason) = &state.refusing {
            return Err(NotTaken::ReadOnly(reason.clone()));
        }
        if state.bytes > WAITING_BYTES_MAX {
            return Err(NotTaken::Busy);
        }
        let (reply, answer) = oneshot::channel();
        state.bytes += bytes;
        state.waiting.push_back(Waiting { command, reply, bytes });
        let is_attended = std::mem::replace(&mut state.is_attended, true);
        Ok((answer, !is_attended))
    }

    /// Takes what goes into one commit. With nothing there, whoever asks need not come again.
    pub(super) fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = lock(&self.state);
        if state.waiting.is_empty() {
            state.is_attended = false;
            return None;
        }
        let mut taken = Vec::with_capacity(state.waiting.len().min(COMMIT_COMMANDS_MAX));
        let mut bytes = 0;
        while bytes < COMMIT_BYTES_MAX && taken.len() < COMMIT_COMMANDS_MAX {
            let Some(next) = state.waiting.pop_front() else { break };
            bytes += next.bytes;
            taken.push(next);
        }
        state.bytes -= bytes;
        Some(taken)
    }

    /// Refuses what waits and what comes, until [`Queue::accept`].
    pub(super) fn refuse(&self, reason: &str) {
        let mut state = lock(&self.state);
        state.refusing = Some(reason.to_owned());
        state.bytes = 0;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.urgent.notify_all();
        for waiting in waiting {
            let _ = waiting.reply.send(Err(NotTaken::ReadOnly(reason.to_owned())));
        }
    }

    /// Takes commands again.
    pub(super) fn accept(&self) {
        lock(&self.state).refusing = None;
    }

    /// Takes no more commands, ever.
    pub(super) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.urgent.notify_all();
        self.crowd.notify_all();
    }

    /// Has the clerk come for what waits. False if there may be no clerk any more.
    pub(super) fn call_clerk(&self) -> bool {
        let mut state = lock(&self.state);
        if state.is_stopped {
            return false;
        }
        state.is_crowd = true;
        drop(state);
        self.crowd.notify_all();
        true
    }

    /// Whether something waits.
    pub(super) fn has_waiting(&self) -> bool {
        !lock(&self.state).waiting.is_empty()
    }

    /// Why a command was dropped without an answer.
    pub(super) fn dropped(&self) -> NotTaken {
        match lock(&self.state).is_stopped {
            true => NotTaken::Stopping,
            false => NotTaken::ReadOnly(PANICKED.to_owned()),
        }
    }

    /// Waits until the clerk is called. False if nobody will call any more.
    pub(super) fn wait_for_crowd(&self) -> bool {
        let is_calm = |state: &mut State| !state.is_stopped && !state.is_crowd;
        let waited = self.crowd.wait_while(lock(&self.state), is_calm);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.is_crowd)
    }

    /// Waits for something to do, at most so long.
    pub(super) fn wait(&self, time: Duration) -> Duty {
        let is_calm = |state: &mut State| !state.is_stopped && state.refusing.is_none();
        let waited = self.urgent.wait_timeout_while(lock(&self.state), time, is_calm);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (state.is_stopped, &state.refusing) {
            (true, _) => Duty::Stop,
            (false, Some(_)) => Duty::Recover,
            (false, None) => Duty::Routine,
        }
    }

    /// Waits so long, or until it is to stop.
    pub(super) fn pause(&self, time: Duration) {
        let state = lock(&self.state);
        let _ = self.urgent.wait_timeout_while(state, time, |state| !state.is_stopped);
    }
}
