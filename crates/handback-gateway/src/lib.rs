//! The gateway: MCP servers that are not ours, behind the same promises as our own tools.
//!
//! | module | what it is for |
//! |---|---|
//! | [`upstream`] | connections to the servers behind |
//! | [`bound`] | cuts a result that is over a client's budget, and says what to keep |
//! | [`mod@reference`] | arguments that name held values |
//! | [`note`] | what is written beside a held value |

pub mod bound;
pub mod note;
pub mod reference;
pub mod upstream;
