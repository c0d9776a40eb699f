//! Where tools are, and which protocol is spoken there.

use std::path::PathBuf;
use std::str::FromStr;

use hyper::Uri;

use crate::http::Base;

/// Where tools are: the address says which protocol is spoken.
///
/// ```
/// use handback_client::tools::Endpoint;
///
/// assert!("http://127.0.0.1:8420".parse::<Endpoint>().is_ok()); // /v1/tools
/// assert!("http://127.0.0.1:8420/mcp".parse::<Endpoint>().is_ok()); // MCP
/// assert!("unix:/run/handback.sock".parse::<Endpoint>().is_ok()); // the UNIX socket
/// assert!("ftp://127.0.0.1".parse::<Endpoint>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub(super) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server without a path.
    Http(Base),
    /// A server with one.
    Mcp(Base, String),
    Socket(PathBuf),
}

/// A text that is no address of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the address of tools: it is http://HOST:PORT for plain HTTP, with a path such as /mcp for \
     MCP, or unix:PATH: {0}"
)]
#[non_exhaustive]
pub struct BadEndpoint(pub String);

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(bad()),
                false => Ok(Self(Kind::Socket(path.into()))),
            };
        }
        let uri: Uri = text.parse().map_err(|_| bad())?;
        if uri.query().is_some() {
            return Err(bad());
        }
        let path = uri.path();
        if matches!(path, "" | "/") {
            return Ok(Self(Kind::Http(Base::parse(text).map_err(|_| bad())?)));
        }
        let server = text.strip_suffix(path).ok_or_else(bad)?;
        Ok(Self(Kind::Mcp(Base::parse(server).map_err(|_| bad())?, path.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Kind>) {
        assert_eq!(text.parse::<Endpoint>().ok().map(|endpoint| endpoint.0), expected, "{text}");
    }

    #[test]
    fn the_address_says_which_protocol() {
        let base = Base { is_tls: false, authority: "a:1".to_owned() };
        check("http://a:1", Some(Kind::Http(base.clone())));
        check("http://a:1/", Some(Kind::Http(base.clone())));
        check("http://a:1/mcp", Some(Kind::Mcp(base.clone(), "/mcp".to_owned())));
        check("http://a:1/x/mcp", Some(Kind::Mcp(base, "/x/mcp".to_owned())));
        check("unix:s.sock", Some(Kind::Socket("s.sock".into())));
        for bad in ["", "unix:", "a", "/mcp", "ftp://a/mcp", "http://a/mcp?x", "http://u@a/mcp"] {
            check(bad, None);
        }
    }
}
