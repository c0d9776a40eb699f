//! Signed commits: what a reader can prove, and that nothing else proves.

use bytes::Bytes;
use handback_stream::{
    Commit, CommitProof, Head, RecoverError, Signature, Stored, StreamId, Verifier, VerifyError,
};

use crate::disk::{Server, key};

struct Told {
    records: Vec<(u64, Bytes)>,
    commits: Vec<CommitProof>,
    id: StreamId,
}

/// What a server tells about a stream.
fn told(server: &mut Server, path: &str) -> Told {
    // The last signature is stored with the next commit.
    server.create("other");
    let id = server.id(path);
    let mut records = Vec::new();
    let mut commits = Vec::new();
    for ((_, number), bytes) in server.disk.records.range((id, 0)..=(id, u64::MAX)) {
        let stored = Stored::decode(bytes).unwrap();
        records.push((*number, stored.record));
        let commit = &server.disk.records[&(StreamId::COMMITS, stored.commit)];
        let commit = Commit::decode(stored.commit, commit).unwrap();
        let (entry, path) = commit.proof(id).unwrap();
        if entry.number == *number {
            let signature = &server.disk.records[&(StreamId::SIGNATURES, stored.commit)];
            let signature = Signature::decode(stored.commit, signature).unwrap();
            commits.push(CommitProof {
                commit: commit.number,
                time: commit.time,
                number: entry.number,
                head: entry.head,
                path,
                signature: signature.bytes,
            });
        }
    }
    Told { records, commits, id }
}

fn verify(told: &Told) -> Result<Option<(u64, Head)>, VerifyError> {
    let mut verifier = Verifier::from_start(told.id, 0, vec![*key().public()]);
    for (number, record) in &told.records {
        verifier.record(*number, record, None)?;
        for commit in told.commits.iter().filter(|commit| commit.number == *number) {
            verifier.commit(commit)?;
        }
    }
    Ok(verifier.proved())
}

fn server() -> Server {
    let mut server = Server::new();
    server.create("s");
    server.create("t");
    for number in 0..5 {
        for path in ["s", "t"] {
            let command = crate::disk::append(path, &format!("{path}{number}"));
            server.hub.submit(0, handback_stream::Command::Append(command), server.now);
        }
        server.commit();
    }
    server
}

#[test]
fn records_are_proved_by_the_commits() {
    let mut server = server();
    let told = told(&mut server, "s");
    let head = server.view("s").head;
    assert_eq!(verify(&told), Ok(Some((5, head))));
    // From a head that was kept.
    let kept = told.commits.iter().find(|commit| commit.number == 2).unwrap().head;
    let mut verifier = Verifier::after(told.id, 2, kept, vec![*key().public()]);
    for (number, record) in told.records.iter().filter(|(number, _)| *number > 2) {
        verifier.record(*number, record, None).unwrap();
    }
    verifier.commit(told.commits.last().unwrap()).unwrap();
    assert_eq!(verifier.proved(), Some((5, head)));
}

#[test]
fn every_flipped_bit_of_a_record_is_detected() {
    let mut server = server();
    let good = told(&mut server, "s");
    for place in 0..good.records.len() {
        for byte in 0..good.records[place].1.len() {
            for bit in 0..8 {
                let mut bad = Told {
                    records: good.records.clone(),
                    commits: good.commits.clone(),
                    id: good.id,
                };
                let mut bytes = bad.records[place].1.to_vec();
                bytes[byte] ^= 1 << bit;
                bad.records[place].1 = bytes.into();
                assert!(verify(&bad).is_err(), "record {place}, byte {byte}, bit {bit}");
            }
        }
    }
}

#[test]
fn drops_swaps_splices_and_other_keys_are_detected() {
    let mut server = server();
    let other = told(&mut server, "t");
    let good = told(&mut server, "s");
    let copy =
        || Told { records: good.records.clone(), commits: good.commits.clone(), id: good.id };
    for place in 0..good.records.len() {
        let mut dropped = copy();
        dropped.records.remove(place);
        // Without the last record, the last commit is not met: nothing is wrong, less is proved.
        let is_last = place + 1 == good.records.len();
        assert_eq!(verify(&dropped).is_ok(), is_last, "{place}");
        let mut spliced = copy();
        spliced.records[place] = other.records[place].clone();
        assert!(verify(&spliced).is_err());
    }
    let mut swapped = copy();
    swapped.records.swap(2, 3);
    assert!(verify(&swapped).is_err());
    let mut renumbered = copy();
    let (a, b) = (renumbered.records[2].1.clone(), renumbered.records[3].1.clone());
    (renumbered.records[2].1, renumbered.records[3].1) = (b, a);
    assert!(verify(&renumbered).is_err());
    let mut foreign = copy();
    foreign.commits = other.commits.clone();
    assert!(verify(&foreign).is_err());
    let mut as_other = copy();
    as_other.id = other.id;
    assert!(verify(&as_other).is_err());
    for commit in 0..good.commits.len() {
        let mut forged = copy();
        forged.commits[commit].signature[5] ^= 1;
        assert!(matches!(verify(&forged), Err(VerifyError::Signature { .. })));
        let mut later = copy();
        later.commits[commit].time += 1;
        assert!(matches!(verify(&later), Err(VerifyError::Signature { .. })));
    }
}

#[test]
fn the_last_signature_is_made_again_after_a_crash_and_a_gap_is_damage() {
    let mut server = server();
    let commits = server.disk.records.range((StreamId::COMMITS, 0)..).count();
    server.restart();
    assert!(verify(&told(&mut server, "s")).is_ok());
    assert!(commits > 3);
    server.disk.records.retain(|(id, number), _| *id != StreamId::SIGNATURES || *number < 3);
    assert!(matches!(server.try_restart(), Err(RecoverError::Damaged(StreamId::SIGNATURES, _))));
}

#[test]
fn stored_records_that_were_edited_are_found_at_the_start() {
    let good = server().disk;
    let mut found = 0;
    let ids: Vec<_> = good.records.keys().copied().collect();
    for place in ids {
        for byte in 0..good.records[&place].len() {
            let mut server = Server::new();
            server.disk = good.clone();
            let mut bytes = good.records[&place].to_vec();
            bytes[byte] ^= 0x10;
            server.disk.records.insert(place, bytes.into());
            found += usize::from(server.try_restart().is_err());
        }
    }
    assert!(found > 100, "{found}");
}
