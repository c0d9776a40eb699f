//! Connections to the servers behind the gateway.
//!
//! A [`Line`] is one connection. It asks, and hears what comes before the answer; what belongs to no
//! question comes to whoever opened the line. Answers are slices of what arrived, never trees; large
//! ones are in a file.

mod aside;
mod child;
mod client;
mod ears;
mod ending;
mod events;
mod faults;
mod frame;
mod headers;
mod http;
mod legible;
mod line;
mod logs;
mod own;
mod pending;
mod raw;
mod reach;
mod room;
mod said;
mod sanitize;
mod spec;
mod spool;
mod standing;
mod start;
mod stderr;
mod stdio;

pub use aside::Spooled;
pub(crate) use ending::Ending;
use handback_wire::meta;
pub(crate) use line::PROGRAMS;
pub use line::{Answer, Ask, Heard, Line, LineError, Opening, Spontaneous};
#[cfg(test)]
pub(crate) use logs::LEVELS;
pub(crate) use logs::{LEVEL_META, LOG_MESSAGE, RequestedLevel, SET_LEVEL, level_number};
pub(crate) use own::{REVISION, own_params};
pub use raw::Raw;
pub use reach::{Unreached, unreached};
pub(crate) use room::{DEAF_AFTER, HEARD_MAX};
pub(crate) use spec::OWN;
pub use spec::{
    BadName, NAME_CHARS_MAX, Place, START_TIME, Spec, StartLimits, StderrUse, check_name, shown_url,
};
pub(crate) use start::Order;
pub use stderr::STDERR;
