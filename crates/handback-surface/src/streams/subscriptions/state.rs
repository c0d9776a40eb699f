//! One subscription: what it is about, how far it is, and who works on it. No IO.

use std::collections::BTreeMap;

use handback_stream::{NameError, Offset, PathPattern, StreamName, duplex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Streams that one subscription follows at most.
pub(super) const MAX_LINKS: usize = 10_000;

/// Bytes of a description: a sentence for people.
const MAX_DESCRIPTION_BYTES: usize = 1024;

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
    /// Checks the bounds. Returns the form in which two configurations are compared.
    pub(super) fn checked(mut self) -> Result<Self, &'static str> {
        // The length comes first: a list of a million texts is not sorted.
        if self.streams.len() > MAX_LINKS {
            return Err(TOO_MANY_LINKS);
        }
        self.streams = self.streams.iter().map(|path| normal_path(path)).collect();
        self.streams.sort();
        self.streams.dedup();
        self.pattern = self.pattern.as_deref().map(normal_pattern).transpose()?;
        self.wake_stream = self.wake_stream.as_deref().map(normal_path);
        let lease = self.lease_ttl_ms.unwrap_or(DEFAULT_LEASE_MS);
        if !LEASE_MS.contains(&lease) {
            return Err("lease_ttl_ms is 1000 to 600000");
        }
        self.lease_ttl_ms = Some(lease);
        if self.pattern.is_none() && self.streams.is_empty() {
            return Err("pattern or streams must be there");
        }
        if !self.streams.iter().all(|path| is_path(path)) {
            return Err(BAD_PATH);
        }
        if self.wake_stream.as_deref().is_some_and(|path| !is_path(path)) {
            return Err("wake_stream is not the path of a stream");
        }
        // Only the connection of a duplex appends to the streams of that duplex.
        if self.wake_stream.as_deref().is_some_and(duplex::is_path) {
            return Err("wake_stream is a stream of a duplex");
        }
        if self.description.as_deref().is_some_and(|text| text.len() > MAX_DESCRIPTION_BYTES) {
            return Err("description has more than 1024 bytes");
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

/// The answer to more than [`MAX_LINKS`] streams.
pub(super) const TOO_MANY_LINKS: &str = "a subscription follows 10000 streams at most";

/// The answer to a text that is not the path of a stream.
pub(super) const BAD_PATH: &str = "streams has a text that is not the path of a stream";

/// A path without a slash in front.
pub(super) fn normal_path(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// Whether a text is the path of a stream.
pub(super) fn is_path(path: &str) -> bool {
    StreamName::new("", path).is_ok()
}

fn normal_pattern(text: &str) -> Result<String, &'static str> {
    match text.trim_start_matches('/').parse::<PathPattern>() {
        Ok(pattern) => Ok(pattern.as_str().to_owned()),
        Err(NameError::TooLong) => Err("pattern has more than 1024 bytes"),
        Err(_) => Err("pattern has a segment that no path has"),
    }
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
    /// Streams that were created before this time were matched. A restart matches later ones.
    #[serde(default)]
    pub(super) matched_ms: u64,
    /// Whether the pattern covers streams that are not followed, because there are too many.
    #[serde(default)]
    pub(super) is_incomplete: bool,
}

/// A stream that is followed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) explicit: bool,
    /// The last record that was processed.
    pub(super) acked: u64,
    /// The incarnation of the stream. Nothing if there is no stream, or an older version stored this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<u64>,
}

/// A stream that is at a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) incarnation: u64,
    /// The number before the first record that is the stream's own.
    pub(super) start: u64,
    /// The number of the last record.
    pub(super) tail: u64,
}

impl Link {
    /// Follows a stream from its first record on, by a pattern.
    pub(super) const fn from_start(position: Position) -> Self {
        Self { explicit: false, acked: position.start, stream: Some(position.incarnation) }
    }

    /// Follows a stream from its end on, or from the first record if there is none yet.
    pub(super) fn from_end(explicit: bool, position: Option<Position>) -> Self {
        let stream = position.map(|position| position.incarnation);
        Self { explicit, acked: position.map_or(0, |position| position.tail), stream }
    }

