//! Bytes of the data directory that someone, or the disk, changes while the server is down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::proofs::files;
use super::server::Server;
use crate::support::Sandbox;

/// Bytes that are changed, each in a copy of its own.
const FLIPS: usize = 300;

const RECORDS: u64 = 12;

/// A file, and how many of its bytes were written: the journal has zeros after them.
fn written(file: &Path) -> usize {
    let bytes = fs::read(file).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let how = ["-a", "--sparse=always"];
    let done = Command::new("cp").args(how).arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// Which byte of which file: all files, and all parts of them.
fn places(data: &Path) -> Vec<(PathBuf, usize)> {
    let mut files: Vec<_> = files(data).into_iter().map(|file| (written(&file), file)).collect();
    files.retain(|(length, _)| *length > 0);
    files.sort();
    let mut places = Vec::new();
    // The large files, which have the records, more often; each file at least once.
    let total: usize = files.iter().map(|(length, _)| length.min(&8192)).sum();
    for (length, file) in files {
        let share = (FLIPS * length.min(8192) / total).max(1);
        places
            .extend((0..share).map(|part| (file.clone(), (length * (2 * part + 1)) / (2 * share))));
    }
    places
}

#[test]
fn what_is_changed_on_the_disk_is_noticed_or_harmless() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    // Twice, so that some of it is in tables and some in the journal.
    for life in 0..2 {
        let server = Server::start(&sandbox, &data);
        server.create("s");
        for seq in life * RECORDS..(life + 1) * RECORDS {
            assert_eq!(server.produce("s", 0, seq, &format!("record {seq};")).status, 200);
        }
        server.kill();
    }
    let server = Server::start(&sandbox, &data);
    let verify = |server: &Server| {
        let url = format!("http://{}", server.address);
        let words = ["stream", "verify", "s", "--kept-head", "head", "--url", &url];
        sandbox.run_words(&words)
    };
    assert_eq!(verify(&server).code, 0);
    let honest = server.read("s");
    let head = fs::read(sandbox.path("head")).unwrap();
    server.kill();
    let (mut refused, mut noticed, mut harmless) = (0, 0, 0);
    for (file, place) in places(&data) {
        let what = format!("byte {place} of {}", file.strip_prefix(&data).unwrap().display());
        let copied = sandbox.path("copy");
        copy(&data, &copied);
        let file = copied.join(file.strip_prefix(&data).unwrap());
        let mut bytes = fs::read(&file).unwrap();
        bytes[place] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        fs::write(sandbox.path("head"), &head).unwrap();
        let server = match Server::try_start(&sandbox, &copied) {
            Ok(server) => server,
            Err(said) => {
                assert!(said.contains("error") && !said.contains("panicked"), "{what}: {said}");
                refused += 1;
                continue;
            }
        };
        let ran = verify(&server);
        assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
        if ran.code != 0 {
            noticed += 1;
            continue;
        }
        harmless += 1;
        assert_eq!(server.read("s"), honest, "{what} was not noticed");
        // What was accepted is still known to be.
        let again = server.produce("s", 0, 2 * RECORDS - 1, "again");
        assert_eq!(again.status, 204, "{what}: appended twice");
    }
    // All three are met, so that none of them is what always happens.
    let all = format!("{refused} refused, {noticed} noticed, {harmless} harmless");
    assert!(refused > 0 && harmless > 0, "{all}");
}
