//! Requests in, answers out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use handback_token::{Caller, Handle, HandleError, Sealer, UnixTime};
use rand_core::CryptoRng;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Body, Warning};
use super::at::{self, is_by_pointer};
use super::catalog::Catalog;
use super::failure::{Code, Failure, HandleRefusal, shortened};
use super::own::{Own, OwnError};
use super::page::Paged;
use super::params::Params;
use super::piece::{self, Rest};
use super::request;
use super::room::Room;
use super::settings::{Settings, SettingsError};
use super::snapshot::Snapshot;
use super::table::{Operation, Table};
use super::{derive, introspect, sort, tools};
use crate::collection::{
    Collection, CollectionError, Fetch, ItemText, Places, Query, Row, Search, Unread, Window,
};
use crate::excerpt::{Excerpt, Located};
use crate::filter::{Filter, FilterError};
use crate::json::InMemory;
use crate::project::Selection;
use crate::scalar::Scalar;
use crate::schema::Schema;
use crate::shelf::{Shelf, ShelfId};

/// The operations of MCP-AQL over the collections of a catalog.
#[derive(Debug)]
pub struct Engine {
    pub(crate) catalog: Catalog,
    pub(crate) settings: Settings,
    table: Table,
    shelf: Arc<dyn Shelf>,
    /// Snapshots that were read lately, with their index.
    snapshots: Mutex<VecDeque<(ShelfId, Arc<Snapshot>)>>,
}

/// Who calls, where, and when.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces write it as a literal")]
pub struct Call<'a> {
    /// Which tool was called.
    pub endpoint: Endpoint,
    /// Who calls. Cursors are bound to it.
    pub caller: Caller<'a>,
    /// What seals the cursors.
    pub sealer: &'a Sealer,
    /// The time.
    pub now: UnixTime,
    /// What belongs to the caller. Without it there are no handles, and the engine's shelf is used.
    pub own: Option<&'a dyn Own>,
    /// Bytes that the client takes in one answer, counted as those of a text inside of JSON, which is
    /// how MCP carries it; without one, only the limit of the settings holds. What is over it is cut
    /// between items, and an item that is larger alone is shown in part, with how to read on.
    pub budget_bytes: Option<usize>,
}

/// Which tool was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the profile of the specification names these")]
pub enum Endpoint {
    /// `mcp_aql_create`: what makes something new.
    Create,
    /// `mcp_aql_read`: what reads.
    Read,
    /// `mcp_aql_update`.
    Update,
    /// `mcp_aql_delete`.
    Delete,
    /// `mcp_aql_execute`.
    Execute,
    /// `mcp_aql`, which takes every operation.
    Single,
}

impl Endpoint {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Execute => "execute",
            Self::Single => "single",
        }
    }
}

/// What comes of a request.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "surfaces handle both")]
pub enum Step {
    /// The answer.
    Answer(Answer),
    /// Nothing yet: sleep, then [`Engine::resume`].
    Wait(Waiting),
}

impl Step {
    /// The answer, if there is one.
    #[must_use]
    pub fn answer(self) -> Option<Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Wait(_) => None,
        }
    }
}

/// A page with `stream` that waits for items.
#[derive(Debug)]
pub struct Waiting {
    params: Params,
    asked_at: UnixTime,
    waited_ms: u64,
    sleep_ms: u64,
}

impl Waiting {
    /// How long to sleep before [`Engine::resume`], in milliseconds.
    #[must_use]
    pub const fn sleep_ms(&self) -> u64 {
        self.sleep_ms
    }
}

/// Bytes around the data of an answer that is no page: names of members, and a warning.
pub(crate) const DATA_ENVELOPE_BYTES: usize = 1024;

/// Bytes around the results of a batch.
const BATCH_BYTES: usize = 512;

/// Bytes around the result of one operation of a batch, besides the operation's name.
const BATCH_ITEM_BYTES: usize = 64;

/// The smallest result of a batch, with all that is around it: a name of 64 characters, and that
/// the answer is full. A thousand of them fit into the smallest answer that can be configured.
const BATCH_ITEM_MIN_BYTES: usize = 640;

/// How often a waiting page looks: as often as people notice, and no more than this.
const LOOK_EVERY_MS: u64 = 200;

impl Engine {
    /// An engine over these collections.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is outside of its bounds.
    pub fn new(
        catalog: Catalog,
        settings: Settings,
        shelf: Arc<dyn Shelf>,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        let table = Table::new(&settings);
        Ok(Self { catalog, settings, table, shelf, snapshots: Mutex::default() })
    }

