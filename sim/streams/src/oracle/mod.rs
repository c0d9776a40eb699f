//! What must hold, whatever happened.

mod proof;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use handback_stream::{Record, Stored, StreamKey, View};

use crate::client::Client;
use crate::fate::wrong_key;
use crate::server::Server;

pub(crate) use proof::Evidence;

/// What a reader has seen of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    pub(crate) records: Vec<(u64, Bytes)>,
    pub(crate) last: u64,
}

impl Reader {
    /// Reads on; says what is wrong with what it gets.
    pub(crate) fn read(&mut self, server: &Server, view: &View) -> Option<String> {
        if view.number < self.last {
            let (last, upto) = (self.last, view.number);
            return Some(format!("lost: record {last} was seen, and the stream ends at {upto}"));
        }
        let found = server.shown(view, self.last, view.number)?;
        for (number, stored) in found {
            if number != self.last + 1 {
                return Some(format!("lost: record {} is missing", self.last + 1));
            }
            self.records.push((number, stored.record));
            self.last = number;
        }
        (self.last < view.number).then(|| format!("lost: record {} is missing", self.last + 1))
    }

    /// Whether what was seen is still there, byte for byte.
    pub(crate) fn recheck(&self, server: &Server, view: &View) -> Option<String> {
        let found = server.shown(view, 0, self.last)?;
        let same = found.iter().map(|(number, stored)| (*number, stored.record.clone()));
        let is_same = same.eq(self.records.iter().cloned());
        (!is_same).then(|| "lost: what was seen is not there any more".to_owned())
    }
}

/// A record of a stream with its data in the clear, if it has any.
pub(crate) struct Text {
    pub(crate) number: u64,
    pub(crate) record: Record,
    pub(crate) data: Option<String>,
}

/// Decrypts what a stream shows with the key that it should have: this one reads all of it, another
/// one nothing.
pub(crate) fn texts(
    view: &View,
    records: &[(u64, Stored)],
    key: Option<&StreamKey>,
) -> Result<Vec<Text>, String> {
    let (right, wrong) = (view.meta.unlock(key), view.meta.unlock(Some(&wrong_key())));
    let right = right.map_err(|_| "key: the right key does not open the stream".to_owned())?;
    if wrong.is_ok() || (key.is_some() && view.meta.unlock(None).is_ok()) {
        return Err("key: a wrong key, or none, opens the stream".to_owned());
    }
    let mut texts = Vec::with_capacity(records.len());
    for (number, stored) in records {
        let record = Record::decode(&stored.record);
        let record = record.ok_or_else(|| format!("damaged: record {number} is not one"))?;
        let log = view.meta.segment_after(number - 1).id;
        let data = record.data(right.of(log), *number);
        if record.payload().is_some() {
            if data.is_none() {
                return Err(format!("key: the right key does not open record {number}"));
            }
            let wrong = wrong_key().records(log);
            let opened = [record.data(None, *number), record.data(Some(&wrong), *number)];
            if key.is_some() && opened.iter().any(Option::is_some) {
                return Err(format!("key: a wrong key, or none, opens record {number}"));
            }
        }
        let data = data.map(|data| String::from_utf8_lossy(&data).into_owned());
        texts.push(Text { number: *number, record, data });
    }
    Ok(texts)
}

/// Checks the records of a stream against what its producers were told.
pub(crate) fn check(texts: &[Text], clients: &[Client], stream: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    let mut epochs: HashMap<&str, u64> = HashMap::new();
    for Text { number, record, data } in texts {
        let Some(tag) = record.producer() else { continue };
        let epoch = epochs.entry(&tag.id).or_insert(tag.epoch);
        if tag.epoch < *epoch {
            faults.push(format!("zombie: {} wrote as {} after {epoch}", tag.id, tag.epoch));
        }
        *epoch = (*epoch).max(tag.epoch);
        let Some(text) = data else { continue };
        if let Some(before) = seen.insert(text, *number) {
            faults.push(format!("duplicate: {text} is in {before} and {number}"));
        }
        let Some((id, op)) = text.split_once('-') else { continue };
        let expected = next.entry(id).or_insert(0);
        if op.parse() != Ok(*expected) && !faults.iter().any(|f| f.starts_with("duplicate")) {
            faults.push(format!("order: {text} came where {id}-{expected} should"));
        }
        *expected += 1;
    }
    for client in clients.iter().filter(|client| client.stream == stream) {
        for op in 0..client.acked_below {
            if !seen.contains_key(client.text(op).as_str()) {
                faults.push(format!("lost: {} was acknowledged", client.text(op)));
            }
        }
    }
    faults
}
