//! One page: from checked parameters to items, page info and cursors.

use std::sync::Arc;

use handback_token::UnixTime;
use rand_core::CryptoRng;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Body, Info, Item, Page, PageInfo, Warning};
use super::cursors::{Cursors, random_id};
use super::engine::{Call, Done, Engine, projected, query};
use super::failure::Failure;
use super::own::{Own, OwnEntry};
use super::params::{Ask, PageRequest, Params};
use super::piece::{self, Rest};
use super::room::Room;
use super::snapshot::{self, Snapshot};
use super::sort;
use super::table::Operation;
use crate::collection::{
    Collection, CollectionError, Fetch, Fetched, ItemText, Places, Query, Row, Search, Served,
    Unread, Whereabouts, Window,
};
use crate::filter::Filter;
use crate::json::{InMemory, JsonCollection, JsonOptions};
use crate::place::Place;
use crate::project::Selection;
use crate::scalar::Scalar;
use crate::schema::{FieldPath, Preset, Schema};
use crate::shelf::ShelfId;

/// A request for a page, with all that it needs.
pub(crate) struct Paged<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) call: &'a Call<'a>,
    pub(crate) params: &'a Params,
    pub(crate) asked_at: UnixTime,
    pub(crate) waited_ms: u64,
    pub(crate) room: Room,
}

/// What a request is about: a collection, or all of them.
struct Listed<'a> {
    name: Option<&'a str>,
    collection: Arc<dyn Collection>,
    /// That there are more than are listed.
    cut: Option<Warning>,
}

/// What a page is taken from: the collection, or a snapshot of it.
struct Source<'a> {
    collection: Arc<dyn Collection>,
    /// What names and presets mean.
    schema: Arc<Schema>,
    query: Query,
    selection: Selection,
    deprecation: Option<Warning>,
    snapshot: Option<ShelfId>,
    /// What the query does not look into.
    unread: Unread,
    place: Option<Vec<Scalar>>,
    cursors: Cursors<'a>,
}

/// Bytes of an answer besides its items: page info with two cursors, warnings.
const ENVELOPE_BYTES: usize = 16_384;

/// The same for a client with a budget, which may be smaller than that: page info with two of the longest
/// cursors, and the warnings that the page is shorter than was asked for and that items are shown in part.
/// Other warnings come on top.
const CLIENTS_ENVELOPE_BYTES: usize = 2_304;

/// Bytes of an edge besides its node: the longest cursor and the members' names.
const EDGE_BYTES: usize = 544;

