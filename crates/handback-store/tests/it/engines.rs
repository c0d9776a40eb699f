//! Every engine passes the suite.

use std::sync::Arc;

use handback_store::faulty::{FaultPlan, FaultyDisk, FaultyStore};
use handback_store::suite::Engine;
use handback_store::{Behind, DataKey, EmbeddedOptions, EmbeddedStore, Encrypted, MemoryStore};
use tempfile::TempDir;

use crate::story;

struct Memory(MemoryStore);

impl Engine for Memory {
    type Store = MemoryStore;

    fn fresh() -> Self {
        Self(MemoryStore::new())
    }

    fn store(&self) -> &MemoryStore {
        &self.0
    }

    fn reopen(&mut self) {}
}

struct Embedded {
    directory: TempDir,
    store: Option<EmbeddedStore>,
}

impl Engine for Embedded {
    type Store = EmbeddedStore;

    const CASES: u32 = 40;

    fn fresh() -> Self {
        let directory = story::directory();
        let store =
            EmbeddedStore::open(directory.path(), EmbeddedOptions::new()).expect("the store opens");
        Self { directory, store: Some(store) }
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        let options = EmbeddedOptions::new();
        self.store =
            Some(EmbeddedStore::open(self.directory.path(), options).expect("the store opens"));
    }
}

struct Sealed {
    directory: TempDir,
    key: DataKey,
    store: Option<Encrypted<EmbeddedStore>>,
}

impl Engine for Sealed {
    type Store = Encrypted<EmbeddedStore>;

    const CASES: u32 = 40;

    fn fresh() -> Self {
        let mut sealed = Self {
            directory: story::directory(),
            key: DataKey::generate(&mut rand::rng()),
            store: None,
        };
        sealed.reopen();
        sealed
    }

    fn store(&self) -> &Encrypted<EmbeddedStore> {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        let store = EmbeddedStore::open(self.directory.path(), EmbeddedOptions::new())
            .expect("the store opens");
        self.store = Some(Encrypted::new(store, &self.key));
    }
}

struct Faulty(FaultyStore);

impl Engine for Faulty {
    type Store = FaultyStore;

    fn fresh() -> Self {
        Self(FaultyDisk::new(FaultPlan::new(1)).open())
    }

    fn store(&self) -> &FaultyStore {
        &self.0
    }

    fn reopen(&mut self) {
        self.0.disk().crash();
        self.0 = self.0.disk().open();
    }
}

/// Values only, in front of a store that stays.
struct Later {
    behind: Arc<MemoryStore>,
    store: Option<Behind<Arc<MemoryStore>>>,
}

impl Engine for Later {
    type Store = Behind<Arc<MemoryStore>>;

    fn fresh() -> Self {
        let mut later = Self { behind: Arc::default(), store: None };
        later.reopen();
        later
    }

    fn store(&self) -> &Behind<Arc<MemoryStore>> {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) {
        // What waits is written when it is dropped.
        self.store = None;
        self.store = Some(Behind::new(Arc::clone(&self.behind)).expect("a thread"));
    }
}

mod behind {
    handback_store::suite_of_kv!(super::Later);
    mod journal {
        handback_store::suite_of_journal!(super::super::Later);
    }
}

macro_rules! engines {
    ($($module:ident: $engine:ident,)+) => {
        $(mod $module {
            handback_store::suite_of_log!(super::$engine);
            handback_store::suite_of_kv!(super::$engine);
            mod journal {
                handback_store::suite_of_journal!(super::super::$engine);
            }
            mod sessions {
                handback_store::suite_of_sessions!(super::super::$engine);
            }
            mod held {
                handback_store::suite_of_held!(super::super::$engine);
            }
            mod revocations {
                handback_store::suite_of_revocations!(super::super::$engine);
            }
        })+
    };
}

engines! {
    memory: Memory,
    embedded: Embedded,
    encrypted: Sealed,
    faulty: Faulty,
}
