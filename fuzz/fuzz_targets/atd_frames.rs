#![no_main]

use handback_stream::atd::{ClientMessage, Frames, frame};
use libfuzzer_sys::fuzz_target;

fn messages(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        frames.buffer_mut().extend_from_slice(piece);
        loop {
            match frames.next_message() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}

// What comes over a connection: the same messages however it is cut, and each is none, or one that
// is the same when it was written again.
fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let whole = messages(bytes, bytes.len().max(1));
    assert_eq!(messages(bytes, usize::from(*first) + 1), whole);
    for message in whole.0 {
        let Ok(message) = ClientMessage::decode(&message) else { continue };
        let again = frame(&message).expect("no longer than it was");
        assert_eq!(ClientMessage::decode(&again[4..]), Ok(message));
    }
});