impl Paged<'_> {
    pub(crate) fn answer(&self, rng: &mut dyn CryptoRng) -> Result<Done, Failure> {
        let request = self.params.page(&self.engine.settings)?;
        let Listed { name, collection, cut } = self.collection()?;
        let source = self.source(&request, name, collection, rng)?;
        let limit = self.limit(&request.ask);
        let columns = source.selection.columns(&source.schema);
        let wants_total = request.total.unwrap_or_else(|| source.schema.counts_always());
        // What is only looked at to see whether to go on waiting is not counted.
        let waits = request.wait_ms.is_some_and(|wait_ms| wait_ms > self.waited_ms);
        let mut fetch = Fetch {
            query: &source.query,
            window: window(&request.ask, source.place.as_deref(), limit),
            columns: columns.as_deref(),
            budget_bytes: self.fetch_bytes(&source.selection),
            // A page of a client with a budget often ends before what was fetched.
            places: if request.edges || self.room.is_clients { Places::All } else { Places::Ends },
            total: wants_total && !waits,
        };
        let cursor = request.ask.cursor().map(|(param_name, _)| param_name);
        let name = name.unwrap_or("collections");
        let failed = |error| self.not_fetched(error, &source, (name, cursor));
        let mut fetched = source.collection.fetch(&fetch).map_err(failed)?;
        if let Some(left_ms) = self.wait(&request, limit, &fetched) {
            return Ok(Done::Wait { left_ms });
        }
        if wants_total != fetch.total {
            fetch.total = wants_total;
            fetched = source.collection.fetch(&fetch).map_err(failed)?;
        }

        let mut warnings: Vec<Warning> =
            source.deprecation.clone().into_iter().chain(cut).collect();
        if let Served::ByScan { hint } = &fetched.served {
            warnings.push(Warning::slow(hint));
        }
        if source.unread.count > 0 {
            warnings.push(Warning::unread(&source.unread));
        }
        let room = self.items_room(&warnings);
        let mut window = self.cut(fetched, &source, &request, room)?;
        if cursor_style(&request.ask) && window.ends_without_place() {
            // What is cut, which is seldom, ends elsewhere than what was fetched. All of the answer
            // is then of the second moment.
            fetch.places = Places::All;
            fetched = source.collection.fetch(&fetch).map_err(failed)?;
            window = self.cut(fetched, &source, &request, room)?;
        }
        if matches!(request.ask, Ask::Numbered { .. }) && window.is_cut(&request.ask, limit) {
            return Err(Failure::page_too_large(self.room.limit));
        }
        if window.is_shorter_than_asked(&request.ask, limit) {
            let warning = Warning::truncated(window.rows.len(), limit as u64, window.total);
            let is_for_client = self.room.is_clients && window.is_cut(&request.ask, limit);
            warnings.push(match is_for_client {
                true => warning.over_budget(how_to_go_on(&request.ask)),
                false => warning,
            });
        }
        if window.excerpts > 0 {
            let hint = "Read on as 'read_on' of an item says, or ask for fewer 'fields'";
            warnings.push(Warning::excerpt("items", hint));
        } else if window.long > 0 {
            warnings.push(Warning::long("items", "Read on as 'read_on' of an item says"));
        }
        let page = self.assemble(window, &request, &source, rng)?;
        let answer = Answer::new(self.params.operation, Body::Page(page), warnings);
        Ok(Done::Answer(answer))
    }

    /// The reason why there is no page. A column that was dropped while its schema was remembered is refused
    /// like one that never was there: with the parameter that names it.
    fn not_fetched(
        &self,
        error: CollectionError,
        source: &Source<'_>,
        (name, cursor): (&str, Option<&str>),
    ) -> Failure {
        if matches!(error, CollectionError::ColumnGone { .. })
            && let Ok(schema) = source.collection.schema()
            && let Err(failure) = query(self.params, &schema)
        {
            return failure;
        }
        Failure::collection(error, name, cursor)
    }

    fn collection(&self) -> Result<Listed<'_>, Failure> {
        if self.params.operation == Operation::ListCollections {
            return self.listing();
        }
        let (name, collection) = self.engine.find(self.call, self.params)?;
        Ok(Listed { name: Some(name), collection, cut: None })
    }

    /// The collections as a collection, and what is held for the caller.
    fn listing(&self) -> Result<Listed<'_>, Failure> {
        let failed = |error| Failure::collection(error, "collections", None);
        let own = self.call.own.map(Own::list).transpose().map_err(failed)?.unwrap_or_default();
        let cut = own.more.then(|| Warning::more_held(own.entries.len()));
        let entries = self.engine.catalog.entries();
        let listed = entries
            .map(|(name, entry)| describe(name, &entry.description, entry.collection.as_ref()))
            .chain(own.entries.iter().map(describe_held))
            .collect();
        let source = InMemory::new(Value::Array(listed).to_string(), 0);
        let options = JsonOptions::new().with_key(FieldPath::name("name"));
        let collection = Arc::new(JsonCollection::open(source, options).map_err(failed)?);
        Ok(Listed { name: None, collection, cut })
    }

    /// How many items the page has at most.
    fn limit(&self, ask: &Ask) -> usize {
        let max = self.engine.settings.max_page_size;
        usize::try_from(ask.size()).map_or(max, |size| size.min(max))
    }

    /// Where the page is: in the collection, or in the snapshot of the cursor, or in a new one.
    fn source<'s>(
        &'s self,
        request: &PageRequest,
        name: Option<&str>,
        collection: Arc<dyn Collection>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Source<'s>, Failure> {
        let shelf = self.engine.shelf(self.call);
        let cursor = request.ask.cursor();
        if request.snapshot {
            // The copy needs nothing of the collection, which may be gone.
            let mut cursors = Cursors::bind(self.call, shelf, name, self.params, None)?;
            let Some((param_name, cursor)) = cursor else {
                let id = self.take_snapshot(name, collection.as_ref(), rng)?;
                return self.in_snapshot(id, None, "after", cursors);
            };
            return match cursors.open(param_name, cursor, self.asked_at)? {
                Place::InSnapshot(id, place) => {
                    self.in_snapshot(id, Some(place), param_name, cursors)
                }
                _ => Err(malformed(param_name)),
            };
        }
        let failed = |error| Failure::collection(error, name.unwrap_or("collections"), None);
        let schema = collection.schema().map_err(failed)?;
        let (selection, deprecation) = sort::selection(self.params, &schema)?;
        let query = query(self.params, &schema)?;
        let mut cursors = Cursors::bind(self.call, shelf, name, self.params, Some(&schema))?;
        let place = match cursor {
            None => None,
            Some((param_name, cursor)) => match cursors.open(param_name, cursor, self.asked_at)? {
                Place::Here(place) => Some(place),
                _ => return Err(malformed(param_name)),
            },
        };
        Ok(Source {
            unread: collection.unread(Some(&query)),
            collection,
            schema,
            query,
            selection,
            deprecation,
            snapshot: None,
            place,
            cursors,
        })
    }

    fn in_snapshot<'s>(
        &'s self,
        id: ShelfId,
        place: Option<Vec<Scalar>>,
        param_name: &'static str,
        cursors: Cursors<'s>,
    ) -> Result<Source<'s>, Failure> {
        let failed = |error| Failure::collection(error, "snapshot", Some(param_name));
        let snapshot = self
            .open_snapshot(id)
            .map_err(failed)?
            .ok_or_else(|| Failure::cursor_outlived(param_name))?;
        let schema = Arc::clone(&snapshot.schema);
        let (selection, deprecation) = sort::selection(self.params, &schema)?;
        let query = Query {
            filter: Filter::EVERYTHING,
            search: Search::default(),
            order: snapshot.items.schema().map_err(failed)?.total_order(vec![]),
        };
        Ok(Source {
            collection: Arc::clone(&snapshot.items) as _,
            schema,
            query,
            selection,
            deprecation,
            snapshot: Some(id),
            unread: snapshot.unread.clone(),
            place,
            cursors,
        })
    }

    /// Copies what matches to the shelf.
    fn take_snapshot(
        &self,
        name: Option<&str>,
        collection: &dyn Collection,
        rng: &mut dyn CryptoRng,
    ) -> Result<ShelfId, Failure> {
        let failed = |error| Failure::collection(error, name.unwrap_or("collections"), None);
        let schema = collection.schema().map_err(failed)?;
        // Before anything is copied for a request that is refused.
        sort::selection(self.params, &schema)?;
        let query = query(self.params, &schema)?;
        let settings = &self.engine.settings;
        let (id, now) = (random_id(rng), self.call.now);
        let life = u64::from(settings.snapshot_ttl_s);
        let room = snapshot::Room {
            shelf: self.engine.shelf(self.call),
            id,
            now,
            until: UnixTime::from_secs(now.as_secs().saturating_add(life)),
            limit_bytes: settings.snapshot_bytes,
        };
        snapshot::take(collection, &schema, &query, &room).map_err(failed)?;
        Ok(id)
    }

    fn open_snapshot(&self, id: ShelfId) -> Result<Option<Arc<Snapshot>>, CollectionError> {
        // The shelf says whether it is still there, the index is kept aside.
        let Some(bytes) = self.engine.shelf(self.call).open(id, self.call.now)? else {
            return Ok(None);
        };
        if let Some(recent) = self.engine.recent_snapshot(id) {
            return Ok(Some(recent));
        }
        let snapshot = Arc::new(Snapshot::open(bytes)?);
        self.engine.remember_snapshot(id, Arc::clone(&snapshot));
        Ok(Some(snapshot))
    }

    /// How long to wait still, if the page is empty and waits.
    fn wait(&self, request: &PageRequest, limit: usize, fetched: &Fetched) -> Option<u64> {
        let nothing = fetched.rows.is_empty() && !fetched.more_after && limit > 0;
        let left = request.wait_ms?.saturating_sub(self.waited_ms);
        (nothing && left > 0).then_some(left)
    }

    /// Bytes that are fetched at most: what is left out of items needs no room.
    const fn fetch_bytes(&self, selection: &Selection) -> usize {
        match selection {
            Selection::Paths(_) if self.room.is_clients => {
                self.engine.settings.limits.response_bytes
            }
            _ => self.room.bytes,
        }
    }

    /// What the items of the page have room for together.
    fn items_room(&self, warnings: &[Warning]) -> Room {
        if !self.room.is_clients {
            return self.room.without(ENVELOPE_BYTES);
        }
        let warnings = warnings.iter().map(|warning| warning.to_value().to_string());
        let bytes: usize = warnings.map(|warning| self.room.cost(&warning) + 1).sum();
        self.room.without(CLIENTS_ENVELOPE_BYTES + bytes)
    }

    /// Projects the rows, and cuts them where the answer would be too large.
    fn cut(
        &self,
        fetched: Fetched,
        source: &Source<'_>,
        request: &PageRequest,
        room: Room,
    ) -> Result<Shown, Failure> {
        let selection = &source.selection;
        let is_done = selection.is_done(fetched.columns, &source.schema);
        let name = self.params.text("element_type").unwrap_or("collections");
        let backward = matches!(request.ask, Ask::Backward { .. });
        let around = 1 + if request.edges { EDGE_BYTES + EDGE_BYTES / 16 } else { 0 };
        // In a batch, what would fit into an answer of its own is not taken apart.
        let most = room.bytes.saturating_add(self.room.limit.saturating_sub(self.room.bytes));
        let Fetched { mut rows, mut more_before, mut more_after, total, .. } = fetched;
        if backward {
            rows.reverse();
        }
        let mut shown = Vec::with_capacity(rows.len());
        let (mut left, mut excerpts, mut long) = (room, 0, 0);
        for row in rows {
            let is_long = row.item.as_long().is_some();
            let (whole, part) = if is_long {
                let part = self.long_excerpt(source, &row, left.without(around));
                (row.item, part)
            } else {
                let whole = projected(row.item, selection, is_done, name)?;
                let is_over = room.is_clients && room.cost(&whole) + around > most;
                let part = is_over.then(|| {
                    let rest = self.rest(source, &row.place);
                    piece::item_excerpt(&whole, &rest, left.without(around))
                });
                (whole, part.flatten())
            };
            let cost = room.cost(part.as_deref().unwrap_or(&whole)) + around;
            if cost > left.bytes {
                if shown.is_empty() {
                    let actual = cost.saturating_add(ENVELOPE_BYTES);
                    return Err(Failure::answer_too_large(self.room.limit, Some(actual)));
                }
                *(if backward { &mut more_before } else { &mut more_after }) = true;
                break;
            }
            left = left.without(cost);
            excerpts += usize::from(part.is_some() && !is_long);
            long += usize::from(is_long);
            shown.push((part.map_or(whole, ItemText::from), row.place));
        }
        if backward {
            shown.reverse();
        }
        Ok(Shown { rows: shown, more_before, more_after, total, excerpts, long })
    }

    /// What is shown of an item that is too long to be read, if that fits.
    fn long_excerpt(&self, source: &Source<'_>, row: &Row, room: Room) -> Option<String> {
        let name = self.params.text("element_type")?;
        let pointer = source.collection.whereabouts(&row.place).pointer;
        let item = row.item.as_long()?;
        let rest = Rest::of_long(name, item, pointer.map(|pointer| pointer.to_string()));
        piece::long_excerpt(item, &rest, room)
    }

    /// How the rest of an item is read that is shown in part.
    fn rest(&self, source: &Source<'_>, place: &[Scalar]) -> Rest {
        let is_elsewhere = source.snapshot.is_some() || !self.params.operation.takes_collection();
        let Some(name) = self.params.text("element_type").filter(|_| !is_elsewhere) else {
            return Rest::nowhere(None);
        };
        let Whereabouts { number, pointer } = source.collection.whereabouts(place);
        let pointer = pointer.map(|pointer| pointer.to_string());
        let id = match source.schema.key() {
            [] => number.map(Value::from),
            [key] => source.key_value(key, place),
            keys => {
                let value = |key: &String| Some((key.clone(), source.key_value(key, place)?));
                keys.iter().map(value).collect::<Option<Map<_, _>>>().map(Value::Object)
            }
        };
        let Some(id) = id else { return Rest::nowhere(pointer) };
        let mut params = Map::from_iter([("id".to_owned(), id)]);
        params.extend(self.params.copied(&["fields", "preset"]));
        if params.len() == 1 && source.selection != Selection::Everything {
            let preset = match self.params.operation.default_preset() {
                Preset::Minimal => "minimal",
                Preset::Standard => "standard",
                Preset::Full => "full",
            };
            params.insert("fields".to_owned(), preset.into());
        }
        Rest::get(name, params, pointer)
    }

    fn assemble(
        &self,
        window: Shown,
        request: &PageRequest,
        source: &Source<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Page, Failure> {
        let (cursors, total) = (&source.cursors, window.total);
        let limit = self.limit(&request.ask) as u64;
        let more = window.more_after;
        let numbered = |info| Page {
            items: window.rows.iter().map(|(json, _)| item(json.clone(), None)).collect(),
            edges: false,
            info,
        };
        match request.ask {
            Ask::Numbered { page, .. } => {
                return Ok(numbered(Info::Numbered { page, size: limit, total, more }));
            }
            Ask::Offset { offset, .. } => {
                return Ok(numbered(Info::Offset { limit, offset, total, more }));
            }
            Ask::Forward { .. } | Ask::Backward { .. } => {}
        }
        let mut seal = |place: &[Scalar]| cursors.seal(place, source.snapshot, rng);
        let (start_cursor, end_cursor) = match window.rows.as_slice() {
            [] => (None, None),
            [(_, only)] => {
                let cursor = seal(only)?;
                (Some(cursor.clone()), Some(cursor))
            }
            [(_, first), .., (_, last)] => (Some(seal(first)?), Some(seal(last)?)),
        };
        let count = window.rows.len();
        let items = window
            .rows
            .into_iter()
            .enumerate()
            .map(|(number, (json, place))| {
                let cursor = match number {
                    _ if !request.edges => None,
                    0 => start_cursor.clone(),
                    number if number + 1 == count => end_cursor.clone(),
                    _ => Some(seal(&place)?),
                };
                Ok(item(json, cursor))
            })
            .collect::<Result<_, Failure>>()?;
        // A page that waited for nothing says where to wait on.
        let end_cursor = match end_cursor {
            None if request.wait_ms.is_some() => cursors.again(rng)?,
            end_cursor => end_cursor,
        };
        Ok(Page {
            items,
            edges: request.edges,
            info: Info::Cursor(PageInfo {
                has_next_page: window.more_after,
                has_previous_page: window.more_before,
                start_cursor,
                end_cursor,
                total_count: total,
            }),
        })
    }
}

