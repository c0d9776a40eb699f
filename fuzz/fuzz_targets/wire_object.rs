//! The members of an object are those that `serde_json` finds, none is there twice, and a change of one
//! leaves every byte of the others. The input is a name, a line break, and the object.
#![no_main]

use handback_wire::{Object, ObjectError};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

const NEW: &str = r#"{"new" : [1.50]}"#;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some((name, json)) = text.split_once('\n') else { return };
    let Ok(raw) = serde_json::from_str::<&RawValue>(json) else { return };
    let members = handback_fuzz::members::read(json.as_bytes());
    let mut object = match (Object::read(raw), &members) {
        (Ok(object), _) => object,
        (Err(ObjectError::Twice), Some(members)) => {
            let is_twice = |(name, _): &(String, _)| {
                members.iter().filter(|(known, _)| known == name).count() > 1
            };
            assert!(members.iter().any(is_twice));
            return;
        }
        (Err(_), members) => return assert!(members.is_none()),
    };
    let mut expected: Vec<(String, String)> = members
        .expect("an object")
        .into_iter()
        .map(|(name, value)| (name, value.get().to_owned()))
        .collect();
    check(&object, &expected);

    object.set(name, NEW.to_owned());
    match expected.iter_mut().find(|(known, _)| known == name) {
        Some((_, value)) => *value = NEW.to_owned(),
        None => expected.push((name.to_owned(), NEW.to_owned())),
    }
    check(&object, &expected);

    assert_eq!(object.remove(name).as_deref(), Some(NEW));
    expected.retain(|(known, _)| known != name);
    check(&object, &expected);
});

#[track_caller]
fn check(object: &Object<'_>, expected: &[(String, String)]) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(object.names().collect::<Vec<_>>(), names);
    for (name, value) in expected {
        assert_eq!(object.get(name), Some(value.as_str()));
        let text = serde_json::from_str::<String>(value).ok();
        assert_eq!(object.text(name).as_deref(), text.as_deref());
    }
    let written = object.to_json();
    let again = handback_fuzz::members::read(written.as_bytes()).expect("an object");
    let again: Vec<_> = again.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(again, expected);
}
