//! The chain over a stream's records, and the tree over a commit.
//!
//! ```text
//! leaf n = SHA-256( "handback/v1/leaf" || stream id (24) || number u64be || record )
//! head n = SHA-256( head n-1 || leaf n ), and 32 zeros before the first
//! entry  = stream id (24) || last number u64be || head (32)
//! node   = SHA-256( 00 || entry ) | SHA-256( 01 || left || right )
//! signed = "handback/v1/commit" || commit u64be || time u64be || root (32)
//! ```
//!
//! Entries are sorted by stream. A level with an odd number of nodes hands its last one up as it
//! is. A commit of one stream has its node as the root.

use sha2::{Digest, Sha256};

use crate::name::StreamId;

/// Where a chain starts.
pub(crate) const NO_HEAD: Head = Head([0; 32]);

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head([u8; 32]);

impl Head {
    /// From stored or received bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The head after one more record.
    #[must_use]
    pub fn after(&self, stream: StreamId, number: u64, record: &[u8]) -> Self {
        let leaf = Sha256::new()
            .chain_update(b"handback/v1/leaf")
            .chain_update(stream.as_bytes())
            .chain_update(number.to_be_bytes())
            .chain_update(record)
            .finalize();
        Self(Sha256::new().chain_update(self.0).chain_update(leaf).finalize().into())
    }
}

/// Where a stream stood at the end of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the format has these three")]
pub struct Entry {
    /// Which stream.
    pub stream: StreamId,
    /// Its last record.
    pub number: u64,
    /// Its head.
    pub head: Head,
}

impl Entry {
    fn node(&self) -> [u8; 32] {
        Sha256::new()
            .chain_update([0])
            .chain_update(self.stream.as_bytes())
            .chain_update(self.number.to_be_bytes())
            .chain_update(self.head.0)
            .finalize()
            .into()
    }
}

fn joined(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a commit's entries, which are sorted. There is at least one.
pub(crate) fn root(entries: &[Entry]) -> [u8; 32] {
    let mut level: Vec<_> = entries.iter().map(Entry::node).collect();
    while level.len() > 1 {
        level = parents(&level);
    }
    level.first().copied().unwrap_or_default()
}

fn parents(level: &[[u8; 32]]) -> Vec<[u8; 32]> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => joined(left, right),
            [alone, ..] => *alone,
            [] => [0; 32],
        })
        .collect()
}

/// What leads from an entry to the root: the node beside it on each level, and on which side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub(crate) Vec<Step>);

/// One level of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) is_left: bool,
    pub(crate) node: [u8; 32],
}

impl Path {
    /// From the entry at a place to the root.
    pub(crate) fn new(entries: &[Entry], place: usize) -> Self {
        let mut level: Vec<_> = entries.iter().map(Entry::node).collect();
        let (mut place, mut steps) = (place, Vec::new());
        while level.len() > 1 {
            if let Some(node) = level.get(place ^ 1) {
                steps.push(Step { is_left: place & 1 == 1, node: *node });
            }
            level = parents(&level);
            place /= 2;
        }
        Self(steps)
    }

    /// Its steps from the entry up: whether the node beside is on the left, and the node.
    pub fn steps(&self) -> impl Iterator<Item = (bool, &[u8; 32])> {
        self.0.iter().map(|step| (step.is_left, &step.node))
    }

    /// A path of these steps.
    pub fn from_steps(steps: impl IntoIterator<Item = (bool, [u8; 32])>) -> Self {
        Self(steps.into_iter().map(|(is_left, node)| Step { is_left, node }).collect())
    }

    /// The root that it leads to.
    pub(crate) fn root(&self, entry: &Entry) -> [u8; 32] {
        self.0.iter().fold(entry.node(), |node, step| match step.is_left {
            true => joined(&step.node, &node),
            false => joined(&node, &step.node),
        })
    }
}

/// What the server signs of a commit.
pub(crate) fn signed_bytes(commit: u64, time: u64, root: &[u8; 32]) -> Vec<u8> {
    let mut bytes = b"handback/v1/commit".to_vec();
    bytes.extend(commit.to_be_bytes());
    bytes.extend(time.to_be_bytes());
    bytes.extend(root);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: u8) -> Vec<Entry> {
        (0..count)
            .map(|number| Entry {
                stream: StreamId::from_bytes([number; 24]),
                number: number.into(),
                head: Head([number; 32]),
            })
            .collect()
    }

    #[test]
    fn every_entry_leads_to_the_root_and_no_other_does() {
        for count in 1..20 {
            let entries = entries(count);
            let root = root(&entries);
            for (place, entry) in entries.iter().enumerate() {
                let path = Path::new(&entries, place);
                assert_eq!(path.root(entry), root);
                let other = Entry { number: 99, ..*entry };
                assert_ne!(path.root(&other), root);
            }
        }
    }

    #[test]
    fn a_head_depends_on_everything() {
        let stream = StreamId::from_bytes([1; 24]);
        let head = NO_HEAD.after(stream, 1, b"a");
        assert_ne!(head, NO_HEAD.after(stream, 1, b"b"));
        assert_ne!(head, NO_HEAD.after(stream, 2, b"a"));
        assert_ne!(head, NO_HEAD.after(StreamId::from_bytes([2; 24]), 1, b"a"));
        assert_ne!(head, head.after(stream, 1, b"a"));
    }
}
