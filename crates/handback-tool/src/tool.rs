//! What a tool author writes, and what the pipeline makes of it.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::CallContext;
use crate::definition::{Definition, schema_of};
use crate::outcome::{Outcome, Position, ToolError};

/// Something that callers can call.
///
/// A tool gets arguments that fit its schema, positions and state that it gave out itself, and
/// answers that it asked for. It returns plain positions and plain state. Who may call it, what is
/// sealed, checked, recorded and replayed is not its business, so it cannot forget any of it.
///
/// ```
/// use handback_tool::{CallContext, Definition, Outcome, Tool, ToolError};
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
///     async fn call(&self, args: Sum, _ctx: &CallContext) -> Result<Outcome, ToolError> {
///         Outcome::json(args.a.checked_add(args.b))
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// Its arguments. Their schema is the tool's, unless its definition has another one.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// What the server says of it.
    fn definition(&self) -> Definition;

    /// Does the work.
    ///
    /// Events on the way go through [`CallContext::emit`]. A future that is dropped was cancelled.
    fn call(
        &self,
        args: Self::Args,
        ctx: &CallContext,
    ) -> impl Future<Output = Result<Outcome, ToolError>> + Send;

    /// Finds a page: the first one, or the one at a position that this tool gave out. Called in the
    /// place of [`call`](Self::call) if the definition says [`paginated`](Definition::paginated).
    fn call_paginated(
        &self,
        args: Self::Args,
        ctx: &CallContext,
        position: Option<Position>,
    ) -> impl Future<Output = Result<Outcome, ToolError>> + Send {
        let _ = position;
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
    fn prepare(self: Arc<Self>, args: Value) -> Result<Box<dyn Ready>, BadArguments>;

    /// As [`Tool::complete`].
    fn complete(&self, argument: &str, prefix: &str) -> Vec<String>;
}

/// A call whose arguments are read.
pub(crate) trait Ready: Send {
    fn call(
        self: Box<Self>,
        ctx: Arc<CallContext>,
        position: Option<Position>,
    ) -> BoxFuture<'static, Result<Outcome, ToolError>>;
}

/// Arguments that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadArguments(pub(crate) String);

struct ReadyCall<T: Tool> {
    tool: Arc<T>,
    args: T::Args,
    is_paginated: bool,
}

impl<T: Tool> AnyTool for T {
    fn definition(&self) -> Definition {
        let mut definition = Tool::definition(self);
        if definition.input_schema.is_none() {
            definition.input_schema = Some(schema_of::<T::Args>());
        }
        definition
    }

    fn prepare(self: Arc<Self>, args: Value) -> Result<Box<dyn Ready>, BadArguments> {
        let args = read(args)?;
        let is_paginated = Tool::definition(&*self).is_paginated;
        Ok(Box::new(ReadyCall { tool: self, args, is_paginated }))
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
    ) -> BoxFuture<'static, Result<Outcome, ToolError>> {
        let Self { tool, args, is_paginated } = *self;
        async move {
            if is_paginated {
                tool.call_paginated(args, &ctx, position).await
            } else {
                tool.call(args, &ctx).await
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
