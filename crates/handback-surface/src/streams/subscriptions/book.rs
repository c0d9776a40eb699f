//! The subscriptions of one owner.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use handback_stream::PathPattern;
use handback_tool::{Charge, Exhausted, Quota};

use super::state::{Config, Link, MAX_LINKS, Position, Subscription};

/// Bytes that a subscription counts beyond its texts: maps, a row of the store, a time on the agenda.
const SUBSCRIPTION_COST_BYTES: u64 = 4 << 10;

/// Bytes that a link counts beyond its path: its places in three maps, and the set of ids in the index.
const LINK_COST_BYTES: u64 = 512;

/// The copies of a link's path: in the links, in the snapshot of a wake, in the index.
const PATH_COPIES: u64 = 3;

/// Bytes of three places in maps, and of a set of strings, whose nodes have room for 11.
const LINK_MEMORY_BYTES: usize = 3 * size_of::<(String, Link)>() + 11 * size_of::<String>();

const _: () = assert!(LINK_COST_BYTES >= LINK_MEMORY_BYTES as u64, "a link costs its memory");

/// The limits for all subscriptions of a server, of which each identified caller has a share.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct SubscriptionQuotas {
    /// Subscriptions.
    pub count: Quota,
    /// Bytes of subscriptions, with the paths of the streams that they follow.
    pub bytes: Quota,
}

/// The subscriptions of one owner, and the work that is left to do for them.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<String, Entry>,
    /// The ids of the subscriptions that follow a stream, or write their wakes to it.
    of_path: HashMap<String, BTreeSet<String>>,
    pub(super) todo: VecDeque<Todo>,
    /// Whether links or subscriptions were removed since missed streams were last looked for.
    was_freed: bool,
}

/// A piece of work.
#[derive(Debug)]
pub(super) enum Todo {
    /// Matches a new stream with the patterns of subscriptions after one of them.
    Match { path: Arc<str>, after: Option<String> },
    /// Matches streams that were there before the start with the pattern of a subscription.
    Scan(Scan),
    /// A stream has more records.
    Grown(Arc<str>),
    /// A stream ended.
    Ended(Arc<str>),
    /// Compares the links of a subscription after one of them with the streams that are there.
    Renew { id: String, after: Option<String> },
    /// Looks at a subscription: at one stream, or at all of them.
    Look { id: String, path: Option<Arc<str>> },
}

/// Work that may write to the store, and is done when the turn is over.
#[derive(Debug)]
pub(super) enum After {
    /// Looks at a subscription: at one stream, or at all of them.
    Look { id: String, path: Option<Arc<str>> },
    /// Stores a subscription.
    Store { id: String },
}

/// A walk over the streams that the pattern of a subscription may cover.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) id: String,
    /// The last stream that was looked at.
    pub(super) after: Option<Arc<str>>,
    /// Streams that were created earlier are left out.
    pub(super) since: u64,
    /// Whether a stream was matched.
    pub(super) has_matched: bool,
    /// Streams that had found no room before the walk.
    pub(super) missed: u64,
}

impl Scan {
    pub(super) const fn new(id: String, since: u64) -> Self {
        Self { id, after: None, since, has_matched: false, missed: 0 }
    }
}

/// A subscription in memory.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) subscription: Subscription,
    pub(super) pattern: Option<PathPattern>,
    /// Whether the streams of its pattern are still looked for: then nobody sees it yet.
    pub(super) is_linking: bool,
    /// Streams that found no room since the start.
    missed: u64,
    /// Nothing for what an older version stored beyond the quota of today.
    charges: Option<Charges>,
}

#[derive(Debug)]
struct Charges {
    _count: Charge,
    bytes: Charge,
}

/// Why a stream is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Links,
    Quota(Exhausted),
}

impl Entry {
    /// A new subscription, counted for its owner.
    pub(super) fn new(
        subscription: Subscription,
        quotas: &SubscriptionQuotas,
    ) -> Result<Self, Exhausted> {
        let charges = Charges {
            _count: quotas.count.charge_stored(&subscription.owner, 1)?,
            bytes: quotas.bytes.charge_stored(&subscription.owner, cost(&subscription))?,
        };
        Ok(Self { charges: Some(charges), is_linking: true, ..Self::uncounted(subscription) })
    }

    /// A stored subscription, which is there also beyond a quota.
    pub(super) fn stored(subscription: Subscription, quotas: &SubscriptionQuotas) -> Self {
        match Self::new(subscription.clone(), quotas) {
            Ok(entry) => Self { is_linking: false, ..entry },
            Err(_) => Self::uncounted(subscription),
        }
    }

