//! What is said to callers without a good credential: where to get one.
//!
//! RFC 9728: the metadata of a protected resource is at `/.well-known/oauth-protected-resource`, with
//! the path of the resource behind it if it has one. Clients try either, so both answer. The challenge
//! of a refused request leads there.

use handback_identity::Refusal;
use handback_identity::discovery::FetchUrl;
use hyper::header::HeaderValue;
use serde_json::{Value, json};

/// Where the metadata of protected resources is.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What callers of a protected resource are told.
#[derive(Debug)]
pub(crate) struct Challenge {
    metadata: Value,
    /// The path of the resource, without a slash at its end.
    path: String,
    missing: HeaderValue,
    invalid: HeaderValue,
}

impl Challenge {
    pub(super) fn new(resource: &FetchUrl, issuer: &str, scopes: &[String]) -> Self {
        let (origin, path) = resource.split_path();
        let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
        let mut metadata = json!({
            "resource": resource.as_str(),
            "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "Handback",
        });
        if let (false, Some(members)) = (scopes.is_empty(), metadata.as_object_mut()) {
            members.insert("scopes_supported".to_owned(), json!(scopes));
        }
        // A URL as it was checked has neither quotes nor backslashes.
        let leads = format!("resource_metadata=\"{origin}{WELL_KNOWN}{path}\"");
        let said = |error: &str| {
            let text = format!("Bearer realm=\"handback\", {error}{leads}");
            HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
        };
        let (missing, invalid) = (said(""), said("error=\"invalid_token\", "));
        Self { metadata, path: path.to_owned(), missing, invalid }
    }

    /// The metadata, if it is at this path.
    pub(super) fn metadata(&self, path: &str) -> Option<&Value> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        (rest.is_empty() || rest == self.path).then_some(&self.metadata)
    }

    /// The header of a response to who was refused.
    pub(super) fn header(&self, refusal: Refusal) -> HeaderValue {
        // RFC 6750, section 3.1: to who showed nothing, nothing is said of an error.
        if refusal.is_missing() { self.missing.clone() } else { self.invalid.clone() }
    }
}

/// The header where there is no issuer to go to.
pub(super) fn plain(refusal: Refusal) -> HeaderValue {
    HeaderValue::from_static(if refusal.is_missing() {
        "Bearer realm=\"handback\""
    } else {
        "Bearer realm=\"handback\", error=\"invalid_token\""
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(resource: &str) -> Challenge {
        Challenge::new(&FetchUrl::parse(resource).unwrap(), "https://id.example", &[])
    }

    #[test]
    fn the_challenge_leads_to_the_metadata() {
        let told = challenge("https://tools.example/mcp");
        let missing = told.header(Refusal::Missing);
        let expected = "Bearer realm=\"handback\", resource_metadata=\
                        \"https://tools.example/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(missing, expected);
        let invalid = told.header(Refusal::Unknown);
        assert!(invalid.to_str().unwrap().contains("error=\"invalid_token\""));
        assert!(told.metadata("/.well-known/oauth-protected-resource").is_some());
        let metadata = told.metadata("/.well-known/oauth-protected-resource/mcp").unwrap();
        assert_eq!(metadata["resource"], "https://tools.example/mcp");
        assert_eq!(metadata["authorization_servers"], json!(["https://id.example"]));
        assert!(told.metadata("/.well-known/oauth-protected-resource/other").is_none());
        assert!(told.metadata("/.well-known/oauth-protected-resourcemcp").is_none());
        assert!(told.metadata("/").is_none());
    }

    #[test]
    fn a_resource_without_a_path_has_its_metadata_at_one_place() {
        for resource in ["https://tools.example", "https://tools.example/"] {
            let told = challenge(resource);
            assert!(told.header(Refusal::Missing).to_str().unwrap().ends_with("resource\""));
            assert_eq!(told.metadata(WELL_KNOWN).unwrap()["resource"], resource);
        }
    }
}
