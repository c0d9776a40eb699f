//! Rounds of the hub: decide, write once, show, answer, sign.

use std::sync::Arc;

use handback_store::{Log, StoreError};
use handback_stream::{Done, Hub, NameId, RecoverError, Reply, SigningKey, Stored, StreamQuotas};

use super::channels::{Channel, Shown};
use super::driver::{Mode, NotTaken, lock};
use super::log;
use super::queue::{Teller, Waiting};

/// Who has it may write.
pub(super) struct Writer {
    log: Arc<dyn Log>,
    hub: Hub,
    key: Option<Arc<SigningKey>>,
    shown: Arc<Shown>,
    /// While writes are taken.
    mode: Mode,
    quotas: StreamQuotas,
    /// Why the hub is of no use any more.
    failed: Option<String>,
}

/// Who is to be told what, now that it is durable. They are told when this is dropped, wherever and
/// why ever that is.
pub(super) struct Answers(Vec<(Teller, Reply)>);

impl Answers {
    /// Whether there is more than one.
    pub(super) const fn is_crowd(&self) -> bool {
        self.0.len() > 1
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        for (waiting, reply) in self.0.drain(..) {
            let _ = waiting.send(Ok(reply));
        }
    }
}

impl Writer {
    pub(super) fn new(
        log: Arc<dyn Log>,
        hub: Hub,
        key: Option<Arc<SigningKey>>,
        shown: Arc<Shown>,
        mode: Mode,
    ) -> Self {
        let quotas = StreamQuotas::default();
        Self { log, hub, key, shown, mode, quotas, failed: None }
    }

    /// Limits what is created and appended.
    pub(super) fn within(mut self, quotas: StreamQuotas) -> Self {
        self.quotas = quotas;
        self.hub.quotas = quotas;
        self
    }

    /// Does commands, and gives what they are to be answered. If that fails, they are told, and
    /// nothing is done until [`Writer::reopen`].
    pub(super) fn round(&mut self, commands: Vec<Waiting>, now: u64) -> Result<Answers, String> {
        let mut replies = Vec::with_capacity(commands.len());
        let has_failed = self.failed.is_some();
        for Waiting { command, reply, .. } in commands {
            if !has_failed {
                self.hub.submit(replies.len() as u64, command, now);
            }
            replies.push(reply);
        }
        let committed = match &self.failed {
            Some(reason) => Err(reason.clone()),
            None => self.commit(now).map_err(|error| error.to_string()),
        };
        match committed {
            Ok(done) => {
                self.taking_writes();
                self.shown.publish(done.published);
                let given = done.replies.into_iter().map(|(_, reply)| reply);
                Ok(Answers(replies.into_iter().zip(given).collect()))
            }
            Err(reason) => {
                self.fail(&reason);
                for waiting in replies {
                    let _ = waiting.send(Err(NotTaken::ReadOnly(reason.clone())));
                }
                Err(reason)
            }
        }
    }

    /// Ends what has outlived its time.
    pub(super) fn sweep(&mut self, now: u64) -> Result<(), String> {
        if self.failed.is_none() {
            self.hub.sweep(now);
        }
        // Nobody waits for it.
        self.round(Vec::new(), now).map(drop)
    }

    /// Signs the last commit. Not on the way of the replies: they need not wait for it.
    pub(super) fn sign(&mut self) {
        if self.failed.is_none()
            && let Some(signature) = self.hub.sign()
        {
            *lock(&self.shown.signature) = Some(signature);
        }
    }

    /// The hub is of no use any more: it holds what was not committed.
    pub(super) fn fail(&mut self, reason: &str) {
        self.failed = Some(reason.to_owned());
        tracing::error!(%reason, "the store does not take writes");
        self.shown.mode.send_replace(Mode::ReadOnly(reason.to_owned()));
    }

    /// Says so again, if it was said otherwise and the store has come back by itself.
    fn taking_writes(&self) {
        if *self.shown.mode.borrow() != self.mode && self.log.recover().is_ok() {
            self.shown.mode.send_replace(self.mode.clone());
        }
    }

    fn commit(&mut self, now: u64) -> Result<Done, StoreError> {
        if let Some(write) = self.hub.take_write(now) {
            let batch = log::batch(write);
            self.log.commit(&batch)?;
            let mut last: Option<(NameId, Arc<Channel>)> = None;
            for record in batch.records {
                let id = log::stream(record.log);
                if !id.is_of_a_stream() || Stored::is_genesis_in(&record.bytes) {
                    continue;
                }
                let name = id.name();
                if last.as_ref().is_none_or(|(known, _)| *known != name) {
                    last = self.shown.channel(name).map(|channel| (name, channel));
                }
                if let Some((_, channel)) = &last {
                    lock(&channel.tail).push(id, record.number, record.bytes);
                }
            }
        }
        Ok(self.hub.committed())
    }

    /// Starts again from what is stored. It is [`Writer::announce`]d when commands are taken.
    pub(super) fn reopen(&mut self) -> Result<(), RecoverError<StoreError>> {
        self.log.recover()?;
        let (hub, views) = Hub::recover(&mut log::Source(self.log.as_ref()), self.key.clone())?;
        self.hub = hub;
        self.hub.quotas = self.quotas;
        self.failed = None;
        *lock(&self.shown.signature) = self.hub.last_signature();
        self.shown.replace(views);
        Ok(())
    }

    /// Says that the store takes writes again.
    pub(super) fn announce(&self) {
        tracing::info!("the store takes writes again");
        self.shown.mode.send_replace(self.mode.clone());
    }
}
