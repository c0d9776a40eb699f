//! Results of every shape, and what tests share.

mod large;
mod media;
mod random;
mod schema;
mod shapes;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use handback_page::json::{InMemory, JsonCollection, JsonOptions, Pointer};
use handback_page::{Filter, Query, Search, TextCollection};
use handback_token::Handle;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Bounded, Bounding, Budget, HELD_KEY, HELD_URI, JSON, Keep, Kept, NewPart, Part, PartWriter,
    TEXT, bound,
};

use crate::schema::{BoundedValidator, ForeignSchema};

/// An output schema, and an independent validator that has the last word about cuts.
pub(super) struct Rule {
    schema: Arc<ForeignSchema>,
    independent: jsonschema::Validator,
}

impl Rule {
    pub(super) fn of(schema: &Value) -> Self {
        Self {
            schema: Arc::new(ForeignSchema::of(schema, &AtomicBool::new(false)).unwrap()),
            independent: jsonschema::validator_for(schema).unwrap(),
        }
    }
}

/// 2027-01-15T08:00:00Z.
pub(super) const UNTIL_MS: u64 = 1_800_000_000_000;

/// Keeps parts in memory, under handles that are numbered.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) parts: Vec<(Handle, NewPart, Vec<u8>)>,
}

pub(super) fn handle(number: usize) -> Handle {
    Handle::from_bytes((number as u128 + 1).to_be_bytes())
}

#[derive(Debug)]
pub(super) struct ShelfWriter<'a> {
    shelf: &'a mut Shelf,
    part: NewPart,
    bytes: Vec<u8>,
}

impl Keep for Shelf {
    type Error = Infallible;
    type Writer<'a> = ShelfWriter<'a>;

    fn part(&mut self, part: &NewPart) -> Result<ShelfWriter<'_>, Infallible> {
        Ok(ShelfWriter { shelf: self, part: part.clone(), bytes: vec![] })
    }

    fn forget(&mut self, handle: Handle) {
        let before = self.parts.len();
        self.parts.retain(|(other, ..)| *other != handle);
        assert_eq!(self.parts.len() + 1, before, "it was not kept");
    }
}

impl PartWriter for ShelfWriter<'_> {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> Result<Kept, Infallible> {
        let handle = handle(self.shelf.parts.len());
        self.shelf.parts.push((handle, self.part, self.bytes));
        Ok(Kept { handle, until_ms: UNTIL_MS, until_at_most_ms: u64::MAX })
    }
}

impl Shelf {
    fn get(&self, part: &Part) -> &[u8] {
        let (_, new, bytes) =
            self.parts.iter().find(|(handle, ..)| *handle == part.handle).unwrap();
        assert_eq!((new.kind, &new.items), (part.kind, &part.items));
        assert_eq!(bytes.len() as u64, part.bytes);
        bytes
    }
}

/// What came of a result.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) shown: Value,
    pub(super) bounded: Bounded,
    pub(super) shelf: Shelf,
}

impl Outcome {
    pub(super) fn notice(&self) -> &str {
        self.shown["content"][0]["text"].as_str().unwrap()
    }

    /// The one part.
    #[track_caller]
    pub(super) fn part(&self) -> &Part {
        let [part] = self.bounded.parts.as_slice() else { panic!("{:?}", self.bounded.parts) };
        part
    }

    pub(super) fn held(&self, part: &Part) -> &[u8] {
        self.shelf.get(part)
    }
}

/// Cuts a result to so many bytes, and checks what always holds.
#[track_caller]
pub(super) fn cut(result: &Value, budget: usize) -> Outcome {
    cut_by(result, budget, None)
}

#[track_caller]
pub(super) fn cut_by(result: &Value, budget: usize, schema: Option<&Rule>) -> Outcome {
    let outcome = cut_text(&result.to_string(), budget, schema, 1 << 16);
    check(result, &outcome, budget, schema);
    outcome
}

