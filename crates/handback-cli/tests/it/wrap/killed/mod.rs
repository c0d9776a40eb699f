//! Calls with effects through a gateway over HTTP, cut off anywhere: by the client, by the end of the
//! gateway, or by that of the server behind. What happened is in the server's own record.

mod clients;
mod gateways;
mod keyless;
mod site;
mod talk;
mod together;
#[cfg(target_os = "linux")]
mod unwritten;
mod upstreams;
