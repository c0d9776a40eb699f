//! Who calls: the identity mode of a server, asked once for each request.
//!
//! What is decided is decided in `handback-identity`. Here is what that needs from outside: the file
//! of bearer tokens, read again when it changes, and the keys of an issuer, fetched over HTTP.

mod challenge;
mod fetch;
mod oidc;
mod roster;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use handback_identity::discovery::{FetchUrl, KeySchedule};
use handback_identity::jwt::JwtPolicy;
use handback_identity::{Bearer, Caller, Refusal};
use handback_surface::body::ReplyBody;
use handback_surface::duplex::Again;
use handback_surface::streams::Clock;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

pub(crate) use self::challenge::Challenge;
pub use self::fetch::FetchError;
pub(crate) use self::fetch::client_config;
use self::oidc::Oidc;
use self::roster::RosterFile;
pub use self::roster::RosterFileError;

/// How callers are identified.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum IdentityMode {
    /// Not at all: everyone who reaches the listener is the same caller. On loopback addresses only.
    #[default]
    None,
    /// By bearer tokens from a file, in the format of [`handback_identity::roster`].
    Static {
        /// The file.
        file: PathBuf,
    },
    /// By access tokens of an issuer.
    Oidc(Box<OidcSettings>),
}

impl IdentityMode {
    /// Whether nobody is identified.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The name in configurations.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Static { .. } => "static",
            Self::Oidc(_) => "oidc",
        }
    }
}

/// Which issuer, and what its tokens must say.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "configurations write it as a literal")]
pub struct OidcSettings {
    /// The issuer, exactly as its tokens name it.
    pub issuer: String,
    /// What its tokens must say.
    pub policy: JwtPolicy,
    /// What this server is called as a protected resource (RFC 9728).
    pub resource: FetchUrl,
    /// Where its keys are, if that is not to be found out from its metadata.
    pub jwks_uri: Option<FetchUrl>,
    /// Certificate authorities to believe instead of those of the machine, in PEM.
    pub ca_file: Option<PathBuf>,
    /// The scopes that clients are told of.
    pub scopes: Vec<String>,
    /// When its keys are fetched again.
    pub schedule: KeySchedule,
}

/// Why callers could not be identified at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file of bearer tokens.
    #[error(transparent)]
    Roster(#[from] RosterFileError),
    /// What is needed to ask the issuer.
    #[error("cannot ask the issuer")]
    Oidc(#[from] FetchError),
    /// The issuer is not a URL.
    #[error("the issuer is not a URL that can be asked")]
    Issuer(#[from] handback_identity::discovery::UrlError),
}

/// The identity mode of a server at work.
pub struct Identity {
    mode: Mode,
    clock: Clock,
}

enum Mode {
    None,
    Static(Arc<RosterFile>),
    Oidc(Box<Oidc>),
}

impl Identity {
    /// Opens what the mode needs.
    pub(crate) fn open(
        mode: &IdentityMode,
        server_id: &str,
        clock: Clock,
    ) -> Result<Self, IdentityError> {
        let mode = match mode {
            IdentityMode::None => Mode::None,
            IdentityMode::Static { file } => {
                Mode::Static(Arc::new(RosterFile::open(file, server_id)?))
            }
            IdentityMode::Oidc(settings) => Mode::Oidc(Box::new(Oidc::new(settings)?)),
        };
        Ok(Self { mode, clock })
    }

    /// Who sent a request with these headers.
    ///
    /// In mode `none` everyone is the same caller, whatever the headers say. Otherwise a request
    /// without a credential, or with a bad one, has no caller: it is never taken as anonymous.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: 401, or 503 if it [is unavailable](Refusal::is_unavailable).
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let credential =
            || Bearer::find(headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes));
        match &self.mode {
            Mode::None => Ok(Caller::unauthenticated()),
            Mode::Static(file) => file.current().identify(credential()?, self.now_s()),
            Mode::Oidc(oidc) => oidc.identify(credential()?, self.now_s()).await,
        }
    }

    /// Asks the same once more, later: whether who sent these headers would still be let in. While
    /// that cannot be told, they are.
    pub(crate) fn again(self: &Arc<Self>, headers: &HeaderMap) -> Again {
        let identity = Arc::clone(self);
        let credentials = headers.get_all(AUTHORIZATION).iter();
        let headers: HeaderMap = credentials.map(|value| (AUTHORIZATION, value.clone())).collect();
        Again(Arc::new(move || {
            let (identity, headers) = (Arc::clone(&identity), headers.clone());
            Box::pin(async move {
                let refused = identity.identify(&headers).await.err();
                refused.is_none_or(Refusal::is_unavailable)
            })
        }))
    }

    /// What is answered instead of a request whose caller is refused.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Response<ReplyBody> {
        if refusal.is_unavailable() {
            let mut response =
                crate::router::error(StatusCode::SERVICE_UNAVAILABLE, "IDENTITY", refusal);
            let retry = HeaderValue::from_static("5");
            response.headers_mut().insert(hyper::header::RETRY_AFTER, retry);
            return response;
        }
        let mut response = crate::router::error(StatusCode::UNAUTHORIZED, "CREDENTIAL", refusal);
        let challenge = match &self.mode {
            Mode::Oidc(oidc) => oidc.challenge().header(refusal),
            _ => challenge::plain(refusal),
        };
        response.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, challenge);
        response
    }

    /// What is told of this server as a protected resource, at a path; nothing where there is no
    /// such path.
    pub(crate) fn metadata(&self, path: &str) -> Option<&serde_json::Value> {
        match &self.mode {
            Mode::Oidc(oidc) => oidc.challenge().metadata(path),
            _ => None,
        }
    }

    /// Reads again what may have changed.
    pub(crate) fn reload(&self) {
        if let Mode::Static(file) = &self.mode {
            file.reload();
        }
    }

    /// Keeps what it needs up to date, until it is dropped.
    pub(crate) async fn keep(self: Arc<Self>) {
        match &self.mode {
            Mode::None => {}
            Mode::Static(file) => file.watch().await,
            Mode::Oidc(oidc) => oidc.keep().await,
        }
    }

    fn now_s(&self) -> u64 {
        (self.clock)() / 1000
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match &self.mode {
            Mode::None => "none",
            Mode::Static(_) => "static",
            Mode::Oidc(_) => "oidc",
        };
        f.debug_struct("Identity").field("mode", &mode).finish_non_exhaustive()
    }
}
