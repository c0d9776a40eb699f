//! URIs of held media blocks.
//!
//! Another Handback behind this one has URIs of the same form. A URI is ours if its handle names something
//! that is, or was lately, held here for the caller. Every other one is an upstream's.

use handback_identity::VerifiedPrincipal;
use handback_store::Millis;
use handback_store::held::LookUp;
use handback_token::Handle;
use handback_tool::CallHeld;
use handback_wire::bound::HELD_URI;

/// True if a URI names something that is held here for its owner.
pub(crate) async fn is_held_here(
    held: &CallHeld,
    owner: &VerifiedPrincipal,
    uri: &str,
    now_ms: Millis,
) -> bool {
    let Some(handle) = uri.strip_prefix(HELD_URI) else { return false };
    let Ok(handle) = Handle::parse(handle) else { return false };
    let (held, owner) = (held.clone(), owner.clone());
    let look = move || held.look_up(handle, &owner, now_ms);
    let found = tokio::task::spawn_blocking(look).await;
    matches!(found, Ok(Ok(LookUp::Found(_) | LookUp::Expired)))
}