    /// The collections.
    #[must_use]
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tools to offer to MCP clients, as the mode of the settings says.
    #[must_use]
    pub fn tools(&self) -> Vec<tools::Tool> {
        tools::tools(self.settings.mode)
    }

    /// Answers a request that came as bytes.
    #[must_use]
    pub fn answer_bytes(&self, call: &Call<'_>, request: &[u8], rng: &mut dyn CryptoRng) -> Step {
        match request::parse(request, &self.settings.limits) {
            Ok(request) => self.answer_checked(call, &request, rng),
            Err(failure) => Step::Answer(Answer::failure_of(None, failure)),
        }
    }

    /// Answers a request that was parsed elsewhere. What had a member twice can not be seen here,
    /// and a double that may have been an integer beyond 64 bits is refused where that matters: where
    /// there is a text, give that to [`answer_bytes`](Self::answer_bytes).
    #[must_use]
    pub fn answer(&self, call: &Call<'_>, request: &Value, rng: &mut dyn CryptoRng) -> Step {
        match request::check(request, &self.settings.limits) {
            Ok(()) => self.answer_checked(call, request, rng),
            Err(failure) => Step::Answer(Answer::failure_of(None, failure)),
        }
    }

    /// Looks again for what a page waits for.
    #[must_use]
    pub fn resume(&self, call: &Call<'_>, waiting: Waiting, rng: &mut dyn CryptoRng) -> Step {
        let waited = waiting.waited_ms + waiting.sleep_ms;
        self.run(call, waiting.params, waiting.asked_at, waited, rng)
    }

    fn answer_checked(&self, call: &Call<'_>, request: &Value, rng: &mut dyn CryptoRng) -> Step {
        if let Value::Object(members) = request
            && members.contains_key("operations")
            && !members.contains_key("operation")
        {
            return Step::Answer(match self.batch(call, members, rng) {
                Ok(answer) => answer,
                Err(failure) => Answer::failure_of(None, failure),
            });
        }
        match Params::resolve(request, &self.table) {
            Ok(params) => self.run(call, params, call.now, 0, rng),
            Err(failure) => {
                let room = Room::of(call, &self.settings.limits);
                Step::Answer(within(Answer::failure_of(operation_of(request), failure), room))
            }
        }
    }

    fn run(
        &self,
        call: &Call<'_>,
        params: Params,
        asked_at: UnixTime,
        waited_ms: u64,
        rng: &mut dyn CryptoRng,
    ) -> Step {
        let operation = params.operation;
        let room = Room::of(call, &self.settings.limits);
        match self.execute(call, &params, asked_at, waited_ms, room, rng) {
            Ok(Done::Answer(answer)) => Step::Answer(within(answer, room)),
            Ok(Done::Wait { left_ms }) => {
                let sleep_ms = left_ms.min(LOOK_EVERY_MS);
                Step::Wait(Waiting { params, asked_at, waited_ms, sleep_ms })
            }
            Err(failure) => {
                Step::Answer(within(Answer::failure_of(Some(operation), failure), room))
            }
        }
    }

    fn execute(
        &self,
        call: &Call<'_>,
        params: &Params,
        asked_at: UnixTime,
        waited_ms: u64,
        room: Room,
        rng: &mut dyn CryptoRng,
    ) -> Result<Done, Failure> {
        let operation = params.operation;
        check_endpoint(operation, call.endpoint)?;
        match operation {
            Operation::Introspect => introspect::answer(self, call, params)
                .and_then(|data| data_of(operation, &data, vec![], room)),
            Operation::GetElement if is_by_pointer(params) => {
                self.get_at(call, params, room).map(Done::Answer)
            }
            Operation::GetElement => self.get(call, params, room).map(Done::Answer),
            Operation::CountElements => self
                .count(call, params)
                .and_then(|(data, warnings)| data_of(operation, &data, warnings, room)),
            Operation::DeriveElement => derive::answer(call, params, rng)
                .and_then(|data| data_of(operation, &data, vec![], room)),
            Operation::ListCollections
            | Operation::ListElements
            | Operation::SearchElements
            | Operation::QueryElements => {
                Paged { engine: self, call, params, asked_at, waited_ms, room }.answer(rng)
            }
        }
    }