impl Source<'_> {
    /// The value of a key column of the item at a place.
    fn key_value(&self, name: &str, place: &[Scalar]) -> Option<Value> {
        let path = self.schema.member_path(name);
        let keys = self.query.order.keys().iter();
        let (_, value) = keys
            .zip(place)
            .find(|(key, _)| key.field == path || key.field.column() == Some(name))?;
        let mut json = String::new();
        value.write_json(&mut json);
        serde_json::from_str(&json).ok()
    }
}

/// The rows of a page, projected.
struct Shown {
    rows: Vec<(ItemText, Vec<Scalar>)>,
    more_before: bool,
    more_after: bool,
    total: Option<u64>,
    /// How many of them are shown in part, because the client takes no more.
    excerpts: usize,
    /// How many of them are shown in part, because they are too long to be read.
    long: usize,
}

impl Shown {
    fn ends_without_place(&self) -> bool {
        let ends = [self.rows.first(), self.rows.last()];
        ends.into_iter().flatten().any(|(_, place)| place.is_empty())
    }

    /// Whether there was more of what was asked for.
    fn is_shorter_than_asked(&self, ask: &Ask, limit: usize) -> bool {
        self.is_cut(ask, limit) || (self.goes_on(ask) && ask.size() > limit as u64)
    }

