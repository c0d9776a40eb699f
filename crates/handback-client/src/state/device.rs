//! The key of the MACs: one per directory, made on first use.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aws_lc_rs::{hkdf, hmac};
use rand::Rng as _;
use zeroize::Zeroizing;

use super::{StateError, disk};

const KEY_BYTES: usize = 32;

/// Keys of one purpose each, from the device's.
pub(crate) struct DeviceKey {
    pub(super) state: hmac::Key,
    pub(super) outbox: hmac::Key,
}

impl DeviceKey {
    /// The key of a directory.
    pub(super) fn load_or_make(path: &Path) -> Result<Self, StateError> {
        if let Some(key) = Self::load(path)? {
            return Ok(key);
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rand::rng().fill_bytes(bytes.as_mut_slice());
        // Written aside and linked: another process that makes one at the same time wins or loses,
        // and no one ever sees half a key.
        let mut suffix = [0; 8];
        rand::rng().fill_bytes(&mut suffix);
        let aside = path.with_extension(format!("{:016x}", u64::from_be_bytes(suffix)));
        let mut file = disk::private(OpenOptions::new().write(true).create_new(true))
            .open(&aside)
            .map_err(disk::failed("make", &aside))?;
        file.write_all(bytes.as_slice()).map_err(disk::failed("write", &aside))?;
        file.sync_all().map_err(disk::failed("sync", &aside))?;
        let linked = std::fs::hard_link(&aside, path);
        disk::remove(&aside)?;
        match linked {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked.map_err(disk::failed("make", path))?,
        }
        disk::sync_folder_of(path)?;
        let missing = || StateError::Damaged { path: path.to_owned(), what: "it is gone again" };
        Self::load(path)?.ok_or_else(missing)
    }

    fn load(path: &Path) -> Result<Option<Self>, StateError> {
        let Some(bytes) = disk::read(path, KEY_BYTES)? else { return Ok(None) };
        let bytes = Zeroizing::new(bytes);
        let mode = std::fs::metadata(path).map_err(disk::failed("read", path))?;
        if mode.permissions().mode() & 0o077 != 0 {
            return Err(StateError::NotPrivate { path: path.to_owned() });
        }
        if bytes.len() != KEY_BYTES {
            return Err(StateError::Damaged { path: path.to_owned(), what: "not a key" });
        }
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"handback/v1").extract(&bytes);
        let key = |label: &'static [u8]| {
            let info = [label];
            let key = secret.expand(&info, hmac::HMAC_SHA256);
            key.map(hmac::Key::from).map_err(|_| StateError::Broken)
        };
        Ok(Some(Self { state: key(b"client state")?, outbox: key(b"client outbox")? }))
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceKey(..)")
    }
}
