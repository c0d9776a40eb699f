//! Members of an item, without parsing the rest of it.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::canonical;
use super::scan::{Fault, Guide, MAX_DEPTH, Scan, Stop};
use crate::collection::Search;
use crate::filter::Member;
use crate::scalar::{Scalar, TAGS};
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
    /// As a filter sees it that asks lists for these values, which are sorted: of a list, others are
    /// left out.
    pub(crate) fn member(&self, asked: &[&Scalar]) -> Member<'static> {
        let value = match self {
            Self::Json(json) => match json.as_bytes().first() {
                Some(b'[') => return Member::List(listed(json, asked)),
                Some(b'{') => match tagged(json) {
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
            Self::Json(json) if json.starts_with(['[', '{']) => match tagged(json) {
                // Places have no decimals.
                Some(Scalar::Decimal(decimal)) => Scalar::Real(decimal.nearest()),
                Some(scalar) => scalar,
                None => Scalar::Blob(canonical::start(json, SORTED_TREE_BYTES)),
            },
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

/// Which of these values, which are sorted, an array has. The array was scanned before, and may have
/// millions of elements: they are looked at one by one.
fn listed(json: &str, asked: &[&Scalar]) -> Cow<'static, [Scalar]> {
    let scan = Scan::whole(json.as_bytes());
    let mut met = vec![false; asked.len()];
    let mut left = asked.len();
    let mut at = scan.space(1);
    while left > 0
        && let Ok(end) = scan.value(at, 0, &mut ())
    {
        let element = json.get(at..end).unwrap_or_default();
        let value = match element.as_bytes().first() {
            Some(b'[') => None,
            Some(b'{') => tagged(element),
            _ => Some(single(element)),
        };
        let place = value.and_then(|value| asked.binary_search_by(|one| one.order(&value)).ok());
        if let Some(met) = place.and_then(|place| met.get_mut(place))
            && !*met
        {
            *met = true;
            left -= 1;
        }
        // Behind the element is a comma, or the end, where no value starts.
        at = scan.space(scan.space(end) + 1);
    }
    asked.iter().zip(met).filter(|(_, met)| *met).map(|(value, _)| (*value).clone()).collect()
}

/// The scalar that an object of one member stands for, as [`Scalar::from_json`] has it. Others may be
/// long: no more is read of them than shows that they are others.
fn tagged(json: &str) -> Option<Scalar> {
    let json = json.strip_prefix('{')?;
    let scan = Scan::whole(json.as_bytes());
    let mut at = scan.space(0);
    let (name_end, _) = scan.member(at).ok()?;
    let tag = unquoted(scan.slice(at, name_end));
    if !TAGS.contains(&tag.as_ref()) {
        return None;
    }
    loop {
        let (name_end, value) = scan.member(at).ok()?;
        if !is_name(scan.slice(at, name_end), &tag) {
            return None;
        }
        let end = scan.value(value, 0, &mut ()).ok()?;
        at = scan.space(end);
        if scan.byte(at) == Ok(b',') {
            at = scan.space(at + 1);
            continue;
        }
        // Of several members of one name the last one counts.
        let text = json.get(value..end).filter(|text| text.starts_with('"'))?;
        return Scalar::from_tagged(&tag, &unquoted(text.as_bytes()));
    }
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
    use serde_json::{Value, json};

    use super::*;

    /// As a filter sees it that asks for all of these.
    fn member(found: Found<'_>, asked: &[Scalar]) -> Member<'static> {
        let mut asked: Vec<_> = asked.iter().collect();
        asked.sort_by(|a, b| a.order(b));
        found.member(&asked)
    }

    /// A list that has these values.
    fn list(values: &[Scalar]) -> Member<'static> {
        let mut values = values.to_vec();
        values.sort_by(Scalar::order);
        Member::List(Cow::Owned(values))
    }

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
            assert_eq!(member(Found::Json(json), &[]), Member::Scalar(Cow::Owned(expected)));
        }
        assert_eq!(member(Found::Missing, &[]), Member::Scalar(Cow::Owned(Scalar::Null)));
        assert_eq!(Found::Text("x").scalar(), Scalar::Text("x".into()));
        assert_eq!(Found::Number(3).scalar(), Scalar::Int(3));
    }

    #[test]
    fn integers_are_exact_up_to_128_bits() {
        for text in ["18446744073709551617", "-9223372036854775809", &i128::MIN.to_string()] {
            let exact = Scalar::Int(text.parse().unwrap());
            assert!(matches!(Found::Json(text).scalar(), Scalar::Int(_)));
            assert_eq!(Found::Json(text).scalar(), exact);
            for json in [format!("[ {text} ]"), format!("[1,{{\"$integer\":\"{text}\"}}]")] {
                let asked = [exact.clone(), Scalar::Real(0.5)];
                assert_eq!(member(Found::Json(&json), &asked), list(std::slice::from_ref(&exact)));
            }
        }
        let beyond = Found::Json("170141183460469231731687303715884105728").scalar();
        assert!(matches!(beyond, Scalar::Real(_)));
    }

    #[test]
    fn arrays_and_objects_are_sorted_by_their_canonical_text() {
        let blob = |text: &str| Scalar::Blob(text.as_bytes().to_vec());
        assert_eq!(Found::Json(r#"{"b":1.0, "a":[ ]}"#).scalar(), blob(r#"{"a":[],"b":1}"#));
        assert_eq!(member(Found::Json(r#"{"b":1}"#), &[]), Member::Object);
        let found = Found::Json(r#"[1, "x", [2], {"a":1}, {"$real":"NaN"}, null, 1.0]"#);
        let members =
            [Scalar::Int(1), Scalar::Text("x".into()), Scalar::Real(f64::NAN), Scalar::Null];
        let others = [Scalar::Int(2), Scalar::Text("a".into()), Scalar::Bool(true)];
        assert_eq!(member(found, &[&members[..], &others].concat()), list(&members));
        assert_eq!(member(found, &others), list(&[]));
        assert_eq!(member(Found::Json("[ ]"), &members), list(&[]));
        let long = format!("[\"{}\"]", "x".repeat(1000));
        let Scalar::Blob(text) = Found::Json(&long).scalar() else { panic!("an array") };
        assert_eq!(text.len(), SORTED_TREE_BYTES);
    }

    #[test]
    fn objects_are_tagged_as_serde_json_sees_them() {
        for json in [
            r#"{"$integer":"12"}"#,
            r#" {"\u0024integer" : "1\u0032"} "#.trim(),
            r#"{"$integer":"12","$integer":"13"}"#,
            r#"{"$integer":12,"\u0024integer":"13"}"#,
            r#"{"$integer":"13","$integer":12}"#,
            r#"{"$integer":"12","$real":"NaN"}"#,
            r#"{"$integer":"12","a":[1,2]}"#,
            r#"{"a":"12"}"#,
            r#"{"$integer":"x"}"#,
            r#"{"$blob":"aGk"}"#,
            r#"{"$decimal":"0.1000000000000000000001"}"#,
            r#"{"$real":"-Infinity"}"#,
            "{ }",
            "[]",
            r#"["$integer","12"]"#,
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(tagged(json), Scalar::from_json(&value), "{json}");
        }
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
