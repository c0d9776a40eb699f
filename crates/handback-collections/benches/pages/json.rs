//! A large JSON array: memory, index, pages.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use handback_page::json::{ByteSource as _, InMemory, JsonCollection, JsonOptions};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::args::Args;
use crate::case::Way;
use crate::data::{self, Random};
use crate::handback::{Handback, request};
use crate::measure::Times;

/// Rounds, each with an index of its own: what is kept of a filter or sort order goes with it.
const ROUNDS: (usize, usize) = (9, 1);

/// For so long pages are asked for until memory is looked at: an allocator gives back what it has
/// too much of after a while, and when it is used.
const SETTLING: Duration = Duration::from_secs(3);

/// Pages of a turn.
const PAGES: u32 = 50;

/// What was measured.
pub(crate) struct Json {
    pub(crate) objects: i64,
    pub(crate) bytes: usize,
    pub(crate) memory: Memory,
    /// `serde_json` over the same bytes, into nothing.
    pub(crate) ignored: Times,
    pub(crate) index: Times,
    pub(crate) page: Times,
    /// What a pass finds, first and again.
    pub(crate) queries: Vec<(&'static str, [Times; 2])>,
}

/// Of the bytes of the document, what the process has more of than before it read them.
pub(crate) struct Memory {
    pub(crate) indexed: f64,
    pub(crate) indexed_peak: f64,
    pub(crate) sorted: f64,
    pub(crate) sorted_peak: f64,
}

pub(crate) fn run(args: &Args, folder: &Path) -> Result<Json> {
    let path = data::json_file(folder, args.objects)?;
    let (source, memory) = memory(&path)?;
    let bytes = source.read(0..source.size_bytes())?;
    let mut json = Json {
        objects: args.objects,
        bytes: bytes.len(),
        memory,
        ignored: Times::default(),
        index: Times::default(),
        page: Times::default(),
        queries: QUERIES.map(|query| (query.what, Default::default())).into(),
    };
    let rounds = if args.smoke { ROUNDS.1 } else { ROUNDS.0 };
    for round in 0..rounds {
        json.round(round, &bytes, &source)?;
    }
    Ok(json)
}

/// Reads and indexes the document, and sorts it once.
fn memory(path: &Path) -> Result<(Arc<InMemory<Vec<u8>>>, Memory)> {
    let before = Resident::now()?;
    let bytes = std::fs::read(path)?;
    let size = bytes.len() as f64;
    let source = Arc::new(InMemory::new(bytes, 0));
    let collection = JsonCollection::open(Arc::clone(&source), JsonOptions::new())?;
    let indexed = Resident::now()?;
    let handback = Handback::over(Arc::new(collection))?;
    let page = handback.page(&by_total(), Way::Forward, None)?;
    let start = Instant::now();
    while start.elapsed() < SETTLING {
        handback.ask(&page)?;
    }
    let sorted = Resident::now()?;
    let of_size = |after: f64| (after - before.bytes) / size;
    Ok((
        source,
        Memory {
            indexed: of_size(indexed.bytes),
            indexed_peak: of_size(indexed.peak_bytes),
            sorted: of_size(sorted.bytes),
            sorted_peak: of_size(sorted.peak_bytes),
        },
    ))
}

fn by_total() -> Value {
    json!({"sort": {"field": "total", "order": "desc"}})
}

fn by_status() -> Value {
    json!({"filter": {"status": "paid"}})
}

fn cheap() -> Value {
    json!({"filter": {"total": {"lt": 10}}})
}

/// What a pass over all objects finds.
struct Query {
    what: &'static str,
    operation: &'static str,
    params: fn() -> Value,
}

const QUERIES: [Query; 3] = [
    Query {
        what: "a page filtered by `status`, a quarter of the items",
        operation: "list_elements",
        params: by_status,
    },
    Query {
        what: "a page sorted by `total`, descending",
        operation: "list_elements",
        params: by_total,
    },
    Query {
        what: "the count of those below some `total`, one in a thousand",
        operation: "count_elements",
        params: cheap,
    },
];

impl Json {
    fn round(&mut self, round: usize, bytes: &[u8], source: &Arc<InMemory<Vec<u8>>>) -> Result<()> {
        self.ignored.add(round, 1, || Ok(serde_json::from_slice::<IgnoredAny>(bytes)?))?;
        let mut collection = None;
        self.index.add(round, 1, || {
            collection = Some(JsonCollection::open(Arc::clone(source), JsonOptions::new())?);
            Ok(())
        })?;
        let handback = Handback::over(Arc::new(collection.context("just opened")?))?;
        self.pages(round, &handback)?;
        let places = self.places();
        for (query, (_, [first, again])) in QUERIES.iter().zip(&mut self.queries) {
            let params = (query.params)();
            let (start, deep) = match query.operation {
                "list_elements" => {
                    let start = handback.page(&params, Way::Forward, None)?;
                    (start, requests(&handback, &params, &places)?)
                }
                operation => {
                    let request = request(operation, &params);
                    (request.clone(), vec![request; places.len()])
                }
            };
            first.add(round, 1, || handback.ask(&start))?;
            let mut deep = deep.iter();
            again.add(round, PAGES, || handback.ask(deep.next().context("as many as pages")?))?;
        }
        Ok(())
    }

    /// Pages in the order of the document, each after another place.
    fn pages(&mut self, round: usize, handback: &Handback) -> Result<()> {
        let places = self.places();
        let requests = requests(handback, &json!({}), &places)?;
        for (request, place) in requests.iter().zip(&places) {
            let text = handback.ask(request)?;
            // The first object is number 0 and has the id 1.
            let ids: Vec<_> = ids(&text)?.into_iter().map(i128::from).collect();
            ensure!(ids.first().is_none_or(|id| *id == place + 2), "after {place}: {ids:?}");
        }
        let mut requests = requests.iter();
        self.page.add(round, PAGES, || handback.ask(requests.next().context("as many as pages")?))
    }

    /// Numbers of objects all over the document.
    fn places(&self) -> Vec<i128> {
        let mut random = Random(1);
        (0..PAGES).map(|_| random.below(self.objects.unsigned_abs()).into()).collect()
    }
}

/// A page of a query after each of these objects: the edition of the document and a number.
fn requests(handback: &Handback, query: &Value, places: &[i128]) -> Result<Vec<Vec<u8>>> {
    let request = |place: &i128| handback.page(query, Way::Forward, Some(&[0, *place]));
    places.iter().map(request).collect()
}

fn ids(answer: &str) -> Result<Vec<i64>> {
    let answer: Value = serde_json::from_str(answer)?;
    let items = answer.pointer("/data/items").and_then(Value::as_array).context("no items")?;
    items.iter().map(|item| item.get("id").and_then(Value::as_i64).context("no id")).collect()
}

/// What the process has in memory.
struct Resident {
    bytes: f64,
    peak_bytes: f64,
}

impl Resident {
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let of = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.with_context(|| format!("no {name}"))?.trim().trim_end_matches(" kB");
            Ok(1024.0 * kib.parse::<f64>()?)
        };
        Ok(Self { bytes: of("VmRSS")?, peak_bytes: of("VmHWM")? })
    }
}
