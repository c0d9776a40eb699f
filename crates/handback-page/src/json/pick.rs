//! Members of an item, without parsing the rest of it.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;
use serde_json::value::RawValue;

use super::scan::{Fault, Guide, MAX_DEPTH, Scan, Stop};
use crate::collection::Search;
use crate::filter::Member;
use crate::scalar::Scalar;
use crate::schema::FieldPath;

/// Arrays and objects are sorted by so many bytes of their canonical text, so that a place in the
/// order stays short. Beyond them, the tie-breaker of the order decides.
pub(crate) const SORTED_TREE_BYTES: usize = 256;

/// Members to be found in items: a tree of their names.
#[derive(Debug)]
pub(crate) struct Wanted {
    paths: Vec<FieldPath>,
    tree: Node,
}

#[derive(Debug, Default)]
struct Node {
    /// The numbers of the paths that end here.
    slots: Vec<usize>,
    members: Vec<(String, Self)>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'t> {
    /// Nothing.
    Missing,
    /// Valid JSON.
    Json(&'t str),
    /// A text itself.
    Text(&'t str),
    /// A number itself.
    Number(u64),
}

impl Wanted {
    pub(crate) fn new(paths: Vec<FieldPath>) -> Self {
        let mut tree = Node::default();
        for (slot, path) in paths.iter().enumerate() {
            // A longer path leads nowhere, and deep trees are a danger to the stack.
            if path.parts().len() <= MAX_DEPTH as usize {
                tree.add(path.parts(), slot);
            }
        }
        Self { paths, tree }
    }

    /// The paths, in the order of what is found.
    pub(crate) fn paths(&self) -> &[FieldPath] {
        &self.paths
    }

    /// Fills `found` with what is at each path of an item. The whole item is checked.
    pub(crate) fn find<'t>(&self, item: &'t str, found: &mut Vec<Found<'t>>) -> Result<(), Stop> {
        found.clear();
        found.resize(self.paths.len(), Found::Missing);
        let scan = Scan::whole(item.as_bytes());
        let end = self.tree.find(&scan, item, 0, found)?;
        if end == item.len() { Ok(()) } else { Err(Stop::Bad(Fault::trailing(end))) }
    }
}

impl Node {
    fn add(&mut self, path: &[String], slot: usize) {
        let mut node = self;
        for name in path {
            let known = node.members.iter().position(|(other, _)| other == name);
            let place = known.unwrap_or_else(|| {
                node.members.push((name.clone(), Self::default()));
                node.members.len() - 1
            });
            let Some((_, member)) = node.members.get_mut(place) else { return };
            node = member;
        }
        node.slots.push(slot);
    }

    /// Goes over the value at `at`, and notes what is wanted of it.
    fn find<'t>(
        &self,
        scan: &Scan<'t>,
        item: &'t str,
        at: usize,
        found: &mut [Found<'t>],
    ) -> Result<usize, Stop> {
        let end = if !self.members.is_empty() && scan.byte(at)? == b'{' {
            self.find_members(scan, item, at, found)?
        } else {
            scan.value(at, 0, &mut ())?
        };
        let value = item.get(at..end).map_or(Found::Missing, Found::Json);
        self.slots.iter().for_each(|slot| set(found, *slot, value));
        Ok(end)
    }

    fn find_members<'t>(
        &self,
        scan: &Scan<'t>,
        item: &'t str,
        at: usize,
        found: &mut [Found<'t>],
    ) -> Result<usize, Stop> {
        let mut at = scan.space(at + 1);
        if scan.byte(at)? == b'}' {
            return Ok(at + 1);
        }
        loop {
            let (name_end, value) = scan.member(at)?;
            let name = scan.slice(at, name_end);
            let wanted = self.members.iter().find(|(wanted, _)| is_name(name, wanted));
            at = match wanted {
                Some((_, node)) => {
                    // Of several members of one name the last one counts, with all that is in it.
                    node.forget(found);
                    node.find(scan, item, value, found)?
                }
                None => scan.value(value, 0, &mut ())?,
            };
            at = scan.space(at);
            match scan.byte(at)? {
                b',' => at = scan.space(at + 1),
                b'}' => return Ok(at + 1),
                _ => return Err(Stop::Bad(Fault::not_between(at, b'}'))),
            }
        }
    }

    fn forget(&self, found: &mut [Found<'_>]) {
        self.slots.iter().for_each(|slot| set(found, *slot, Found::Missing));
        self.members.iter().for_each(|(_, node)| node.forget(found));
    }
}

fn set<'t>(found: &mut [Found<'t>], slot: usize, value: Found<'t>) {
    if let Some(place) = found.get_mut(slot) {
        *place = value;
    }
}

