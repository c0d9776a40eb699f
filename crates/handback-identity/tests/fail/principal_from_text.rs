//! Text from a caller is not an identity.

use handback_identity::VerifiedPrincipal;

fn serve(_: &VerifiedPrincipal) {}

fn main() {
    serve("https://id.example\0alice");
    let _: VerifiedPrincipal = "https://id.example\0alice".into();
    let _: VerifiedPrincipal = String::from("unauthenticated").into();
}
