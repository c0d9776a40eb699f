//! The targets that webhooks may be delivered to.
//!
//! A URL is checked when a subscription names it and again at each delivery: first its text, then the
//! addresses that its host has at that moment. The delivery connects to an address that was checked, so
//! that a name which changes between the two gains nothing.
//!
//! A configured name does not stand for this machine: if `hooks.example` resolves to a loopback or
//! link-local address, the delivery fails. Whoever controls that name in the DNS would otherwise choose
//! a service of this machine. An operator who wants one names `localhost` or the address. Private
//! addresses pass, because the names of internal hosts resolve to them.
//!
//! Own listeners are never a target, also if the configuration names them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use handback_stream::PathPattern;
use hyper::Uri;
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls::ClientConfig;

/// Bytes of a webhook's URL: what deployed software has long taken for the length of a URL.
const MAX_URL_BYTES: usize = 2048;

/// Time for the lookup of a host when a subscription is created.
const LOOKUP_TIME: Duration = Duration::from_secs(2);

/// The only name that may resolve to a loopback address.
const LOCALHOST: &str = "localhost";

/// The targets that webhooks may be delivered to.
#[derive(Clone, Debug)]
#[must_use]
pub struct WebhookTargets {
    allowed: Allowed,
    own_addresses: Vec<SocketAddr>,
    own_hosts: Vec<String>,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

#[derive(Clone, Debug)]
enum Allowed {
    Loopback,
    Listed(Vec<TargetPattern>),
}

impl WebhookTargets {
    /// Every target on this machine over plain HTTP. For a server that only this machine reaches and
    /// that identifies nobody: whoever can subscribe can also connect.
    pub const fn loopback() -> Self {
        Self::with(Allowed::Loopback)
    }

    /// Targets that match one of these patterns. None means that webhooks are off.
    pub const fn listed(patterns: Vec<TargetPattern>) -> Self {
        Self::with(Allowed::Listed(patterns))
    }

    const fn with(allowed: Allowed) -> Self {
        Self { allowed, own_addresses: Vec::new(), own_hosts: Vec::new(), tls: None }
    }

    /// Never delivers to a listener at this address. An unspecified address stands for every address
    /// of this machine.
    pub fn own_address(mut self, address: SocketAddr) -> Self {
        self.own_addresses.push(address);
        self
    }

    /// Never delivers to this host, a name with its port unless that is the scheme's: a proxy may lead
    /// from there to an own listener.
    pub fn own_host(mut self, host: &str) -> Self {
        self.own_hosts.push(host.to_ascii_lowercase());
        self
    }

    /// Delivers over TLS, with the certificate authorities of this configuration.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Checks a URL that a subscription names. A host that has no address at the moment passes: each
    /// delivery checks again.
    pub(super) async fn check(&self, url: &str) -> Result<(), TargetError> {
        let target = self.parse(url)?;
        match tokio::time::timeout(LOOKUP_TIME, self.address(&target)).await {
            Ok(Ok(_) | Err(TargetError::Unresolved)) | Err(_) => Ok(()),
            Ok(Err(error)) => Err(error),
        }
    }

    /// Checks the text of a URL.
    pub(super) fn parse(&self, url: &str) -> Result<Target, TargetError> {
        let target = Target::parse(url)?;
        let is_allowed = match &self.allowed {
            Allowed::Loopback => !target.is_tls && target.is_on_loopback(),
            Allowed::Listed(patterns) => patterns.iter().any(|pattern| pattern.covers(&target)),
        };
        if !is_allowed {
            return Err(TargetError::NotAllowed);
        }
        if self.own_hosts.iter().any(|own| target.is_named(own)) {
            return Err(TargetError::Own);
        }
        Ok(target)
    }

