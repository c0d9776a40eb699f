//! Held media blocks as resources, under the URIs of the links that take their place in results.

use std::sync::Arc;

use handback_gateway::bound::HELD_URI;
use handback_token::Handle;
use handback_tool::{CallContext, Definition, Outcome, Tool, ToolError};
use serde_json::{Value, json};

use super::media::Shown;
use super::tool::{Shared, Way};

/// The code of MCP for a resource that is not there.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// The resources `handback://held/HANDLE`.
pub(super) struct HeldResource {
    pub(super) shared: Arc<Shared>,
}

impl Tool for HeldResource {
    type Args = Value;

    fn definition(&self) -> Definition {
        let uri = format!("{HELD_URI}{{handle}}");
        Definition::template(uri, "An image, audio or blob that is held.").unlisted()
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
