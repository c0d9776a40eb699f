//! Versions of JSON Schema, and their published meta-schemas.

use std::sync::{Arc, LazyLock};

use referencing::meta;
use serde_json::{Map, Value};

/// A version of JSON Schema. Later versions are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Draft201909,
    Draft202012,
}

impl Draft {
    /// The draft of a `$schema`, or nothing for an unknown one.
    pub(super) fn of(uri: &str) -> Option<Self> {
        let uri = uri.trim_end_matches('#');
        let uri = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        Some(match uri {
            "json-schema.org/draft-04/schema" => Self::Four,
            "json-schema.org/draft-06/schema" => Self::Six,
            "json-schema.org/draft-07/schema" => Self::Seven,
            "json-schema.org/draft/2019-09/schema" => Self::Draft201909,
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft202012,
            _ => return None,
        })
    }

    /// The name that a schema of this draft gives itself.
    pub(super) fn id(self, schema: &Map<String, Value>) -> Option<&Value> {
        match self {
            // Beside a reference, nothing counts.
            _ if self.ref_stands_alone() && schema.contains_key("$ref") => None,
            Self::Four => schema.get("id"),
            _ => schema.get("$id"),
        }
    }

    /// Reports that a `$ref` replaces all other keywords of its schema.
    pub(super) fn ref_stands_alone(self) -> bool {
        self <= Self::Seven
    }

    /// Reports that this draft has a keyword with subschemas.
    pub(super) fn has(self, keyword: &str) -> bool {
        match keyword {
            "contains" | "propertyNames" => self >= Self::Six,
            "if" | "then" | "else" => self >= Self::Seven,
            "dependentSchemas" | "unevaluatedItems" | "unevaluatedProperties" => {
                self >= Self::Draft201909
            }
            "additionalItems" => self <= Self::Draft201909,
            "prefixItems" => self >= Self::Draft202012,
            _ => true,
        }
    }
}

/// The published meta-schema of this address, which has no fragment.
pub(super) fn published(uri: &str) -> Option<(&'static Value, Draft)> {
    let (_, rest) = uri.split_once("://json-schema.org/")?;
    let (document, draft): (&'static LazyLock<Arc<Value>>, _) = match rest {
        "draft-04/schema" => (&meta::DRAFT4, Draft::Four),
        "draft-06/schema" => (&meta::DRAFT6, Draft::Six),
        "draft-07/schema" => (&meta::DRAFT7, Draft::Seven),
        "draft/2019-09/schema" => (&meta::DRAFT201909, Draft::Draft201909),
        "draft/2019-09/meta/applicator" => (&meta::DRAFT201909_APPLICATOR, Draft::Draft201909),
        "draft/2019-09/meta/content" => (&meta::DRAFT201909_CONTENT, Draft::Draft201909),
        "draft/2019-09/meta/core" => (&meta::DRAFT201909_CORE, Draft::Draft201909),
        "draft/2019-09/meta/format" => (&meta::DRAFT201909_FORMAT, Draft::Draft201909),
        "draft/2019-09/meta/meta-data" => (&meta::DRAFT201909_META_DATA, Draft::Draft201909),
        "draft/2019-09/meta/validation" => (&meta::DRAFT201909_VALIDATION, Draft::Draft201909),
        "draft/2020-12/schema" => (&meta::DRAFT202012, Draft::Draft202012),
        "draft/2020-12/meta/applicator" => (&meta::DRAFT202012_APPLICATOR, Draft::Draft202012),
        "draft/2020-12/meta/content" => (&meta::DRAFT202012_CONTENT, Draft::Draft202012),
        "draft/2020-12/meta/core" => (&meta::DRAFT202012_CORE, Draft::Draft202012),
        "draft/2020-12/meta/format-annotation" => {
            (&meta::DRAFT202012_FORMAT_ANNOTATION, Draft::Draft202012)
        }
        "draft/2020-12/meta/format-assertion" => {
            (&meta::DRAFT202012_FORMAT_ASSERTION, Draft::Draft202012)
        }
        "draft/2020-12/meta/meta-data" => (&meta::DRAFT202012_META_DATA, Draft::Draft202012),
        "draft/2020-12/meta/unevaluated" => (&meta::DRAFT202012_UNEVALUATED, Draft::Draft202012),
        "draft/2020-12/meta/validation" => (&meta::DRAFT202012_VALIDATION, Draft::Draft202012),
        _ => return None,
    };
    Some((document, draft))
}
