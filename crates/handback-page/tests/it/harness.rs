//! An engine over small collections, a caller and a clock.

use std::sync::Arc;

use handback_page::FieldPath;
use handback_page::aql::{Answer, Call, Catalog, Endpoint, Engine, Settings, Step};
use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use handback_page::shelf::MemoryShelf;
use handback_page::text::TextCollection;
use handback_token::{Caller, KeyRing, Mode, Sealer, SealerConfig, UnixTime};
use serde_json::{Value, json};

pub(crate) const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) ring: KeyRing,
    pub(crate) sealer: Sealer,
    pub(crate) now: UnixTime,
    pub(crate) caller: Caller<'static>,
    pub(crate) endpoint: Endpoint,
    pub(crate) budget_bytes: Option<usize>,
}

impl Harness {
    /// 45 items `e_000` to `e_044` as `items`, a few `people`, and lines of `text`.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let items: Vec<_> = (0..45)
            .map(|n| {
                json!({
                    "id": format!("e_{n:03}"),
                    "n": n,
                    "group": n % 3,
                    "even": n % 2 == 0,
                    "half": if n % 2 == 0 { json!(n / 2) } else { Value::Null },
                })
            })
            .collect();
        let mut catalog = Catalog::new();
        let mut add = |name: &str, collection| catalog.add(name, "", collection).unwrap();
        add("items", Arc::new(json_collection(&json!(items), Some("id"))));
        add("people", Arc::new(json_collection(&people(), None)));
        add("empty", Arc::new(json_collection(&json!([]), None)));
        add(
            "text",
            Arc::new(TextCollection::open(InMemory::hashed("one\nTwo\nthree two\n")).unwrap()),
        );
        Self::over(catalog, settings)
    }

    pub(crate) fn over(catalog: Catalog, settings: Settings) -> Self {
        let shelf = Arc::new(MemoryShelf::new(64 << 20));
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        Self {
            engine: Engine::new(catalog, settings, shelf).unwrap(),
            sealer: Sealer::new(&ring, SealerConfig::default()).unwrap(),
            ring,
            now: NOW,
            caller: Caller::dangerous_identified("https://id.example", "alice"),
            endpoint: Endpoint::Read,
            budget_bytes: None,
        }
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call {
            endpoint: self.endpoint,
            caller: self.caller,
            sealer: &self.sealer,
            now: self.now,
            own: None,
            budget_bytes: self.budget_bytes,
        }
    }

    pub(crate) fn step(&self, request: &Value) -> Step {
        self.engine.answer_bytes(&self.call(), request.to_string().as_bytes(), &mut rand::rng())
    }

    #[track_caller]
    pub(crate) fn answer(&self, request: &Value) -> Answer {
        self.step(request).answer().expect("an answer at once")
    }

    /// The whole envelope.
    #[track_caller]
    pub(crate) fn ask(&self, request: &Value) -> Value {
        serde_json::from_str(&self.answer(request).to_json()).unwrap()
    }

    /// The whole envelope of a request as it is written.
    #[track_caller]
    pub(crate) fn ask_text(&self, request: &str) -> Value {
        let step = self.engine.answer_bytes(&self.call(), request.as_bytes(), &mut rand::rng());
        serde_json::from_str(&step.answer().expect("an answer at once").to_json()).unwrap()
    }

    /// `data` of a page of `items`.
    #[track_caller]
    pub(crate) fn list(&self, params: Value) -> Value {
        self.page("list_elements", "items", params)
    }

    /// `data` of a page.
    #[track_caller]
    pub(crate) fn page(&self, operation: &str, collection: &str, params: Value) -> Value {
        let request = json!({"operation": operation, "element_type": collection, "params": params});
        let answer = self.ask(&request);
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    /// `error` of a request for a page of `items` that fails.
    #[track_caller]
    pub(crate) fn refused(&self, params: Value) -> Value {
        let request =
            json!({"operation": "list_elements", "element_type": "items", "params": params});
        let answer = self.ask(&request);
        assert_eq!(answer["success"], false, "{answer}");
        answer["error"].clone()
    }
}

/// The ids of a page.
pub(crate) fn ids(data: &Value) -> Vec<&str> {
    data["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

pub(crate) fn cursor<'a>(data: &'a Value, which: &str) -> &'a str {
    data["pageInfo"][which].as_str().unwrap()
}

fn people() -> Value {
    json!([
        {"name": "Ada", "age": 36, "address": {"city": "London"}, "tags": ["math", "admin"]},
        {"name": "Grace", "age": 85, "address": {"city": "Arlington"}, "tags": []},
        {"name": "Edsger", "age": null, "address": {"city": "Nuenen"}, "tags": ["admin"]},
        {"name": "Barbara", "address": null},
        {"name": "alan", "age": 41.5, "address": {"city": "Wilmslow"}, "tags": ["math"]},
    ])
}

/// A JSON value as a collection.
pub(crate) fn json_collection(value: &Value, key: Option<&str>) -> JsonCollection {
    let options = match key {
        Some(key) => JsonOptions::new().with_key(FieldPath::name(key)),
        None => JsonOptions::new(),
    };
    JsonCollection::open(InMemory::hashed(value.to_string()), options).unwrap()
}