    /// Every operation of a batch, in order. One that fails does not stop the rest.
    fn batch(
        &self,
        call: &Call<'_>,
        request: &Map<String, Value>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, Failure> {
        // The closed schema of batches has no place for details.
        let refused = |message: String| Err(Failure::new(Code::InvalidType, message, json!({})));
        if let Some(unknown) =
            request.keys().find(|name| *name != "operations" && !name.starts_with('_'))
        {
            let message = format!("Unknown parameter(s) for a batch: {}", shortened(unknown));
            return Err(Failure::new(Code::UnknownParam, message, json!({})));
        }
        let Some(Value::Array(operations)) = request.get("operations") else {
            return refused("Parameter 'operations' expected 'array'".to_owned());
        };
        let limit = self.settings.batch_operations;
        if operations.is_empty() || operations.len() > limit {
            return refused(format!("Parameter 'operations' takes 1 to {limit} operations"));
        }
        let room = Room::of(call, &self.settings.limits);
        // What the answers before left over.
        let mut left = room.without(BATCH_BYTES);
        let mut answers = Vec::with_capacity(operations.len());
        for (number, request) in operations.iter().enumerate() {
            let name = request.get("operation").and_then(Value::as_str).map(shortened);
            let name = name.unwrap_or_default();
            // Each byte of a name may need two.
            let around = BATCH_ITEM_BYTES + 2 * name.len();
            let sized = |answer: Answer| (room.cost(&answer.to_json()), answer);
            let (bytes, answer) = if room.is_clients {
                // There is no answer that has more room for the first one.
                let limit = if number == 0 { left.without(around).bytes } else { left.limit };
                let within = Room { limit, ..left.without(around) };
                // Where little is left, nothing is done: what was made would not be told.
                let fits = number == 0 || within.bytes > 2 * DATA_ENVELOPE_BYTES;
                let answered = fits.then(|| sized(self.in_batch(call, request, within, rng)));
                let is_told = |(bytes, answer): &(usize, Answer)| {
                    *bytes <= within.bytes && (number == 0 || !answer.is_too_large())
                };
                // Those that follow are not made, and the answer says so.
                let Some(answered) = answered.filter(is_told) else { break };
                answered
            } else {
                // Those that follow can at least say that there is no room.
                let reserved = (operations.len() - number - 1) * BATCH_ITEM_MIN_BYTES;
                let within = left.without(reserved).without(around);
                // Where nothing fits, nothing is done.
                let fits = within.bytes > DATA_ENVELOPE_BYTES;
                let answered = fits.then(|| sized(self.in_batch(call, request, within, rng)));
                let answered = answered.filter(|(bytes, _)| *bytes <= within.bytes);
                answered.unwrap_or_else(|| {
                    let failure = Failure::answer_too_large(room.limit, None);
                    sized(Answer::failure_of(operation_of(request), failure))
                })
            };
            left = left.without(bytes + around);
            answers.push((name, answer));
        }
        let cut = Warning::batch(answers.len(), operations.len());
        let cut = (answers.len() < operations.len()).then_some(cut);
        // The room that it needs was counted with the warnings that are not written.
        let is_unread = |answer: &Answer| answer.warnings.iter().any(Warning::is_unread);
        let unread = answers.iter().enumerate().filter(|(_, (_, answer))| is_unread(answer));
        let unread: Vec<_> = unread.map(|(number, _)| number).collect();
        let unread = (!unread.is_empty()).then(|| Warning::unread_in(&unread));
        let warnings = cut.into_iter().chain(unread).collect();
        Ok(Answer { operation: None, body: Body::Batch(answers), warnings })
    }

    fn in_batch(
        &self,
        call: &Call<'_>,
        request: &Value,
        room: Room,
        rng: &mut dyn CryptoRng,
    ) -> Answer {
        let params = match Params::resolve(request, &self.table) {
            Ok(params) => params,
            Err(failure) => {
                return within(Answer::failure_of(operation_of(request), failure), room);
            }
        };
        let operation = Some(params.operation);
        if params.flag("stream") == Some(true) {
            let failure = Failure::invalid_type("stream", "false in a batch", "true");
            return Answer::failure_of(operation, failure);
        }
        match self.execute(call, &params, call.now, 0, room, rng) {
            Ok(Done::Answer(answer)) => answer,
            Ok(Done::Wait { .. }) => unreachable!("only a page with `stream` waits"),
            Err(failure) => within(Answer::failure_of(operation, failure), room),
        }
    }

    fn get(&self, call: &Call<'_>, params: &Params, room: Room) -> Result<Answer, Failure> {
        let room = room.without(DATA_ENVELOPE_BYTES);
        let (name, collection) = self.find(call, params)?;
        let failed = |error| Failure::collection(error, name, None);
        let schema = collection.schema().map_err(failed)?;
        let (selection, warning) = sort::selection(params, &schema)?;
        let id = params.get("id").cloned().unwrap_or_default();
        let (filter, window) = by_key(&id, &schema)?;
        let order = schema.total_order(vec![]);
        let query = Query { filter, search: Search::default(), order };
        let columns = selection.columns(&schema);
        let fetch = Fetch {
            query: &query,
            window,
            columns: columns.as_deref(),
            budget_bytes: room.bytes,
            places: Places::Ends,
            total: false,
        };
        let fetched = collection.fetch(&fetch).map_err(failed)?;
        let is_done = selection.is_done(fetched.columns, &schema);
        let Some(row) = fetched.rows.into_iter().next() else {
            // It may be one that was not looked at.
            let Unread { count, limit_bytes, .. } = collection.unread(Some(&query));
            return Err(match count {
                0 => Failure::not_found("element", &id.to_string()),
                _ => failed(item_too_large(limit_bytes)),
            });
        };
        if row.item.as_long().is_some() {
            return get_long(collection.as_ref(), &row, name, params, room);
        }
        let item = projected(row.item, &selection, is_done, name)?;
        let mut warnings: Vec<_> = warning.into_iter().collect();
        let cost = room.cost(&item);
        let data = if let Some(extent) = at::extent(params, room) {
            let source = InMemory::new(&*item, 0);
            let found = Excerpt::of(&source, 0..item.len() as u64, piece::kind(&item), extent);
            let found = found.map_err(failed)?;
            let text = found.text.as_deref().unwrap_or_default();
            piece::piece(&found, text, room).ok_or_else(|| too_large(cost, room))?
        } else if cost <= room.bytes {
            item.to_string()
        } else if room.is_clients && cost > room.whole().without(DATA_ENVELOPE_BYTES).bytes {
            let rest = Rest::get(name, params.copied(&["id", "fields", "preset"]), None);
            warnings
                .push(Warning::excerpt("data", "Read on as 'read_on' says, or ask for 'fields'"));
            let (kind, size) = (piece::kind(&item), item.len() as u64);
            piece::excerpt(kind, size, &item, &rest, room).ok_or_else(|| too_large(cost, room))?
        } else {
            return Err(too_large(cost, room));
        };
        Ok(Answer::new(params.operation, Body::Data(data), warnings))
    }

    /// How many items match, and what is to be said of it.
    fn count(&self, call: &Call<'_>, params: &Params) -> Result<(Value, Vec<Warning>), Failure> {
        let (name, collection) = self.find(call, params)?;
        let failed = |error| Failure::collection(error, name, None);
        let schema = collection.schema().map_err(failed)?;
        let query = query(params, &schema)?;
        let count = collection.count(&query).map_err(failed)?;
        let unread = collection.unread(Some(&query));
        let warning = (unread.count > 0).then(|| Warning::unread(&unread));
        Ok((json!({"count": count}), warning.into_iter().collect()))
    }

    /// The collection that a request names.
    pub(crate) fn find<'p>(
        &self,
        call: &Call<'_>,
        params: &'p Params,
    ) -> Result<(&'p str, Arc<dyn Collection>), Failure> {
        let name = params.text("element_type").unwrap_or_default();
        self.named(call, name).map(|collection| (name, collection))
    }

