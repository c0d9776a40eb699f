//! The payload of a cursor, the id of a task and the note of a held value have one form each.
#![no_main]

use handback_wire::hop::{Payload, read_task_id, task_id};
use handback_wire::note::HeldNote;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(payload) = Payload::read(data) {
        assert_eq!(payload.to_bytes().as_deref(), Some(data));
    }
    if let Ok(text) = str::from_utf8(data)
        && let Some(id) = read_task_id(text)
    {
        assert_eq!(task_id(id), text);
    }
    let note = HeldNote::read(data);
    assert_eq!(HeldNote::read(&note.to_bytes()), note);
});
