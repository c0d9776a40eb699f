//! A key has no text unless it is asked for by a dangerous name.
use handback_token::MasterKey;

fn main() {
    let key: Option<MasterKey> = None;
    println!("{}", key.unwrap());
}