    /// An address of the target that passes all checks.
    pub(super) async fn address(&self, target: &Target) -> Result<SocketAddr, TargetError> {
        let addresses = match &target.host {
            Host::Address(ip) => vec![SocketAddr::new(*ip, target.port)],
            Host::Name(name) => tokio::net::lookup_host((name.as_str(), target.port))
                .await
                .map_err(|_| TargetError::Unresolved)?
                .collect(),
        };
        let mut refused = TargetError::Unresolved;
        for address in addresses {
            match self.check_address(target, address) {
                Ok(()) => return Ok(address),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn check_address(&self, target: &Target, address: SocketAddr) -> Result<(), TargetError> {
        let ip = address.ip().to_canonical();
        // A connection to an unspecified address ends at this machine.
        if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(TargetError::Address);
        }
        let is_name = matches!(&target.host, Host::Name(name) if name != LOCALHOST);
        let must_be_loopback = match self.allowed {
            Allowed::Loopback => true,
            Allowed::Listed(_) => matches!(&target.host, Host::Name(name) if name == LOCALHOST),
        };
        if (must_be_loopback && !ip.is_loopback())
            || (is_name && (ip.is_loopback() || is_link_local(ip)))
        {
            return Err(TargetError::Address);
        }
        let is_own = |own: &SocketAddr| {
            let own_ip = own.ip().to_canonical();
            own.port() == address.port()
                && (own_ip == ip || (own_ip.is_unspecified() && is_of_this_machine(ip)))
        };
        if self.own_addresses.iter().any(is_own) { Err(TargetError::Own) } else { Ok(()) }
    }
}

/// Why a webhook is not delivered to a target. Callers get one answer for all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The URL is too long.
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// The text is no URL of a webhook.
    #[error(
        "not a URL of a webhook: http or https, a host, and neither a user, nor a fragment, nor port 0"
    )]
    Malformed,
    /// The configuration does not allow the URL.
    #[error("the configuration does not allow this target")]
    NotAllowed,
    /// The host has no address.
    #[error("the host has no address")]
    Unresolved,
    /// The address is no target for this host.
    #[error("the address is not allowed for this host")]
    Address,
    /// The address is a listener of this server.
    #[error("the target is this server itself")]
    Own,
}

/// Webhook targets as the configuration names them: an origin, and perhaps a pattern over paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPattern {
    origin: Target,
    /// Without a pattern, every path of the origin matches.
    path: Option<PathPattern>,
    text: String,
}

impl TargetPattern {
    /// Whether deliveries to these targets need TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.origin.is_tls
    }

    fn covers(&self, target: &Target) -> bool {
        let Target { is_tls, host, port, .. } = &self.origin;
        let path = target.path().trim_start_matches('/');
        (is_tls, host, port) == (&target.is_tls, &target.host, &target.port)
            && self.path.as_ref().is_none_or(|pattern| pattern.matches(path))
    }
}

impl FromStr for TargetPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHAPE: &str = "a target is an origin and perhaps a pattern over paths, such as https://hooks.example/in/**";
        let origin = Target::parse(text).map_err(|_| SHAPE)?;
        if origin.path_and_query.contains('?') {
            return Err("a target has no query: every query is allowed");
        }
        let path = match origin.path().trim_start_matches('/') {
            "" => None,
            path => Some(path.parse().map_err(|_| SHAPE)?),
        };
        Ok(Self { origin, path, text: text.to_owned() })
    }
}

