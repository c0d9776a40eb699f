//! Where an issuer publishes its keys, and when they are fetched again.
//!
//! Nothing is fetched here. [`metadata_urls`] says where the issuer's metadata is, [`jwks_url`] reads
//! it, and a [`KeyCache`] keeps what was fetched and says when to try again.
//!
//! # Design
//!
//! * **Only HTTPS**, except to this machine: a [`FetchUrl`] is nothing else. Metadata that came over
//!   HTTPS cannot send us to plain HTTP, not even to this machine.
//! * **The metadata must name the issuer that was asked for**, byte by byte (OpenID Connect
//!   Discovery, section 4.3; RFC 8414, section 3.3), or one issuer could speak for another.
//! * **Anyone can invent a key id.** So an unknown one has the keys fetched at most once in
//!   [`KeySchedule::min_interval_s`], for all callers together.
//! * **An issuer that is down does not lock everyone out.** Its keys are used until they are
//!   [`MAX_AGE_S`] old. From then on, nobody can be identified: a key that was withdrawn long ago
//!   must not count for ever.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use thiserror::Error;

use crate::jwt::KeySet;

/// The largest metadata document, in bytes. Real ones have 2 to 10 KiB.
pub const MAX_METADATA_BYTES: usize = 64 * 1024;

/// The longest URL that is fetched, in bytes.
pub const MAX_URL_BYTES: usize = 2_048;

/// Seconds after which keys are no longer used.
pub const MAX_AGE_S: u64 = 24 * 60 * 60;

/// When keys are fetched again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "configurations write it as a literal")]
pub struct KeySchedule {
    /// Seconds between two fetches at least, whatever callers present.
    pub min_interval_s: u64,
    /// Seconds after which keys are fetched although all is well.
    pub refresh_after_s: u64,
}

impl Default for KeySchedule {
    /// An unknown key is looked for within half a minute, a withdrawn one is gone within fifteen.
    fn default() -> Self {
        Self { min_interval_s: 30, refresh_after_s: 15 * 60 }
    }
}

/// A URL that may be fetched: HTTPS, or HTTP to this machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FetchUrl {
    text: String,
    is_tls: bool,
}

/// A text that is not such a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is not a URL with a host, or has a user, a fragment, or a character that no URL has.
    #[error("it is not a plain URL such as https://id.example/path")]
    Malformed,
    /// It is longer than [`MAX_URL_BYTES`].
    #[error("it has more than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// It is HTTP, and not to this machine.
    #[error("it must be HTTPS: plain HTTP is for loopback addresses only")]
    NotSecure,
}

impl FetchUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if it may not be fetched.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#@".contains(&byte);
        if !text.bytes().all(is_plain) {
            return Err(UrlError::Malformed);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Malformed)?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let host = host_of(rest.get(..end).unwrap_or_default()).ok_or(UrlError::Malformed)?;
        let is_tls = match scheme {
            "https" => true,
            "http" if is_loopback(host) => false,
            "http" => return Err(UrlError::NotSecure),
            _ => return Err(UrlError::Malformed),
        };
        Ok(Self { text: text.to_owned(), is_tls })
    }

    /// The URL as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is HTTPS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Scheme and authority, and the path with what follows it, which may be empty.
    #[must_use]
    pub fn split_path(&self) -> (&str, &str) {
        let start = self.text.find("://").map_or(0, |at| at + 3);
        let path = self.text.get(start..).and_then(|rest| rest.find(['/', '?']));
        self.text.split_at(path.map_or(self.text.len(), |at| start + at))
    }
}

