//! Arguments that name held values.

/// From which upstream held values may be passed to which other one.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Allowed {
    /// The one that made them.
    pub from: String,
    /// The one that gets them.
    pub to: String,
}
