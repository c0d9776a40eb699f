//! MCP on the pipeline: what a client asks for becomes a call, and what the call gives becomes what
//! the client's revision knows.
//!
//! | here | there |
//! |---|---|
//! | tools, prompts, resources | calls of the pipeline, by operation |
//! | `arguments.__cursor`, `requestState` | continuations |
//! | `_meta["dev.handback/idempotency-key"]`, `Idempotency-Key` | the key |
//! | `_meta["dev.handback/budget"]` | bytes that the client takes of a result |
//! | `*/list` | the registry, in pages with sealed cursors |
//! | questions | inside of the result, or, to older clients, as requests |
//! | tasks | calls that go on without a connection; see [`tasks`] |

mod answers;
mod calls;
mod changes;
mod handler;
mod lists;
mod session;
mod stdio;
pub mod tasks;

use std::fmt;
use std::sync::Arc;

use handback_identity::Caller;
use handback_tool::Pipeline;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

pub use self::changes::Changes;
use self::session::Session;
pub use self::stdio::StdioError;
use self::tasks::Tasks;

/// Where a request has its idempotency key.
pub const KEY_META: &str = "dev.handback/idempotency-key";

/// Where a request says how many bytes its client takes of a result: a number. Tools that can go on in
/// another answer keep to it.
pub const BUDGET_META: &str = "dev.handback/budget";

/// Where a result has the cursor of the next page.
pub const NEXT_CURSOR_META: &str = "dev.handback/nextCursor";

/// Where a result says that it is the answer to an earlier try.
pub const REPLAYED_META: &str = "dev.handback/replayed";

/// Where a result says why there is none.
pub const REASON_META: &str = "dev.handback/reason";

/// The argument that a cursor comes back in.
pub const CURSOR_ARGUMENT: &str = "__cursor";

/// Extension of a server that is a Handback: large results are held, and its reading tools read them. To
/// older clients it is declared as experimental.
pub const HELD_RESULTS_EXTENSION: &str = "dev.handback/held-results";

/// What a server says of itself.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How it is meant to be used, for models.
    pub instructions: Option<String>,
}

/// An MCP server on a pipeline. Clones are the same server to the same client; see
/// [`McpServer::for_session`].
#[derive(Clone)]
pub struct McpServer {
    pipeline: Arc<Pipeline>,
    about: Arc<About>,
    /// Declared extensions, besides tasks.
    pub extensions: &'static [&'static str],
    tasks: Tasks,
    changes: Changes,
    /// Who calls where the transport does not say: on stdio.
    caller: Option<Caller>,
    /// What an older client has said.
    session: Arc<Session>,
}

impl McpServer {
    /// A server whose callers come with their requests: the router puts a [`Caller`] among the
    /// extensions of each.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, about: About, tasks: Tasks) -> Self {
        let about = Arc::new(about);
        Self {
            pipeline,
            about,
            extensions: &[],
            tasks,
            changes: Changes::default(),
            caller: None,
            session: Arc::default(),
        }
    }

    /// For one caller, as on stdio.
    #[must_use]
    pub fn for_caller(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// The same server for one more client, who has said nothing yet.
    #[must_use]
    pub fn for_session(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Tells clients that something has changed.
    #[must_use]
    pub fn changes(mut self, changes: Changes) -> Self {
        self.changes = changes;
        self
    }

    /// Its tasks.
    #[must_use]
    pub const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Who calls.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let parts = context.extensions.get::<hyper::http::request::Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
        let caller = caller.or(self.caller.as_ref()).cloned();
        caller.ok_or_else(|| ErrorData::internal_error("nobody said who calls", None))
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("about", &self.about).finish_non_exhaustive()
    }
}
