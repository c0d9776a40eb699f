//! Records with what proves them, as a reader gets them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use handback_stream::{CommitProof, Head, Path, PublicKey, StreamId, Verifier, VerifyError};
use serde_json::Value;

use super::server::Server;
use crate::support::Sandbox;

fn unhex<const N: usize>(text: &str) -> [u8; N] {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(byte)
}

pub(crate) fn keys(server: &Server) -> Vec<PublicKey> {
    let answer = server.ask("GET /v1/keys", &[], b"");
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    let key = |key: &Value| {
        let bytes = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
        PublicKey::from_bytes(bytes.try_into().unwrap())
    };
    told["keys"].as_array().unwrap().iter().map(key).collect()
}

fn lines(server: &Server, path: &str) -> Vec<Value> {
    let answer = server.ask(&format!("GET /v1/stream/{path}?records=1"), &[], b"");
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Verifies all sections; gives the data of the last one.
fn verify(lines: &[Value], keys: &[PublicKey]) -> Result<(String, bool), VerifyError> {
    let mut verifier: Option<(String, Verifier)> = None;
    let mut data = String::new();
    let mut is_proved = false;
    for line in lines {
        let stream = line["stream"].as_str().unwrap();
        let number = line["number"].as_u64().unwrap();
        let id = StreamId::from_bytes(unhex(stream));
        if verifier.as_ref().is_none_or(|(before, _)| before != stream) {
            let source = verifier.take().map(|(_, verifier)| verifier.last());
            let mut next = Verifier::from_start(id, number, keys.to_vec());
            let Some(record) = line["record"].as_str() else {
                return Err(VerifyError::Missing { expected: number });
            };
            let bytes = STANDARD.decode(record).unwrap();
            next.record(number, &Bytes::from(bytes), source)?;
            verifier = Some((stream.to_owned(), next));
            is_proved = false;
            continue;
        }
        let (_, verifier) = verifier.as_mut().unwrap();
        if let Some(record) = line["record"].as_str() {
            let bytes = Bytes::from(STANDARD.decode(record).unwrap());
            let record = verifier.record(number, &bytes, None)?;
            if let Some(payload) = record.payload() {
                data.push_str(std::str::from_utf8(&payload.bytes).unwrap());
            }
            is_proved = false;
            continue;
        }
        let step = |step: &Value| (step[0] == "left", unhex(step[1].as_str().unwrap()));
        let signature = STANDARD.decode(line["signature"].as_str().unwrap()).unwrap();
        verifier.commit(&CommitProof {
            commit: line["commit"].as_u64().unwrap(),
            time: line["time"].as_u64().unwrap(),
            number,
            head: Head::from_bytes(unhex(line["head"].as_str().unwrap())),
            path: Path::from_steps(line["path"].as_array().unwrap().iter().map(step)),
            signature: signature.try_into().unwrap(),
        })?;
        is_proved = true;
    }
    Ok((data, is_proved))
}

#[test]
fn a_reader_proves_what_it_read_also_after_a_crash_and_on_a_fork() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    for seq in 0..5 {
        server.produce("s", 0, seq, &format!("{seq};"));
    }
    let keys = keys(&server);
    assert_eq!(verify(&lines(&server, "s"), &keys), Ok(("0;1;2;3;4;".to_owned(), true)));
    server.kill();
    let server = Server::start(&sandbox, &data);
    assert_eq!(verify(&lines(&server, "s"), &keys), Ok(("0;1;2;3;4;".to_owned(), true)));
    let at = "0000000000000000_0000000000000002";
    let fork = [("stream-forked-from", "/v1/stream/s"), ("stream-fork-offset", at)];
    assert_eq!(server.ask("PUT /v1/stream/f", &fork, b"").status, 201);
    server.produce("f", 0, 0, "fork");
    let told = lines(&server, "f");
    let shared = verify(&told, &keys);
    assert_eq!(shared, Ok(("0;1;fork".to_owned(), true)));
    // A fork of the fork: where it shows what it was forked from, at its own start, and after it.
    let url = format!("http://{}", server.address);
    for (at, expected) in [(0, "g"), (1, "0;g"), (2, "0;1;g"), (3, "0;1;forkg")] {
        let (path, at) = (format!("g{at}"), format!("0000000000000000_{at:016}"));
        let fork = [("stream-forked-from", "/v1/stream/f"), ("stream-fork-offset", &*at)];
        assert_eq!(server.ask(&format!("PUT /v1/stream/{path}"), &fork, b"").status, 201);
        server.produce(&path, 0, 0, "g");
        assert_eq!(server.read(&path), expected);
        assert_eq!(verify(&lines(&server, &path), &keys), Ok((expected.to_owned(), true)), "{at}");
        let ran = sandbox.run_words(&["stream", "verify", &path, "--url", &url]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    // Any other key, any other byte.
    assert!(verify(&told, &[PublicKey::from_bytes([1; 32])]).is_err());
    for place in 0..told.len() {
        let mut dropped = told.clone();
        let line = dropped.remove(place);
        let is_last = place + 1 == told.len();
        let is_proof = line.get("signature").is_some();
        let verdict = verify(&dropped, &keys);
        assert!(verdict.is_err() || is_proof || is_last, "{place}: {verdict:?}");
        let Some(record) = told[place]["record"].as_str() else { continue };
        let mut bytes = STANDARD.decode(record).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        let mut edited = told.clone();
        edited[place]["record"] = STANDARD.encode(bytes).into();
        assert!(verify(&edited, &keys).is_err(), "{place}");
    }
}

#[test]
fn nothing_is_stored_in_the_clear() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    let secret = "a secret that nobody should find";
    server.produce("s", 0, 0, secret);
    server.kill();
    for entry in files(&data) {
        let bytes = std::fs::read(&entry).unwrap();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{}", entry.display());
    }
}

pub(crate) fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
