//! One tool for each endpoint.

use std::sync::Arc;
use std::time::Duration;

use handback_gateway::bound::HELD_URI;
use handback_identity::VerifiedPrincipal;
use handback_page::aql::{
    self, Answer, Call, Catalog, Endpoint, Engine, Inside, Settings, SettingsError, Step, Waiting,
};
use handback_page::shelf::NoShelf;
use handback_store::revocations::Revocations;
use handback_token::{Handle, Sealer, UnixTime};
use handback_tool::{
    CallContext, CallHeld, Clock, Content, Definition, Outcome, Registry, RegistryError,
    RevocationWatch, Tool, ToolClass, ToolError,
};
use serde_json::{Value, json};

use super::held::Opened;
use super::media::Shown;
use super::own::Belongings;
use super::shelf::HeldShelf;
use crate::blocking::{Room, SharedRoom};

/// Requests that are looked at at the same time: twice what a SQLite collection has connections.
pub const CALLS_MAX: usize = 16;

/// Of these, those that derive: each has two values in memory.
const DERIVING_MAX: usize = 2;
/// Requests about held values that are looked at at the same time. Each may go over all of a value and
/// sort it, which takes a core and some tens of megabytes.
pub const HELD_CALLS_MAX: usize = 4;

/// The code of MCP for a resource that is not there.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// Of these, what one caller may have: others are not in its way for long.
pub const HELD_CALLS_PER_CALLER: usize = 2;

/// What the tools are made of.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct AqlParts {
    /// The collections.
    pub catalog: Catalog,
    /// Sizes, limits, and how the tools are cut.
    pub settings: Settings,
    /// What is held for callers.
    pub held: CallHeld,
    /// Seals the cursors.
    pub sealer: Arc<Sealer>,
    /// What is not good any more.
    pub revocations: RevocationWatch,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Why there are no such tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AqlError {
    /// A setting is outside of its bounds.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A name is taken.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// Adds the tools over these collections, as the mode of the settings says.
///
/// # Errors
///
/// [`AqlError`].
pub fn register(registry: &mut Registry, parts: AqlParts) -> Result<(), AqlError> {
    let AqlParts { catalog, settings, held, sealer, revocations, clock } = parts;
    // What is kept is the caller's, and never the engine's.
    let engine = Engine::new(catalog, settings, Arc::new(NoShelf))?;
    let tools = engine.tools();
    let (opened, room) = (Opened::default(), Room::new(CALLS_MAX));
    let deriving = Room::new(DERIVING_MAX);
    let held_room = SharedRoom::new(HELD_CALLS_MAX, HELD_CALLS_PER_CALLER);
    let shared =
        Shared { engine, held, sealer, revocations, clock, opened, room, deriving, held_room };
    let shared = Arc::new(shared);
    registry.add_unlisted(HeldResource { shared: Arc::clone(&shared) })?;
    for offered in tools {
        registry.add(AqlTool { offered, shared: Arc::clone(&shared) })?;
    }
    Ok(())
}

struct AqlTool {
    offered: aql::Tool,
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    held: CallHeld,
    sealer: Arc<Sealer>,
    revocations: RevocationWatch,
    clock: Arc<dyn Clock>,
    opened: Opened,
    room: Room,
    deriving: Room,
    held_room: SharedRoom,
}

/// Which room a request waits for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Deriving,
    Held,
    Other,
}

impl Shared {
    /// Runs work that blocks, when there is room for it.
    async fn run<T: Send + 'static>(
        &self,
        caller: &VerifiedPrincipal,
        way: Way,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        match way {
            Way::Deriving => self.deriving.run(work).await,
            Way::Held => self.held_room.run(caller, work).await,
            Way::Other => self.room.run(work).await,
        }
    }

    /// A look for the caller of a call.
    async fn look_of(self: &Arc<Self>, ctx: &CallContext) -> Look {
        Look {
            budget_bytes: ctx.budget_bytes(),
            principal: ctx.principal().clone(),
            revocations: self.revocations.current(self.clock.now_ms()).await,
            now_ms: self.clock.now_ms(),
            shared: Arc::clone(self),
        }
    }
}

impl Tool for AqlTool {
    type Args = Value;

    fn definition(&self) -> Definition {
        let aql::Tool { name, description, input_schema, read_only, destructive, .. } =
            &self.offered;
        // All operations may be made again: they read, or make a copy that ends by itself.
        Definition::tool(*name, *description)
            .input_schema(input_schema.clone())
            .checks_its_arguments()
            .class(ToolClass::ReadOnly)
            .extra(
                "annotations",
                json!({"readOnlyHint": read_only, "destructiveHint": destructive}),
            )
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let presented = Presented::of(&args);
        let way = match (derives(&args), names_held(&args)) {
            (true, _) => Way::Deriving,
            (false, true) => Way::Held,
            (false, false) => Way::Other,
        };
        let mut ask = Ask::Request(args);
        loop {
            let (look, endpoint) = (self.shared.look_of(ctx).await, self.offered.endpoint);
            let seen = move || look.at(endpoint, ask);
            match self.shared.run(ctx.principal(), way, seen).await? {
                Seen::Ended { outcome, refused } => {
                    refused.into_iter().for_each(|reason| ctx.note_reason(reason));
                    presented.note(refused.is_some(), ctx);
                    return outcome;
                }
                Seen::Wait(waiting) => {
                    tokio::time::sleep(Duration::from_millis(waiting.sleep_ms())).await;
                    ask = Ask::Again(waiting);
                }
            }
        }
    }
}

/// The resources `handback://held/HANDLE`.
struct HeldResource {
    shared: Arc<Shared>,
}

