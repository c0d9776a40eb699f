//! `handback query`: one request over collections, answered here.

mod all;
mod table;

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use clap::Args;
use handback_identity::UnixPeers;
use handback_page::aql::{Answer, Call, Endpoint, Engine, Inside, PagePreset, Settings, Step};
use handback_token::{Sealer, SealerConfig};
use serde_json::Value;

use crate::args::RingArgs;
use crate::collections::{self, CollectionArgs};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{clock, rings, text};

/// Ask collections: list, search, query, get and count, page by page
///
/// REQUEST is one MCP-AQL request as JSON, or - to read it from stdin. The answer, a success or a
/// failure, is one line of JSON on stdout. A collection that cannot be opened at all is an error on
/// stderr.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Requests:
  {\"operation\":\"introspect\",\"params\":{\"query\":\"operations\"}} describes all operations.

Cursors:
  They are sealed with the key ring, which is made in the data directory if there is none, and
  bound to the request and to the user who runs this command.

Exit codes:
  0 a success; 1 a failure; 3 a failure because the cursor is refused

Examples:
  handback query --collection orders=sqlite:shop.db#orders \\
    '{\"operation\":\"list_elements\",\"element_type\":\"orders\",\"params\":{\"first\":10}}'
  handback query --collection log=text:app.log --table \\
    '{\"operation\":\"search_elements\",\"element_type\":\"log\",\"params\":{\"query\":\"error\"}}'
  handback query --collection people=csv:people.csv --all \\
    '{\"operation\":\"list_elements\",\"element_type\":\"people\"}' > people.jsonl")]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    collections: CollectionArgs,

    #[command(flatten)]
    ring: RingArgs,

    /// Walk every page and write the items as JSON lines
    #[arg(long, conflicts_with = "table")]
    all: bool,

    /// Draw the items as a table
    #[arg(long)]
    table: bool,

    /// The largest page
    #[arg(long, value_name = "ITEMS", default_value_t = 100)]
    max_page_size: usize,

    /// A configuration that requests choose by page_preset: NAME=SIZE, then optionally total or
    /// no-total, edges or no-edges, separated by commas; can be given several times
    #[arg(long = "page-preset", value_name = "NAME=SIZE,…", value_parser = parse_preset)]
    page_presets: Vec<(String, PagePreset)>,

    /// The request as JSON, or - for stdin
    #[arg(value_name = "REQUEST")]
    request: String,
}

pub(crate) fn run(args: &QueryArgs, output: Output) -> Result<Exit, Failure> {
    let asker = Asker::new(args, output)?;
    let request = read_request(&args.request, &asker.engine)?;
    if args.all {
        return all::run(&asker, &request, output);
    }
    let answer = asker.ask(&request)?;
    match answer.page() {
        Some(page) if args.table => {
            let items = page.items().iter().map(handback_page::aql::Item::json);
            let drawn = table::draw(items)
                .map_err(|error| Failure::new(format!("an item is no JSON: {error}")))?;
            if !drawn.is_empty() {
                output.text(&drawn)?;
            }
            output.note("page", &summary(page));
            for warning in answer.warnings() {
                output.note("warning", warning.message());
            }
        }
        _ => output.text(&text::plain_json(&answer.to_json()))?,
    }
    Ok(exit_of(&answer))
}

/// An engine and whoever asks it: the user who runs this command.
struct Asker {
    engine: Engine,
    sealer: Sealer,
    principal: handback_identity::VerifiedPrincipal,
}

impl Asker {
    fn new(args: &QueryArgs, output: Output) -> Result<Self, Failure> {
        let max_page_size = args.max_page_size;
        let settings = Settings {
            max_page_size,
            default_page_size: Settings::default().default_page_size.min(max_page_size),
            presets: args.page_presets.iter().cloned().collect(),
            ..Settings::default()
        };
        // Before the ring: a command line that makes no sense makes no keys.
        let engine = collections::engine(&args.collections, settings, output)?;
        let found = rings::find_or_make(&args.ring, output)?;
        let sealer = Sealer::new(&found.ring, SealerConfig::default())?;
        let identity = UnixPeers::new(&found.ring.id().to_string())
            .map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { engine, sealer, principal: identity.principal(collections::own_uid()) })
    }

    /// The answer to a request; a page that waits is waited for.
    fn ask(&self, request: &[u8]) -> Result<Answer, Failure> {
        let rng = &mut rand::rng();
        let mut step = self.engine.answer_bytes(&self.call(), request, rng);
        loop {
            match step {
                Step::Answer(answer) => return Ok(answer),
                Step::Wait(waiting) => {
                    thread::sleep(Duration::from_millis(waiting.sleep_ms()));
                    step = self.engine.resume(&self.call(), waiting, rng);
                }
            }
        }
    }

    fn call(&self) -> Call<'_> {
        Call {
            endpoint: Endpoint::Single,
            caller: self.principal.caller(),
            sealer: &self.sealer,
            now: clock::now(),
            own: None,
            budget_bytes: None,
        }
    }
}

fn parse_preset(text: &str) -> Result<(String, PagePreset), String> {
    let (name, values) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("it is NAME=SIZE, such as compact=5")?;
    let mut preset = PagePreset::default();
    for value in values.split(',') {
        match value {
            "total" => preset.include_total = Some(true),
            "no-total" => preset.include_total = Some(false),
            "edges" => preset.include_edges = Some(true),
            "no-edges" => preset.include_edges = Some(false),
            size => {
                let size = size.parse().map_err(
                    |_| "values are a number of items, total, no-total, edges and no-edges",
                )?;
                preset.page_size = Some(size);
            }
        }
    }
    Ok((name.to_owned(), preset))
}

fn read_request(argument: &str, engine: &Engine) -> Result<Vec<u8>, Failure> {
    if argument != "-" {
        return Ok(argument.as_bytes().to_vec());
    }
    // One byte more than the limit is enough for the engine to see that it is too much.
    let limit = engine.settings().limits.request_bytes as u64 + 1;
    let mut request = Vec::new();
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut request)
        .map_err(|error| Failure::new(format!("cannot read the request from stdin: {error}")))?;
    Ok(request)
}

fn exit_of(answer: &Answer) -> Exit {
    match answer.failure().map(|failure| failure.inside()) {
        None => Exit::OK,
        Some(Some(Inside::Cursor(_) | Inside::CursorOutlived)) => Exit::REFUSED,
        Some(_) => Exit::FAILURE,
    }
}

/// What a table does not show: where the page is, and how to go on.
fn summary(page: &handback_page::aql::Page) -> String {
    let shown = page.items().len();
    let of = page.total_count().map(|total| format!(" of {total}")).unwrap_or_default();
    let next = match (page.next(), page.has_more()) {
        (Some((name, value)), _) => format!("; the next page is \"{name}\": {value}"),
        (None, true) => "; there is more".to_owned(),
        (None, false) => "; the end".to_owned(),
    };
    format!("{shown} items{of}{next}")
}

/// Whether a request names a parameter, at either place.
fn given<'a>(request: &'a Value, name: &str) -> Option<&'a Value> {
    let inner = request.get("params").and_then(|params| params.get(name));
    inner.or_else(|| request.get(name)).filter(|value| !value.is_null())
}
