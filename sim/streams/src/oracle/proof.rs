//! What a client can prove of a stream, and what somebody in between cannot make it believe.

use bytes::Bytes;
use handback_stream::{
    Commit, CommitProof, PublicKey, SigningKey, Stored, StreamId, Verifier, View,
};

use crate::fate::Fate;
use crate::report::Broken;
use crate::server::Server;

/// All that proves a stream: the records of what it was forked from, then its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence(Vec<Chain>);

/// Records of one log, from its first on.
#[derive(Clone, Debug)]
struct Chain {
    log: StreamId,
    start: u64,
    links: Vec<Link>,
}

#[derive(Clone, Debug)]
struct Link {
    number: u64,
    record: Bytes,
    proof: Option<(Commit, CommitProof)>,
}

impl Evidence {
    /// What the server shows of a stream; nothing if it cannot be read.
    pub(crate) fn of(server: &Server, view: &View) -> Option<Self> {
        let mut chains = Vec::new();
        for segment in view.meta.segments() {
            let first = Stored::decode(&server.one(segment.id, segment.after)?)?;
            let upto = segment.upto.unwrap_or(view.last);
            let records = server.read(segment.id, segment.after, upto)?;
            let all = std::iter::once((segment.after, first)).chain(records);
            let link = |(number, stored): (u64, Stored)| Link {
                number,
                proof: proof(server, segment.id, number, &stored),
                record: stored.record,
            };
            let links = all.map(link).collect();
            chains.push(Chain { log: segment.id, start: segment.after, links });
        }
        Some(Self(chains))
    }

    /// Verifies it as a client does. Gives the last record that is proved.
    fn verify(&self, key: PublicKey) -> Result<Option<u64>, String> {
        let (mut source, mut proved) = (None, None);
        for chain in &self.0 {
            let mut verifier = Verifier::from_start(chain.log, chain.start, vec![key]);
            for link in &chain.links {
                let forked_from = source.filter(|_| link.number == chain.start);
                let taken = verifier.record(link.number, &link.record, forked_from);
                taken.map_err(|error| error.to_string())?;
                if let Some((_, proof)) = &link.proof {
                    verifier.commit(proof).map_err(|error| error.to_string())?;
                }
            }
            source = Some(verifier.last());
            proved = verifier.proved().map(|(number, _)| number);
        }
        Ok(proved)
    }

    fn last(&self) -> Option<u64> {
        self.0.last()?.links.last().map(|link| link.number)
    }

    /// Checks that all of it is proved, and nothing that was tampered with.
    pub(crate) fn judge(
        &self,
        fate: &mut Fate,
        key: PublicKey,
        foreign: &SigningKey,
        other: &Self,
    ) {
        match self.verify(key) {
            Ok(proved) if proved == self.last() => {}
            Ok(proved) => {
                let last = self.last();
                fate.fault(format!("unproved: {last:?} is the last record, {proved:?} is proved"));
            }
            Err(fault) => fate.fault(format!("unproved: {fault}")),
        }
        // The fewer proofs, the less there is that could refuse: the last one has to do.
        let mut bare = self.clone();
        let count = bare.0.iter().map(|chain| chain.links.len()).sum::<usize>();
        let is_unsigned = fate.broken == Broken::Unsigned;
        for (place, link) in bare.0.iter_mut().flat_map(|chain| &mut chain.links).enumerate() {
            if place + 1 < count || is_unsigned {
                link.proof = None;
            }
        }
        for how in Tampering::ALL {
            let mut edited = bare.clone();
            if !edited.tamper(fate, how, foreign, other) {
                continue;
            }
            fate.report.tampered += 1;
            let is_believed = match edited.verify(key) {
                Ok(proved) => is_unsigned || (proved.is_some() && proved == edited.last()),
                Err(_) => false,
            };
            if is_believed {
                fate.fault(format!("tampering: {how:?} was not noticed"));
            }
        }
    }

