//! Where a ring comes from, and in which order.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use handback_token::ring::file::KeyFile;
use handback_token::ring::source::{
    ATD_KEY_VARIABLE, AtdKeyUse, KEYS_VARIABLE, LoadRingError, LoadedRing, Origin, Sources,
};
use handback_token::{Cursor, Mode, Reason};

use crate::support::{NOW, at, context, open, ring, seal, sealer};

const ATD_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";

#[derive(Default)]
struct Setting<'a> {
    key_file: Option<&'a Path>,
    variables: HashMap<&'a str, OsString>,
    atd_is_compat: bool,
    data_directory: Option<&'a Path>,
}

impl Setting<'_> {
    fn load(&self) -> Result<LoadedRing, LoadRingError> {
        let sources = Sources {
            key_file: self.key_file,
            environment: &|name| self.variables.get(name).cloned(),
            atd_key: if self.atd_is_compat { AtdKeyUse::Compat } else { AtdKeyUse::Ring },
            data_directory: self.data_directory,
            mode: Mode::Sealed,
        };
        LoadedRing::load(&sources, &mut rand::rng(), NOW)
    }
}

#[test]
fn the_first_source_that_is_there_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let (in_file, in_variable) = (ring(Mode::Sealed), ring(Mode::Sealed));
    let path = folder.path().join("shared.json");
    KeyFile::new(&path).create(&in_file).unwrap();
    let data = folder.path().join("data/handback");
    let mut setting = Setting {
        key_file: Some(&path),
        variables: [
            (KEYS_VARIABLE, OsString::from(in_variable.dangerous_to_text().as_str())),
            (ATD_KEY_VARIABLE, ATD_KEY.into()),
        ]
        .into(),
        data_directory: Some(&data),
        ..Setting::default()
    };
    let loaded = setting.load().unwrap();
    assert_eq!((loaded.ring.id(), loaded.origin), (in_file.id(), Origin::KeyFile(path.clone())));
    setting.key_file = None;
    let loaded = setting.load().unwrap();
    assert_eq!((loaded.ring.id(), loaded.origin), (in_variable.id(), Origin::KeysVariable));
    setting.variables.remove(KEYS_VARIABLE);
    let loaded = setting.load().unwrap();
    assert_eq!(loaded.origin, Origin::AtdVariable);
    assert!(loaded.atd_key.is_none(), "it feeds the ring, and nothing else");
    assert_eq!(loaded.ring.id(), setting.load().unwrap().ring.id());
    assert!(!data.exists(), "no ring is made that is not used");
    setting.atd_is_compat = true;
    let made = setting.load().unwrap();
    assert_eq!(made.origin, Origin::DataDirectory(data.clone()));
    let compat = made.atd_key.expect("it feeds the compatibility, and nothing else");
    assert_ne!(compat.into_ring(Mode::Sealed).id(), made.ring.id());
    setting.variables.clear();
    assert_eq!(setting.load().unwrap().ring.id(), made.ring.id(), "a restart keeps it");
    setting.data_directory = None;
    assert!(matches!(setting.load(), Err(LoadRingError::NoSource)));
}

#[test]
fn the_data_directory_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Setting { data_directory: Some(&data), ..Setting::default() }.load().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("keys.json"))), (0o700, 0o600));
}

#[test]
fn a_malformed_value_refuses_to_start_even_where_another_source_wins() {
    use std::os::unix::ffi::OsStringExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    KeyFile::new(&path).create(&ring(Mode::Sealed)).unwrap();
    let not_text = OsString::from_vec(vec![0xff, 0xfe]);
    for key_file in [None, Some(path.as_path())] {
        for bad in ["", "{}", "not json", "short"]
            .map(OsString::from)
            .into_iter()
            .chain([not_text.clone()])
        {
            for name in [KEYS_VARIABLE, ATD_KEY_VARIABLE] {
                let setting = Setting {
                    key_file,
                    variables: [(name, bad.clone())].into(),
                    data_directory: Some(folder.path()),
                    ..Setting::default()
                };
                let error = setting.load().unwrap_err();
                assert!(
                    matches!(
                        error,
                        LoadRingError::KeysVariable(_)
                            | LoadRingError::AtdVariable(_)
                            | LoadRingError::NotText { .. }
                    ),
                    "{name}={bad:?}: {error}"
                );
            }
        }
    }
    fs::write(&path, "{").unwrap();
    let setting = Setting { data_directory: Some(folder.path()), ..Setting::default() };
    assert!(
        matches!(setting.load(), Err(LoadRingError::File(_))),
        "no new ring over a damaged one"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "{");
}

#[test]
fn processes_that_start_together_make_one_ring() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let ids: Vec<_> = std::thread::scope(|scope| {
        let start = || {
            Setting { data_directory: Some(&data), ..Setting::default() }.load().unwrap().ring.id()
        };
        let started: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn an_epoch_per_start_expires_the_tokens_of_earlier_starts() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting { data_directory: Some(folder.path()), ..Setting::default() };
    let start = |seconds: i64| {
        let mut loaded = setting.load().unwrap();
        loaded.begin_epoch(&mut rand::rng(), Mode::Sealed, at(seconds)).unwrap();
        sealer(&loaded.ring)
    };
    let first = start(0);
    let token = seal::<Cursor>(&first, &context(), b"x");
    assert!(open::<Cursor>(&first, &context(), &token, NOW).is_ok());
    for seconds in 1..15 {
        let later = start(seconds);
        assert_eq!(open::<Cursor>(&later, &context(), &token, NOW), Err(Reason::RetiredKey));
        assert_eq!(Reason::RetiredKey.outside().as_str(), "expired");
        let own = seal::<Cursor>(&later, &context(), b"x");
        assert!(open::<Cursor>(&later, &context(), &own, NOW).is_ok());
    }
}

#[test]
fn an_epoch_per_start_refuses_a_data_directory_that_another_process_has_an_epoch_in() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting { data_directory: Some(folder.path()), ..Setting::default() };
    let mut one = setting.load().unwrap();
    let mut other = setting.load().unwrap();
    one.begin_epoch(&mut rand::rng(), Mode::Sealed, NOW).unwrap();
    let refused = other.begin_epoch(&mut rand::rng(), Mode::Sealed, NOW).unwrap_err();
    assert!(matches!(refused, LoadRingError::SharedEpoch));
    one.begin_epoch(&mut rand::rng(), Mode::Sealed, at(1)).unwrap();
    drop(one);
    other.begin_epoch(&mut rand::rng(), Mode::Sealed, at(2)).unwrap();
}

#[test]
fn an_epoch_per_start_refuses_a_shared_ring() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.json");
    KeyFile::new(&path).create(&ring(Mode::Sealed)).unwrap();
    let text = ring(Mode::Sealed).dangerous_to_text();
    for setting in [
        Setting { key_file: Some(&path), ..Setting::default() },
        Setting {
            variables: [(KEYS_VARIABLE, OsString::from(text.as_str()))].into(),
            ..Setting::default()
        },
        Setting { variables: [(ATD_KEY_VARIABLE, ATD_KEY.into())].into(), ..Setting::default() },
    ] {
        let mut loaded = setting.load().unwrap();
        let before = loaded.ring.fingerprint();
        let error = loaded.begin_epoch(&mut rand::rng(), Mode::Sealed, NOW).unwrap_err();
        assert!(matches!(error, LoadRingError::SharedEpoch));
        assert_eq!(loaded.ring.fingerprint(), before);
    }
}
