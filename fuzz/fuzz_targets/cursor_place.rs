//! Any payload that a server could have sealed is refused or is a place: no panic, no item twice.
#![no_main]

use handback_fuzz::NOW;
use handback_fuzz::pages::{ENGINE, SEALER, ask, caller};
use handback_token::{Context, Cursor, Operation, args_fingerprint};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let Some((choice, payload)) = data.split_first() else { return };
    let collection = ["items", "list", "text"][usize::from(choice % 3)];
    let bound_to = [
        json!({}),
        json!({"sort": [{"field": "n", "order": "desc"}]}),
        json!({"sort": {"field": "text"}, "filter": {"text": {"is_null": false}}}),
    ][usize::from(choice / 3 % 3)]
    .clone();
    let identity = ENGINE.catalog().collection(collection).unwrap().schema().unwrap().identity();
    let fingerprint = args_fingerprint(
        &json!({"operation": "query_elements", "params": bound_to, "collection": identity}),
    );
    let context = Context::new(caller(), Operation::Query).name(collection).arguments(&fingerprint);
    let bound = SEALER.bind::<Cursor>(&context).unwrap();
    let Ok(token) = bound.seal(&mut rand::rng(), NOW, payload) else { return };
    for (size, cursor) in [("first", "after"), ("last", "before")] {
        let mut params = bound_to.clone();
        params[size] = 3.into();
        params[cursor] = token.as_str().into();
        let request = json!({
            "operation": "query_elements",
            "element_type": collection,
            "params": params,
        });
        let answer: Value =
            serde_json::from_str(&ask(request.to_string().as_bytes())).expect("JSON");
        if answer["success"] == false {
            let code = &answer["error"]["code"];
            // A sort by a column that the collection lacks, or a cursor that is refused.
            assert_eq!(code, "VALIDATION_INVALID_TYPE", "{answer}");
        }
    }
});
