//! The metadata of an issuer, and URLs in it, are read or refused.
#![no_main]

use handback_identity::discovery::{FetchUrl, jwks_url, metadata_urls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let from = FetchUrl::parse("https://id.example/x").expect("it is a URL");
    if let Ok(url) = jwks_url(data, "https://id.example", &from) {
        assert!(url.is_tls());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(url) = FetchUrl::parse(text) {
            let (origin, path) = url.split_path();
            assert_eq!(format!("{origin}{path}"), text);
        }
        let _ = metadata_urls(text);
    }
});
