//! Arguments that name held values, and where those are.
//!
//! What a reference is and what takes its place is in [`handback_wire::reference`]. Here is what it
//! asks: [`HeldValues`], which looks a handle up as the caller.

mod held;
mod places;

pub use handback_wire::reference::*;
pub use held::HeldValues;
pub(crate) use places::Places;

const _: () = assert!(MAX_ARGUMENTS_DEPTH == handback_tool::MAX_ARGUMENTS_DEPTH);
