//! Access tokens of an issuer, and its keys.
//!
//! Keys are fetched when the server starts, when they are old, and when a token names one that is not
//! among them: once for all who wait, and not more often than [`KeyCache`] allows.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handback_identity::discovery::{
    self, FetchUrl, KeyCache, MAX_METADATA_BYTES, MetadataError, UrlError,
};
use handback_identity::jwt::{JwtError, JwtValidator, KeySet, KeySetError, MAX_KEY_SET_BYTES};
use handback_identity::{Bearer, Caller, Refusal};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{FetchError, Fetcher};
use super::{Challenge, IdentityError, OidcSettings};

/// How often it is looked whether the keys are old.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The tokens of one issuer.
pub(super) struct Oidc {
    validator: JwtValidator,
    issuer: String,
    /// Where its metadata may be.
    metadata: [FetchUrl; 2],
    /// Where its keys are, if that was configured.
    jwks_uri: Option<FetchUrl>,
    fetcher: Fetcher,
    cache: RwLock<KeyCache>,
    /// Held by who fetches.
    fetching: Mutex<()>,
    started: Instant,
    challenge: Challenge,
}

#[derive(Debug, thiserror::Error)]
enum KeysError {
    #[error("cannot fetch {url}: {source}")]
    Fetch { url: FetchUrl, source: FetchError },
    #[error("{url}: {source}")]
    Metadata { url: FetchUrl, source: MetadataError },
    #[error("{url}: {source}")]
    Keys { url: FetchUrl, source: KeySetError },
    #[error("{url}: there is no key that can be used")]
    Empty { url: FetchUrl },
}

impl Oidc {
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, IdentityError> {
        let metadata = discovery::metadata_urls(&settings.issuer).or_else(|error| {
            // An issuer that is no URL has no metadata, and needs none.
            let own = settings.jwks_uri.clone().ok_or(error)?;
            Ok::<_, UrlError>([own.clone(), own])
        })?;
        Ok(Self {
            validator: JwtValidator::new(settings.policy.clone()),
            issuer: settings.issuer.clone(),
            metadata,
            jwks_uri: settings.jwks_uri.clone(),
            fetcher: Fetcher::new(settings.ca_file.as_ref())?,
            cache: RwLock::new(KeyCache::new(settings.schedule)),
            fetching: Mutex::new(()),
            started: Instant::now(),
            challenge: Challenge::new(&settings.resource, &settings.issuer, &settings.scopes),
        })
    }

    pub(super) const fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    pub(super) async fn identify(&self, bearer: Bearer<'_>, now: u64) -> Result<Caller, Refusal> {
        let validate = |keys: &KeySet| self.validator.validate(bearer.dangerous_text(), keys, now);
        let keys = self.keys();
        if let Some(keys) = &keys {
            match validate(keys) {
                Err(JwtError::UnknownKey) => {}
                checked => return Ok(checked?.into()),
            }
        }
        match (self.newer(keys.as_ref()).await, keys) {
            (Some(newer), _) => Ok(validate(&newer)?.into()),
            (None, Some(_)) => Err(JwtError::UnknownKey.into()),
            (None, None) => Err(Refusal::Unavailable),
        }
    }

    /// Fetches the keys now, and then whenever they are old.
    pub(super) async fn keep(&self) {
        loop {
            if self.read().is_due(self.now()) {
                let keys = self.keys();
                self.newer(keys.as_ref()).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn keys(&self) -> Option<Arc<KeySet>> {
        self.read().keys(self.now())
    }

    /// Other keys than those, if there are any to be had.
    async fn newer(&self, than: Option<&Arc<KeySet>>) -> Option<Arc<KeySet>> {
        let _fetching = self.fetching.lock().await;
        let now = self.now();
        // Somebody else may have fetched them while this one waited.
        let is_same = |keys: &Arc<KeySet>| than.is_some_and(|than| Arc::ptr_eq(than, keys));
        if let Some(keys) = self.keys().filter(|keys| !is_same(keys)) {
            return Some(keys);
        }
        {
            let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
            if !cache.may_try(now) {
                return None;
            }
            cache.tried(now);
        }
        match self.fetch().await {
            Ok(keys) => {
                let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
                cache.fetched(keys, self.now());
                cache.keys(self.now())
            }
            Err(error) => {
                tracing::warn!(%error, "the keys of the issuer were not fetched");
                None
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, KeysError> {
        let url = match &self.jwks_uri {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let json = self.fetcher.fetch(&url, MAX_KEY_SET_BYTES).await;
        let json = json.map_err(|source| KeysError::Fetch { url: url.clone(), source })?;
        match KeySet::parse(&json) {
            Ok(keys) if keys.is_empty() => Err(KeysError::Empty { url }),
            Ok(keys) => Ok(keys),
            Err(source) => Err(KeysError::Keys { url, source }),
        }
    }

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<FetchUrl, KeysError> {
        let [first, second] = &self.metadata;
        match self.discover_at(first).await {
            Err(KeysError::Fetch { source: FetchError::Status(_), .. }) if first != second => {
                self.discover_at(second).await
            }
            discovered => discovered,
        }
    }

    async fn discover_at(&self, url: &FetchUrl) -> Result<FetchUrl, KeysError> {
        let json = self.fetcher.fetch(url, MAX_METADATA_BYTES).await;
        let json = json.map_err(|source| KeysError::Fetch { url: url.clone(), source })?;
        discovery::jwks_url(&json, &self.issuer, url)
            .map_err(|source| KeysError::Metadata { url: url.clone(), source })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, KeyCache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
