#![no_main]

use bytes::Bytes;
use handback_stream::duplex::{ClientFrame, Format, ServerFrame};
use libfuzzer_sys::fuzz_target;

// What comes over a connection: it is no frame, or one that is the same when it was written again.
fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    for format in [Format::Json, Format::Protobuf] {
        if let Ok(frame) = ClientFrame::decode(format, &bytes) {
            let again = frame.encode(format);
            assert_eq!(ClientFrame::decode(format, &again), Ok(frame));
        }
        if let Ok(frame) = ServerFrame::decode(format, &bytes) {
            let again = frame.encode(format);
            assert_eq!(ServerFrame::decode(format, &again), Ok(frame));
        }
    }
});
