//! A patch of a document gives JSON or an error, and one that names nothing changes no byte. The input
//! is the document, a line break, and the patch.
#![no_main]

use handback_page::json::{InMemory, Patch, locate};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const BYTES_MAX: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some((document, patch)) = text.split_once('\n') else { return };
    let Ok(patch) = serde_json::from_str::<Value>(patch) else { return };
    let Ok(read) = Patch::read(&patch) else { return };
    let is_json = locate(&InMemory::new(document, 0), &"".parse().expect("a pointer")).is_ok();
    match read.apply(document, BYTES_MAX) {
        Ok(result) => {
            assert!(is_json && result.len() <= BYTES_MAX);
            if let Err(error) = serde_json::from_str::<Value>(&result) {
                // The one depth that only we take.
                assert!(error.to_string().contains("recursion"), "{error}");
            }
            let operations = patch.as_array().expect("operations");
            if operations.iter().all(|operation| operation["op"] == "test") {
                assert_eq!(result, document);
                // What was tested is there.
                for operation in operations {
                    let path = operation["path"].as_str().expect("a path");
                    let pointer = path.parse().expect("a pointer");
                    let found = locate(&InMemory::new(document, 0), &pointer).expect("JSON");
                    assert!(found.is_some(), "{path}");
                }
            }
        }
        Err(error) => assert!(is_json || error.to_string().contains("not JSON"), "{error}"),
    }
});