    /// Follows the stream that is at the path now. Returns whether that is the one from before:
    /// another one is followed from its first record on.
    pub(super) fn renew(&mut self, position: Option<Position>) -> bool {
        let is_same = match (self.stream, position) {
            (Some(known), Some(position)) => known == position.incarnation,
            (None, Some(position)) => self.acked <= position.tail,
            (_, None) => false,
        };
        if !is_same {
            self.acked = position.map_or(0, |position| position.start);
        }
        self.stream = position.map(|position| position.incarnation);
        is_same
    }

    /// The name of the kind of link in the protocol.
    pub(super) const fn kind(self) -> &'static str {
        if self.explicit { "explicit" } else { "glob" }
    }
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

/// Why a wake was not claimed.
#[derive(Debug)]
pub(super) enum Claim {
    Held(String),
    Nothing,
}

impl Subscription {
    /// A subscription that follows nothing yet.
    pub(super) fn new(owner: &str, id: &str, config: Config, now: u64) -> Self {
        Self {
            id: id.to_owned(),
            owner: owner.to_owned(),
            config,
            created_ms: now,
            links: BTreeMap::new(),
            generation: 0,
            wake: None,
            failures: 0,
            next_attempt_ms: 0,
            matched_ms: now,
            is_incomplete: false,
        }
    }

