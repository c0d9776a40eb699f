//! Any bytes as a request get one answer, which is JSON, bounded, and a failure or a page.
#![no_main]

use handback_fuzz::pages::{ENGINE, ask};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let text = ask(data);
    let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
    assert!(text.len() <= ENGINE.settings().limits.response_bytes);
    match answer["success"] {
        Value::Bool(true) => assert!(answer.get("data").is_some()),
        Value::Bool(false) => {
            let message = answer["error"]["message"].as_str().expect("a message");
            assert!(message.len() < 2000, "{message}");
            assert!(answer["error"]["code"].is_string());
        }
        _ => panic!("neither success nor failure: {text}"),
    }
});
