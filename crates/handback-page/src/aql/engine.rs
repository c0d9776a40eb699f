//! Requests in, answers out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use handback_token::{Caller, Handle, HandleError, Sealer, UnixTime};
use rand_core::CryptoRng;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Body};
use super::catalog::Catalog;
use super::failure::{Code, Failure, HandleRefusal, shortened};
use super::own::{Own, OwnError};
use super::page::Paged;
use super::params::Params;
use super::request;
use super::settings::{Settings, SettingsError};
use super::snapshot::Snapshot;
use super::table::{Operation, Table};
use super::{derive, introspect, sort, tools};
use crate::collection::{Collection, Fetch, ItemText, Places, Query, Search, Window};
use crate::filter::{Filter, FilterError};
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
const DATA_ENVELOPE_BYTES: usize = 1024;

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
    /// nor that a double was an integer beyond 64 bits: where there is a text, give that to
    /// [`answer_bytes`](Self::answer_bytes).
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
                Ok(answers) => {
                    Answer { operation: None, body: Body::Batch(answers), warnings: vec![] }
                }
                Err(failure) => Answer::failure_of(None, failure),
            });
        }
        match Params::resolve(request, &self.table) {
            Ok(params) => self.run(call, params, call.now, 0, rng),
            Err(failure) => Step::Answer(Answer::failure_of(operation_of(request), failure)),
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
        let budget = self.settings.limits.response_bytes;
        match self.execute(call, &params, asked_at, waited_ms, budget, rng) {
            Ok(Done::Answer(answer)) => Step::Answer(answer),
            Ok(Done::Wait { left_ms }) => {
                let sleep_ms = left_ms.min(LOOK_EVERY_MS);
                Step::Wait(Waiting { params, asked_at, waited_ms, sleep_ms })
            }
            Err(failure) => Step::Answer(Answer::failure_of(Some(operation), failure)),
        }
    }

    fn execute(
        &self,
        call: &Call<'_>,
        params: &Params,
        asked_at: UnixTime,
        waited_ms: u64,
        budget: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Done, Failure> {
        let operation = params.operation;
        check_endpoint(operation, call.endpoint)?;
        match operation {
            Operation::Introspect => introspect::answer(self, call, params)
                .and_then(|data| self.data_of(operation, &data, budget)),
            Operation::GetElement => self.get(call, params, budget).map(Done::Answer),
            Operation::CountElements => {
                self.count(call, params).and_then(|data| self.data_of(operation, &data, budget))
            }
            Operation::DeriveElement => derive::answer(call, params, rng)
                .and_then(|data| self.data_of(operation, &data, budget)),
            Operation::ListCollections
            | Operation::ListElements
            | Operation::SearchElements
            | Operation::QueryElements => {
                Paged { engine: self, call, params, asked_at, waited_ms, budget }.answer(rng)
            }
        }
    }

    /// Every operation of a batch, in order. One that fails does not stop the rest.
    fn batch(
        &self,
        call: &Call<'_>,
        request: &Map<String, Value>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<(String, Answer)>, Failure> {
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
        let limit = self.settings.limits.response_bytes;
        // What the answers before left over.
        let mut left = limit.saturating_sub(BATCH_BYTES);
        let answers = operations.iter().enumerate().map(|(number, request)| {
            let name = request.get("operation").and_then(Value::as_str).map(shortened);
            let name = name.unwrap_or_default();
            // Each byte of a name may need two.
            let around = BATCH_ITEM_BYTES + 2 * name.len();
            // Those that follow can at least say that there is no room.
            let reserved = (operations.len() - number - 1) * BATCH_ITEM_MIN_BYTES;
            let budget = left.saturating_sub(reserved).saturating_sub(around);
            // Where nothing fits, nothing is done.
            let fits = budget > DATA_ENVELOPE_BYTES;
            let sized = |answer: Answer| (answer.to_json().len(), answer);
            let answered = fits.then(|| sized(self.in_batch(call, request, budget, rng)));
            let answered = answered.filter(|(bytes, _)| *bytes <= budget);
            let (bytes, answer) = answered.unwrap_or_else(|| {
                let failure = Failure::answer_too_large(limit, None);
                sized(Answer::failure_of(operation_of(request), failure))
            });
            left = left.saturating_sub(bytes + around);
            (name, answer)
        });
        Ok(answers.collect())
    }

    fn in_batch(
        &self,
        call: &Call<'_>,
        request: &Value,
        budget: usize,
        rng: &mut dyn CryptoRng,
    ) -> Answer {
        let params = match Params::resolve(request, &self.table) {
            Ok(params) => params,
            Err(failure) => return Answer::failure_of(operation_of(request), failure),
        };
        let operation = Some(params.operation);
        if params.flag("stream") == Some(true) {
            let failure = Failure::invalid_type("stream", "false in a batch", "true");
            return Answer::failure_of(operation, failure);
        }
        match self.execute(call, &params, call.now, 0, budget, rng) {
            Ok(Done::Answer(answer)) => answer,
            Ok(Done::Wait { .. }) => unreachable!("only a page with `stream` waits"),
            Err(failure) => Answer::failure_of(operation, failure),
        }
    }

    fn get(&self, call: &Call<'_>, params: &Params, budget: usize) -> Result<Answer, Failure> {
        let limit = budget.saturating_sub(DATA_ENVELOPE_BYTES);
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
            budget_bytes: limit,
            places: Places::Ends,
            total: false,
        };
        let fetched = collection.fetch(&fetch).map_err(failed)?;
        let is_done = selection.is_done(fetched.columns, &schema);
        let row = fetched.rows.into_iter().next();
        let row = row.ok_or_else(|| Failure::not_found("element", &id.to_string()))?;
        let item = projected(row.item, &selection, is_done, name)?;
        if item.len() > limit {
            return Err(self.too_large(item.len()));
        }
        Ok(Answer::new(
            params.operation,
            Body::Data(item.to_string()),
            warning.into_iter().collect(),
        ))
    }

    /// An answer of data that fits.
    fn data_of(&self, operation: Operation, data: &Value, budget: usize) -> Result<Done, Failure> {
        let data = data.to_string();
        if data.len() > budget.saturating_sub(DATA_ENVELOPE_BYTES) {
            return Err(self.too_large(data.len()));
        }
        Ok(Done::Answer(Answer::new(operation, Body::Data(data), vec![])))
    }

    /// That data of so many bytes does not fit into the answer.
    fn too_large(&self, bytes: usize) -> Failure {
        let actual = bytes.saturating_add(DATA_ENVELOPE_BYTES);
        Failure::answer_too_large(self.settings.limits.response_bytes, Some(actual))
    }

    fn count(&self, call: &Call<'_>, params: &Params) -> Result<Value, Failure> {
        let (name, collection) = self.find(call, params)?;
        let failed = |error| Failure::collection(error, name, None);
        let schema = collection.schema().map_err(failed)?;
        let query = query(params, &schema)?;
        let count = collection.count(&query).map_err(failed)?;
        Ok(json!({"count": count}))
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
        if let Some(own) = call.own
            && Handle::is_handle_shaped(name)
        {
            return own.collection(handle(name)?).map_err(|error| own_failure(error, name));
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
        let mut recent = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_SNAPSHOTS {
            recent.pop_front();
        }
        recent.push_back((id, snapshot));
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
        let damaged = crate::CollectionError::Damaged("an item is not JSON".to_owned());
        Failure::collection(damaged, name, None)
    })
}
