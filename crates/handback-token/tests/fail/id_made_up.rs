//! What single use goes by comes out of a token that opened.
use handback_token::TokenId;

fn main() {
    let _id = TokenId([0; 16]);
}
