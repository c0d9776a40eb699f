//! Against a real server, which `HANDBACK_TEST_POSTGRES` names.

mod config;
mod faults;
mod model;
mod plans;
mod read_only;
mod schemas;
mod support;
mod types;
mod windows;