    /// Checks a stored subscription against the bounds of today.
    pub(super) fn checked(mut self) -> Result<Self, &'static str> {
        self.config = self.config.checked()?;
        if self.links.len() > MAX_LINKS || !self.links.keys().all(|path| is_path(path)) {
            return Err(BAD_PATH);
        }
        Ok(self)
    }

    /// Streams with something that was not processed.
    pub(super) fn has_pending(&self, tails: &Tails<'_>) -> bool {
        self.links.iter().any(|(path, link)| tails(path).is_some_and(|tail| tail > link.acked))
    }

    /// The same for one stream.
    pub(super) fn has_pending_in(&self, path: &str, tails: &Tails<'_>) -> bool {
        let link = self.links.get(path);
        link.is_some_and(|link| tails(path).is_some_and(|tail| tail > link.acked))
    }

    /// Whether a wake is still to be written to its stream.
    pub(super) fn is_unannounced(&self) -> bool {
        self.wake.as_ref().is_some_and(|wake| !wake.announced && wake.holder.is_none())
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
    fn claim(&mut self, worker: &str, token: &str, now: u64, tails: &Tails<'_>) {
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

    /// Claims a wake for a worker: the one that waits, or a new one if there is something to do.
    pub(super) fn claim_next(
        &mut self,
        worker: &str,
        (wake_id, token): (String, &str),
        now: u64,
        tails: &Tails<'_>,
    ) -> Result<(), Claim> {
        self.expire(now);
        if let Some(holder) = self.wake.as_ref().and_then(|wake| wake.holder.clone()) {
            return Err(Claim::Held(holder));
        }
        if self.wake.is_none() {
            if !self.has_pending(tails) {
                return Err(Claim::Nothing);
            }
            self.start(wake_id, token, now, tails);
        }
        self.claim(worker, token, now, tails);
        Ok(())
    }

    /// Takes acks, and ends the wake or extends its lease. Returns whether there is more to do.
    pub(super) fn finish(
        &mut self,
        acks: &[(String, Offset)],
        done: bool,
        now: u64,
        tails: &Tails<'_>,
    ) -> Result<bool, Fault> {
        self.ack(acks, tails)?;
        self.succeeded();
        if done {
            self.wake = None;
            return Ok(self.has_pending(tails));
        }
        let lease = now + self.config.lease_ms();
        if let Some(wake) = &mut self.wake {
            wake.lease_until_ms = Some(lease);
        }
        Ok(false)
    }

    /// The streams, with how far each was processed and how far it goes.
    pub(super) fn progress(&self, tails: &Tails<'_>) -> Vec<Value> {
        let of = |(path, link): (&String, &Link)| {
            let tail = tails(path).unwrap_or(link.acked);
            json!({
                "path": path,
                "link_type": link.kind(),
                "acked_offset": Offset::after(link.acked).to_string(),
                "tail_offset": Offset::after(tail).to_string(),
                "has_pending": tail > link.acked,
            })
        };
        self.links.iter().map(of).collect()
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

    /// Forgets the end of a stream that a wake showed, because that stream is gone.
    pub(super) fn forget_shown(&mut self, path: &str) {
        if let Some(wake) = &mut self.wake {
            wake.snapshot.remove(path);
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
pub(super) mod tests {
    use super::*;

    fn config(kind: Kind) -> Config {
        Config {
            kind,
            pattern: Some("/events/*".to_owned()),
            streams: vec!["b".to_owned(), "a".to_owned(), "a".to_owned()],
            webhook: Some(Webhook { url: "http://127.0.0.1/".to_owned() }),
            wake_stream: Some("w".to_owned()),
            lease_ttl_ms: None,
            description: None,
        }
    }

    fn linked(kind: Kind) -> Subscription {
        let mut made = Subscription::new("", "s", config(kind).checked().unwrap(), 0);
        made.links.insert("a".to_owned(), Link { explicit: true, acked: 3, stream: None });
        made
    }

    /// A subscription of an owner that follows nothing.
    pub(in super::super) fn subscription(owner: &str, id: &str) -> Subscription {
        Subscription::new(owner, id, config(Kind::PullWake).checked().unwrap(), 0)
    }

    #[test]
    fn texts_are_bounded_and_paths_are_paths() {
        let check = |change: &dyn Fn(&mut Config), expected: Result<(), &str>| {
            let mut asked = config(Kind::PullWake);
            change(&mut asked);
            assert_eq!(asked.checked().map(drop), expected);
        };
        let long = "x".repeat(1025);
        check(&|_| {}, Ok(()));
        check(&|c| c.pattern = Some(long.clone()), Err("pattern has more than 1024 bytes"));
        let stars = vec!["**"; 1_000_000].join("/");
        check(&|c| c.pattern = Some(stars.clone()), Err("pattern has more than 1024 bytes"));
        let segment = Err("pattern has a segment that no path has");
        check(&|c| c.pattern = Some("a//b".to_owned()), segment);
        check(&|c| c.pattern = Some("a/\n".to_owned()), segment);
        check(&|c| c.streams.push(long.clone()), Err(BAD_PATH));
        check(&|c| c.streams.push("../a".to_owned()), Err(BAD_PATH));
        check(&|c| c.streams = (0..10_001).map(|n| n.to_string()).collect(), Err(TOO_MANY_LINKS));
        let wake = Err("wake_stream is not the path of a stream");
        check(&|c| c.wake_stream = Some(long.clone()), wake);
        let duplex = Err("wake_stream is a stream of a duplex");
        check(&|c| c.wake_stream = Some("/__duplex/echo/k/out".to_owned()), duplex);
        check(&|c| c.wake_stream = Some("__duplex/relay/k/out".to_owned()), duplex);
        check(&|c| c.wake_stream = Some("jobs/__duplex".to_owned()), Ok(()));
        let description = Err("description has more than 1024 bytes");
        check(&|c| c.description = Some(long.clone()), description);
    }

    #[test]
    fn equal_configurations_have_one_form() {
        let mut other = config(Kind::PullWake);
        other.pattern = Some("events/*".to_owned());
        other.streams = vec!["/a".to_owned(), "b".to_owned()];
        assert_eq!(other.checked(), config(Kind::PullWake).checked());
        let mut stars = config(Kind::PullWake);
        stars.pattern = Some("**/**/a".to_owned());
        assert_eq!(stars.checked().unwrap().pattern.as_deref(), Some("**/a"));
    }

    #[test]
    fn only_the_current_wake_is_heard() {
        let mut s = linked(Kind::Webhook);
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
        let mut s = linked(Kind::PullWake);
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
    fn a_link_is_about_one_stream_at_a_path() {
        let position = |incarnation, start, tail| Some(Position { incarnation, start, tail });
        let check = |stream, position, expected: (bool, u64)| {
            let mut link = Link { explicit: false, acked: 3, stream };
            assert_eq!((link.renew(position), link.acked), expected);
            assert_eq!(link.stream, position.map(|position| position.incarnation));
        };
        check(Some(7), position(7, 0, 5), (true, 3));
        check(Some(7), position(8, 0, 5), (false, 0));
        check(Some(7), position(8, 2, 2), (false, 2));
        check(Some(7), None, (false, 0));
        // As an older version stored it.
        check(None, position(7, 0, 5), (true, 3));
        check(None, position(7, 0, 2), (false, 0));
        check(None, None, (false, 0));
        let stored: Link = serde_json::from_str(r#"{"explicit":true,"acked":3}"#).unwrap();
        assert_eq!(stored.stream, None);
    }

    #[test]
    fn retries_wait_longer_and_longer() {
        let mut s = linked(Kind::Webhook);
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
