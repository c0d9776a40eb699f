//! An engine over collections, and somebody who asks it.

use std::sync::Arc;

use handback_page::Collection;
use handback_page::aql::{Call, Catalog, Endpoint, Engine, Limits, Settings};
use handback_page::shelf::MemoryShelf;
use handback_token::{Caller, KeyRing, Mode, Sealer, SealerConfig, UnixTime};
use serde_json::{Value, json};

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

/// The smallest answer that can be configured.
pub(crate) const ANSWER_BYTES: usize = 1_000_000;

pub(crate) struct Asker {
    engine: Engine,
    sealer: Sealer,
}

impl Asker {
    /// Over one collection, which is called `t`.
    pub(crate) fn new(collection: impl Collection + 'static) -> Self {
        let mut catalog = Catalog::new();
        catalog.add("t", "", Arc::new(collection)).unwrap();
        let limits = Limits { response_bytes: ANSWER_BYTES, ..Limits::default() };
        let settings = Settings { limits, ..Settings::default() };
        let shelf = Arc::new(MemoryShelf::new(64 << 20));
        let engine = Engine::new(catalog, settings, shelf).unwrap();
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        Self { engine, sealer: Sealer::new(&ring, SealerConfig::default()).unwrap() }
    }

    /// The whole envelope.
    #[track_caller]
    pub(crate) fn ask(&self, request: &Value) -> Value {
        let caller = Caller::dangerous_identified("https://id.example", "alice");
        let call = Call {
            endpoint: Endpoint::Read,
            caller,
            sealer: &self.sealer,
            now: NOW,
            own: None,
            budget_bytes: None,
        };
        let request = request.to_string();
        let step = self.engine.answer_bytes(&call, request.as_bytes(), &mut rand::rng());
        let text = step.answer().unwrap().to_json();
        assert!(text.len() <= ANSWER_BYTES, "{} bytes", text.len());
        serde_json::from_str(&text).unwrap()
    }

    /// The envelope of a page.
    #[track_caller]
    pub(crate) fn list(&self, params: &Value) -> Value {
        self.ask(&json!({"operation": "list_elements", "element_type": "t", "params": params}))
    }

    /// `data` of a page.
    #[track_caller]
    pub(crate) fn page(&self, params: &Value) -> Value {
        let answer = self.list(params);
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    /// One member of the items of a page.
    #[track_caller]
    pub(crate) fn members(&self, params: &Value, name: &str) -> Vec<Value> {
        let page = self.page(params);
        page["items"].as_array().unwrap().iter().map(|item| item[name].clone()).collect()
    }
}
