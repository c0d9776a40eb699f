#![no_main]

use bytes::Bytes;
use handback_stream::{Commit, Offset, Payload, Record, Signature, Stored, StreamName};
use libfuzzer_sys::fuzz_target;

// What is read back from a store or comes from a client: whatever it is, it is taken whole or not.
fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(stored) = Stored::decode(&bytes) {
        let _ = Record::decode(&stored.record);
    }
    let _ = Record::decode(&bytes);
    let _ = Commit::decode(1, data);
    let _ = Signature::decode(1, data);
    if let Ok(payload) = Payload::parse(bytes.clone(), true) {
        // What was taken apart is JSON again, with as many messages.
        let text = [b"[", &payload.bytes[..], b"]"].concat();
        let messages: Vec<Box<serde_json::value::RawValue>> =
            serde_json::from_slice(&text).unwrap();
        assert_eq!(messages.len(), payload.messages as usize);
        let all = u64::from(payload.messages);
        assert!(payload.part(all).is_some());
        assert!(payload.part(all + 1).is_none());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(offset) = text.parse::<Offset>() {
            assert_eq!(offset.to_string(), text);
        }
        if let Ok(name) = StreamName::new("owner", text) {
            assert_eq!(name.path(), text);
        }
    }
});
