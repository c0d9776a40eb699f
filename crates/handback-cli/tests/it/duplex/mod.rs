//! Duplexes of a real server process, over real sockets.

mod burst;
mod client;
mod cut;
mod door;
mod exchange;
mod flow;
mod keyed;
mod killed;
mod relay;
mod resume;
mod sender;
mod tokens;
