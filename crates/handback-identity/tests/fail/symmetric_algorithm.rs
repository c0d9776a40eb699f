//! No allow-list can hold a symmetric algorithm, not even one of the library beneath.

use handback_identity::jwt::{Algorithm, JwtPolicy};

fn main() {
    let policy = JwtPolicy::new("https://id.example", ["https://tools.example"]).unwrap();
    let policy = policy.with_algorithms([Algorithm::Hs256]).unwrap();
    let _ = policy.with_algorithms([jsonwebtoken::Algorithm::HS256]);
}
