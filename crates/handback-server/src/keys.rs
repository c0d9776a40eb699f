//! The keys of the store, kept beside it and wrapped under the key ring.
//!
//! `wrapped/store.key` is the data key, `wrapped/events.key` the seed of the key pair that signs
//! events, `wrapped/webhooks.key` that of the one that signs webhooks. Each is made when it is first needed, and wrapped again when another slot of the ring
//! became active since: a slot that still wraps something cannot be dropped.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handback_store::DataKey;
use handback_stream::SigningKey;
use handback_token::ring::Wrappable;
use handback_token::{DataKey as RingDataKey, KeyRing, SigningSeed, UnwrapError, WrappedKey};
use rand::CryptoRng;

/// The keys of a store.
#[derive(Debug)]
pub(crate) struct StoreKeys {
    pub(crate) data: DataKey,
    pub(crate) events: Arc<SigningKey>,
    pub(crate) webhooks: SigningKey,
}

/// Why the keys of a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A file.
    #[error("cannot use {path}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is in it was wrapped by another ring, or is damaged.
    #[error("{path} does not open under this key ring")]
    Wrapped {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UnwrapError,
    },
    /// There is a store, and its key is not there.
    #[error("{path} is missing, and the store needs it")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// A key that the library does not take.
    #[error("the signing key cannot be used")]
    Signing,
}

/// Keys that a store of any version has.
const FIRST_KEYS: [&str; 2] = ["store", "events"];

/// The key that stores have since they have a file `format`.
const WEBHOOKS_KEY: &str = "webhooks";

/// Names of the keys of an existing store.
fn needed(store: &Path) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if store.exists() {
        needed.extend(FIRST_KEYS);
    }
    if store.join("format").exists() {
        needed.push(WEBHOOKS_KEY);
    }
    needed
}

/// Missing key files of a data directory with a store.
#[must_use]
pub fn missing_keys(data: &Path) -> Vec<PathBuf> {
    let folder = data.join("wrapped");
    let paths = needed(&data.join("store")).into_iter().map(|name| path_of(&folder, name));
    paths.filter(|path| !path.exists()).collect()
}

/// True if the folder has nothing of a store: it was never made, or it is empty, as one is on which a
/// volume is not mounted. A first start that was interrupted may have left such a folder too.
fn is_blank(store: &Path) -> bool {
    !["fjall", "watermark", "format"].iter().any(|name| store.join(name).exists())
}

/// Reads the keys of a store. Makes the keys of a new store.
pub(crate) fn load(
    ring: &KeyRing,
    folder: &Path,
    store: &Path,
    rng: &mut dyn CryptoRng,
) -> Result<StoreKeys, KeyError> {
    make_folder(folder)?;
    let needed = needed(store);
    if is_blank(store) && path_of(folder, "store").exists() {
        tracing::warn!(
            store = %store.display(),
            "the folder of the store is missing or empty, but its keys are there: a new store is made. \
             If there was one, stop the server, and mount or restore the folder"
        );
    }
    let must_exist = |name: &str| needed.contains(&name);
    let data: RingDataKey = one(ring, folder, "store", must_exist("store"), rng)?;
    let seed: SigningSeed = one(ring, folder, "events", must_exist("events"), rng)?;
    let events = SigningKey::from_seed(seed.dangerous_bytes()).map_err(|_| KeyError::Signing)?;
    let seed: SigningSeed = one(ring, folder, WEBHOOKS_KEY, must_exist(WEBHOOKS_KEY), rng)?;
    let webhooks = SigningKey::from_seed(seed.dangerous_bytes()).map_err(|_| KeyError::Signing)?;
    let data = DataKey::from_bytes(data.dangerous_bytes());
    Ok(StoreKeys { data, events: Arc::new(events), webhooks })
}