/// Cuts a result to so many bytes of texts and of media.
#[track_caller]
pub(super) fn cut_media(result: &Value, budget: usize, media: usize) -> Outcome {
    let how = Bounding::new(Budget::bytes(budget)).media(Budget::bytes(media));
    let outcome = cut_how(&result.to_string(), &how, (budget, media));
    check(result, &outcome, budget.min(media), None);
    outcome
}

#[track_caller]
pub(super) fn cut_text(
    result: &str,
    budget: usize,
    schema: Option<&Rule>,
    chunk: usize,
) -> Outcome {
    let mut how = Bounding::new(Budget::bytes(budget)).in_chunks_of(chunk);
    let validator = schema.map(|rule| BoundedValidator::new(Arc::clone(&rule.schema)));
    if let Some(validator) = &validator {
        how = how.output_schema(validator);
    }
    cut_how(result, &how, (budget, Budget::MEDIA_DEFAULT.as_bytes()))
}

#[track_caller]
fn cut_how(result: &str, how: &Bounding<'_>, (budget, media): (usize, usize)) -> Outcome {
    let mut shelf = Shelf::default();
    let source = InMemory::new(result.to_owned(), 0);
    let bounded = bound(&source, how, &mut shelf).unwrap();
    let (room, media_room) = (budget.max(Budget::FLOOR_BYTES), media.max(Budget::FLOOR_BYTES));
    let shown = serde_json::from_slice(&bounded.result).unwrap();
    let of_media = media_bytes(&shown);
    assert!(of_media <= media_room, "{of_media} > {media_room}");
    let of_texts = bounded.result.len() - of_media;
    assert!(of_texts <= room, "{of_texts} > {room}");
    assert_eq!(bounded.is_as_given, bounded.result == result.as_bytes());
    Outcome { shown, bounded, shelf }
}

/// Whether a block is a media block, and its base64.
pub(super) fn media_of(block: &Value) -> Option<&str> {
    match block["type"].as_str()? {
        "image" | "audio" => block["data"].as_str(),
        "resource" => block["resource"]["blob"].as_str(),
        _ => None,
    }
}

/// Bytes of the base64 in a result, with quotes.
fn media_bytes(result: &Value) -> usize {
    let none = vec![];
    let blocks = result["content"].as_array().unwrap_or(&none);
    blocks.iter().filter_map(media_of).map(|data| Value::from(data).to_string().len()).sum()
}

/// Checks that nothing is lost, and that all that is said is true.
#[track_caller]
pub(super) fn check(original: &Value, outcome: &Outcome, budget: usize, schema: Option<&Rule>) {
    let Outcome { shown, bounded, shelf } = outcome;
    if bounded.parts.is_empty() {
        assert_eq!(shown, original);
        return;
    }
    assert!(original.to_string().len() > budget, "nothing had to be held");
    let entries: Vec<_> = bounded.parts.iter().map(Part::entry).collect();
    assert_eq!(shown["_meta"][HELD_KEY], Value::from(entries));
    for part in &bounded.parts {
        check_held(original, shown, part, shelf);
        assert!(outcome.notice().contains(&part.handle.to_string()), "{}", outcome.notice());
    }
    let held: u64 = shelf.parts.iter().map(|(.., bytes)| bytes.len() as u64).sum();
    assert_eq!(held, bounded.held_bytes);
    let is_held = |path: &str| bounded.parts.iter().any(|part| part.path.to_string() == path);
    if is_held("") {
        return;
    }
    // Nothing is shown of an upstream's `_meta` that is held: what is there is ours.
    let is_shown = |part: &&Part| part.kind == JSON && part.path.to_string() != "/_meta";
    for part in bounded.parts.iter().filter(is_shown) {
        check_counted(original, outcome, part);
    }
    check_members(original, shown, &is_held);
    check_structured(original, shown, &is_held, schema);
    check_blocks(original, outcome, &is_held);
}

