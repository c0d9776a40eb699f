//! URIs of held media blocks.
//!
//! Another Handback behind this one has URIs of the same form. One is ours if its handle names something
//! that is, or was lately, held here for the caller, and an upstream's otherwise.

use handback_store::held::LookUp;
use handback_token::Handle;

use crate::bound::HELD_URI;
use crate::gateway::Gateway;
use crate::talk::Talk;

/// True if a URI names something that is held here for the caller.
pub(crate) async fn is_held_here(gateway: &Gateway, talk: &Talk, uri: &str) -> bool {
    let Some(handle) = uri.strip_prefix(HELD_URI) else { return false };
    let Ok(handle) = Handle::parse(handle) else { return false };
    let (held, owner) = (gateway.pipeline().held().clone(), talk.caller.principal().clone());
    let now_ms = gateway.pipeline().clock().now_ms();
    let look = move || held.look_up(handle, &owner, now_ms);
    let found = tokio::task::spawn_blocking(look).await;
    matches!(found, Ok(Ok(LookUp::Found(_) | LookUp::Expired)))
}
