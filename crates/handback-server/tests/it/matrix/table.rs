//! `vectors/attack-matrix.toml`: what every attack on every continuation gets, on every surface.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// What is attacked.
pub(crate) const KINDS: [&str; 9] = [
    "tool_cursor",
    "aql_cursor",
    "list_cursor",
    "request_state",
    "handle",
    "task",
    "session",
    "event_id",
    "resume_token",
];

/// Where.
pub(crate) const SURFACES: [&str; 5] =
    ["mcp_2026_07_28", "mcp_2025_11_25", "http", "socket", "duplex"];

/// How. The first two are no attacks.
pub(crate) const ATTACKS: [&str; 11] = [
    "own",
    "own_again",
    "other_person",
    "anonymous",
    "other_tool",
    "other_arguments",
    "other_audience",
    "expired",
    "edited",
    "revoked",
    "replayed",
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) kind: &'static str,
    pub(crate) surface: &'static str,
    pub(crate) attack: &'static str,
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.surface, self.attack)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Works,
    Refused { outcome: String, audit: Vec<String> },
    NotApplicable,
}

/// A cell as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Written {
    Word(String),
    Refused { is: String, audit: Vec<String> },
    Never { not_applicable: String },
}

type File = BTreeMap<String, BTreeMap<String, BTreeMap<String, Written>>>;

pub(crate) struct Table(BTreeMap<Cell, Expected>);

impl Table {
    /// Reads the file. A cell that it lacks, and one that nobody asked for, is a fault of it.
    pub(crate) fn read() -> Self {
        let path = "../../vectors/attack-matrix.toml";
        let text = std::fs::read_to_string(path).unwrap();
        let mut file: File = toml::from_str(&text).unwrap();
        let mut cells = BTreeMap::new();
        for kind in KINDS {
            let mut of_kind = file.remove(kind).unwrap_or_default();
            for surface in SURFACES {
                let mut written = of_kind.remove(surface).unwrap_or_default();
                let all = written.remove("all");
                for attack in ATTACKS {
                    let cell = Cell { kind, surface, attack };
                    let found = written.remove(attack).or_else(|| all.clone());
                    let found = found.unwrap_or_else(|| panic!("{cell:?} is not in the file"));
                    cells.insert(cell, expected(cell, found));
                }
                assert!(written.is_empty(), "{kind}.{surface} has more: {written:?}");
            }
            assert!(of_kind.is_empty(), "{kind} has more: {of_kind:?}");
        }
        assert!(file.is_empty(), "the file has more: {file:?}");
        Self(cells)
    }

    pub(crate) fn expected(&self, cell: Cell) -> &Expected {
        &self.0[&cell]
    }

    /// Cells that are to be run.
    pub(crate) fn to_run(&self) -> impl Iterator<Item = Cell> {
        let applicable = |(_, expected): &(&Cell, &Expected)| **expected != Expected::NotApplicable;
        self.0.iter().filter(applicable).map(|(cell, _)| *cell)
    }
}

fn expected(cell: Cell, written: Written) -> Expected {
    match written {
        Written::Word(word) if word == "works" => Expected::Works,
        Written::Refused { is, audit } => {
            let is_known = ["expired", "invalid"].contains(&is.as_str())
                || (is == "mistyped" && cell.kind == "handle");
            assert!(is_known, "{cell:?} cannot be {is}");
            assert!(!audit.is_empty(), "{cell:?} leaves a reason in the audit");
            Expected::Refused { outcome: is, audit }
        }
        Written::Never { not_applicable } => {
            assert!(not_applicable.len() > 10, "{cell:?} says why it is not applicable");
            Expected::NotApplicable
        }
        Written::Word(word) => panic!("{cell:?} cannot be {word}"),
    }
}