impl fmt::Display for TargetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The URL of a webhook, with nothing in it that two readers could take for different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) is_tls: bool,
    host: Host,
    port: u16,
    /// The host and port as the URL has them.
    pub(super) authority: String,
    pub(super) path_and_query: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Target {
    fn parse(url: &str) -> Result<Self, TargetError> {
        if url.len() > MAX_URL_BYTES {
            return Err(TargetError::TooLong);
        }
        // `Uri` drops a fragment, and some readers take a backslash for a slash.
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\\".contains(&byte)) {
            return Err(TargetError::Malformed);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Malformed)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(TargetError::Malformed),
        };
        let authority = uri.authority().ok_or(TargetError::Malformed)?.as_str();
        let (host, port) = split(authority).ok_or(TargetError::Malformed)?;
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => Some(if is_tls { 443 } else { 80 }),
        };
        let target = Self {
            is_tls,
            host: Host::parse(host).ok_or(TargetError::Malformed)?,
            port: port.ok_or(TargetError::Malformed)?,
            authority: authority.to_ascii_lowercase(),
            path_and_query: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        };
        if target.path().split('/').all(is_plain_segment) {
            Ok(target)
        } else {
            Err(TargetError::Malformed)
        }
    }

    fn path(&self) -> &str {
        self.path_and_query.split('?').next().unwrap_or_default()
    }

    /// The host as a certificate names it.
    pub(super) fn server_name(&self) -> String {
        match &self.host {
            Host::Address(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    fn is_on_loopback(&self) -> bool {
        match &self.host {
            Host::Address(ip) => ip.to_canonical().is_loopback(),
            Host::Name(name) => name == LOCALHOST,
        }
    }

    /// Whether a host, with its port unless that is the scheme's, is that of this URL.
    fn is_named(&self, own: &str) -> bool {
        let Some((host, port)) = split(own) else { return false };
        let default = if self.is_tls { 443 } else { 80 };
        port.map_or(Some(default), |port| port.parse().ok()) == Some(self.port)
            && Host::parse(host).is_some_and(|host| host == self.host)
    }
}

impl Host {
    /// Reads a host. A name whose last label is a number is none: resolvers read `127.1` and
    /// `2130706433` as addresses.
    fn parse(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let last = text.trim_end_matches('.').rsplit('.').next()?;
        let is_name = !last.is_empty()
            && !last.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(is_plain);
        is_name.then(|| Self::Name(text.to_ascii_lowercase()))
    }
}

/// A host and its port.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    match port.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => {
            Some((host, Some(port)))
        }
        None if port.is_empty() => Some((host, None)),
        _ => None,
    }
}

/// Whether a segment of a path leads nowhere else, also if a server decodes it.
fn is_plain_segment(segment: &str) -> bool {
    let decoded: Vec<u8> = percent_decode_str(segment).collect();
    let is_plain = |byte: &u8| !byte.is_ascii_control() && !b"/\\".contains(byte);
    decoded != b"." && decoded != b".." && decoded.iter().all(is_plain)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Whether an address belongs to this machine: only those can be bound.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || !is_foreign(&UdpSocket::bind((ip, 0)))
}