    /// Whether items are missing at the end of the page.
    const fn is_cut(&self, ask: &Ask, limit: usize) -> bool {
        self.goes_on(ask) && self.rows.len() < limit
    }

    /// Whether there is more in the direction of the page.
    const fn goes_on(&self, ask: &Ask) -> bool {
        match ask {
            Ask::Backward { .. } => self.more_before,
            _ => self.more_after,
        }
    }
}

/// How to go on after a page that is cut for the sake of the client.
const fn how_to_go_on(ask: &Ask) -> &'static str {
    match ask {
        Ask::Backward { .. } => {
            "The answer is as large as this client takes at once: go on with 'before' and the \
             startCursor, or ask for fewer 'fields'"
        }
        Ask::Offset { .. } => {
            "The answer is as large as this client takes at once: go on at 'offset' and what was \
             'returned', or ask for fewer 'fields'"
        }
        _ => {
            "The answer is as large as this client takes at once: go on with 'after' and the \
             endCursor, or ask for fewer 'fields'"
        }
    }
}

fn malformed(param_name: &str) -> Failure {
    Failure::cursor(param_name, handback_token::Reason::Malformed.into())
}

const fn cursor_style(ask: &Ask) -> bool {
    matches!(ask, Ask::Forward { .. } | Ask::Backward { .. })
}

