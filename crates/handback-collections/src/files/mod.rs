//! Files as collections.
//!
//! JSON and text files are read by position, with an index in memory. JSONL and CSV files are
//! indexed into a database of their own.

/// A collection that is another one inside.
macro_rules! delegate {
    ($collection:ty) => {
        impl handback_page::Collection for $collection {
            fn schema(
                &self,
            ) -> Result<std::sync::Arc<handback_page::Schema>, handback_page::CollectionError> {
                self.0.schema()
            }

            fn fetch(
                &self,
                fetch: &handback_page::Fetch<'_>,
            ) -> Result<handback_page::Fetched, handback_page::CollectionError> {
                self.0.fetch(fetch)
            }

            fn count(
                &self,
                query: &handback_page::Query,
            ) -> Result<u64, handback_page::CollectionError> {
                self.0.count(query)
            }

            fn scan(
                &self,
                query: &handback_page::Query,
                sink: handback_page::Sink<'_>,
            ) -> Result<(), handback_page::CollectionError> {
                self.0.scan(query, sink)
            }

            fn value_at(
                &self,
                pointer: &handback_page::json::Pointer,
                extent: handback_page::Extent,
            ) -> Result<handback_page::Located, handback_page::CollectionError> {
                self.0.value_at(pointer, extent)
            }

            fn whereabouts(&self, place: &[handback_page::Scalar]) -> handback_page::Whereabouts {
                self.0.whereabouts(place)
            }

            fn about(&self) -> Result<handback_page::About, handback_page::CollectionError> {
                self.0.about()
            }
        }
    };
}

mod indexed;
mod refreshed;
mod source;

pub use indexed::{
    CsvCollection, FileOptions, JsonlCollection, MAX_CSV_COLUMNS, MAX_JSONL_COLUMNS,
    MAX_LINE_BYTES, Progress,
};
pub use refreshed::{JsonFileCollection, JsonFileOptions, TextFileCollection};

pub(crate) use source::read_exact_at;