    /// The collection of this name, or what a handle names for the caller.
    pub(crate) fn named(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Arc<dyn Collection>, Failure> {
        let (handle, part) = at::parts(name);
        if let Some(own) = call.own
            && Handle::is_handle_shaped(handle)
        {
            let handle = self::handle(handle)?;
            let part = part.map(|part| at::pointer("element_type", part)).transpose()?;
            return own.collection(handle, part.as_ref()).map_err(|error| match error {
                OwnError::Collection(CollectionError::NothingAt(pointer)) if part.is_some() => {
                    Failure::not_found("value", &pointer.to_string())
                }
                error => own_failure(error, name),
            });
        }
        let collection = self.catalog.collection(name);
        collection.map(Arc::clone).ok_or_else(|| Failure::not_found("collection", name))
    }

    /// Where what does not travel is kept for this caller.
    pub(crate) fn shelf<'a>(&'a self, call: &Call<'a>) -> &'a dyn Shelf {
        call.own.map_or_else(|| self.shelf.as_ref(), Own::shelf)
    }

    /// A snapshot that was read lately.
    pub(crate) fn recent_snapshot(&self, id: ShelfId) -> Option<Arc<Snapshot>> {
        let recent = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().find(|(known, _)| *known == id).map(|(_, snapshot)| Arc::clone(snapshot))
    }

    /// Remembers the index of a snapshot, and forgets that of another one.
    pub(crate) fn remember_snapshot(&self, id: ShelfId, snapshot: Arc<Snapshot>) {
        /// Indexes of snapshots that are kept in memory.
        const RECENT_SNAPSHOTS: usize = 16;
        /// Bytes that they take together: as much as four of the largest.
        const RECENT_BYTES: u64 = 32 << 20;
        let mut recent = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back((id, snapshot));
        let taken = |recent: &VecDeque<(ShelfId, Arc<Snapshot>)>| -> u64 {
            recent.iter().map(|(_, snapshot)| snapshot.items.memory_bytes()).sum()
        };
        while recent.len() > 1 && (recent.len() > RECENT_SNAPSHOTS || taken(&recent) > RECENT_BYTES)
        {
            recent.pop_front();
        }
    }
}

/// An item that is too long to be read: its start, or, where a pointer leads to it, a piece.
fn get_long(
    collection: &dyn Collection,
    row: &Row,
    name: &str,
    params: &Params,
    room: Room,
) -> Result<Answer, Failure> {
    let failed = |error| Failure::collection(error, name, None);
    let too_large = || failed(item_too_large(collection.unread(None).limit_bytes));
    let pointer = collection.whereabouts(&row.place).pointer;
    let answer = |data, warnings| Answer::new(params.operation, Body::Data(data), warnings);
    if let Some(extent) = at::extent(params, room) {
        // Which bytes of it are chosen is not known.
        let is_whole = params.given(&["fields", "preset"]).is_empty();
        let pointer = pointer.filter(|_| is_whole).ok_or_else(too_large)?;
        let Located::Found(found) = collection.value_at(&pointer, extent).map_err(failed)? else {
            return Err(too_large());
        };
        let text = found.text.as_deref().unwrap_or_default();
        let data = piece::piece(&found, text, room).ok_or_else(too_large)?;
        return Ok(answer(data, vec![]));
    }
    let item = row.item.as_long().ok_or_else(too_large)?;
    let rest = Rest::of_long(name, item, pointer.map(|pointer| pointer.to_string()));
    let data = piece::long_excerpt(item, &rest, room).ok_or_else(too_large)?;
    Ok(answer(data, vec![Warning::long("data", "Read on as 'read_on' says")]))
}

/// An answer of data that fits.
fn data_of(
    operation: Operation,
    data: &Value,
    warnings: Vec<Warning>,
    room: Room,
) -> Result<Done, Failure> {
    let data = data.to_string();
    let cost = room.cost(&data);
    if cost > room.without(DATA_ENVELOPE_BYTES).bytes {
        return Err(too_large(cost, room));
    }
    Ok(Done::Answer(Answer::new(operation, Body::Data(data), warnings)))
}

/// That an item is too long to be read.
const fn item_too_large(limit: u64) -> CollectionError {
    CollectionError::TooLarge { what: "an item", unit: "bytes", limit }
}

/// That data of so many bytes does not fit into the answer.
fn too_large(bytes: usize, room: Room) -> Failure {
    Failure::answer_too_large(room.limit, Some(bytes.saturating_add(DATA_ENVELOPE_BYTES)))
}

/// An answer that is no longer than what the client takes. Failures have a code and a message that are
/// short, and most have more that is of use; data fits, and what is said of it may be long where it has
/// a pointer in it.
fn within(answer: Answer, room: Room) -> Answer {
    if !room.is_clients || room.cost(&answer.to_json()) <= room.bytes {
        return answer;
    }
    let Answer { operation, body, .. } = answer;
    match body {
        Body::Failure(failure) => Answer::failure_of(operation, failure.without_details()),
        body => Answer { operation, body, warnings: vec![] },
    }
}

/// The handle that a name of its shape is.
pub(crate) fn handle(name: &str) -> Result<Handle, Failure> {
    Handle::parse(name).map_err(|error| {
        Failure::handle(match error {
            HandleError::Mistyped => HandleRefusal::Mistyped,
            _ => HandleRefusal::Invalid,
        })
    })
}

/// Why a handle gives nothing.
pub(crate) fn own_failure(error: OwnError, name: &str) -> Failure {
    match error {
        OwnError::Unknown => Failure::handle(HandleRefusal::Invalid),
        OwnError::Revoked => Failure::handle(HandleRefusal::Revoked),
        OwnError::Expired => Failure::handle(HandleRefusal::Expired),
        OwnError::Collection(error) => Failure::collection(error, name, None),
    }
}

/// What comes of one operation.
pub(crate) enum Done {
    Answer(Answer),
    Wait { left_ms: u64 },
}

/// The operation of a request that did not resolve, to know how its failure is written.
fn operation_of(request: &Value) -> Option<Operation> {
    request.get("operation").and_then(Value::as_str).and_then(Operation::named)
}

fn check_endpoint(operation: Operation, endpoint: Endpoint) -> Result<(), Failure> {
    let expected = operation.endpoint();
    if endpoint == expected || endpoint == Endpoint::Single {
        return Ok(());
    }
    let (name, expected, actual) = (operation.name(), expected.name(), endpoint.name());
    Err(Failure::new(
        Code::EndpointMismatch,
        format!("Operation '{name}' belongs to the endpoint '{expected}', not '{actual}'"),
        json!({"operation": name, "expected_endpoint": expected, "actual_endpoint": actual}),
    ))
}

/// Filter, search and order of a request.
pub(crate) fn query(params: &Params, schema: &Schema) -> Result<Query, Failure> {
    let filter = match params.get("filter").map(|filter| Filter::parse(filter, schema)) {
        None => Filter::EVERYTHING,
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            if let FilterError::UnknownField { .. } = error {
                // Types are before names, here and there.
                sort::keys(params)?;
            }
            let valid: Vec<_> =
                schema.columns().iter().map(|column| column.name.as_str()).collect();
            return Err(Failure::filter(error, &valid));
        }
    };
    let search = params.text("query").map(Search::new).unwrap_or_default();
    let order = sort::order(params, schema)?;
    Ok(Query { filter, search, order })
}

