//! What is done with a large value, in a process of its own.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use handback_identity::{Caller, UnixPeers};
use handback_page::aql::{Catalog, Settings};
use handback_store::held::HeldOptions;
use handback_store::{DataKey, EmbeddedOptions, EmbeddedStore, Encrypted};
use handback_token::Handle;
use handback_tool::Registry;
use serde_json::{Value, json};

use super::result::{GROUPS, ITEMS, Met, Result, group, number, score};
use super::{CROWD_RISE_MAX_BYTES, RISE_MAX_BYTES};
use crate::bench::{Bench, alice, bob, list};
use crate::config;
use crate::killed::process::say;

/// Items of a page.
const PAGE: u64 = 1000;

/// Does nothing unless a test started it in a process of its own.
#[test]
fn reads() {
    let Some(what) = config::large() else { return };
    let (what, megabytes) = what.split_once(' ').unwrap();
    let bytes = megabytes.parse::<u64>().unwrap() * 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let site = Site::new(folder.path(), bytes);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        match what {
            "everything" => site.everything().await,
            "crowd" => site.crowd().await,
            other => panic!("{other}"),
        }
    });
    say("reads is over");
}

struct Site {
    bench: Bench,
    bytes: u64,
}

impl Site {
    /// The store of a server, with its files encrypted.
    fn new(folder: &std::path::Path, bytes: u64) -> Self {
        let key = DataKey::generate(&mut rand::rng());
        let store = EmbeddedStore::open(folder.join("store"), EmbeddedOptions::new()).unwrap();
        let kv = Arc::new(Encrypted::new(store, &key));
        let options = HeldOptions::new().folder(folder.join("held")).encrypted_under(&key);
        // On defaults as long as that is enough.
        let options =
            if bytes > 200_000_000 { options.per_principal_bytes(2 << 30) } else { options };
        let settings = Settings { max_page_size: 1000, ..Settings::default() };
        let bench = Bench::on(kv, Registry::new(), Catalog::new(), settings, options);
        Self { bench, bytes }
    }

    async fn everything(&self) {
        // Everything was done once before memory is looked at.
        let small = Result::of_bytes(1_000_000, 200);
        Reading::new(&self.bench, small, alice()).everything().await;
        let before = memory("VmRSS:");
        // Of the short ones the index has not room for all.
        let item_bytes = if self.bytes < 100_000_000 { 800 } else { 100 };
        let large = Result::of_bytes(self.bytes, item_bytes);
        let reading = Reading::new(&self.bench, large, alice());
        reading.everything().await;
        let rise = memory("VmHWM:").saturating_sub(before);
        measured("everything", self.bytes, rise);
        assert!(rise <= RISE_MAX_BYTES, "{rise} bytes more than before");
        reading.belongs_to_its_owner().await;
    }

    /// Four callers, of which each reads its own in two ways at once.
    async fn crowd(&self) {
        let callers = (10..14).map(|uid| UnixPeers::new("test").unwrap().caller(uid));
        Reading::new(&self.bench, Result::of_bytes(1_000_000, 200), alice()).everything().await;
        let before = memory("VmRSS:");
        let result = Result::of_bytes(self.bytes, 100);
        let readings: Vec<_> =
            callers.map(|caller| Reading::new(&self.bench, result, caller)).collect();
        let ways = readings.iter().map(|reading| async move {
            tokio::join!(reading.sorted(3), reading.searched(2), reading.counted());
        });
        futures_util::future::join_all(ways).await;
        let rise = memory("VmHWM:").saturating_sub(before);
        measured("crowd", self.bytes, rise);
        assert!(rise <= CROWD_RISE_MAX_BYTES, "{rise} bytes more than before");
    }
}

/// A result that is held, and who reads it.
struct Reading<'a> {
    bench: &'a Bench,
    result: Result,
    caller: Caller,
    handle: String,
}

impl<'a> Reading<'a> {
    fn new(bench: &'a Bench, result: Result, caller: Caller) -> Self {
        let handle = result.hold(&bench.held, caller.principal());
        Self { bench, result, caller, handle }
    }

    async fn everything(&self) {
        self.listed().await;
        self.paged().await;
        self.searched(GROUPS).await;
        self.filtered().await;
        self.counted().await;
        // Beyond the first stretch in any case.
        self.sorted(if self.result.items > SORTED_MAX { SORTED_MAX / PAGE } else { u64::MAX })
            .await;
        self.pointed().await;
        self.too_large().await;
    }

    async fn ask(&self, operation: &str, params: Value) -> Value {
        let request =
            json!({"operation": operation, "element_type": self.handle, "params": params});
        self.bench.ask(self.caller.clone(), request).await
    }