/// Keys that live as long as the process.
pub(crate) fn throw_away(rng: &mut dyn CryptoRng) -> Result<StoreKeys, KeyError> {
    let mut pair = || SigningKey::from_seed(&SigningKey::generate_seed(rng));
    let events = Arc::new(pair().map_err(|_| KeyError::Signing)?);
    let webhooks = pair().map_err(|_| KeyError::Signing)?;
    Ok(StoreKeys { data: DataKey::generate(rng), events, webhooks })
}

fn one<K: Wrappable + Generate>(
    ring: &KeyRing,
    folder: &Path,
    name: &str,
    must_exist: bool,
    rng: &mut dyn CryptoRng,
) -> Result<K, KeyError> {
    let path = path_of(folder, name);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if must_exist {
                return Err(KeyError::Missing { path });
            }
            let key = K::generate_with(rng);
            write(ring, folder, name, &key, rng)?;
            return Ok(key);
        }
        Err(source) => return Err(KeyError::Io { path, source }),
    };
    let wrapped = |source| KeyError::Wrapped { path: path.clone(), source };
    let stored = WrappedKey::parse(text.trim_end()).map_err(wrapped)?;
    let key: K = ring.unwrap_key(name, &stored).map_err(wrapped)?;
    if stored.slot() != ring.active() {
        write(ring, folder, name, &key, rng)?;
    }
    Ok(key)
}

fn write<K: Wrappable>(
    ring: &KeyRing,
    folder: &Path,
    name: &str,
    key: &K,
    rng: &mut dyn CryptoRng,
) -> Result<(), KeyError> {
    let path = path_of(folder, name);
    let failed = |source| KeyError::Io { path: path.clone(), source };
    let wrapped =
        ring.wrap(rng, name, key).map_err(|error| failed(io::Error::other(error.to_string())))?;
    // The file is there whole, with its mode, or not at all.
    let mut temporary =
        tempfile::Builder::new().prefix(".wrapping-").tempfile_in(folder).map_err(failed)?;
    temporary
        .write_all(wrapped.to_text().as_bytes())
        .and_then(|()| temporary.write_all(b"\n"))
        .and_then(|()| temporary.as_file().sync_all())
        .map_err(failed)?;
    temporary.persist(&path).map_err(|error| failed(error.error))?;
    let folder = fs::File::open(folder).map_err(failed)?;
    folder.sync_all().map_err(failed)
}

fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.key"))
}

fn make_folder(folder: &Path) -> Result<(), KeyError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| KeyError::Io { path: folder.to_path_buf(), source })
}

/// Keys that can be made.
trait Generate {
    fn generate_with(rng: &mut dyn CryptoRng) -> Self;
}

impl Generate for RingDataKey {
    fn generate_with(rng: &mut dyn CryptoRng) -> Self {
        Self::generate(rng)
    }
}

impl Generate for SigningSeed {
    fn generate_with(rng: &mut dyn CryptoRng) -> Self {
        Self::generate(rng)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use handback_token::{Mode, UnixTime};
    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;

    /// The texts of warnings.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    impl Visit for Warnings {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    /// Warnings of a start on a data directory.
    fn warnings(ring: &KeyRing, data: &Path) -> Vec<String> {
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            load(ring, &data.join("wrapped"), &data.join("store"), &mut rand::rng()).unwrap();
        });
        warnings.0.lock().unwrap().clone()
    }

    #[test]
    fn a_store_that_is_missing_or_empty_beside_its_keys_is_warned_of() {
        let data = tempfile::tempdir().unwrap();
        let store = data.path().join("store");
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(1));
        assert_eq!(warnings(&ring, data.path()), [""; 0], "a first start");
        let check = || {
            let warned = warnings(&ring, data.path());
            assert!(warned.len() == 1 && warned[0].contains("missing or empty"), "{warned:?}");
        };
        check();
        // As where a volume is not mounted; also one with a file of the file system.
        fs::create_dir_all(store.join("lost+found")).unwrap();
        check();
        fs::create_dir(store.join("fjall")).unwrap();
        assert_eq!(warnings(&ring, data.path()), [""; 0], "a store that was begun");
    }
}
