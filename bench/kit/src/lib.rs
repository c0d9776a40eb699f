//! What the load generators share.
//!
//! | module | what it is for |
//! |---|---|
//! | [`http`] | a client that costs little: it shares the machine with the servers |
//! | [`server`] | a server under test, as a process of its own |
//! | [`spread`] | medians, with their range; percentiles |
//! | [`report`] | tables, bars, aims, and the section of a document that is replaced |
//! | [`pick`] | those of a list that are named |

pub mod http;
pub mod pick;
pub mod report;
pub mod server;
pub mod spread;
