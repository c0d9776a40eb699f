//! Images, audio and blobs.

use super::*;

const BUDGET: usize = 10_000;

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("This is line {line} of the log.\n")).collect()
}

/// A media block of each kind, and its media type.
fn of_each_kind(data: &str) -> [(Value, &'static str); 3] {
    let blob = json!({"uri": "file:///x", "mimeType": "application/pdf", "blob": data});
    [
        (image(data), "image/png"),
        (json!({"type": "audio", "data": data, "mimeType": "audio/wav"}), "audio/wav"),
        (json!({"type": "resource", "resource": blob}), "application/pdf"),
    ]
}

#[test]
fn wound_b1_media_under_its_budget_is_given_to_the_byte() {
    let data = "AAAA".repeat(250_000);
    for (block, _) in of_each_kind(&data) {
        let result = json!({"content": [text("A screenshot:"), block], "isError": false});
        let outcome = cut(&result, BUDGET);
        assert!(outcome.bounded.is_as_given && outcome.bounded.parts.is_empty());
    }
}

#[test]
fn wound_b1_media_over_its_budget_becomes_a_link_and_no_word_search() {
    let data = "AAAA".repeat(10_000);
    for (block, media) in of_each_kind(&data) {
        let result = json!({"content": [text("Here:"), block, text("That was it.")]});
        let outcome = cut_media(&result, BUDGET, 5_000);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), ("/content/1", JSON));
        assert_eq!(part.media.as_deref(), Some(media));
        assert_eq!(outcome.held(part), block.to_string().as_bytes());
        let link = &outcome.shown["content"][2];
        assert_eq!((&link["type"], &link["mimeType"]), (&json!("resource_link"), &json!(media)));
        assert_eq!(link["size"], 30_000);
        assert_eq!(outcome.shown["content"][3], text("That was it."));
        let notice = outcome.notice();
        let request = format!(
            r#"{{"operation":"get_element","element_type":"{}","params":{{"id":0}}}}"#,
            part.handle
        );
        assert!(notice.contains(&request) && notice.contains(&format!("({media})")), "{notice}");
        assert!(!notice.contains("search_elements") && !notice.contains("WORDS"), "{notice}");
    }
}

#[test]
fn wound_b1_images_stay_beside_a_text_that_is_held() {
    let image = image(&"AAAA".repeat(50_000));
    for texts in [1, 3, 12, 100] {
        let texts = (0..texts).map(|number| text(format!("{number} {}", lines(2_000 / texts))));
        let blocks: Vec<_> = texts.chain([image.clone()]).collect();
        let outcome = cut(&json!({"content": blocks}), BUDGET);
        let shown = outcome.shown["content"].as_array().unwrap();
        assert_eq!(shown.last(), Some(&image), "{}", shown.len());
        let notice = outcome.notice();
        assert!(notice.contains("search_elements") && !notice.contains("image"), "{notice}");
    }
}

#[test]
fn wound_b1_images_stay_in_their_order_while_there_is_room() {
    let sizes = [3_000, 5_000, 2_000, 4_000, 100];
    let blocks: Vec<_> = sizes.map(|size| image(&"A".repeat(size * 4))).to_vec();
    let outcome = cut_media(&json!({"content": blocks}), BUDGET, 24_000);
    let kinds: Vec<_> = outcome.shown["content"].as_array().unwrap()[1..]
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["image", "resource_link", "image", "resource_link", "image"]);
    // More than are replaced one by one: the first ones are shown.
    let blocks: Vec<_> = (0..100).map(|_| image(&"A".repeat(1_000))).collect();
    let outcome = cut_media(&json!({"content": blocks}), BUDGET, 24_000);
    assert_eq!((outcome.part().shown, outcome.part().total), (23, 100));
    let notice = outcome.notice();
    assert!(notice.contains(r#""params":{"id":23}"#), "{notice}");
    assert!(!notice.contains("search_elements"), "{notice}");
}

#[test]
fn wound_b1_a_notice_of_many_blocks_says_how_to_see_a_picture() {
    // The second picture is too large, and so are more than can be replaced one by one.
    let sizes = [1_000, 9_000].into_iter().chain([9_000; 20]);
    let images = sizes.map(|size| image(&"A".repeat(size * 4)));
    let blocks: Vec<_> = images.chain([text("The end.")]).collect();
    let outcome = cut_media(&json!({"content": blocks}), BUDGET, 24_000);
    let notice = outcome.notice();
    let request = format!(
        r#"{{"operation":"get_element","element_type":"{}","params":{{"id":1}}}}"#,
        outcome.part().handle
    );
    assert!(notice.contains(&request), "{notice}");
    // There is a text as well.
    assert!(notice.contains("search_elements"), "{notice}");
}

#[test]
fn wound_b1_any_number_of_images_counts_by_its_bytes() {
    let blocks: Vec<_> = (0..9_000).map(|_| image("AAAA")).collect();
    let result = json!({"content": blocks});
    let bytes = result.to_string().len();
    let how = Bounding::new(Budget::bytes(bytes - 9_000 * 6));
    let bounded = bound(&InMemory::new(result.to_string(), 0), &how, &mut Shelf::default());
    assert!(bounded.unwrap().is_as_given);
}

#[test]
fn a_client_that_knows_no_links_gets_a_text() {
    let result = json!({"content": [image(&"AAAA".repeat(10_000))]}).to_string();
    let how = Bounding::new(Budget::DEFAULT).media(Budget::bytes(0)).without_links();
    let outcome = cut_how(&result, &how, (Budget::DEFAULT.as_bytes(), 0));
    let bytes = outcome.part().bytes;
    let expected = text(format!("[image, image/png, {bytes} bytes: held under {}]", handle(0)));
    assert_eq!(outcome.shown["content"][1], expected);
}

#[test]
fn a_block_that_readers_differ_about_is_no_media_block() {
    let data = "A".repeat(20_000);
    for block in [
        format!(r#"{{"type":"image","data":"","data":"{data}"}}"#),
        format!(r#"{{"type":"image","type":"text","data":"{data}"}}"#),
        format!(r#"{{"type":"image","data":["{data}"]}}"#),
        format!(r#"{{"type":"resource","resource":{{"blob":"{data}"}},"resource":{{}}}}"#),
    ] {
        let result = format!(r#"{{"content":[{block}]}}"#);
        let how = Bounding::new(Budget::bytes(BUDGET));
        let outcome = cut_how(&result, &how, (BUDGET, usize::MAX));
        assert_eq!(outcome.part().media, None);
        assert_eq!(outcome.shown["content"][1]["type"], "text", "{result}");
    }
}

#[test]
fn text_beside_base64_counts_for_the_budget_of_texts() {
    let mut block = image("AAAA");
    block["_meta"] = json!({"x": lines(5_000)});
    let outcome = cut(&json!({"content": [block]}), BUDGET);
    assert!(!outcome.bounded.is_as_given);
}
