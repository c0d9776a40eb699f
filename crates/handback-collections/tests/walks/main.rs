//! Walks through whole collections, by requests and cursors, against a simple model: on JSON files,
//! SQLite and Postgres.
//!
//! The model shares no code with the product: rows in a vector, conditions and comparisons written
//! out for these five columns.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod backends;
mod config;
mod model;

use std::collections::BTreeSet;
use std::sync::Arc;

use handback_page::aql::{Call, Catalog, Endpoint, Engine, Settings};
use handback_page::shelf::MemoryShelf;
use handback_token::{Caller, KeyRing, Mode, Sealer, SealerConfig, UnixTime};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use backends::{Backend, JsonFile, Postgres, Sqlite};
use model::{Change, Condition, Row, Sort};

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

/// An engine over one backend, and who asks it.
struct Walker {
    engine: Engine,
    sealer: Sealer,
}

impl Walker {
    fn over(backend: &dyn Backend) -> Self {
        let mut catalog = Catalog::new();
        catalog.add("rows", "", backend.collection()).unwrap();
        let shelf = Arc::new(MemoryShelf::new(64 << 20));
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        Self {
            engine: Engine::new(catalog, Settings::default(), shelf).unwrap(),
            sealer: Sealer::new(&ring, SealerConfig::default()).unwrap(),
        }
    }

    fn page(&self, params: &Value) -> Value {
        let request =
            json!({"operation": "query_elements", "element_type": "rows", "params": params});
        let call = Call {
            endpoint: Endpoint::Read,
            caller: Caller::dangerous_identified("https://id.example", "alice"),
            sealer: &self.sealer,
            now: NOW,
            own: None,
            budget_bytes: None,
        };
        let step =
            self.engine.answer_bytes(&call, request.to_string().as_bytes(), &mut rand::rng());
        let answer: Value = serde_json::from_str(&step.answer().unwrap().to_json()).unwrap();
        assert_eq!(answer["success"], true, "{request}\n{answer}");
        answer["data"].clone()
    }
}

fn ids(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Forward,
    Backward,
}

/// One walk to its end. Before each page but the first, `between` may change the rows. Gives the
/// pages in forward order.
fn walk(
    walker: &Walker,
    query: &Value,
    sizes: &[usize],
    way: Way,
    mut between: impl FnMut(usize),
) -> Vec<Value> {
    let (size_name, cursor_name, which, more) = match way {
        Way::Forward => ("first", "after", "endCursor", "hasNextPage"),
        Way::Backward => ("last", "before", "startCursor", "hasPreviousPage"),
    };
    let mut pages = Vec::new();
    let mut params = query.clone();
    for step in 0..1000 {
        params[size_name] = sizes[step % sizes.len()].into();
        let page = walker.page(&params);
        let info = page["pageInfo"].clone();
        pages.push(page);
        let Some(cursor) = info[which].as_str() else { break };
        if info[more] == false {
            break;
        }
        params[cursor_name] = cursor.into();
        between(step);
    }
    assert!(pages.len() < 1000, "the walk does not end");
    if way == Way::Backward {
        pages.reverse();
    }
    pages
}

fn all_ids(pages: &[Value]) -> Vec<i64> {
    pages.iter().flat_map(ids).collect()
}

/// Nothing changes: both directions give exactly what the model gives, and the flags are right.
fn check_still(
    backend: &dyn Backend,
    rows: &[Row],
    sort: &[Sort],
    condition: &Condition,
    sizes: &[usize],
) {
    backend.reset(rows);
    let walker = Walker::over(backend);
    let expected = model::select(rows, sort, condition);
    let mut query = json!({"filter": condition.to_json(), "include_total": true});
    if !sort.is_empty() {
        query["sort"] = sort.iter().map(Sort::to_json).collect();
    }
    for way in [Way::Forward, Way::Backward] {
        let pages = walk(&walker, &query, sizes, way, |_| {});
        let about = format!("{} {way:?} {query}\n{rows:?}", backend.name());
        assert_eq!(all_ids(&pages), expected, "{about}");
        let mut seen = 0;
        for page in &pages {
            let info = &page["pageInfo"];
            let count = ids(page).len();
            assert_eq!(info["totalCount"], expected.len(), "{about}");
            assert_eq!(info["hasPreviousPage"], seen > 0, "{about}");
            seen += count;
            assert_eq!(info["hasNextPage"], seen < expected.len(), "{about}");
            assert_eq!(info.get("startCursor").is_some(), count > 0);
            assert_eq!(info.get("endCursor").is_some(), count > 0);
        }
    }
}