    /// Tampers with it; says whether there was something to tamper with.
    fn tamper(
        &mut self,
        fate: &mut Fate,
        how: Tampering,
        foreign: &SigningKey,
        other: &Self,
    ) -> bool {
        let chain_at = fate.below(self.0.len());
        let is_last = chain_at + 1 == self.0.len();
        let links = &mut self.0[chain_at].links;
        let at = fate.below(links.len());
        match how {
            Tampering::Flip => {
                let mut bytes = links[at].record.to_vec();
                let byte = fate.below(bytes.len());
                bytes[byte] ^= 1 << fate.below(8);
                links[at].record = bytes.into();
            }
            // The last one carries the proof: without it there is just less.
            Tampering::Drop if at + 1 < links.len() => {
                links.remove(at);
                links.iter_mut().skip(at).for_each(|link| link.number -= 1);
                if let Some((_, proof)) = links.last_mut().and_then(|link| link.proof.as_mut()) {
                    proof.number -= 1;
                }
            }
            Tampering::DropSilently if at + 1 < links.len() && at > 0 => {
                links.remove(at);
            }
            Tampering::Swap if at + 1 < links.len() => {
                let bytes = links[at].record.clone();
                if bytes == links[at + 1].record {
                    return false;
                }
                links[at].record = std::mem::replace(&mut links[at + 1].record, bytes);
            }
            Tampering::Repeat if at + 1 < links.len() => {
                let mut again = links[at].clone();
                again.proof = None;
                links.insert(at, again);
                links.iter_mut().skip(at + 1).for_each(|link| link.number += 1);
                if let Some((_, proof)) = links.last_mut().and_then(|link| link.proof.as_mut()) {
                    proof.number += 1;
                }
            }
            Tampering::Splice => {
                let from = other.0.last().map_or(&[][..], |chain| &chain.links);
                let Some(foreign) = from.get(fate.below(from.len())) else { return false };
                if foreign.record == links[at].record {
                    return false;
                }
                links[at].record = foreign.record.clone();
            }
            Tampering::ForeignSignature if is_last => {
                let Some((commit, proof)) = links.last_mut().and_then(|link| link.proof.as_mut())
                else {
                    return false;
                };
                proof.signature = commit.sign(foreign).bytes;
            }
            Tampering::OtherSignature if is_last => {
                let others = other.0.last().and_then(|chain| chain.links.last()?.proof.as_ref());
                let own = links.last_mut().and_then(|link| link.proof.as_mut());
                let (Some((theirs, proof)), Some((ours, own))) = (others, own) else {
                    return false;
                };
                if theirs.number == ours.number {
                    return false;
                }
                own.signature = proof.signature;
            }
            _ => return false,
        }
        true
    }
}

/// What somebody between the server and a client may do.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    /// A bit of a record is another.
    Flip,
    /// A record is left out, and those after it are counted as if it had never been.
    Drop,
    /// A record is left out.
    DropSilently,
    /// Two records change their places.
    Swap,
    /// A record comes twice.
    Repeat,
    /// A record of another stream is in the place of one.
    Splice,
    /// The commit is signed, by another key.
    ForeignSignature,
    /// The signature is the server's, of another commit.
    OtherSignature,
}

impl Tampering {
    const ALL: [Self; 8] = [
        Self::Flip,
        Self::Drop,
        Self::DropSilently,
        Self::Swap,
        Self::Repeat,
        Self::Splice,
        Self::ForeignSignature,
        Self::OtherSignature,
    ];
}

fn proof(
    server: &Server,
    id: StreamId,
    number: u64,
    stored: &Stored,
) -> Option<(Commit, CommitProof)> {
    let commit = Commit::decode(stored.commit, &server.one(StreamId::COMMITS, stored.commit)?)?;
    let signature = server.signature(stored.commit)?;
    let (entry, path) = commit.proof(id)?;
    let proof = (entry.number == number).then_some(CommitProof {
        commit: commit.number,
        time: commit.time,
        number,
        head: entry.head,
        path,
        signature: signature.bytes,
    })?;
    Some((commit, proof))
}
