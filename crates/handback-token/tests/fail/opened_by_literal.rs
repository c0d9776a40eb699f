//! Only opening makes an opened token.
use handback_token::{Cursor, Opened};

fn main() {
    let _forged = Opened::<Cursor> { exp: 0 };
}
