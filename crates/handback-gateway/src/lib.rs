//! The gateway: MCP servers that are not ours, behind the same promises as our own tools.
//!
//! ```text
//! client ─ front ─ gateway ┬ lists: merged          ┬ line ─ upstream
//!                          ├ calls: the pipeline,   ├ line ─ upstream
//!                          │ held values, hop seals └ line ─ our own tools
//!                          └ the rest: passed on
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`upstream`] | connections to the servers behind |
//! | `slot` | where a connection is, or will be again |
//! | `eras` | which era an upstream speaks |
//! | [`gateway`] | which upstream a question goes to |
//! | `relay` | one question to it, and what its client hears meanwhile |
//! | `mirror` | arguments that go in headers as well |
//! | `catalog`, `lists` | what upstreams have, under which names |
//! | `late` | who did not say what it has in time, and is not waited for again |
//! | `cancellation` | whether the answer to a request is still wanted |
//! | `held_links` | URIs of media that is held |
//! | `logged` | faults of upstreams that were logged |
//! | `names` | what a called name means, and may have meant before |
//! | `naming` | which names are shown, and as what |
//! | `handbacks` | upstreams that are Handbacks themselves |
//! | `calls` | tools, prompts and resources, through the pipeline |
//! | `completion` | what completes their arguments |
//! | `slow` | calls that become tasks |
//! | `hold`, [`bound`] | results over a client's budget |
//! | `once` | those of tasks of upstreams, which are read more than once |
//! | [`mod@reference`] | arguments that name held values |
//! | [`retry`] | identical calls that are another try |
//! | `replay` | what another try of a call is told |
//! | `hop` | cursors and task ids of upstreams, as tokens of their caller |
//! | [`session`] | clients of the older era |
//! | `bridge`, `complete` | clients of one era before servers of the other, and what results lack there |
//! | `listening`, `wishes`, `following` | what changes, told to newer clients and to older ones of newer servers |
//! | [`front`] | where clients come in |
//! | [`note`] | what is written beside a held value |

mod bridge;
mod calls;
mod cancellation;
mod catalog;
mod complete;
mod completion;
mod envelope;
mod eras;
mod following;
pub mod front;
pub mod gateway;
mod handbacks;
mod held_links;
mod hello;
mod hold;
mod hop;
mod kept;
mod late;
mod listening;
mod lists;
mod logged;
mod mirror;
mod names;
mod naming;
mod once;
pub mod options;
mod programs;
pub mod reference;
mod relay;
mod replay;
pub mod retry;
mod schemas;
pub mod session;
mod slot;
mod slow;
pub mod talk;
mod tasks;
pub mod upstream;
mod wishes;
mod words;

pub use cancellation::Cancellation;
pub use gateway::Gateway;
pub use handback_wire::{bound, note, schema};
pub use options::{Options, ToolRule};
pub use session::Session;
pub use talk::{Question, Talk, ToClient};