/// Where the element with this key is.
fn by_key(id: &Value, schema: &Schema) -> Result<(Filter, Window<'static>), Failure> {
    let one = Window::Forward { after: None, limit: 1 };
    let members: Map<String, Value> = match (schema.key(), id) {
        ([], id) => {
            let number = number_of(id).ok_or_else(|| {
                Failure::invalid_type("id", "number of the element, from 0", "other value")
            })?;
            return Ok((Filter::EVERYTHING, Window::Offset { offset: number, limit: 1 }));
        }
        ([name], id) => Map::from_iter([(format!("column:{name}"), json!({"eq": id}))]),
        (names, Value::Object(values))
            if values.len() == names.len()
                && names.iter().all(|name| values.contains_key(name)) =>
        {
            let member =
                |(name, value): (&String, &Value)| (format!("column:{name}"), json!({"eq": value}));
            values.iter().map(member).collect()
        }
        (names, _) => {
            let expected = format!("object with the members {}", names.join(", "));
            return Err(Failure::invalid_type("id", &expected, "other value"));
        }
    };
    match Filter::parse(&Value::Object(members), schema) {
        Ok(filter) => Ok((filter, one)),
        Err(FilterError::Invalid { expected, actual, .. }) => {
            Err(Failure::invalid_type("id", &expected, &actual))
        }
        Err(error) => Err(Failure::filter(error, &[])),
    }
}

/// The number that an id is: also `0.0` and `{"$integer":"0"}`, as in a filter. Beyond what is
/// counted, one that no element has.
fn number_of(id: &Value) -> Option<u64> {
    match Scalar::from_json(id)? {
        Scalar::Int(int) if int >= 0 => Some(u64::try_from(int).unwrap_or(u64::MAX)),
        Scalar::Real(real) if real >= 0.0 && real.fract() == 0.0 => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "integral, not negative, and saturating above"
            )]
            let number = real as u64;
            Some(number)
        }
        _ => None,
    }
}

/// The item with the selected members only.
pub(crate) fn projected(
    item: ItemText,
    selection: &Selection,
    is_done: bool,
    name: &str,
) -> Result<ItemText, Failure> {
    if is_done {
        return Ok(item);
    }
    selection.apply(&item).map(ItemText::from).map_err(|_| {
        let damaged = CollectionError::Damaged("an item is not JSON".to_owned());
        Failure::collection(damaged, name, None)
    })
}
