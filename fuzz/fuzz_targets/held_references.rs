//! The references that are found in arguments are those that a walk over the tree finds, and what is
//! put in their place leaves every other byte.
#![no_main]

use handback_page::json::{InMemory, Pointer};
use handback_token::Handle;
use handback_wire::note::HeldNote;
use handback_wire::reference::{
    Call, Fault, Fetch, MAX_ARGUMENTS_DEPTH, MAX_REFERENCES, Rules, Source, find, mentions_held,
    resolve,
};
use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

const HELD: &str = r#"{ "a" : [1.50, "x"] }"#;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let found = find(text);
    // Half characters, and what is nested very deeply, make no tree.
    if let Ok(tree) = serde_json::from_str::<Tree>(text) {
        let mut walk = Walk::default();
        let walked = walk.value(&tree, 0).map(|()| walk.found);
        let told = found.as_ref().ok().map(|found| {
            let told = |one: &handback_wire::reference::Reference| {
                (one.place.clone(), one.is_text, one.handle, one.pointer.clone())
            };
            found.iter().map(told).collect::<Vec<_>>()
        });
        assert_eq!(told, walked);
        assert!(mentions_held(text) || told.is_some_and(|told| told.is_empty()));
    }
    let (rules, mut store) = (Rules::default(), Store(0));
    let call = Call { upstream: "files", tool: "write", rules: &rules, schema: None };
    let Ok(found) = found else {
        return assert!(!mentions_held(text) || resolve(text, &call, &mut store).is_err());
    };
    let Ok(resolution) = resolve(text, &call, &mut store) else { return };
    let mut expected = String::new();
    let mut at = 0;
    for (one, resolved) in found.iter().zip(&resolution.resolved) {
        assert_eq!((&one.place, one.pointer.to_string()), (&resolved.place, resolved.path.clone()));
        expected.push_str(&text[at..one.range.start]);
        let value = match one.pointer.to_string().as_str() {
            "" => HELD,
            "/a" => r#"[1.50, "x"]"#,
            "/a/0" => "1.50",
            "/a/1" => r#""x""#,
            other => panic!("there is nothing at {other}"),
        };
        match (one.is_text, value.starts_with('"')) {
            (true, false) => expected.push_str(&serde_json::Value::from(value).to_string()),
            _ => expected.push_str(value),
        }
        at = one.range.end;
    }
    expected.push_str(&text[at..]);
    assert_eq!(resolution.arguments, expected);
});

/// Has one value under every handle.
struct Store(usize);

impl Fetch for Store {
    fn fetch(&mut self, _handle: Handle) -> Result<Source, Fault> {
        self.0 += 1;
        assert!(self.0 <= MAX_REFERENCES);
        let note = HeldNote { upstream: Some("files".to_owned()), ..HeldNote::default() };
        let kind = "application/json".to_owned();
        Ok(Source { kind, note, bytes: Box::new(InMemory::new(HELD, 0)) })
    }
}

/// JSON with every member, those that are there twice as well.
enum Tree {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Text(String),
    Other,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(Trees)
    }
}

struct Trees;

impl<'de> Visitor<'de> for Trees {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Tree::Array(elements))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Other)
    }
}

type Found = (String, bool, Handle, Pointer);

/// Nothing, as soon as something is wrong.
#[derive(Default)]
struct Walk {
    place: Vec<String>,
    found: Vec<Found>,
}

impl Walk {
    fn value(&mut self, tree: &Tree, depth: usize) -> Option<()> {
        if matches!(tree, Tree::Object(_) | Tree::Array(_)) && depth >= MAX_ARGUMENTS_DEPTH {
            return None;
        }
        match tree {
            Tree::Other => Some(()),
            Tree::Text(text) => match text.strip_prefix("$held:") {
                None => Some(()),
                Some(named) => {
                    let (handle, path) = named.split_once('#').unwrap_or((named, ""));
                    self.add(true, handle, path)
                }
            },
            Tree::Array(elements) => elements
                .iter()
                .enumerate()
                .try_for_each(|(number, element)| self.below(number.to_string(), element, depth)),
            Tree::Object(members) => {
                let held = members.iter().find(|(name, _)| name == "$held");
                match (held, members.as_slice()) {
                    (None, members) => members.iter().try_for_each(|(name, value)| {
                        self.below(name.replace('~', "~0").replace('/', "~1"), value, depth)
                    }),
                    (Some((_, Tree::Text(handle))), [_]) => self.add(false, handle, ""),
                    (Some((_, Tree::Text(handle))), [one, other]) => {
                        let beside = if one.0 == "$held" { other } else { one };
                        match beside {
                            (name, Tree::Text(path)) if name == "path" => {
                                self.add(false, handle, path)
                            }
                            _ => None,
                        }
                    }
                    _ => None,
                }
            }
        }
    }

    fn below(&mut self, token: String, tree: &Tree, depth: usize) -> Option<()> {
        self.place.push(token);
        self.value(tree, depth + 1)?;
        self.place.pop();
        Some(())
    }

    fn add(&mut self, is_text: bool, handle: &str, path: &str) -> Option<()> {
        let place = self.place.iter().map(|token| format!("/{token}")).collect();
        self.found.push((place, is_text, Handle::parse(handle).ok()?, path.parse().ok()?));
        (self.found.len() <= MAX_REFERENCES).then_some(())
    }
}