impl std::str::FromStr for FetchUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for FetchUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where the metadata of an issuer may be, the likeliest first: as OpenID Connect Discovery (section
/// 4) and as RFC 8414 (section 3) say.
///
/// # Errors
///
/// [`UrlError`] if the issuer is not a URL that may be fetched, or has a query.
pub fn metadata_urls(issuer: &str) -> Result<[FetchUrl; 2], UrlError> {
    let url = FetchUrl::parse(issuer)?;
    if issuer.contains('?') {
        return Err(UrlError::Malformed);
    }
    let (origin, path) = url.split_path();
    let path = path.strip_suffix('/').unwrap_or(path);
    Ok([
        FetchUrl::parse(&format!("{origin}{path}/.well-known/openid-configuration"))?,
        FetchUrl::parse(&format!("{origin}/.well-known/oauth-authorization-server{path}"))?,
    ])
}

/// Where the keys are, from the metadata of an issuer that was fetched from `from`.
///
/// # Errors
///
/// [`MetadataError`] if the document is not the metadata of this issuer.
pub fn jwks_url(json: &[u8], issuer: &str, from: &FetchUrl) -> Result<FetchUrl, MetadataError> {
    if json.len() > MAX_METADATA_BYTES {
        return Err(MetadataError::TooLarge);
    }
    let found: Metadata = serde_json::from_slice(json).map_err(|_| MetadataError::Malformed)?;
    if found.issuer != issuer {
        return Err(MetadataError::OtherIssuer);
    }
    let url = FetchUrl::parse(&found.jwks_uri).map_err(MetadataError::Keys)?;
    if from.is_tls && !url.is_tls {
        return Err(MetadataError::Keys(UrlError::NotSecure));
    }
    Ok(url)
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Why the metadata of an issuer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It is larger than [`MAX_METADATA_BYTES`].
    #[error("the metadata has more than {MAX_METADATA_BYTES} bytes")]
    TooLarge,
    /// It is not JSON with `issuer` and `jwks_uri`.
    #[error("the metadata is not JSON with issuer and jwks_uri")]
    Malformed,
    /// It is that of another issuer.
    #[error("the metadata names another issuer than the configuration")]
    OtherIssuer,
    /// The keys are where they may not be fetched from.
    #[error("jwks_uri may not be fetched")]
    Keys(#[source] UrlError),
}

/// The keys of an issuer, and when they were fetched. Times are in seconds of any clock that does
/// not go back.
#[derive(Clone, Debug, Default)]
pub struct KeyCache {
    schedule: KeySchedule,
    keys: Option<(Arc<KeySet>, u64)>,
    tried_at: Option<u64>,
}

impl KeyCache {
    /// An empty one.
    #[must_use]
    pub fn new(schedule: KeySchedule) -> Self {
        Self { schedule, ..Self::default() }
    }

    /// The keys, unless there are none or they are too old.
    #[must_use]
    pub fn keys(&self, now: u64) -> Option<Arc<KeySet>> {
        let (keys, at) = self.keys.as_ref()?;
        (now.saturating_sub(*at) < MAX_AGE_S).then(|| Arc::clone(keys))
    }

    /// Whether the keys should be fetched although nobody asks for others.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        let is_old = |(_, at): &(_, u64)| now.saturating_sub(*at) >= self.schedule.refresh_after_s;
        self.may_try(now) && self.keys.as_ref().is_none_or(is_old)
    }

    /// Whether the keys may be fetched: not too soon after the last attempt.
    #[must_use]
    pub fn may_try(&self, now: u64) -> bool {
        self.tried_at.is_none_or(|at| now.saturating_sub(at) >= self.schedule.min_interval_s)
    }

    /// Notes an attempt, before it is made.
    pub const fn tried(&mut self, now: u64) {
        self.tried_at = Some(now);
    }

    /// Takes keys that were fetched. False, and those before stay, if there are none among them.
    pub fn fetched(&mut self, keys: KeySet, now: u64) -> bool {
        let is_usable = !keys.is_empty();
        if is_usable {
            self.keys = Some((Arc::new(keys), now));
        }
        is_usable
    }
}

/// The host of an authority, without its port. Nothing if either is malformed.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|_| !port.starts_with('+'));
    if port.is_some_and(|port| !is_port(port)) {
        return None;
    }
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_name = !host.is_empty() && !host.contains(['[', ']', ':', ',']);
    (is_bracketed || is_name).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE_KEY: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    #[test]
    fn https_and_this_machine_may_be_fetched() {
        for url in [
            "https://id.example",
            "https://id.example:8443/a?b=c",
            "http://127.0.0.1:1/x",
            "http://localhost/",
            "http://[::1]:8080",
            "https://10.0.0.1/",
            "https://[2001:db8::1]/",
        ] {
            assert_eq!(FetchUrl::parse(url).unwrap().as_str(), url);
        }
        for url in [
            "http://id.example",
            "http://10.0.0.1/",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example/",
            "http://[2001:db8::1]/",
        ] {
            assert_eq!(FetchUrl::parse(url), Err(UrlError::NotSecure), "{url}");
        }
        for url in [
            "",
            "id.example",
            "https://",
            "https:///a",
            "ftp://a",
            "https://a b",
            "HTTPS://a",
            "https://u:p@a/",
            "http://127.0.0.1@evil.example/",
            "https://a#b",
            "https://a:b/",
            "https://a:99999/",
            "https://a:/",
            "https://[::1/",
            "https://é/",
            "file:///etc/passwd",
        ] {
            assert_eq!(FetchUrl::parse(url), Err(UrlError::Malformed), "{url}");
        }
        let long = format!("https://a/{}", "x".repeat(MAX_URL_BYTES));
        assert_eq!(FetchUrl::parse(&long), Err(UrlError::TooLong));
    }

    #[test]
    fn metadata_is_where_the_standards_say() {
        let urls = |issuer| metadata_urls(issuer).map(|urls| urls.map(|url| url.to_string()));
        let expected = [
            "https://id.example/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server",
        ];
        assert_eq!(urls("https://id.example").unwrap(), expected);
        assert_eq!(urls("https://id.example/").unwrap(), expected);
        let expected = [
            "https://id.example/a/b/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server/a/b",
        ];
        assert_eq!(urls("https://id.example/a/b").unwrap(), expected);
        assert!(urls("https://id.example/?tenant=1").is_err());
        assert!(urls("http://id.example").is_err());
    }

    #[test]
    fn metadata_of_another_issuer_is_refused() {
        let from = FetchUrl::parse("https://id.example/x").unwrap();
        let read = |json: &str| jwks_url(json.as_bytes(), "https://id.example", &from);
        let good = r#"{"issuer":"https://id.example","jwks_uri":"https://id.example/k","x":1}"#;
        assert_eq!(read(good).unwrap().as_str(), "https://id.example/k");
        let other = good.replace("example\",", "example/\",");
        assert_eq!(read(&other), Err(MetadataError::OtherIssuer));
        for json in
            ["", "[]", "{}", r#"{"issuer":"https://id.example"}"#, r#"{"issuer":1,"jwks_uri":""}"#]
        {
            assert_eq!(read(json), Err(MetadataError::Malformed), "{json}");
        }
        for keys in ["http://id.example/k", "http://127.0.0.1/k", "http://localhost/k"] {
            let json = good.replace("https://id.example/k", keys);
            assert_eq!(read(&json), Err(MetadataError::Keys(UrlError::NotSecure)), "{keys}");
        }
        let large = format!("{good}{}", " ".repeat(MAX_METADATA_BYTES));
        assert_eq!(read(&large), Err(MetadataError::TooLarge));
        let local = FetchUrl::parse("http://127.0.0.1:1/x").unwrap();
        let json = br#"{"issuer":"http://127.0.0.1:1","jwks_uri":"http://127.0.0.1:1/k"}"#;
        assert!(jwks_url(json, "http://127.0.0.1:1", &local).is_ok());
    }

    #[test]
    fn an_empty_set_does_not_replace_keys() {
        let mut cache = KeyCache::default();
        assert!(!cache.fetched(KeySet::parse(br#"{"keys":[]}"#).unwrap(), 0));
        assert!(cache.keys(0).is_none());
        assert!(cache.fetched(KeySet::parse(ONE_KEY).unwrap(), 1));
        assert!(!cache.fetched(KeySet::parse(br#"{"keys":[]}"#).unwrap(), 2));
        assert_eq!(cache.keys(2).unwrap().len(), 1);
        assert!(cache.keys(MAX_AGE_S).is_some());
        assert!(cache.keys(1 + MAX_AGE_S).is_none());
    }

    proptest! {
        #[test]
        fn attempts_are_never_closer_than_the_interval(
            steps in proptest::collection::vec((0_u64..40, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let keys = KeySet::parse(ONE_KEY).unwrap();
            let schedule = KeySchedule::default();
            let mut cache = KeyCache::new(schedule);
            let (mut now, mut last) = (0, None::<u64>);
            for (wait, is_unknown, succeeds) in steps {
                now += wait;
                let tries = if is_unknown { cache.may_try(now) } else { cache.is_due(now) };
                if tries {
                    prop_assert!(last.is_none_or(|last| now - last >= schedule.min_interval_s));
                    last = Some(now);
                    cache.tried(now);
                    if succeeds {
                        cache.fetched(keys.clone(), now);
                        prop_assert!(!cache.is_due(now + schedule.refresh_after_s - 1));
                    }
                }
            }
        }

        #[test]
        fn no_url_is_fetched_that_a_stranger_could_read(text in "https?://[a-z0-9.:@\\[\\]/?#]{0,30}") {
            if let Ok(url) = FetchUrl::parse(&text) {
                prop_assert!(url.is_tls() || ["127.", "localhost", "[::1]", "[::"].iter().any(
                    |local| url.as_str()["http://".len()..].starts_with(local)));
                let (origin, path) = url.split_path();
                prop_assert_eq!(format!("{origin}{path}"), text);
            }
        }
    }
}