    fn uncounted(subscription: Subscription) -> Self {
        let pattern = subscription.config.pattern.as_deref().and_then(|text| text.parse().ok());
        Self { subscription, pattern, is_linking: false, missed: 0, charges: None }
    }

    /// Counts more bytes, or fewer.
    fn recount(&mut self, more: u64, less: u64) -> Result<(), Full> {
        if let Some(Charges { bytes, .. }) = &mut self.charges {
            bytes.grow(more).map_err(Full::Quota)?;
            bytes.shrink(less);
        } else if more > less {
            return Err(Full::Quota(Exhausted::Caller));
        }
        Ok(())
    }
}

impl Book {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A subscription, also one that is still made.
    pub(super) fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// A subscription that was made.
    pub(super) fn get(&self, id: &str) -> Option<&Subscription> {
        self.entries.get(id).filter(|entry| !entry.is_linking).map(|entry| &entry.subscription)
    }

    /// The same, to be changed. Links are changed by [`Book::link`] and [`Book::unlink`] only.
    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Subscription> {
        let entry = self.entries.get_mut(id).filter(|entry| !entry.is_linking);
        entry.map(|entry| &mut entry.subscription)
    }

    /// The next subscription with a pattern, in the order of ids.
    pub(super) fn next_pattern(&self, after: Option<&str>) -> Option<(&str, &PathPattern)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range::<str, _>((from, Bound::Unbounded));
        entries.find_map(|(id, entry)| Some((id.as_str(), entry.pattern.as_ref()?)))
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// The next path that a subscription follows, in order.
    pub(super) fn next_link(&self, id: &str, after: Option<&str>) -> Option<&str> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let links = &self.entries.get(id)?.subscription.links;
        links.range::<str, _>((from, Bound::Unbounded)).next().map(|(path, _)| path.as_str())
    }

    /// The ids of subscriptions that follow a stream, or write to it.
    pub(super) fn of_path(&self, path: &str) -> Vec<String> {
        self.of_path.get(path).into_iter().flatten().cloned().collect()
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        let id = entry.subscription.id.clone();
        let Subscription { links, config, .. } = &entry.subscription;
        for path in links.keys().chain(&config.wake_stream) {
            self.of_path.entry(path.clone()).or_default().insert(id.clone());
        }
        self.entries.insert(id, entry);
    }

    pub(super) fn remove(&mut self, id: &str) {
        let Some(entry) = self.entries.remove(id) else { return };
        self.was_freed = true;
        let Subscription { links, config, .. } = &entry.subscription;
        for path in links.keys().chain(&config.wake_stream) {
            self.unindex(path, id);
        }
    }

    /// Removes a subscription that was not completed.
    pub(super) fn abandon(&mut self, id: &str) {
        if self.entries.get(id).is_some_and(|entry| entry.is_linking) {
            self.remove(id);
        }
    }

    /// The subscription is complete.
    pub(super) fn made(&mut self, id: &str) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.is_linking = false;
        }
    }

    /// Has a subscription follow a stream.
    pub(super) fn link(&mut self, id: &str, path: &str, link: Link) -> Result<(), Full> {
        let Some(entry) = self.entries.get_mut(id) else { return Ok(()) };
        if let Some(known) = entry.subscription.links.get_mut(path) {
            known.explicit |= link.explicit;
            return Ok(());
        }
        if entry.subscription.links.len() >= MAX_LINKS {
            return Err(Full::Links);
        }
        entry.recount(link_cost(path), 0)?;
        entry.subscription.links.insert(path.to_owned(), link);
        self.of_path.entry(path.to_owned()).or_default().insert(id.to_owned());
        Ok(())
    }

    /// Has a subscription follow a stream no more.
    pub(super) fn unlink(&mut self, id: &str, path: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.subscription.links.remove(path).is_none() {
            return;
        }
        entry.subscription.forget_shown(path);
        let _ = entry.recount(0, link_cost(path));
        self.was_freed = true;
        if entry.subscription.config.wake_stream.as_deref() != Some(path) {
            self.unindex(path, id);
        }
    }

    /// Has a subscription follow the stream that is at a path now, if it follows the path. Where no
    /// stream is, only a path that was named is followed.
    pub(super) fn renew(&mut self, id: &str, path: &str, position: Option<Position>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(link) = entry.subscription.links.get_mut(path) else { return };
        let is_same = link.renew(position);
        if position.is_none() && !link.explicit {
            self.unlink(id, path);
        } else if !is_same {
            entry.subscription.forget_shown(path);
        }
    }

    /// Notes that a subscription does not follow all streams that its pattern covers.
    pub(super) fn mark_incomplete(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.subscription.is_incomplete = true;
        entry.missed += 1;
        // Once, however often streams come and go at the limit.
        if entry.missed == 1 {
            tracing::warn!(id, "a subscription has no room for another stream of its pattern");
        }
    }

    /// Notes that a scan found room for all streams, unless another one was missed meanwhile. Returns
    /// whether that is news.
    pub(super) fn mark_complete(&mut self, scan: &Scan) -> bool {
        let entry = self.entries.get_mut(&scan.id).filter(|entry| entry.missed == scan.missed);
        entry.is_some_and(|entry| std::mem::take(&mut entry.subscription.is_incomplete))
    }

    /// Has the streams looked for that found no room, if there may be room now.
    pub(super) fn retry_incomplete(&mut self) {
        if !std::mem::take(&mut self.was_freed) {
            return;
        }
        for (id, Entry { subscription, is_linking, missed, .. }) in &self.entries {
            if subscription.is_incomplete && !is_linking {
                let scan = Scan::new(id.clone(), subscription.created_ms);
                self.todo.push_back(Todo::Scan(Scan { missed: *missed, ..scan }));
            }
        }
    }

    fn unindex(&mut self, path: &str, id: &str) {
        if let Some(ids) = self.of_path.get_mut(path) {
            ids.remove(id);
            if ids.is_empty() {
                self.of_path.remove(path);
            }
        }
    }
}

