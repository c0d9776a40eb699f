//! What must hold, whatever happened.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use handback_stream::{
    Commit, CommitProof, PublicKey, Record, Signature, Stored, StreamId, Verifier,
};

use crate::client::Client;
use crate::server::Server;

/// What a reader has seen of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    pub(crate) records: Vec<(u64, Bytes)>,
    pub(crate) last: u64,
}

impl Reader {
    /// Reads on; says what is wrong with what it gets.
    pub(crate) fn read(&mut self, server: &Server, id: StreamId, upto: u64) -> Option<String> {
        if upto < self.last {
            return Some(format!("record {} was seen, and the stream ends at {upto}", self.last));
        }
        let found = server.read(id, self.last, upto)?;
        for (number, stored) in found {
            if number != self.last + 1 {
                return Some(format!("record {} is missing", self.last + 1));
            }
            self.records.push((number, stored.record));
            self.last = number;
        }
        None
    }

    /// Whether what was seen is still there, byte for byte.
    pub(crate) fn recheck(&self, server: &Server, id: StreamId) -> Option<String> {
        let found = server.read(id, 0, self.last)?;
        let same = found.iter().map(|(number, stored)| (*number, stored.record.clone()));
        if same.eq(self.records.iter().cloned()) {
            None
        } else {
            Some("what was seen is not there any more".to_owned())
        }
    }
}

/// Checks the records of a stream against what its producers were told.
pub(crate) fn check(records: &[(u64, Stored)], clients: &[Client], stream: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen: HashMap<String, u64> = HashMap::new();
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut epochs: HashMap<String, u64> = HashMap::new();
    for (number, stored) in records {
        let Some(record) = Record::decode(&stored.record) else {
            faults.push(format!("record {number} is not one"));
            continue;
        };
        let Some(tag) = record.producer() else { continue };
        let epoch = epochs.entry(tag.id.clone()).or_insert(tag.epoch);
        if tag.epoch < *epoch {
            faults.push(format!("zombie: {} wrote as {} after {epoch}", tag.id, tag.epoch));
        }
        *epoch = (*epoch).max(tag.epoch);
        let Some(payload) = record.payload() else { continue };
        let text = String::from_utf8_lossy(&payload.bytes).into_owned();
        if let Some(before) = seen.insert(text.clone(), *number) {
            faults.push(format!("duplicate: {text} is in {before} and {number}"));
        }
        let Some((id, op)) = text.split_once('-') else { continue };
        let expected = next.entry(id.to_owned()).or_insert(0);
        if op.parse() != Ok(*expected) && !faults.iter().any(|f| f.starts_with("duplicate")) {
            faults.push(format!("order: {text} came where {id}-{expected} should"));
        }
        *expected += 1;
    }
    for client in clients.iter().filter(|client| client.stream == stream) {
        for op in 0..client.acked_below {
            if !seen.contains_key(&client.text(op)) {
                faults.push(format!("lost: {} was acknowledged", client.text(op)));
            }
        }
    }
    faults
}

/// Verifies a stream as a client does, from its first record on; then edits a byte, which must be
/// noticed.
pub(crate) fn prove(
    server: &Server,
    id: StreamId,
    records: &[(u64, Stored)],
    key: PublicKey,
    place: usize,
) -> Vec<String> {
    let Some(genesis) = server.one(id, 0).and_then(|bytes| Stored::decode(&bytes)) else {
        return vec!["the first record is missing".to_owned()];
    };
    let mut all = vec![(0, genesis)];
    all.extend(records.iter().cloned());
    let mut faults = Vec::new();
    match verify(server, id, &all, key) {
        Ok(proved) => {
            let last = all.last().map_or(0, |(number, _)| *number);
            // The signature of the very last commit may not be stored yet.
            let last_commit = all.last().map_or(0, |(_, stored)| stored.commit);
            let signed = server.one(StreamId::SIGNATURES, last_commit).is_some();
            if signed && proved != Some(last) {
                faults.push(format!("records up to {last} are there, {proved:?} is proved"));
            }
        }
        Err(fault) => faults.push(format!("not proved: {fault}")),
    }
    let at = place % all.len();
    let mut bytes = all[at].1.record.to_vec();
    let byte = place % bytes.len();
    bytes[byte] ^= 1 << (place % 8);
    all[at].1.record = bytes.into();
    let covered = (at..all.len()).any(|after| {
        let (number, stored) = &all[after];
        proof(server, id, *number, stored).is_some()
    });
    if covered && verify(server, id, &all, key).is_ok() {
        faults.push(format!("tampering: byte {byte} of record {at} was edited, and is proved"));
    }
    faults
}

fn proof(server: &Server, id: StreamId, number: u64, stored: &Stored) -> Option<CommitProof> {
    let commit = Commit::decode(stored.commit, &server.one(StreamId::COMMITS, stored.commit)?)?;
    let signature = server.one(StreamId::SIGNATURES, stored.commit)?;
    let signature = Signature::decode(stored.commit, &signature)?;
    let (entry, path) = commit.proof(id)?;
    (entry.number == number).then_some(CommitProof {
        commit: commit.number,
        time: commit.time,
        number,
        head: entry.head,
        path,
        signature: signature.bytes,
    })
}

fn verify(
    server: &Server,
    id: StreamId,
    records: &[(u64, Stored)],
    key: PublicKey,
) -> Result<Option<u64>, String> {
    let mut verifier = Verifier::from_start(id, 0, vec![key]);
    for (number, stored) in records {
        let taken = verifier.record(*number, &stored.record, None);
        taken.map_err(|error| error.to_string())?;
        if let Some(proof) = proof(server, id, *number, stored) {
            verifier.commit(&proof).map_err(|error| error.to_string())?;
        }
    }
    Ok(verifier.proved().map(|(number, _)| number))
}
