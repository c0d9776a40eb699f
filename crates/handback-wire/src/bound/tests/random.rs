//! Random results and budgets.

use serde_json::value::RawValue;

use super::*;

fn any_block() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any_text(),
        any_value().prop_map(|value| value.to_string()),
        any_value().prop_map(|value| serde_json::to_string_pretty(&value).unwrap()),
    ];
    let data = "[A-Za-z0-9+/]{0,400}"
        .prop_flat_map(|data| (0_usize..50).prop_map(move |count| data.repeat(count)));
    prop_oneof![
        6 => text.clone().prop_map(|text| json!({"type": "text", "text": text})),
        1 => (text.clone(), any_value()).prop_map(
            |(text, more)| json!({"type": "text", "text": text, "annotations": more})
        ),
        1 => text.prop_map(|text| {
            json!({"type": "resource", "resource": {"uri": "file:///x", "text": text}})
        }),
        1 => data.clone().prop_map(
            |data| json!({"type": "image", "data": data, "mimeType": "image/png"})
        ),
        1 => data.prop_map(|data| json!({"type": "resource", "resource": {"uri": "x:", "blob": data}})),
        1 => any_value(),
    ]
}

fn any_result() -> impl Strategy<Value = Value> {
    let blocks = prop_oneof![
        4 => prop::collection::vec(any_block(), 0..4),
        1 => prop::collection::vec(any_block(), 0..90),
    ];
    let meta = prop_oneof![
        4 => Just(None),
        2 => Just(Some(json!({"progressToken": 7}))),
        1 => any_value().prop_map(Some),
        1 => Just(Some(json!({HELD_KEY: [1]}))),
    ];
    let structured = prop::option::of(any_value());
    let more = prop::option::weighted(0.2, ("[a-z]{1,20}", any_value()));
    let same = any::<bool>();
    (blocks, structured, meta, more, same).prop_map(|(blocks, structured, meta, more, same)| {
        let mut result = json!({"content": blocks, "isError": false, "resultType": "complete"});
        if let Some(structured) = structured {
            if same {
                let text = serde_json::to_string_pretty(&structured).unwrap();
                result["content"] = json!([{"type": "text", "text": text}]);
            }
            result["structuredContent"] = structured;
        }
        if let Some(meta) = meta {
            result["_meta"] = meta;
        }
        if let Some((name, value)) = more {
            result[format!("x-{name}")] = value;
        }
        result
    })
}

proptest! {
    #[test]
    fn nothing_is_lost_and_all_is_within_the_budget(
        result in any_result(),
        budget in prop_oneof![0_usize..9000, 4000_usize..60_000],
    ) {
        cut(&result, budget);
    }

    #[test]
    fn media_is_shown_whole_or_held_to_the_byte(
        result in any_result(),
        budget in prop_oneof![0_usize..9000, 4000_usize..60_000],
        media in prop_oneof![0_usize..9000, 4000_usize..60_000],
    ) {
        cut_media(&result, budget, media);
    }

    #[test]
    fn pieces_of_any_size_make_no_difference(
        result in any_result(),
        pretty: bool,
        budget in 0_usize..9000,
        chunk in 1_usize..50,
    ) {
        let text = match pretty {
            true => serde_json::to_string_pretty(&result).unwrap(),
            false => result.to_string(),
        };
        let one = cut_text(&text, budget, None, usize::MAX >> 1);
        let other = cut_text(&text, budget, None, chunk);
        prop_assert_eq!(&one.bounded, &other.bounded);
        prop_assert_eq!(&one.shelf.parts, &other.shelf.parts);
    }

    #[test]
    fn damaged_results_are_cut_or_refused(
        result in any_result(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
        budget in 0_usize..9000,
    ) {
        let mut bytes = result.to_string().into_bytes();
        for (at, byte, kind) in damages {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let how = Bounding::new(Budget::bytes(budget)).in_chunks_of(100);
        let mut shelf = Shelf::default();
        let is_json = |bytes: &[u8]| serde_json::from_slice::<&RawValue>(bytes).is_ok();
        let was_json = is_json(&bytes);
        let size = bytes.len();
        match bound(&InMemory::new(bytes, 0), &how, &mut shelf) {
            Ok(bounded) if size > budget.max(Budget::FLOOR_BYTES) => {
                prop_assert!(was_json);
                prop_assert!(is_json(&bounded.result));
                let shown: Value = serde_json::from_slice(&bounded.result).unwrap_or_default();
                let texts = bounded.result.len().saturating_sub(media_bytes(&shown));
                prop_assert!(bounded.is_as_given || texts <= budget.max(Budget::FLOOR_BYTES));
            }
            Ok(_) => {}
            Err(_) => prop_assert!(!was_json),
        }
    }
}
