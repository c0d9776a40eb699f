//! Why there is no demo.

use std::io;
use std::path::PathBuf;

use handback_collections::sqlite::OpenError;
use handback_page::aql::CatalogError;
use handback_tool::RegistryError;

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The folder cannot be made.
    #[error("cannot make the folder of the demo shop {}", folder.display())]
    Folder {
        /// Which one.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The shop cannot be written.
    #[error("cannot write the demo shop {}", file.display())]
    Write {
        /// Where.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The database does not do as it should.
    #[error("cannot make the demo shop {}", file.display())]
    Database {
        /// Where.
        file: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A table of the shop cannot be opened.
    #[error("cannot open the demo shop")]
    Collection(#[from] OpenError),
    /// A name is none, or taken.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A name is none, or taken.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}