/// Whether an address was not bound because it belongs to another machine. Any other failure, such as
/// too many open files, proves nothing.
fn is_foreign<T>(bound: &io::Result<T>) -> bool {
    bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(patterns: &[&str]) -> WebhookTargets {
        WebhookTargets::listed(patterns.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[track_caller]
    fn check(targets: &WebhookTargets, url: &str, expected: Result<(), TargetError>) {
        assert_eq!(targets.parse(url).map(drop), expected, "{url}");
    }

    #[test]
    fn without_identities_only_this_machine_is_a_target() {
        let targets = WebhookTargets::loopback();
        for url in ["http://127.0.0.1:9/x?y", "http://localhost/", "http://[::1]:80/a"] {
            check(&targets, url, Ok(()));
        }
        for url in ["http://10.0.0.1/hook", "http://169.254.169.254/latest", "https://127.0.0.1/"] {
            check(&targets, url, Err(TargetError::NotAllowed));
        }
        check(&targets, "http://localhost.evil.example/", Err(TargetError::NotAllowed));
    }

    #[test]
    fn urls_that_could_be_read_in_two_ways_are_refused() {
        let targets = listed(&["http://127.0.0.1:80", "http://h.example:80"]);
        for url in [
            "http://127.0.0.1@evil.example/",
            "http://user@127.0.0.1/",
            "http://user:pw@127.0.0.1/",
            "http://2130706433/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://h.example/x#y",
            "http://h.example#@evil.example/",
            "http://h.example\\@evil.example/",
            "http://h.example:0/",
            "http://h.example:/",
            "http://h.example:80:80/",
            "http://h.example/a/../b",
            "http://h.example/a/%2e%2E/b",
            "http://h.example/a%2fb",
            "http://h.example/ b",
            "http://[::1",
            "ftp://127.0.0.1/",
            "//h.example/",
            "/x",
            "",
        ] {
            check(&targets, url, Err(TargetError::Malformed));
        }
        let long = format!("http://h.example/{}", "x".repeat(MAX_URL_BYTES));
        check(&targets, &long, Err(TargetError::TooLong));
    }

    #[test]
    fn scheme_host_port_and_path_are_compared_exactly() {
        let targets = listed(&["https://hooks.example/in/**", "http://127.0.0.1:9000"]);
        for url in [
            "https://hooks.example/in/a/b?c=d",
            "https://HOOKS.example:443/in",
            "http://127.0.0.1:9000/any/path",
            "http://127.0.0.1:9000",
        ] {
            check(&targets, url, Ok(()));
        }
        for url in [
            "http://hooks.example/in/a",
            "https://hooks.example:8443/in/a",
            "https://hooks.example/out",
            "https://hooks.example/inside",
            "https://hooks.example.evil.example/in/a",
            "https://hooks.example./in/a",
            "http://127.0.0.1:9001/",
            "http://localhost:9000/",
            "http://[::ffff:127.0.0.1]:9000/",
        ] {
            check(&targets, url, Err(TargetError::NotAllowed));
        }
        check(&listed(&[]), "http://127.0.0.1:9000/", Err(TargetError::NotAllowed));
    }

    #[test]
    fn own_listeners_are_never_a_target() {
        let targets = listed(&["http://h.example", "http://127.0.0.1:80"]);
        let of = |own: &str, url: &str, address: &str| {
            let targets = targets.clone().own_address(own.parse().unwrap());
            let target = targets.parse(url).unwrap();
            targets.check_address(&target, address.parse().unwrap())
        };
        let literal = "http://127.0.0.1:80";
        for own in ["127.0.0.1:80", "0.0.0.0:80", "[::]:80", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(of(own, literal, "127.0.0.1:80"), Err(TargetError::Own), "{own}");
            let mapped = of(own, literal, "[::ffff:127.0.0.1]:80");
            assert_eq!(mapped, Err(TargetError::Own), "{own}");
        }
        assert_eq!(of("0.0.0.0:80", literal, "127.3.2.1:80"), Err(TargetError::Own));
        assert_eq!(of("[::]:80", literal, "[::1]:80"), Err(TargetError::Own));
        assert_eq!(of("0.0.0.0:81", literal, "127.0.0.1:80"), Ok(()));
        // An address for documentation: no machine has it.
        assert_eq!(of("0.0.0.0:80", "http://h.example", "192.0.2.1:80"), Ok(()));
        let named = targets.own_host("H.example");
        check(&named, "http://h.example/x", Err(TargetError::Own));
    }

    #[test]
    fn an_address_that_was_not_bound_for_another_reason_may_be_our_own() {
        assert!(is_foreign(&UdpSocket::bind(("192.0.2.1", 0))));
        assert!(!is_foreign(&UdpSocket::bind(("127.0.0.1", 0))));
        for kind in [io::ErrorKind::Other, io::ErrorKind::PermissionDenied] {
            assert!(!is_foreign(&Err::<(), _>(io::Error::from(kind))), "{kind:?}");
        }
    }

    #[test]
    fn a_configured_name_does_not_stand_for_this_machine() {
        let targets = listed(&["http://h.example", "http://localhost", "http://169.254.1.1"]);
        let of = |url: &str, address: &str| {
            let target = targets.parse(url).unwrap();
            targets.check_address(&target, address.parse().unwrap())
        };
        for address in
            ["127.0.0.1:80", "[::1]:80", "169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:80"]
        {
            assert_eq!(of("http://h.example", address), Err(TargetError::Address), "{address}");
        }
        assert_eq!(of("http://h.example", "10.0.0.1:80"), Ok(()));
        assert_eq!(of("http://localhost", "127.0.0.1:80"), Ok(()));
        assert_eq!(of("http://localhost", "10.0.0.1:80"), Err(TargetError::Address));
        assert_eq!(of("http://169.254.1.1", "169.254.1.1:80"), Ok(()));
    }
}
