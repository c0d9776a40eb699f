//! One subscription: what it is about, how far it is, and who works on it. No IO.

use std::collections::BTreeMap;

use handback_stream::Offset;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::glob;

/// Streams that one subscription follows at most.
pub(super) const MAX_LINKS: usize = 10_000;

/// The lease unless one is asked for, and its bounds.
const DEFAULT_LEASE_MS: u64 = 30_000;
const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=600_000;

/// The first and the longest wait after a delivery that failed.
const RETRY_FIRST_MS: u64 = 1_000;
const RETRY_LONGEST_MS: u64 = 60_000;

/// What a subscription is created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) pattern: Option<String>,
    #[serde(default)]
    pub(super) streams: Vec<String>,
    #[serde(default)]
    pub(super) webhook: Option<Webhook>,
    #[serde(default)]
    pub(super) wake_stream: Option<String>,
    #[serde(default)]
    pub(super) lease_ttl_ms: Option<u64>,
    #[serde(default)]
    pub(super) description: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Webhook,
    PullWake,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    pub(super) url: String,
}

impl Config {
    /// Brings it into the form in which two are compared.
    pub(super) fn normal(mut self) -> Result<Self, &'static str> {
        self.streams = self.streams.iter().map(|path| normal_path(path)).collect();
        self.streams.sort();
        self.streams.dedup();
        self.pattern = self.pattern.as_deref().map(normal_path);
        self.wake_stream = self.wake_stream.as_deref().map(normal_path);
        let lease = self.lease_ttl_ms.unwrap_or(DEFAULT_LEASE_MS);
        if !LEASE_MS.contains(&lease) {
            return Err("lease_ttl_ms is 1000 to 600000");
        }
        self.lease_ttl_ms = Some(lease);
        if self.pattern.is_none() && self.streams.is_empty() {
            return Err("pattern or streams must be there");
        }
        if self.streams.len() > MAX_LINKS {
            return Err("too many streams");
        }
        match self.kind {
            Kind::Webhook if self.webhook.is_none() => Err("webhook.url must be there"),
            Kind::PullWake if self.wake_stream.is_none() => Err("wake_stream must be there"),
            _ => Ok(self),
        }
    }

    pub(super) fn lease_ms(&self) -> u64 {
        self.lease_ttl_ms.unwrap_or(DEFAULT_LEASE_MS)
    }
}

/// A path without a slash in front.
pub(super) fn normal_path(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// A subscription as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) config: Config,
    pub(super) created_ms: u64,
    pub(super) links: BTreeMap<String, Link>,
    pub(super) generation: u64,
    pub(super) wake: Option<Wake>,
    /// Deliveries that failed since one succeeded.
    pub(super) failures: u32,
    pub(super) next_attempt_ms: u64,
}

/// A stream that is followed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) explicit: bool,
    /// The last record that was processed.
    pub(super) acked: u64,
}

/// That there is something to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wake {
    pub(super) id: String,
    pub(super) generation: u64,
    /// SHA-256 of the token, in hex: the token itself is not kept.
    pub(super) token: String,
    pub(super) holder: Option<String>,
    pub(super) lease_until_ms: Option<u64>,
    /// How far the streams were.
    pub(super) snapshot: BTreeMap<String, u64>,
    /// Whether it was told of: what was not is told again.
    pub(super) announced: bool,
}

/// How far a stream is: the number of its last record.
pub(super) type Tails<'a> = dyn Fn(&str) -> Option<u64> + Send + 'a;

/// Why a request about a wake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Fenced,
    Token,
    Unknown,
    Offset,
}

impl Subscription {
    pub(super) fn covers(&self, path: &str) -> bool {
        let pattern = self.config.pattern.as_deref();
        pattern.is_some_and(|pattern| glob::matches(pattern, path))
    }

    /// Streams with something that was not processed.
    pub(super) fn has_pending(&self, tails: &Tails<'_>) -> bool {
        self.links.iter().any(|(path, link)| tails(path).is_some_and(|tail| tail > link.acked))
    }

