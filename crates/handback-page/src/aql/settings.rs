//! What an operator decides.

use std::collections::BTreeMap;

use super::request::Limits;

/// The default number of items of a page, as the specification recommends.
pub const DEFAULT_PAGE_SIZE: usize = 20;

/// The default largest page, as the specification recommends.
pub const DEFAULT_MAX_PAGE_SIZE: usize = 100;

/// No page is larger, whatever is configured: the hard limit of the specification.
pub const HARD_MAX_PAGE_SIZE: usize = 1000;

/// How tools are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the specification names these three")]
pub enum Mode {
    /// One tool per kind of operation: `mcp_aql_read` and `mcp_aql_create`.
    #[default]
    Semantic,
    /// One tool: `mcp_aql`.
    Single,
    /// All of them.
    All,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Semantic => "semantic",
            Self::Single => "single",
            Self::All => "all",
        }
    }
}

/// What an operator decides. [`Settings::default`] is what the specification recommends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct Settings {
    /// Items of a page when no number is asked for.
    pub default_page_size: usize,
    /// Larger numbers are clamped to this one: 1 to 1,000.
    pub max_page_size: usize,
    /// Whether `page` and `page_size` are taken.
    pub page_style: bool,
    /// Whether `limit` and `offset` are taken.
    pub offset_style: bool,
    /// What `page_preset` may name.
    pub presets: BTreeMap<String, PagePreset>,
    /// Sizes of requests and answers.
    pub limits: Limits,
    /// How tools are cut.
    pub mode: Mode,
    /// How long a snapshot is kept, in seconds.
    pub snapshot_ttl_s: u32,
    /// Bytes of a snapshot at most.
    pub snapshot_bytes: u64,
    /// Whether introspection also has the pagination block on each operation, where the text of
    /// the specification puts it and its closed schema forbids it.
    pub literal_pagination_block: bool,
    /// Operations of one batch at most.
    pub batch_operations: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_page_size: DEFAULT_PAGE_SIZE,
            max_page_size: DEFAULT_MAX_PAGE_SIZE,
            page_style: true,
            offset_style: true,
            presets: BTreeMap::new(),
            limits: Limits::default(),
            mode: Mode::default(),
            snapshot_ttl_s: 3600,
            snapshot_bytes: 256 << 20,
            literal_pagination_block: false,
            batch_operations: 100,
        }
    }
}

/// A named configuration of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct PagePreset {
    /// Items of a page, unless a number is asked for.
    pub page_size: Option<usize>,
    /// Whether the total is told, unless that is asked for.
    pub include_total: Option<bool>,
    /// Whether edges are shown, unless that is asked for.
    pub include_edges: Option<bool>,
}

/// Settings that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A page size is outside of its bounds.
    #[error("{what} is {value}; it must be 1 to {max}")]
    PageSize {
        /// Which one.
        what: String,
        /// What it is.
        value: usize,
        /// What it may be at most.
        max: usize,
    },
    /// A limit is outside of the bounds of the specification.
    #[error("{what} is {value}; it must be {min} to {max}")]
    Limit {
        /// Which one.
        what: &'static str,
        /// What it is.
        value: usize,
        /// What it must be at least.
        min: usize,
        /// What it may be at most.
        max: usize,
    },
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let size = |what: &str, value, max| {
            if (1..=max).contains(&value) {
                return Ok(());
            }
            Err(SettingsError::PageSize { what: what.to_owned(), value, max })
        };
        size("max_page_size", self.max_page_size, HARD_MAX_PAGE_SIZE)?;
        size("default_page_size", self.default_page_size, self.max_page_size)?;
        for (name, preset) in &self.presets {
            if let Some(value) = preset.page_size {
                size(&format!("page_size of preset '{name}'"), value, self.max_page_size)?;
            }
        }
        let limits = &self.limits;
        for (what, value, min, max) in [
            ("request_bytes", limits.request_bytes, 64_000, 10_000_000),
            ("response_bytes", limits.response_bytes, 1_000_000, 100_000_000),
            ("string_bytes", limits.string_bytes, 1000, 10_000_000),
            ("array_elements", limits.array_elements, 100, 100_000),
            ("nesting_depth", limits.nesting_depth, 8, 64),
            ("batch_operations", self.batch_operations, 1, 1000),
        ] {
            if !(min..=max).contains(&value) {
                return Err(SettingsError::Limit { what, value, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_3_a_maximum_beyond_the_hard_limit_refuses_to_start() {
        let with = |settings: Settings| settings.check();
        assert_eq!(with(Settings::default()), Ok(()));
        assert_eq!(with(Settings { max_page_size: 1000, ..Settings::default() }), Ok(()));
        for max_page_size in [0, 1001] {
            assert!(with(Settings { max_page_size, ..Settings::default() }).is_err());
        }
        for default_page_size in [0, 101] {
            assert!(with(Settings { default_page_size, ..Settings::default() }).is_err());
        }
        let preset = PagePreset { page_size: Some(500), ..PagePreset::default() };
        let presets = BTreeMap::from([("big".to_owned(), preset)]);
        assert!(with(Settings { presets, ..Settings::default() }).is_err());
        let limits = Limits { nesting_depth: 1000, ..Limits::default() };
        assert!(with(Settings { limits, ..Settings::default() }).is_err());
    }
}