impl Found<'_> {
    /// As a filter sees it.
    pub(crate) fn member(&self) -> Member<'static> {
        let value = match self {
            Self::Json(json) => match json.as_bytes().first() {
                Some(b'[') => return Member::List(scalars(json)),
                Some(b'{') => match Scalar::from_json(&tree(json)) {
                    Some(tagged) => tagged,
                    None => return Member::Object,
                },
                _ => single(json),
            },
            other => other.scalar(),
        };
        Member::Scalar(Cow::Owned(value))
    }

    /// As it is sorted by.
    pub(crate) fn scalar(&self) -> Scalar {
        match self {
            Self::Missing => Scalar::Null,
            Self::Text(text) => Scalar::Text((*text).to_owned()),
            Self::Number(number) => Scalar::Int(i128::from(*number)),
            Self::Json(json) if json.starts_with(['[', '{']) => {
                let value = tree(json);
                match Scalar::from_json(&value) {
                    // Places have no decimals.
                    Some(Scalar::Decimal(decimal)) => Scalar::Real(decimal.nearest()),
                    Some(scalar) => scalar,
                    None => {
                        let mut text = handback_token::canonical_json(&value, &[]);
                        text.truncate(SORTED_TREE_BYTES);
                        Scalar::Blob(text)
                    }
                }
            }
            Self::Json(json) => single(json),
        }
    }
}

/// The scalar of JSON that is neither array nor object.
fn single(json: &str) -> Scalar {
    match json.as_bytes() {
        [b'"', ..] => Scalar::Text(unquoted(json.as_bytes()).into_owned()),
        [b't', ..] => Scalar::Bool(true),
        [b'f', ..] => Scalar::Bool(false),
        [b'n', ..] => Scalar::Null,
        _ => Scalar::from_number_text(json).unwrap_or(Scalar::Null),
    }
}

fn scalars(json: &str) -> Vec<Scalar> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
    let scalar = |element: &&RawValue| match element.get() {
        json if json.starts_with('[') => None,
        json if json.starts_with('{') => Scalar::from_json(&tree(json)),
        json => Some(single(json)),
    };
    elements.iter().filter_map(scalar).collect()
}

/// The JSON was scanned: parsing it succeeds.
fn tree(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

/// Whether a name in quotes is this one.
pub(super) fn is_name(quoted: &[u8], wanted: &str) -> bool {
    let [b'"', name @ .., b'"'] = quoted else { return false };
    // An escape is longer than what it stands for.
    match name.len().cmp(&wanted.len()) {
        Ordering::Less => false,
        Ordering::Equal => name == wanted.as_bytes() && !name.contains(&b'\\'),
        Ordering::Greater => name.contains(&b'\\') && unquoted(quoted) == wanted,
    }
}

/// The text that is in quotes.
pub(super) fn unquoted(quoted: &[u8]) -> Cow<'_, str> {
    match quoted {
        [b'"', text @ .., b'"'] if memchr::memchr(b'\\', text).is_none() => {
            str::from_utf8(text).map(Cow::Borrowed).unwrap_or_default()
        }
        quoted => serde_json::from_slice::<String>(quoted).map(Cow::Owned).unwrap_or_default(),
    }
}

/// Whether one of the words occurs in a text of an item, however deep. The whole item is checked.
pub(super) fn is_hit(item: &str, search: &Search) -> Result<bool, Stop> {
    let mut hunt = Hunt { search, hit: false };
    Scan::whole(item.as_bytes()).value(0, 0, &mut hunt)?;
    Ok(hunt.hit)
}

struct Hunt<'a> {
    search: &'a Search,
    hit: bool,
}