    /// Whether someone works on it, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        self.wake.is_some()
    }

    /// Ends a lease that nobody extended.
    pub(super) fn expire(&mut self, now: u64) -> bool {
        let over =
            self.wake.as_ref().and_then(|wake| wake.lease_until_ms).is_some_and(|l| now >= l);
        if over {
            self.wake = None;
        }
        over
    }

    /// Starts a wake: the generation counts on, and earlier ones are over.
    pub(super) fn start(&mut self, wake_id: String, token: &str, now: u64, tails: &Tails<'_>) {
        self.generation += 1;
        let snapshot =
            self.links.keys().filter_map(|path| Some((path.clone(), tails(path)?))).collect();
        let lease_until_ms =
            (self.config.kind == Kind::Webhook).then(|| now + self.config.lease_ms());
        self.wake = Some(Wake {
            id: wake_id,
            generation: self.generation,
            token: digest(token),
            holder: None,
            lease_until_ms,
            snapshot,
            announced: self.config.kind == Kind::Webhook,
        });
    }

    /// Gives the wake to a worker.
    pub(super) fn claim(&mut self, worker: &str, token: &str, now: u64, tails: &Tails<'_>) {
        let lease = self.config.lease_ms();
        let snapshot =
            self.links.keys().filter_map(|path| Some((path.clone(), tails(path)?))).collect();
        if let Some(wake) = &mut self.wake {
            wake.holder = Some(worker.to_owned());
            wake.token = digest(token);
            wake.lease_until_ms = Some(now + lease);
            wake.snapshot = snapshot;
        }
    }

    /// The wake that a request is about, if it is the current one.
    pub(super) fn check(&self, wake_id: &str, generation: u64, token: &str) -> Result<(), Fault> {
        let wake = self.wake.as_ref().ok_or(Fault::Fenced)?;
        if wake.id != wake_id || wake.generation != generation {
            return Err(Fault::Fenced);
        }
        if wake.token == digest(token) { Ok(()) } else { Err(Fault::Token) }
    }

    /// Notes how far streams were processed: only forward, and not behind their end.
    pub(super) fn ack(
        &mut self,
        acks: &[(String, Offset)],
        tails: &Tails<'_>,
    ) -> Result<(), Fault> {
        for (path, offset) in acks {
            if !self.links.contains_key(path) {
                return Err(Fault::Unknown);
            }
            // Of a stream that is not there, nothing can have been processed.
            if offset.number() > tails(path).unwrap_or(0) {
                return Err(Fault::Offset);
            }
        }
        for (path, offset) in acks {
            if let Some(link) = self.links.get_mut(path) {
                link.acked = link.acked.max(offset.number());
            }
        }
        Ok(())
    }

    /// Takes what the wake showed as processed.
    pub(super) fn ack_snapshot(&mut self) {
        let Some(wake) = self.wake.take() else { return };
        for (path, number) in wake.snapshot {
            if let Some(link) = self.links.get_mut(&path) {
                link.acked = link.acked.max(number);
            }
        }
    }

    /// A delivery failed: the next one waits. `jitter` is -20 to 20 percent.
    pub(super) fn failed(&mut self, now: u64, jitter: i64) {
        let wait = RETRY_FIRST_MS.saturating_mul(1 << self.failures.min(16)).min(RETRY_LONGEST_MS);
        let wait = wait.saturating_add_signed(i64::try_from(wait).unwrap_or(0) * jitter / 100);
        self.failures = self.failures.saturating_add(1);
        self.next_attempt_ms = now + wait;
        self.wake = None;
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.next_attempt_ms = 0;
    }
}

fn digest(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(kind: Kind) -> Subscription {
        let config = Config {
            kind,
            pattern: Some("/events/*".to_owned()),
            streams: vec!["b".to_owned(), "a".to_owned(), "a".to_owned()],
            webhook: Some(Webhook { url: "http://127.0.0.1/".to_owned() }),
            wake_stream: Some("w".to_owned()),
            lease_ttl_ms: None,
            description: None,
        };
        Subscription {
            id: "s".to_owned(),
            owner: String::new(),
            config: config.normal().unwrap(),
            created_ms: 0,
            links: BTreeMap::from([("a".to_owned(), Link { explicit: true, acked: 3 })]),
            generation: 0,
            wake: None,
            failures: 0,
            next_attempt_ms: 0,
        }
    }

    #[test]
    fn only_the_current_wake_is_heard() {
        let mut s = subscription(Kind::Webhook);
        let tails = |_: &str| Some(5);
        assert!(s.has_pending(&tails));
        s.start("w1".to_owned(), "t1", 0, &tails);
        assert_eq!(s.check("w1", 1, "t1"), Ok(()));
        assert_eq!(s.check("w1", 1, "t2"), Err(Fault::Token));
        assert_eq!(s.check("w1", 2, "t1"), Err(Fault::Fenced));
        assert!(!s.expire(29_999) && s.expire(30_000));
        s.start("w2".to_owned(), "t2", 0, &tails);
        assert_eq!(s.check("w1", 1, "t1"), Err(Fault::Fenced));
        assert_eq!(s.check("w2", 2, "t2"), Ok(()));
        s.ack_snapshot();
        assert!(!s.has_pending(&tails));
        assert_eq!(s.check("w2", 2, "t2"), Err(Fault::Fenced));
    }

    #[test]
    fn acks_go_forward_and_not_behind_the_end() {
        let mut s = subscription(Kind::PullWake);
        let tails = |_: &str| Some(5);
        let ack = |path: &str, number| vec![(path.to_owned(), Offset::after(number))];
        assert_eq!(s.ack(&ack("a", 4), &|_: &str| None), Err(Fault::Offset));
        assert_eq!(s.ack(&ack("a", 6), &tails), Err(Fault::Offset));
        assert_eq!(s.ack(&ack("x", 1), &tails), Err(Fault::Unknown));
        assert_eq!(s.ack(&ack("a", 1), &tails), Ok(()));
        assert_eq!(s.links["a"].acked, 3);
        assert_eq!(s.ack(&ack("a", 5), &tails), Ok(()));
        assert_eq!(s.links["a"].acked, 5);
    }

    #[test]
    fn retries_wait_longer_and_longer() {
        let mut s = subscription(Kind::Webhook);
        let mut waits = Vec::new();
        for _ in 0..9 {
            s.failed(0, 0);
            waits.push(s.next_attempt_ms);
        }
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
        s.failed(0, -20);
        assert_eq!(s.next_attempt_ms, 48_000);
        s.succeeded();
        assert_eq!((s.failures, s.next_attempt_ms), (0, 0));
    }
}