    /// Walks, and gives every item to `meet`. Ends after so many pages. Gives the total.
    async fn walk(
        &self,
        operation: &str,
        mut params: Value,
        pages: u64,
        mut meet: impl FnMut(&Value),
    ) -> u64 {
        params["first"] = PAGE.into();
        let mut total = 0;
        for _ in 0..pages {
            let answer = self.ask(operation, params.clone()).await;
            assert_eq!(answer["success"], true, "{answer}");
            let data = &answer["data"];
            data["items"].as_array().unwrap().iter().for_each(&mut meet);
            total = data["pageInfo"]["totalCount"].as_u64().unwrap();
            if data["pageInfo"]["hasNextPage"] == false {
                break;
            }
            params["after"] = data["pageInfo"]["endCursor"].clone();
        }
        total
    }

    async fn listed(&self) {
        let request = json!({"operation": "list_collections"});
        let answer = self.bench.ask(self.caller.clone(), request).await;
        let items = answer["data"]["items"].as_array().unwrap();
        let own = items.iter().find(|item| item["name"] == self.handle).unwrap();
        assert_eq!(own["kind"], "application/json", "{own}");
        assert!(own["bytes"].as_u64().unwrap() > self.result.items * 100);
        assert!(own["expires_at"].as_u64().is_some());
        let from = (&own["upstream"], &own["tool"], &own["pointer"]);
        assert_eq!(from, (&json!("shop"), &json!("export"), &json!(ITEMS)));
    }

    /// Every item once, in order.
    async fn paged(&self) {
        let mut next = 0;
        let total = self
            .walk("list_elements", json!({"fields": ["id", "score"]}), u64::MAX, |item| {
                assert_eq!((number(item, "id"), number(item, "score")), (next, score(next)));
                next += 1;
            })
            .await;
        assert_eq!((next, total), (self.result.items, self.result.items));
    }

    /// Every item of some groups once.
    async fn searched(&self, groups: u64) {
        let mut met = Met::none(self.result.items);
        for number_of_group in 0..groups {
            let word = group(number_of_group);
            let params = json!({"query": word, "fields": ["id", "group"]});
            self.walk("search_elements", params, u64::MAX, |item| {
                assert_eq!(item["group"], word);
                met.meet(number(item, "id"));
            })
            .await;
        }
        let expected = (0..self.result.items).filter(|n| n % GROUPS < groups).count();
        assert_eq!(met.count(), expected as u64);
    }

    async fn filtered(&self) {
        let mut met = Met::none(self.result.items);
        let filter = json!({"score": {"lt": 900_000}});
        let params = json!({"filter": filter, "fields": ["id", "score"]});
        let total = self
            .walk("query_elements", params, u64::MAX, |item| {
                assert!(number(item, "score") < 900_000);
                met.meet(number(item, "id"));
            })
            .await;
        let expected = self.result.below(900_000);
        assert_eq!((met.count(), total), (expected, expected));
    }

    async fn counted(&self) {
        for limit in [1, 500_000] {
            let params = json!({"filter": {"score": {"lt": limit}}});
            let answer = self.ask("count_elements", params).await;
            assert_eq!(answer["data"]["count"], self.result.below(limit), "{answer}");
        }
    }

    /// The highest scores first, and the lowest of all from the end.
    async fn sorted(&self, pages: u64) {
        let sort = json!({"field": "score", "order": "desc"});
        let mut met = Met::none(self.result.items);
        let mut last = (u64::MAX, 0);
        let params = json!({"sort": sort, "fields": ["id", "score"]});
        self.walk("list_elements", params, pages, |item| {
            let (id, score) = (number(item, "id"), number(item, "score"));
            assert!(score < last.0 || (score == last.0 && id > last.1), "{item} after {last:?}");
            last = (score, id);
            met.meet(id);
        })
        .await;
        assert_eq!(met.count(), self.result.items.min(pages.saturating_mul(PAGE)));
        let answer = self.ask("list_elements", json!({"sort": sort, "last": 3})).await;
        let lowest = number(&answer["data"]["items"][2], "score");
        assert_eq!(self.result.below(lowest), 0, "{answer}");
        assert_eq!(answer["data"]["pageInfo"]["hasNextPage"], false);
    }

