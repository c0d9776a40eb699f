//! Collections that follow their file: indexed when they are opened, and again when it changed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_page::json::Pointer;
use handback_page::{
    About, Collection, CollectionError, Extent, Fetch, Fetched, FieldPath, Filter, JsonCollection,
    JsonOptions, Located, Places, Query, Scalar, Schema, Search, Sink, TextCollection, Whereabouts,
    Window,
};

use super::source::{FileSource, Stamp};

/// An array in a JSON file.
///
/// Items are read by position: the file stays on disk, and memory holds the index. With a
/// [key](JsonFileOptions::with_key), a walk goes on when the file was changed in between; without
/// one, its cursors end.
#[derive(Debug)]
pub struct JsonFileCollection(Refreshed<JsonCollection>);

/// What of a JSON file is the collection.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct JsonFileOptions {
    pointer: Pointer,
    key: Option<String>,
}

impl JsonFileOptions {
    /// The whole document, without a key.
    pub fn new() -> Self {
        Self::default()
    }

    /// The items of the value at a JSON pointer.
    pub fn with_pointer(mut self, pointer: Pointer) -> Self {
        self.pointer = pointer;
        self
    }

    /// Items differ in this member, which all of them have: a name, or a dotted path.
    pub fn with_key(mut self, name: impl Into<String>) -> Self {
        self.key = Some(name.into());
        self
    }
}

impl JsonFileCollection {
    /// Opens and indexes a file.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if it cannot be read, or is not JSON.
    pub fn open(path: impl AsRef<Path>, options: JsonFileOptions) -> Result<Self, CollectionError> {
        let JsonFileOptions { pointer, key } = options;
        Refreshed::open(path.as_ref().to_owned(), move |source| {
            let mut options = JsonOptions::new().with_pointer(pointer.clone());
            if let Some(key) = &key {
                let parts = key.split('.').map(str::to_owned).collect();
                options = options.with_key(FieldPath::from_parts(parts));
            }
            let collection = JsonCollection::open(source, options)?;
            if key.is_some() {
                // The first page by key finds out whether it is one.
                let order = collection.schema()?.total_order(vec![]);
                let (filter, search) = (Filter::EVERYTHING, Search::default());
                let query = Query { filter, search, order };
                let window = Window::Forward { after: None, limit: 0 };
                collection.fetch(&Fetch {
                    query: &query,
                    window,
                    columns: None,
                    budget_bytes: 0,
                    places: Places::Ends,
                    total: false,
                })?;
            }
            Ok(collection)
        })
        .map(Self)
    }
}

/// The lines of a text file.
#[derive(Debug)]
pub struct TextFileCollection(Refreshed<TextCollection>);

impl TextFileCollection {
    /// Opens and indexes a file.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if it cannot be read, or is not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CollectionError> {
        Refreshed::open(path.as_ref().to_owned(), TextCollection::open).map(Self)
    }
}

/// A collection of the current state of a file.
struct Refreshed<C> {
    path: PathBuf,
    index: Box<Index<C>>,
    current: Mutex<(Stamp, Arc<C>)>,
}

type Index<C> = dyn Fn(FileSource) -> Result<C, CollectionError> + Send + Sync;

impl<C: Collection> Refreshed<C> {
    fn open(
        path: PathBuf,
        index: impl Fn(FileSource) -> Result<C, CollectionError> + Send + Sync + 'static,
    ) -> Result<Self, CollectionError> {
        let source = FileSource::open(&path)?;
        let stamp = source.stamp();
        let current = Mutex::new((stamp, Arc::new(index(source)?)));
        Ok(Self { path, index: Box::new(index), current })
    }

    fn lock(&self) -> MutexGuard<'_, (Stamp, Arc<C>)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of the file as it is now. Whoever comes while it is made waits for it.
    fn now(&self) -> Result<Arc<C>, CollectionError> {
        let mut current = self.lock();
        let stamp = Stamp::of(&self.path)?;
        if current.0 != stamp {
            let source = FileSource::open(&self.path)?;
            let stamp = source.stamp();
            *current = (stamp, Arc::new((self.index)(source)?));
        }
        Ok(Arc::clone(&current.1))
    }

    /// Asks the current index; once more if the file changed while it was read.
    fn ask<T>(
        &self,
        mut ask: impl FnMut(&C) -> Result<T, CollectionError>,
    ) -> Result<T, CollectionError> {
        let again = |error| match error {
            CollectionError::Changed => Ok(()),
            other => Err(other),
        };
        match self.now().and_then(|index| ask(&index)) {
            Ok(answer) => return Ok(answer),
            Err(error) => again(error)?,
        }
        self.now().and_then(|index| ask(&index))
    }
}

impl<C> fmt::Debug for Refreshed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refreshed").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<C: Collection> Collection for Refreshed<C> {
    fn schema(&self) -> Result<Arc<Schema>, CollectionError> {
        self.ask(C::schema)
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        self.ask(|index| index.fetch(fetch))
    }

    fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        self.ask(|index| index.count(query))
    }

    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        // Not asked twice: rows went out already.
        self.now()?.scan(query, sink)
    }

    fn value_at(&self, pointer: &Pointer, extent: Extent) -> Result<Located, CollectionError> {
        self.ask(|index| index.value_at(pointer, extent))
    }

    fn whereabouts(&self, place: &[Scalar]) -> Whereabouts {
        self.now().map(|index| index.whereabouts(place)).unwrap_or_default()
    }

    fn about(&self) -> Result<About, CollectionError> {
        self.ask(C::about)
    }
}

delegate!(JsonFileCollection);
delegate!(TextFileCollection);
