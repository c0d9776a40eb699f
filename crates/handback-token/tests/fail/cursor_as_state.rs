//! A cursor that opened is not request state.
use handback_token::{Cursor, Opened, State};

fn redeem(_state: &Opened<State>) {}

fn main() {
    let cursor: Option<Opened<Cursor>> = None;
    redeem(&cursor.unwrap());
}