fn link_cost(path: &str) -> u64 {
    LINK_COST_BYTES + PATH_COPIES * path.len() as u64
}

fn cost(subscription: &Subscription) -> u64 {
    let Subscription { id, config, links, .. } = subscription;
    let Config { pattern, streams, webhook, wake_stream, description, .. } = config;
    let texts = [pattern, wake_stream, description].into_iter().flatten().map(String::len);
    let texts = texts.chain(streams.iter().map(String::len));
    let texts: usize = texts.chain(webhook.iter().map(|webhook| webhook.url.len())).sum();
    let links: u64 = links.keys().map(|path| link_cost(path)).sum();
    SUBSCRIPTION_COST_BYTES + (id.len() + texts) as u64 + links
}

#[cfg(test)]
mod tests {
    use handback_tool::Share;

    use super::*;
    use crate::streams::subscriptions::state::tests::subscription;

    fn quotas(count: u64, bytes: u64) -> SubscriptionQuotas {
        let share = Share::one_in(2);
        SubscriptionQuotas { count: Quota::new(count, share), bytes: Quota::new(bytes, share) }
    }

    #[test]
    fn links_are_counted_and_given_back() {
        let quotas = quotas(10, 20_000);
        let used = || quotas.bytes.used_by_stored("i\0s");
        let mut book = Book::default();
        book.insert(Entry::new(subscription("i\0s", "s"), &quotas).unwrap());
        book.made("s");
        let before = used();
        let link = Link { explicit: false, acked: 0, stream: None };
        assert_eq!(book.link("s", "x", link), Ok(()));
        assert_eq!(used(), before + link_cost("x"));
        assert_eq!(book.link("s", "x", link), Ok(()));
        assert_eq!(used(), before + link_cost("x"));
        let refused = book.link("s", &"y".repeat(8_000), link);
        assert_eq!(refused, Err(Full::Quota(Exhausted::Caller)));
        assert_eq!(book.of_path("x"), ["s"]);
        book.unlink("s", "x");
        assert_eq!((used(), book.of_path("x").len()), (before, 0));
        book.remove("s");
        assert_eq!((used(), quotas.count.used_by_stored("i\0s")), (0, 0));
        assert!(book.of_path.is_empty());
    }

    #[test]
    fn a_stored_subscription_is_there_beyond_the_quota() {
        let quotas = quotas(4, 1 << 20);
        let entries: Vec<_> =
            (0..5).map(|n| Entry::stored(subscription("i\0s", &n.to_string()), &quotas)).collect();
        assert_eq!(quotas.count.used_by_stored("i\0s"), 2);
        assert_eq!(Entry::new(subscription("i\0s", "n"), &quotas).unwrap_err(), Exhausted::Caller);
        // Others have their part nevertheless.
        assert!(Entry::new(subscription("i\0t", "n"), &quotas).is_ok());
        drop(entries);
        assert_eq!(quotas.count.used_by_stored("i\0s"), 0);
    }
}
