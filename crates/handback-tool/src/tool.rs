//! What a tool author writes, and what the pipeline makes of it.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::CallContext;
use crate::definition::{Definition, Kind, schema_of};
use crate::duplex::{Chunks, DuplexEnds};
use crate::outcome::{Position, ToolError, ToolResult};

/// Something that callers can call.
///
/// A tool gets arguments that fit its schema, positions and state that it gave out itself, and
/// answers that it asked for. It returns plain positions and plain state. Who may call it, what is
/// sealed, checked, recorded and replayed is not its business, so it cannot forget any of it.
///
/// ```
/// use handback_tool::{CallContext, Definition, Outcome, Tool, ToolResult};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Sum {
///     a: i64,
///     b: i64,
/// }
///
/// struct Add;
///
/// impl Tool for Add {
///     type Args = Sum;
///
///     fn definition(&self) -> Definition {
///         Definition::tool("add", "Adds two numbers.")
///     }
///
///     async fn call(&self, args: Sum, _ctx: &CallContext) -> ToolResult {
///         Outcome::json(args.a.checked_add(args.b))
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// Its arguments. Their schema is the tool's, unless its definition has another one.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// What the server says of it.
    fn definition(&self) -> Definition;

    /// Does the work. Only tools for which [`call_paginated`](Self::call_paginated) or
    /// [`call_duplex`](Self::call_duplex) is called need not have it.
    ///
    /// Events on the way go through [`CallContext::emit`]. A future that is dropped was cancelled.
    fn call(&self, args: Self::Args, ctx: &CallContext) -> impl Future<Output = ToolResult> + Send {
        let _ = (args, ctx);
        async { Err(ToolError::new("this tool cannot be called in this way").nothing_happened()) }
    }

    /// Finds a page: the first one, or the one at a position that this tool gave out. Called in the
    /// place of [`call`](Self::call) if the definition says [`paginated`](Definition::paginated).
    fn call_paginated(
        &self,
        args: Self::Args,
        ctx: &CallContext,
        position: Option<Position>,
    ) -> impl Future<Output = ToolResult> + Send {
        let _ = position;
        self.call(args, ctx)
    }

    /// Does the work while its caller goes on sending. Called in the place of [`call`](Self::call) if
    /// the definition is a [`duplex`](Definition::duplex).
    ///
    /// The caller gets what is told by [`CallContext::emit`], then the outcome, over as many
    /// connections as it takes. A future that is dropped was aborted. After a crash of the server, a
    /// tool that may be called again ([`ToolClass`](crate::ToolClass)) gets all chunks from the first
    /// one on; as many events as are there already are not written again, so it must make the same
    /// events of the same chunks.
    fn call_duplex(
        &self,
        args: Self::Args,
        ctx: &CallContext,
        chunks: Chunks,
    ) -> impl Future<Output = ToolResult> + Send {
        let _ = chunks;
        self.call(args, ctx)
    }

    /// What may be written for an argument, or for a word of a template, that starts like this.
    fn complete(&self, argument: &str, prefix: &str) -> Vec<String> {
        let _ = (argument, prefix);
        Vec::new()
    }
}

/// A tool without its types.
pub(crate) trait AnyTool: Send + Sync + 'static {
    fn definition(&self) -> Definition;

    /// Reads the arguments. A call that comes out of it is not refused any more.
    fn prepare(
        self: Arc<Self>,
        args: Value,
        ends: Option<DuplexEnds>,
    ) -> Result<Box<dyn Ready>, BadArguments>;

    /// As [`Tool::complete`].
    fn complete(&self, argument: &str, prefix: &str) -> Vec<String>;
}

/// A call whose arguments are read.
pub(crate) trait Ready: Send {
    fn call(
        self: Box<Self>,
        ctx: Arc<CallContext>,
        position: Option<Position>,
    ) -> BoxFuture<'static, ToolResult>;
}

/// Arguments that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadArguments(pub(crate) String);

struct ReadyCall<T: Tool> {
    tool: Arc<T>,
    args: T::Args,
    way: Way,
}

/// Which function of a tool is called.
enum Way {
    Plain,
    Paginated,
    Duplex(DuplexEnds),
}

impl Way {
    fn of(definition: &Definition, ends: Option<DuplexEnds>) -> Self {
        match (&definition.kind, definition.is_paginated) {
            (Kind::Duplex, _) => Self::Duplex(ends.unwrap_or_else(DuplexEnds::of_nobody)),
            (_, true) => Self::Paginated,
            (_, false) => Self::Plain,
        }
    }
}

impl<T: Tool> AnyTool for T {
    fn definition(&self) -> Definition {
        let mut definition = Tool::definition(self);
        if definition.input_schema.is_none() {
            definition.input_schema = Some(schema_of::<T::Args>());
        }
        definition
    }

    fn prepare(
        self: Arc<Self>,
        args: Value,
        ends: Option<DuplexEnds>,
    ) -> Result<Box<dyn Ready>, BadArguments> {
        let args = read(args)?;
        let way = Way::of(&Tool::definition(&*self), ends);
        Ok(Box::new(ReadyCall { tool: self, args, way }))
    }

    fn complete(&self, argument: &str, prefix: &str) -> Vec<String> {
        Tool::complete(self, argument, prefix)
    }
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, BadArguments> {
    serde_json::from_value(args).map_err(|error| BadArguments(error.to_string()))
}

impl<T: Tool> Ready for ReadyCall<T> {
    fn call(
        self: Box<Self>,
        ctx: Arc<CallContext>,
        position: Option<Position>,
    ) -> BoxFuture<'static, ToolResult> {
        let Self { tool, args, way } = *self;
        async move {
            match way {
                Way::Plain => tool.call(args, &ctx).await,
                Way::Paginated => tool.call_paginated(args, &ctx, position).await,
                Way::Duplex(DuplexEnds { chunks, written, .. }) => {
                    let outcome = tool.call_duplex(args, &ctx, chunks).await;
                    ctx.until_written(written).await;
                    outcome
                }
            }
        }
        .boxed()
    }
}

impl fmt::Debug for dyn AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyTool").finish_non_exhaustive()
    }
}