    /// Every item by its pointer, where that is a matter of seconds; else some of all of them.
    async fn pointed(&self) {
        let get = |pointer: String| json!({"operation": "get_element", "element_type": self.handle, "params": {"pointer": pointer}});
        let step = (self.result.items / POINTED_MAX).max(1);
        let numbers: Vec<u64> =
            (0..self.result.items).step_by(usize::try_from(step).unwrap()).collect();
        for some in numbers.chunks(100) {
            let operations: Vec<_> = some.iter().map(|n| get(format!("{ITEMS}/{n}"))).collect();
            let request = json!({"operations": operations});
            let text = self.bench.text(self.caller.clone(), "mcp_aql_read", request).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            for (number, result) in some.iter().zip(answer["results"].as_array().unwrap()) {
                let expected: Value = serde_json::from_str(&self.result.item(*number)).unwrap();
                assert_eq!(result["result"]["data"], expected, "{result}");
            }
        }
        let last = self.result.items - 1;
        let answer =
            self.ask("get_element", json!({"pointer": format!("{ITEMS}/{last}/id")})).await;
        assert_eq!(answer["data"], last);
        let answer = self.ask("get_element", json!({"pointer": "/structuredContent/total"})).await;
        assert_eq!(answer["data"], self.result.items);
        for pointer in [format!("{ITEMS}/{}", self.result.items), "/no".to_owned()] {
            let answer = self.ask("get_element", json!({"pointer": pointer})).await;
            assert_eq!(answer["error"]["code"], "NOT_FOUND_RESOURCE", "{answer}");
        }
    }

    /// A value beyond the answer says how large it is, and comes in pieces.
    async fn too_large(&self) {
        let pointer = "/content/0/text";
        if self.result.text_chars > 10_000_000 {
            let answer = self.ask("get_element", json!({"pointer": pointer})).await;
            let details = &answer["error"]["details"];
            assert_eq!(details["actual_value"], self.result.text_chars + 2, "{answer}");
            let answer = self.ask("get_element", json!({"pointer": ITEMS})).await;
            let hint = answer["error"]["details"]["hint"].as_str().unwrap();
            assert!(hint.contains(&format!("{}#{ITEMS}", self.handle)), "{answer}");
        }
        let from = self.result.text_chars - 15;
        let piece = json!({"pointer": pointer, "from": from, "length": 100});
        let answer = self.ask("get_element", piece).await;
        assert_eq!(answer["data"]["text"].as_str().unwrap().len(), 17, "{answer}");
        assert!(answer["data"].get("next").is_none(), "{answer}");
        // The members of a part are elements, too.
        let request =
            list(&format!("{}#/structuredContent", self.handle), json!({"fields": ["key"]}));
        let answer = self.bench.ask(self.caller.clone(), request).await;
        if self.result.items * (self.result.item_bytes as u64) < 10_000_000 {
            assert_eq!(
                answer["data"]["items"],
                json!([{"key": "total"}, {"key": "items"}]),
                "{answer}"
            );
        } else {
            // The items are one member, which is too long to be read.
            let members = &answer["data"]["items"];
            assert_eq!(members[0], json!({"key": "total"}), "{answer}");
            let shown = &members[1]["$excerpt"];
            let text = shown["text"].as_str().unwrap();
            assert!(text.starts_with(r#"{"key":"items","value":["#), "{answer}");
            assert_eq!(shown["read_on"]["params"]["pointer"], ITEMS, "{answer}");
        }
    }

    /// Others learn nothing, and the owner when it is over.
    async fn belongs_to_its_owner(&self) {
        let unknown = Handle::generate(&mut rand::rng()).to_string();
        let requests = |handle: &str| {
            let get = json!({"operation": "get_element", "element_type": handle,
                "params": {"pointer": format!("{ITEMS}/0")}});
            [list(handle, json!({})), get, list(&format!("{handle}#{ITEMS}"), json!({}))]
        };
        for (theirs, nobodys) in requests(&self.handle).into_iter().zip(requests(&unknown)) {
            let refusal = self.bench.refused(bob(), theirs).await;
            assert!(refusal.contains("invalid handle"), "{refusal}");
            assert_eq!(self.bench.refused(bob(), nobodys).await, refusal);
        }
        self.bench.pass(Duration::from_secs(3601));
        for (own, nobodys) in requests(&self.handle).into_iter().zip(requests(&unknown)) {
            let late = self.bench.refused(self.caller.clone(), own.clone()).await;
            assert!(late.contains("expired handle"), "{late}");
            let refusal = self.bench.refused(bob(), nobodys).await;
            assert_eq!(self.bench.refused(bob(), own).await, refusal);
        }
    }
}

/// Items that are asked for one by one.
const POINTED_MAX: u64 = 5_000;

/// Items that are walked over in an order that is not theirs: more than are sorted at once.
const SORTED_MAX: u64 = 2_000_000;

/// What the system says of the memory of this process, in bytes.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

fn measured(what: &str, bytes: u64, rise: u64) {
    say(&format!("measured {what}: {} MB held, {} kB more memory", bytes / 1_000_000, rise / 1000));
}
