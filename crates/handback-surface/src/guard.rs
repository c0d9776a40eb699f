//! Host and Origin, checked on every route.
//!
//! A page in a browser can send requests to any address that the browser reaches. It cannot choose
//! the `Origin` that the browser adds; and a name that was made to lead here shows in `Host`.

use std::collections::HashSet;

use hyper::header::{self, HeaderMap, HeaderValue};

/// Which hosts and origins may be asked for, and ask.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    hosts: HashSet<String>,
    origins: HashSet<String>,
    /// Whether every loopback name is ours, whatever the port.
    loopback: bool,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Turned {
    /// It was meant for another host.
    #[error("this host is not served here")]
    Host,
    /// A page of another origin sent it.
    #[error("this origin may not ask")]
    Origin,
}

impl Guard {
    /// For a listener that only this machine reaches: every loopback name is ours.
    #[must_use]
    pub fn loopback() -> Self {
        Self { loopback: true, ..Self::default() }
    }

    /// With another name that leads here, with its port unless that is the scheme's.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.hosts.insert(host.to_ascii_lowercase());
        self
    }

    /// With an origin whose pages may ask, such as `https://app.example`.
    #[must_use]
    pub fn origin(mut self, origin: &str) -> Self {
        self.origins.insert(origin.trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// Checks a request. For a preflight, only its host matters.
    ///
    /// # Errors
    ///
    /// [`Turned`] if it is to be turned away.
    pub fn check(&self, headers: &HeaderMap, is_preflight: bool) -> Result<(), Turned> {
        let host = single(headers, &header::HOST).ok_or(Turned::Host)?;
        if !self.is_ours(host) {
            return Err(Turned::Host);
        }
        let origins = headers.get_all(header::ORIGIN).iter().count();
        match single(headers, &header::ORIGIN) {
            None if origins == 0 => Ok(()),
            _ if is_preflight => Ok(()),
            Some(origin) if self.allows(&origin.to_ascii_lowercase(), host) => Ok(()),
            _ => Err(Turned::Origin),
        }
    }

    /// What a response says to pages of another origin: nothing, unless it may ask.
    #[must_use]
    pub fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&text).then(|| origin.clone())
    }

    fn allows(&self, origin: &str, host: &str) -> bool {
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        self.origins.contains(origin) || own.is_some_and(|own| own.eq_ignore_ascii_case(host))
    }

    /// Whether a host, with its port, is served here: also one that is named in the first line of a
    /// request, which counts more than the header.
    #[must_use]
    pub fn is_ours(&self, host: &str) -> bool {
        (self.loopback && is_loopback(host)) || self.hosts.contains(&host.to_ascii_lowercase())
    }
}

/// Whether a host and port is this machine, by a name that no one else can make lead here.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The value of a header that is there once.
fn single<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, host: &str, origin: Option<&str>) -> Result<(), Turned> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.check(&headers, false)
    }

    #[test]
    fn only_loopback_names_are_ours() {
        let guard = Guard::loopback();
        for host in ["localhost", "LOCALHOST:8420", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert_eq!(check(&guard, host, None), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", ""]
        {
            assert_eq!(check(&guard, host, None), Err(Turned::Host), "{host}");
        }
        assert_eq!(guard.check(&HeaderMap::new(), false), Err(Turned::Host));
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, HeaderValue::from_static("localhost"));
        twice.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert_eq!(guard.check(&twice, false), Err(Turned::Host));
    }

    #[test]
    fn foreign_origins_are_turned_away() {
        let guard = Guard::loopback().origin("https://app.example/");
        let host = "127.0.0.1:8420";
        assert_eq!(check(&guard, host, Some("http://127.0.0.1:8420")), Ok(()));
        assert_eq!(check(&guard, host, Some("https://app.example")), Ok(()));
        for origin in
            ["http://127.0.0.1:9999", "http://localhost:8420", "null", "https://evil.example", ""]
        {
            assert_eq!(check(&guard, host, Some(origin)), Err(Turned::Origin), "{origin}");
        }
    }
}