impl Tool for HeldResource {
    type Args = Value;

    fn definition(&self) -> Definition {
        let uri = format!("{HELD_URI}{{handle}}");
        Definition::template(uri, "An image, audio or blob that is held.")
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let handle = args.get("handle").and_then(Value::as_str).unwrap_or_default().to_owned();
        let uri = format!("{HELD_URI}{handle}");
        let unknown = {
            let data = json!({"uri": uri});
            let unknown = ToolError::new("there is no such resource");
            unknown.code(RESOURCE_NOT_FOUND).data(data).nothing_happened()
        };
        let Ok(handle) = Handle::parse(&handle) else { return Err(unknown) };
        let look = self.shared.look_of(ctx).await;
        let shown = move || {
            let own = look.belongings();
            Shown::of(&own, handle, None).and_then(|shown| shown.contents(&uri))
        };
        let found = self.shared.run(ctx.principal(), Way::Held, shown).await?;
        found.ok_or(unknown)
    }
}

/// Whether a request makes held values of others.
fn derives(request: &Value) -> bool {
    let batch = request.get("operations").and_then(Value::as_array);
    let mut requests = std::iter::once(request).chain(batch.into_iter().flatten());
    let name = aql::Operation::DeriveElement.name();
    requests.any(|request| request.get("operation").and_then(Value::as_str) == Some(name))
}

/// What a request brings back, for the audit.
struct Presented {
    cursor: Option<String>,
    element_type: Option<String>,
}

impl Presented {
    fn of(request: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let params = request.get("params");
        let named = |name| text(params.and_then(|params| params.get(name)));
        let cursor = ["after", "before", "cursor"].into_iter().find_map(named);
        let element_type = named("element_type").or_else(|| text(request.get("element_type")));
        // Behind a handle may be a pointer, which has no part in who it is.
        let handle = |text: String| text.split('#').next().unwrap_or_default().to_owned();
        Self { cursor, element_type: element_type.map(handle) }
    }

    /// A cursor always; what may have been a handle only if something was refused: else it is the
    /// name of a collection.
    fn note(&self, is_refused: bool, ctx: &CallContext) {
        match (&self.cursor, &self.element_type) {
            (Some(cursor), _) => ctx.note_presented("cursor", cursor),
            (None, Some(handle)) if is_refused => ctx.note_presented("handle", handle),
            _ => {}
        }
    }
}

/// Whether a request, or one of a batch, is about something held.
fn names_held(request: &Value) -> bool {
    let of = |request: &Value, name: &str| {
        let text = request.get(name).and_then(Value::as_str);
        text.is_some_and(|text| Handle::is_handle_shaped(text.split('#').next().unwrap_or(text)))
    };
    let is_one = |request: &Value| {
        let params = request.get("params");
        of(request, "element_type") || params.is_some_and(|params| of(params, "element_type"))
    };
    let batch = request.get("operations").and_then(Value::as_array);
    is_one(request) || batch.is_some_and(|batch| batch.iter().any(is_one))
}

/// What the engine is asked.
enum Ask {
    Request(Value),
    Again(Waiting),
}

/// What comes of it.
enum Seen {
    Ended {
        outcome: Result<Outcome, ToolError>,
        /// Why a cursor or a handle was refused.
        refused: Option<&'static str>,
    },
    Wait(Waiting),
}

/// One look at the collections, on a thread that may block.
struct Look {
    budget_bytes: Option<usize>,
    principal: VerifiedPrincipal,
    revocations: Revocations,
    now_ms: u64,
    shared: Arc<Shared>,
}

impl Look {
    /// The values of the caller.
    fn belongings(&self) -> Belongings<'_> {
        Belongings {
            shelf: HeldShelf { held: self.shared.held.clone(), principal: self.principal.clone() },
            opened: &self.shared.opened,
            revocations: self.revocations.clone(),
            sealer: &self.shared.sealer,
            now_ms: self.now_ms,
        }
    }

    fn at(self, endpoint: Endpoint, ask: Ask) -> Seen {
        let own = self.belongings();
        if let Ask::Request(request) = &ask
            && matches!(endpoint, Endpoint::Read | Endpoint::Single)
            && let Some(shown) = Shown::by_request(&own, request)
        {
            return Seen::Ended { outcome: Ok(shown.result()), refused: None };
        }
        let Self { budget_bytes, principal, now_ms, shared, .. } = &self;
        let call = Call {
            endpoint,
            caller: principal.caller(),
            sealer: &shared.sealer,
            now: UnixTime::from_secs(now_ms / 1000),
            own: Some(&own),
            budget_bytes: *budget_bytes,
        };
        let rng = &mut rand::rng();
        let step = match ask {
            Ask::Request(request) => shared.engine.answer(&call, &request, rng),
            Ask::Again(waiting) => shared.engine.resume(&call, waiting, rng),
        };
        match step {
            Step::Answer(answer) => Seen::Ended {
                outcome: outcome(&answer),
                refused: answer.inside().and_then(Inside::reason),
            },
            Step::Wait(waiting) => Seen::Wait(waiting),
        }
    }
}

/// The envelope, as the result or as what failed.
fn outcome(answer: &Answer) -> Result<Outcome, ToolError> {
    if let Some(Inside::Source(why)) = answer.inside() {
        tracing::warn!(why, "a collection did not answer");
    }
    let envelope = answer.to_json();
    if answer.is_error() {
        let data = serde_json::from_str(&envelope).unwrap_or_default();
        return Err(ToolError::new(envelope).data(data).nothing_happened());
    }
    Ok(Outcome::Done(Content::Raw(envelope.into())))
}
