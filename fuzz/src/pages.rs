//! An engine over small collections, for the targets of pages.

use std::sync::{Arc, LazyLock};

use handback_page::aql::{Call, Catalog, Endpoint, Engine, Settings, Step};
use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use handback_page::shelf::MemoryShelf;
use handback_page::text::TextCollection;
use handback_page::{Collection, FieldPath};
use handback_token::{Caller, KeyRing, MasterKey, Mode, Sealer, SealerConfig};

use crate::{ISSUER, KEY, NOW};

const ITEMS: &str = r#"[
    {"id": 1, "n": 5, "text": "one", "list": [1, "a"]},
    {"id": 2, "n": null, "text": "two", "more": {"deep": true}},
    {"id": "3", "n": 5.0, "text": ""},
    {"id": 4, "n": "5"},
    {"id": 5, "n": 18446744073709551616, "text": "é"}
]"#;

pub static SEALER: LazyLock<Sealer> = LazyLock::new(|| {
    let secret = MasterKey::from_bytes(&KEY).expect("a key");
    let ring = KeyRing::from_secret(&secret, Mode::Sealed);
    Sealer::new(&ring, SealerConfig::default()).expect("a sealer")
});

pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let json = |options| -> Arc<dyn Collection> {
        Arc::new(JsonCollection::open(InMemory::new(ITEMS, 0), options).expect("JSON"))
    };
    let mut catalog = Catalog::new();
    let keyed = JsonOptions::new().with_key(FieldPath::name("id"));
    catalog.add("items", "", json(keyed)).expect("a name");
    catalog.add("list", "", json(JsonOptions::new())).expect("a name");
    let text = TextCollection::open(InMemory::new("one\ntwo\n\nthree", 0)).expect("text");
    catalog.add("text", "", Arc::new(text)).expect("a name");
    let shelf = Arc::new(MemoryShelf::new(1 << 20));
    Engine::new(catalog, Settings::default(), shelf).expect("settings")
});

pub fn caller() -> Caller<'static> {
    Caller::dangerous_identified(ISSUER, "alice")
}

/// The answer to a request, as text; a page that waits is not waited for.
pub fn ask(request: &[u8]) -> String {
    let call = Call {
        endpoint: Endpoint::Read,
        caller: caller(),
        sealer: &SEALER,
        now: NOW,
        own: None,
        budget_bytes: None,
    };
    let mut step = ENGINE.answer_bytes(&call, request, &mut rand::rng());
    loop {
        match step {
            Step::Answer(answer) => return answer.to_json(),
            Step::Wait(waiting) => step = ENGINE.resume(&call, waiting, &mut rand::rng()),
        }
    }
}
