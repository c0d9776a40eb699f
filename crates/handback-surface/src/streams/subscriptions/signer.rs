//! The signature of webhooks, and the URLs that they name.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_stream::SigningKey;
use serde_json::{Value, json};

/// Signs webhooks.
pub(super) struct Signer {
    key: SigningKey,
    /// The start of the URLs of this server.
    base: String,
}

impl Signer {
    pub(super) const fn new(key: SigningKey, base: String) -> Self {
        Self { key, base }
    }

    pub(super) fn key_id(&self) -> String {
        format!("ds_{}", self.key.public().id())
    }

    /// The header that signs a body at a time in milliseconds.
    pub(super) fn header(&self, body: &[u8], now: u64) -> String {
        let time = (now / 1000).to_string();
        let signed = [time.as_bytes(), b".", body].concat();
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(&signed));
        format!("t={time},kid={},ed25519={signature}", self.key_id())
    }

    pub(super) fn callback_url(&self, id: &str) -> String {
        format!("{}/v1/stream/__ds/subscriptions/{id}/callback", self.base)
    }

    pub(super) fn key_set_url(&self) -> String {
        format!("{}/v1/stream/__ds/jwks.json", self.base)
    }

    /// The public key as a JSON Web Key Set.
    pub(super) fn key_set(&self) -> Value {
        json!({"keys": [{
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": self.key_id(),
            "use": "sig",
            "alg": "EdDSA",
            "x": URL_SAFE_NO_PAD.encode(self.key.public().as_bytes()),
        }]})
    }
}