/// What is held is what the upstream gave, and can be read.
#[track_caller]
fn check_held(original: &Value, shown: &Value, part: &Part, shelf: &Shelf) {
    let held = shelf.get(part);
    let outer = original.pointer(&part.path.to_string()).unwrap();
    let names = part.path.tokens();
    let is_text =
        names.starts_with(&["content".to_owned()]) && names.ends_with(&["text".to_owned()]);
    let document = || match outer {
        Value::String(text) if is_text => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    assert_eq!(UNTIL_MS, part.until_ms);
    if part.kind == JSON {
        assert_eq!(serde_json::from_slice::<Value>(held).unwrap(), document(), "{}", part.path);
        let options = JsonOptions::new().with_pointer(part.items.clone());
        let source = InMemory::new(Vec::from(held), 0);
        let items = JsonCollection::open(source, options).unwrap();
        assert_eq!(count(&items), part.total);
        check_items(&document(), shown, part);
        return;
    }
    assert_eq!(part.kind, TEXT);
    let inner = if part.inside.tokens().is_empty() { outer.clone() } else { document() };
    let text = inner.pointer(&part.inside.to_string()).unwrap();
    assert_eq!(text.as_str().unwrap().as_bytes(), held);
    if !part.inside.tokens().is_empty() {
        // What is around it is held nowhere.
        let mut around = shown_of(shown, part).unwrap();
        *around.pointer_mut(&part.inside.to_string()).unwrap() = text.clone();
        assert_eq!(around, document(), "{}", part.path);
    }
    assert_eq!(
        count(&TextCollection::open(InMemory::new(Vec::from(held), 0)).unwrap()),
        part.total
    );
}

fn count(collection: &dyn handback_page::Collection) -> u64 {
    let order = collection.schema().unwrap().total_order(vec![]);
    let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
    collection.count(&query).unwrap()
}

/// The items that are shown and those of the held from there on are all items.
#[track_caller]
fn check_items(document: &Value, shown: &Value, part: &Part) {
    let Some(shown) = shown_of(shown, part) else {
        assert_eq!(part.shown, 0);
        return;
    };
    let shown_items = usize::try_from(part.shown).unwrap();
    let items = part.items.to_string();
    let Some(shown) = shown.pointer(&items) else {
        assert_eq!(part.shown, 0);
        return;
    };
    match (document.pointer(&items).unwrap(), shown) {
        (Value::Array(all), Value::Array(first)) => {
            assert!(first.len() == shown_items || (part.shown == 0 && first.len() == 1));
            let rest = &all[shown_items..];
            assert_eq!([&first[..shown_items], rest].concat(), *all);
        }
        (Value::Object(all), Value::Object(first)) => {
            let same = |(name, value): &(&String, &Value)| all.get(*name) == Some(value);
            assert!(first.iter().filter(same).count() >= shown_items);
            // What stands in the place of a `_meta` that is held is ours.
            let is_ours = part.path.to_string() == "/_meta";
            assert!(is_ours || (part.shown == part.total) == (all == first));
        }
        (all, shown) => assert_eq!(part.shown, u64::from(all == shown)),
    }
}

/// Every array and object of a document of which something is missing is counted.
#[track_caller]
fn check_counted(original: &Value, outcome: &Outcome, part: &Part) {
    let Some(shown) = shown_of(&outcome.shown, part) else { return };
    let was = original.pointer(&part.path.to_string()).unwrap();
    let parsed = was.as_str().and_then(|text| serde_json::from_str(text).ok());
    let is_text = part.path.tokens().last().is_some_and(|name| name == "text");
    let was = parsed.filter(|_| is_text).unwrap_or_else(|| was.clone());
    let notice = outcome.notice();
    each_shorter(&shown, &was, &mut vec![], &mut |path, is, was| {
        if Pointer::from_tokens(path.iter().cloned()) == part.items {
            assert_eq!(part.total, was as u64);
            return;
        }
        let name: String = path
            .last()
            .into_iter()
            .flat_map(|name| name.chars())
            .filter(|c| !c.is_control())
            .take(40)
            .collect();
        let said = |shown: usize| {
            let (named, inside) = (format!("of '{name}'"), "inside".to_owned());
            [named, inside]
                .iter()
                .any(|place| notice.contains(&format!("{shown} of {was} {place}")))
        };
        // An item that is there in part does not count.
        let is_told = said(is) || (is == 1 && said(0)) || notice.contains(" and others");
        assert!(is_told, "{is} of {was} at {path:?}: {notice}");
    });
}

/// Arrays and objects that have fewer items than they had: where, how many, of how many.
fn each_shorter(
    is: &Value,
    was: &Value,
    path: &mut Vec<String>,
    found: &mut dyn FnMut(&[String], usize, usize),
) {
    let (is_len, was_len) = match (is, was) {
        (Value::Array(is), Value::Array(was)) => (is.len(), was.len()),
        (Value::Object(is), Value::Object(was)) => (is.len(), was.len()),
        _ => return,
    };
    if is_len < was_len {
        found(path, is_len, was_len);
    }
    let children: Vec<(String, &Value, &Value)> = match (is, was) {
        (Value::Object(is), Value::Object(was)) => {
            is.iter().map(|(name, is)| (name.clone(), is, &was[name])).collect()
        }
        (Value::Array(is), Value::Array(was)) => {
            let pairs = is.iter().zip(was).enumerate();
            pairs.map(|(number, (is, was))| (number.to_string(), is, was)).collect()
        }
        _ => vec![],
    };
    for (name, is, was) in children {
        path.push(name);
        each_shorter(is, was, path, found);
        path.pop();
    }
}

/// The document of a part, as it is shown.
fn shown_of(shown: &Value, part: &Part) -> Option<Value> {
    match part.path.tokens() {
        [name] if name == "content" => {
            // Media blocks behind them are not the first ones.
            let first = usize::try_from(part.shown).unwrap();
            Some(shown["content"].as_array()?[1..=first].to_vec().into())
        }
        [content, number, names @ ..] if content == "content" => {
            let number: usize = number.parse().unwrap();
            let names = names.iter().fold(String::new(), |path, name| format!("{path}/{name}"));
            let text = shown["content"][number + 1].pointer(&names)?.as_str()?;
            serde_json::from_str(text).ok()
        }
        _ => shown.pointer(&part.path.to_string()).cloned(),
    }
}

#[track_caller]
fn check_members(original: &Value, shown: &Value, is_held: &dyn Fn(&str) -> bool) {
    let ours = ["content", "structuredContent", "_meta", "isError"];
    for (name, value) in original.as_object().unwrap() {
        if ours.contains(&name.as_str()) {
            continue;
        }
        let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        match is_held(&path) {
            true => assert_eq!(shown.get(name), None),
            false => assert_eq!(shown.get(name), Some(value)),
        }
    }
    if !is_held("/_meta") {
        let meta = original["_meta"].as_object().cloned().unwrap_or_default();
        for (name, value) in meta {
            assert_eq!(shown["_meta"][&name], value);
        }
    }
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let added = names(shown).into_iter().filter(|name| original.get(name).is_none());
    assert!(added.into_iter().all(|name| ours.contains(&name.as_str())));
}

#[track_caller]
fn check_structured(
    original: &Value,
    shown: &Value,
    is_held: &dyn Fn(&str) -> bool,
    schema: Option<&Rule>,
) {
    let was = original.get("structuredContent");
    let is = shown.get("structuredContent");
    let error = |value: &Value| value.get("isError").cloned().unwrap_or_default();
    match (was, is) {
        (Some(was), Some(is)) if is_held("/structuredContent") => {
            assert!(is_cut(is, was), "{is}\n{was}");
            let schema = schema.filter(|_| error(original) != json!(true));
            assert!(schema.is_none_or(|schema| schema.independent.is_valid(is)), "{is}");
            assert_eq!(error(shown), error(original));
        }
        (Some(_), None) => {
            assert!(is_held("/structuredContent"));
            assert!(schema.is_none() || error(shown) == json!(true));
        }
        (was, is) => {
            assert_eq!(was, is);
            assert_eq!(error(shown), error(original));
        }
    }
}

#[track_caller]
fn check_blocks(original: &Value, outcome: &Outcome, is_held: &dyn Fn(&str) -> bool) {
    let none = vec![];
    let was = original["content"].as_array().unwrap_or(&none);
    let is = &outcome.shown["content"].as_array().unwrap()[1..];
    if is_held("/content") {
        let part = outcome.bounded.parts.iter().find(|part| part.path.to_string() == "/content");
        let first = usize::try_from(part.unwrap().shown).unwrap();
        let (first, behind) = is.split_at(first);
        assert_eq!(was[..first.len()], *first);
        let mut rest = was[first.len()..].iter();
        for block in behind {
            assert!(media_of(block).is_some(), "{block}");
            assert!(rest.any(|was| was == block), "it is another one, or not in its place");
        }
        return;
    }
    assert_eq!(was.len(), is.len());
    for (number, (was, is)) in was.iter().zip(is).enumerate() {
        let text = ["text", "resource/text"]
            .into_iter()
            .find(|names| is_held(&format!("/content/{number}/{names}")));
        if is_held(&format!("/content/{number}")) {
            let path = format!("/content/{number}");
            let part = outcome.bounded.parts.iter().find(|part| part.path.to_string() == path);
            let part = part.unwrap();
            assert_eq!(part.media.is_some(), media_of(was).is_some());
            if part.media.is_some() {
                assert_eq!(is["type"], "resource_link");
                assert_eq!(is["uri"], format!("{HELD_URI}{}", part.handle));
                continue;
            }
            assert_eq!(is["type"], "text");
            let text = is["text"].as_str().unwrap();
            assert!(
                outcome.bounded.parts.iter().any(|part| text.contains(&part.handle.to_string()))
            );
        } else if let Some(names) = text {
            let (mut was, mut is) = (was.clone(), is.clone());
            let (was_text, is_text) = (taken(&mut was, names), taken(&mut is, names));
            assert_eq!(was, is);
            check_text(&was_text, &is_text);
        } else {
            assert_eq!(was, is);
        }
    }
}

fn taken(block: &mut Value, names: &str) -> String {
    match block.pointer_mut(&format!("/{names}")).unwrap().take() {
        Value::String(text) => text,
        other => panic!("{other}"),
    }
}

/// A text is cut as a document, or as a text.
#[track_caller]
fn check_text(was: &str, is: &str) {
    let parsed = |text: &str| serde_json::from_str::<Value>(text);
    if is_start(is, was) {
        return;
    }
    assert!(is_cut(&parsed(is).unwrap(), &parsed(was).unwrap()), "{is}\n{was}");
}

/// Whether a text is the start of another, with a mark behind it.
fn is_start(is: &str, was: &str) -> bool {
    let start = ["… [cut: ", "…", "\n[cut here; ", " [cut here; "]
        .into_iter()
        .filter_map(|mark| is.rsplit_once(mark))
        .any(|(start, _)| was.starts_with(start));
    start || is == was
}

/// Whether a value is made of another by leaving something out.
fn is_cut(is: &Value, was: &Value) -> bool {
    match (is, was) {
        (Value::Array(is), Value::Array(was)) => {
            is.len() <= was.len() && is.iter().zip(was).all(|(is, was)| is_cut(is, was))
        }
        (Value::Object(is), Value::Object(was)) => {
            is.iter().all(|(name, is)| was.get(name).is_some_and(|was| is_cut(is, was)))
        }
        (Value::String(is), Value::String(was)) => is_start(is, was),
        (is, was) => is == was,
    }
}

/// Any JSON value, some of them large.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 150, 30, |inner| {
        let name = prop_oneof!["[a-d]", Just("a/b~c \"d\"".to_owned()), any_name()];
        let members = (name, inner.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..30).prop_map(Value::from),
            (inner, 0_usize..100).prop_map(|(item, count)| vec![item; count].into()),
            prop::collection::vec(members, 0..45)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{1,12}", "[\u{0}-\u{7f}é𝄞]{0,200}"]
}

pub(super) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z ]{0,20}",
        2 => "[\"\\\\/\u{0}-\u{1f}a-zäöü€𝄞]{0,40}",
        1 => ("[a-zé\n\"]{1,20}", 0_usize..800).prop_map(|(text, count)| text.repeat(count)),
    ]
}
