//! SQLite collections on real database files.

mod change;
mod cut;
mod model;
mod open;
mod order;
mod support;
mod values;
