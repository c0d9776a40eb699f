//! A look at upstreams before anything is requested of them.

use std::env::{split_paths, vars_os};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hyper::Uri;
use rustix::fs::{Access, access};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Place, shown_url};

/// Time to connect to an address.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// An upstream that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreached {
    /// Its address without secrets, or its program.
    pub address: String,
    /// The cause.
    pub cause: String,
}

/// Looks whether an upstream can be reached: whether its program is there and may be executed, or its port
/// takes connections. Nothing is started or requested.
pub async fn unreached(place: &Place) -> Option<Unreached> {
    let (address, cause) = match place {
        Place::Command { program, env, .. } => {
            let of_env = env.iter().rfind(|(name, _)| name == "PATH");
            let paths = of_env.map(|(_, paths)| OsString::from(paths)).or_else(own_paths);
            (program.clone(), missing(program, &paths.unwrap_or_default())?)
        }
        Place::Http { url, .. } => (shown_url(url), unconnected(url).await?),
    };
    Some(Unreached { address, cause })
}

fn own_paths() -> Option<OsString> {
    vars_os().find(|(name, _)| name == "PATH").map(|(_, paths)| paths)
}

/// The cause why a program cannot be executed, if so.
fn missing(program: &str, paths: &OsString) -> Option<String> {
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        let path = Path::new(program);
        return match (path.is_file(), is_program(path)) {
            (_, true) => None,
            (true, false) => Some("permission denied: it may not be executed".to_owned()),
            (false, false) => Some("there is no such file".to_owned()),
        };
    }
    let is_there = split_paths(paths).any(|folder| is_program(&folder.join(program)));
    (!is_there).then(|| "there is no such command".to_owned())
}

/// The cause why an address takes no connection, if so.
async fn unconnected(url: &str) -> Option<String> {
    let Ok(uri) = url.parse::<Uri>() else { return Some("it is no URL".to_owned()) };
    let Some(host) = uri.host() else { return Some("it names no host".to_owned()) };
    let default_port = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    let port = uri.port_u16().unwrap_or(default_port);
    // Brackets are the URL's, not the address's.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match timeout(CONNECT_TIME, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some(why.to_string()),
        Err(_) => Some(format!("no connection within {} s", CONNECT_TIME.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cause(program: &str) -> Option<String> {
        let command =
            Place::Command { program: program.to_owned(), args: Vec::new(), env: Vec::new() };
        unreached(&command).await.map(|unreached| unreached.cause)
    }

    #[tokio::test]
    async fn names_the_cause_of_a_program_that_is_not_there() {
        assert_eq!(cause("sh").await, None);
        assert_eq!(cause("/bin/sh").await, None);
        assert_eq!(cause("no-such-command").await.unwrap(), "there is no such command");
        assert_eq!(cause("./no/such").await.unwrap(), "there is no such file");
        assert!(cause("/etc/passwd").await.unwrap().starts_with("permission denied"));
    }

    #[tokio::test]
    async fn shows_an_address_that_takes_no_connection_without_its_secrets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://user:secret@127.0.0.1:{port}/mcp?key=secret");
        let place = Place::Http { url, headers: Vec::new() };
        assert_eq!(unreached(&place).await, None);
        drop(listener);
        let told = unreached(&place).await.unwrap();
        assert_eq!(told.address, format!("http://…@127.0.0.1:{port}/mcp?…"));
        assert!(told.cause.contains("refused"), "{told:?}");
    }
}