const fn item(json: ItemText, cursor: Option<String>) -> Item {
    Item { json, cursor }
}

fn window<'a>(ask: &Ask, place: Option<&'a [Scalar]>, limit: usize) -> Window<'a> {
    match *ask {
        Ask::Forward { .. } => Window::Forward { after: place, limit },
        Ask::Backward { .. } => Window::Backward { before: place, limit },
        Ask::Numbered { page, .. } => {
            Window::Offset { offset: page.saturating_sub(1).saturating_mul(limit as u64), limit }
        }
        Ask::Offset { offset, .. } => Window::Offset { offset, limit },
    }
}

/// What a list of collections says of one.
fn describe(name: &str, description: &str, collection: &dyn Collection) -> Value {
    let mut described = json!({"name": name});
    let Value::Object(members) = &mut described else { return described };
    if !description.is_empty() {
        members.insert("description".to_owned(), description.into());
    }
    let (Ok(schema), Ok(about)) = (collection.schema(), collection.about()) else {
        members.insert("available".to_owned(), false.into());
        return described;
    };
    members.insert("available".to_owned(), true.into());
    members.insert("source".to_owned(), about.source.into());
    members.insert("key".to_owned(), json!(schema.key()));
    let columns: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind.name(),
                "nullable": column.nullable,
            })
        })
        .collect();
    members.insert("columns".to_owned(), columns.into());
    if let Some(items) = about.items {
        members.insert("items".to_owned(), items.into());
    }
    described
}

/// What a list of collections says of something that is held. It is not opened for that.
fn describe_held(held: &OwnEntry) -> Value {
    let mut described = json!({
        "name": held.handle.to_string(),
        "description": "A held result: only you can read it, until it expires.",
        "available": true,
        "source": "held",
        "kind": held.kind,
        "bytes": held.bytes,
        "expires_at": held.until.as_secs(),
    });
    if let Value::Object(members) = &mut described {
        for (name, text) in
            [("upstream", &held.upstream), ("tool", &held.tool), ("pointer", &held.pointer)]
        {
            members.extend(text.iter().map(|text| (name.to_owned(), text.as_str().into())));
        }
    }
    described
}