/// Rows come and go between the pages: none twice, none lost that stayed, all in order.
fn check_changing(
    backend: &dyn Backend,
    rows: &[Row],
    changes: &[Vec<Change>],
    sort: &[Sort],
    condition: &Condition,
    sizes: &[usize],
    way: Way,
) {
    backend.reset(rows);
    let walker = Walker::over(backend);
    let mut now: Vec<Row> = rows.to_vec();
    let mut ever: Vec<Row> = rows.to_vec();
    let mut query = json!({"filter": condition.to_json()});
    if !sort.is_empty() {
        query["sort"] = sort.iter().map(Sort::to_json).collect();
    }
    let pages = walk(&walker, &query, sizes, way, |step| {
        let Some(changes) = changes.get(step) else { return };
        for change in changes {
            match change {
                Change::Insert(row) if ever.iter().all(|known| known.id != row.id) => {
                    now.push(row.clone());
                    ever.push(row.clone());
                }
                Change::Insert(_) => {}
                Change::Delete(number) if !now.is_empty() => {
                    now.remove(number % now.len());
                }
                Change::Delete(_) => {}
            }
        }
        backend.change_to(&now);
    });
    let met = all_ids(&pages);
    let about = format!("{} {way:?} {query}\n{rows:?}\n{changes:?}", backend.name());
    let distinct: BTreeSet<i64> = met.iter().copied().collect();
    assert_eq!(distinct.len(), met.len(), "twice: {met:?} {about}");
    let stayed: Vec<Row> =
        rows.iter().filter(|row| now.iter().any(|left| left.id == row.id)).cloned().collect();
    for id in model::select(&stayed, sort, condition) {
        assert!(distinct.contains(&id), "{id} is lost: {met:?} {about}");
    }
    // What was met is in the order of the model, and matched.
    let matching = model::select(&ever, sort, condition);
    let in_order: Vec<i64> = matching.into_iter().filter(|id| distinct.contains(id)).collect();
    assert_eq!(met, in_order, "{about}");
}

fn run(backend: &dyn Backend, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let sizes = || prop::collection::vec(1usize..8, 1..4);
    let mut runner = TestRunner::new(config.clone());
    let still = (model::rows(), model::sort(), model::condition(), sizes());
    runner
        .run(&still, |(rows, sort, condition, sizes)| {
            check_still(backend, &rows, &sort, &condition, &sizes);
            Ok(())
        })
        .unwrap();
    let mut runner = TestRunner::new(config);
    let changing = (
        model::rows(),
        model::changes(),
        model::sort(),
        model::condition(),
        sizes(),
        prop_oneof![Just(Way::Forward), Just(Way::Backward)],
    );
    runner
        .run(&changing, |(rows, changes, sort, condition, sizes, way)| {
            check_changing(backend, &rows, &changes, &sort, &condition, &sizes, way);
            Ok(())
        })
        .unwrap();
}

#[test]
fn json_files_are_walked_like_the_model() {
    run(&JsonFile::new(), config::cases(200));
}

#[test]
fn sqlite_tables_are_walked_like_the_model() {
    run(&Sqlite::new(), config::cases(150));
}

#[test]
fn postgres_tables_are_walked_like_the_model() {
    let Some(url) = config::postgres() else { return };
    run(&Postgres::new(&url), config::cases(60));
}
