//! The collections of a server by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use handback_token::Handle;

use crate::collection::Collection;

/// The longest name of a collection.
pub const MAX_NAME_CHARS: usize = 64;

/// The collections of a server by name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) description: String,
    pub(crate) collection: Arc<dyn Collection>,
}

impl Catalog {
    /// A catalog of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a collection. The description is for whoever lists the collections; it may be empty.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the name is taken, or not one that a collection can have.
    pub fn add(
        &mut self,
        name: &str,
        description: impl Into<String>,
        collection: Arc<dyn Collection>,
    ) -> Result<(), CatalogError> {
        let wrong = |why| Err(CatalogError::Name { name: name.to_owned(), why });
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(is_plain) {
            return wrong("it must have lower-case letters, digits and _, and start with a letter");
        }
        if name.len() > MAX_NAME_CHARS {
            return wrong("it has more than 64 characters");
        }
        if Handle::is_handle_shaped(name) {
            return wrong("it looks like the handle of a held result");
        }
        if self.entries.contains_key(name) {
            return wrong("there is another collection of this name");
        }
        let entry = Entry { description: description.into(), collection };
        self.entries.insert(name.to_owned(), entry);
        Ok(())
    }

    /// The collection of this name.
    #[must_use]
    pub fn collection(&self, name: &str) -> Option<&Arc<dyn Collection>> {
        self.entries.get(name).map(|entry| &entry.collection)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }
}

/// A collection that cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The name is none.
    #[error("a collection cannot be called '{name}': {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