impl Guide for Hunt<'_> {
    fn text(&mut self, quoted: &[u8]) {
        self.hit = self.hit || self.search.matches(&unquoted(quoted));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(dotted: &str) -> FieldPath {
        FieldPath::from_parts(dotted.split('.').map(str::to_owned).collect())
    }

    fn find<'t>(item: &'t str, paths: &[&str]) -> Vec<Found<'t>> {
        let wanted = Wanted::new(paths.iter().map(|dotted| path(dotted)).collect());
        let mut found = vec![];
        wanted.find(item, &mut found).unwrap();
        found
    }

    #[test]
    fn members_are_found_at_any_depth_and_in_any_order() {
        let item = r#" {"a": {"b" : [1, 2] ,"c":null}, "d":"x"}"#.trim();
        assert_eq!(
            find(item, &["d", "a.b", "a", "a.c", "a.b.c", "nope", "d.x"]),
            [
                Found::Json(r#""x""#),
                Found::Json("[1, 2]"),
                Found::Json(r#"{"b" : [1, 2] ,"c":null}"#),
                Found::Json("null"),
                Found::Missing,
                Found::Missing,
                Found::Missing,
            ]
        );
        for item in ["[]", "1", r#""text""#, "null", "{}"] {
            assert_eq!(find(item, &["a", "a.b"]), [Found::Missing; 2], "{item}");
        }
    }

    #[test]
    fn the_last_of_several_members_of_one_name_counts() {
        assert_eq!(find(r#"{"a":1,"b":2,"a":3}"#, &["a"]), [Found::Json("3")]);
        assert_eq!(find(r#"{"a":{"b":1},"a":{}}"#, &["a.b"]), [Found::Missing]);
        assert_eq!(find(r#"{"a":{"b":1},"a":4}"#, &["a.b"]), [Found::Missing]);
    }

    #[test]
    fn names_are_compared_without_their_escapes() {
        assert_eq!(find(r#"{"\u0061\n":1}"#, &["a\n"]), [Found::Json("1")]);
        assert_eq!(
            find(r#"{"a\\b":1,"a\n":2}"#, &["a\\b", "a\\n"]),
            [Found::Json("1"), Found::Missing]
        );
    }

    #[test]
    fn a_path_of_a_million_parts_is_merely_missing() {
        let long = vec!["a"; 1_000_000].join(".");
        assert_eq!(find(r#"{"a":{"a":1}}"#, &[&long, "a.a"]), [Found::Missing, Found::Json("1")]);
    }

    #[test]
    fn damage_is_noticed() {
        let wanted = Wanted::new(vec![path("a")]);
        for item in ["", "{", r#"{"a":1"#, r#"{"a":1} "#, r#"{"a":1}{"#, r#"{"a":1;}"#, "x", "1,"] {
            assert!(wanted.find(item, &mut vec![]).is_err(), "{item}");
        }
    }

    #[test]
    fn values_are_what_serde_json_makes_of_them() {
        let tagged = json!({"$integer": "9007199254740993"}).to_string();
        for json in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-12",
            "1.5",
            "1e3",
            "1E-3",
            "-0.0",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            r#""""#,
            r#""a\tb\u00e9""#,
            &tagged,
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            let expected = Scalar::from_json(&value).unwrap();
            assert_eq!(Found::Json(json).scalar(), expected, "{json}");
            assert_eq!(Found::Json(json).member(), Member::Scalar(Cow::Owned(expected)));
        }
        assert_eq!(Found::Missing.member(), Member::Scalar(Cow::Owned(Scalar::Null)));
        assert_eq!(Found::Text("x").scalar(), Scalar::Text("x".into()));
        assert_eq!(Found::Number(3).scalar(), Scalar::Int(3));
    }

    #[test]
    fn integers_are_exact_up_to_128_bits() {
        for text in ["18446744073709551617", "-9223372036854775809", &i128::MIN.to_string()] {
            let exact = Scalar::Int(text.parse().unwrap());
            assert!(matches!(Found::Json(text).scalar(), Scalar::Int(_)));
            assert_eq!(Found::Json(text).scalar(), exact);
            let list = format!("[ {text} ,{{\"$integer\":\"{text}\"}}]");
            assert_eq!(Found::Json(&list).member(), Member::List(vec![exact.clone(), exact]));
        }
        let beyond = Found::Json("170141183460469231731687303715884105728").scalar();
        assert!(matches!(beyond, Scalar::Real(_)));
    }

    #[test]
    fn arrays_and_objects_are_sorted_by_their_canonical_text() {
        let blob = |text: &str| Scalar::Blob(text.as_bytes().to_vec());
        assert_eq!(Found::Json(r#"{"b":1.0, "a":[ ]}"#).scalar(), blob(r#"{"a":[],"b":1}"#));
        assert_eq!(Found::Json(r#"{"b":1}"#).member(), Member::Object);
        let list = Found::Json(r#"[1, "x", [2], {"a":1}, {"$real":"NaN"}, null]"#);
        let members =
            [Scalar::Int(1), Scalar::Text("x".into()), Scalar::Real(f64::NAN), Scalar::Null];
        assert_eq!(list.member(), Member::List(members.into()));
        let long = format!("[\"{}\"]", "x".repeat(1000));
        let Scalar::Blob(text) = Found::Json(&long).scalar() else { panic!("an array") };
        assert_eq!(text.len(), SORTED_TREE_BYTES);
    }

    #[test]
    fn a_search_looks_at_texts_and_not_at_names() {
        let item = r#"{"name":"Caf\u00e9 \"Central\"","more":[{"deep":"TEA"}],"n":42}"#;
        for (text, expected) in [
            ("café", true),
            ("\"central\"", true),
            ("tea", true),
            ("name", false),
            ("42", false),
            ("u00e9", false),
            ("nothing tea", true),
        ] {
            assert_eq!(is_hit(item, &Search::new(text)), Ok(expected), "{text}");
        }
        assert!(is_hit("{", &Search::new("x")).is_err());
    }
}
