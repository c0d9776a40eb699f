//! One client for every surface: tries, tries again, and gives up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answer, Event, ToolInfo, ToolList};
use super::call::Call;
use super::endpoint::{Endpoint, Kind};
use super::error::{Refused, ToolsError};
use super::http::HttpTools;
use super::mcp::McpTools;
use super::socket::SocketTools;
use super::walk::{AllOptions, Limits, Walk, Walked};
use crate::backoff::Backoff;
use crate::bearer::BearerToken;
use crate::http::{Base, Http, HttpError};

/// A server that wants a longer pause is left alone: it is better to say so than to wait in silence.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a call may take, unless said otherwise: several times what servers allow by default.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Bytes of an answer, unless said otherwise.
pub const DEFAULT_RESPONSE_BYTES: usize = 32 << 20;

/// Tools that are listed at most.
pub const MAX_LISTED: usize = 10_000;

/// Attempts of a call that has a key.
const ATTEMPTS_MAX: u32 = 8;

/// The tools of one server.
#[derive(Clone)]
pub struct Tools {
    way: Way,
    backoff: Backoff,
    attempts_max: u32,
    timeout: Duration,
    response_max: usize,
    hear: Option<Arc<dyn Fn(Event) + Send + Sync>>,
}

/// Which protocol.
#[derive(Clone, Debug)]
enum Way {
    Http(HttpTools),
    Mcp(McpTools),
    Socket(SocketTools),
}

/// What every protocol has to know of a try.
pub(super) struct Try<'a> {
    pub(super) response_max: usize,
    pub(super) hear: Option<&'a (dyn Fn(Event) + Send + Sync)>,
}

impl Try<'_> {
    pub(super) fn tell(&self, event: Event) {
        if let Some(hear) = self.hear {
            hear(event);
        }
    }
}

impl Tools {
    /// The tools that are there.
    ///
    /// # Errors
    ///
    /// [`HttpError`] if the certificate authorities of this machine cannot be read.
    pub fn new(endpoint: &Endpoint) -> Result<Self, HttpError> {
        let http = |base: &Base| Http::new(base.clone());
        let way = match &endpoint.0 {
            Kind::Http(base) => Way::Http(HttpTools { http: http(base)? }),
            Kind::Mcp(base, path) => Way::Mcp(McpTools { http: http(base)?, path: path.clone() }),
            Kind::Socket(path) => Way::Socket(SocketTools { path: path.clone() }),
        };
        Ok(Self {
            way,
            backoff: Backoff::default(),
            attempts_max: ATTEMPTS_MAX,
            timeout: DEFAULT_TIMEOUT,
            response_max: DEFAULT_RESPONSE_BYTES,
            hear: None,
        })
    }

    /// Asks as whoever has this token. On a socket the system says who asks.
    #[must_use]
    pub fn bearer(mut self, token: &BearerToken) -> Self {
        match &mut self.way {
            Way::Http(tools) => tools.http.set_bearer(Some(token)),
            Way::Mcp(tools) => tools.http.set_bearer(Some(token)),
            Way::Socket(_) => {}
        }
        self
    }

    /// How long to wait between attempts, and how many there are.
    #[must_use]
    pub const fn retry(mut self, backoff: Backoff, attempts_max: u32) -> Self {
        self.backoff = backoff;
        self.attempts_max = attempts_max;
        self
    }

    /// How long an attempt may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many bytes of an answer are taken.
    #[must_use]
    pub const fn response_bytes(mut self, bytes_max: usize) -> Self {
        self.response_max = bytes_max;
        self
    }

    /// Hears what tools tell on their way. The UNIX socket tells nothing.
    #[must_use]
    pub fn hear(mut self, hear: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.hear = Some(Arc::new(hear));
        self
    }

    /// Makes a call, or goes on with one. With a key it is tried again if the connection breaks, and
    /// is made once however often it was tried. Without one it is tried once, and again only if the
    /// server said that it was not made.
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no answer.
    pub async fn call(&self, call: &Call) -> Result<Answer, ToolsError> {
        let mut attempts = 0;
        loop {
            let error = match self.once(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempts += 1;
            let hint = match error.again(call.is_keyed()) {
                Some(Some(hint)) if hint > PATIENCE => return Err(error),
                Some(hint) if attempts < self.attempts_max => hint,
                _ => return Err(error),
            };
            self.tell(Event::Again { why: error.to_string() });
            tokio::time::sleep(self.backoff.wait(attempts - 1, hint, &mut rand::rng())).await;
        }
    }

    /// A page: the first one, or the one at a cursor.
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no answer.
    pub async fn call_page(&self, call: &Call, cursor: Option<&str>) -> Result<Answer, ToolsError> {
        match cursor {
            Some(cursor) => self.call(&call.clone().cursor(cursor)).await,
            None => self.call(call).await,
        }
    }

    /// The pages of a call, one by one.
    pub fn walk(&self, call: &Call, limits: Limits) -> Walk<'_> {
        Walk::new(self, call.clone(), limits)
    }

    /// All pages of a call, merged.
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no page at all, or two cannot be merged.
    pub async fn call_all(&self, call: &Call, options: &AllOptions) -> Result<Walked, ToolsError> {
        super::walk::all(self.walk(call, options.limits), &options.merge).await
    }

    /// The tools that this caller may use, by name.
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no answer, or there are more than [`MAX_LISTED`].
    pub async fn list(&self) -> Result<Vec<ToolInfo>, ToolsError> {
        Ok(self.list_all().await?.tools)
    }

    /// The same, with the upstreams of a gateway that are not there.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_all(&self) -> Result<ToolList, ToolsError> {
        let limits = self.limits();
        let whole = |tools| ToolList { tools, ..ToolList::default() };
        let listed = self.in_time(async {
            match &self.way {
                Way::Http(tools) => tools.list(&limits).await.map(whole),
                Way::Mcp(tools) => tools.list(&limits).await,
                Way::Socket(tools) => tools.list().await.map(whole),
            }
        });
        let mut all = listed.await?;
        all.tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// One tool.
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no answer, or no such tool.
    pub async fn describe(&self, tool: &str) -> Result<ToolInfo, ToolsError> {
        let limits = self.limits();
        self.in_time(async {
            match &self.way {
                Way::Http(tools) => tools.describe(tool, &limits).await,
                Way::Socket(tools) => tools.describe(tool).await,
                // The protocol has lists only.
                Way::Mcp(tools) => {
                    let mut all = tools.list(&limits).await?.tools.into_iter();
                    let found = all.find(|info| info.name == tool);
                    found.ok_or_else(|| Refused::new("not_found", "there is no such tool").into())
                }
            }
        })
        .await
    }

    async fn once(&self, call: &Call) -> Result<Answer, ToolsError> {
        let limits = self.limits();
        self.in_time(async {
            match &self.way {
                Way::Http(tools) => tools.call(call, &limits).await,
                Way::Mcp(tools) => tools.call(call, &limits).await,
                Way::Socket(tools) => tools.call(call).await,
            }
        })
        .await
    }

    async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, ToolsError>>,
    ) -> Result<T, ToolsError> {
        let late = || ToolsError::Lost("it took too long".to_owned());
        tokio::time::timeout(self.timeout, asked).await.map_err(|_| late())?
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(hear) = &self.hear {
            hear(event);
        }
    }

    fn limits(&self) -> Try<'_> {
        Try { response_max: self.response_max, hear: self.hear.as_deref() }
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("way", &self.way).finish_non_exhaustive()
    }
}
