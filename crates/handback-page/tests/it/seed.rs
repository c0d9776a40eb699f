//! The pagination specification, requirement by requirement: tests are named after its sections
//! (`p` for the pagination document, `c` collection querying, `o` operations, `f` field selection,
//! `n` the normative document).

use handback_page::aql::{PagePreset, Settings, Step};
use serde_json::{Value, json};

use crate::harness::{Harness, NOW, cursor, ids, json_collection};

fn all_ids() -> Vec<String> {
    (0..45).map(|n| format!("e_{n:03}")).collect()
}

/// Every page forward, then every page backward: the ids as they were met.
fn walk(harness: &Harness, params: &Value, size: usize) -> (Vec<String>, Vec<String>) {
    let go = |size_name: &str, cursor_name: &str, which: &str, more: &str| {
        let mut met: Vec<Vec<String>> = Vec::new();
        let mut params = params.clone();
        params[size_name] = size.into();
        for _ in 0..200 {
            let data = harness.list(params.clone());
            met.push(ids(&data).into_iter().map(str::to_owned).collect());
            if data["pageInfo"][more] == false {
                return met;
            }
            params[cursor_name] = cursor(&data, which).into();
        }
        panic!("the walk does not end");
    };
    let forward = go("first", "after", "endCursor", "hasNextPage").concat();
    let mut backward = go("last", "before", "startCursor", "hasPreviousPage");
    backward.reverse();
    (forward, backward.concat())
}

#[test]
fn p1_2_order_is_the_same_on_every_walk_and_in_both_directions() {
    let harness = Harness::new();
    for size in [1, 2, 7, 20, 45, 100] {
        let (forward, backward) = walk(&harness, &json!({}), size);
        assert_eq!(forward, all_ids());
        assert_eq!(backward, all_ids());
    }
}

#[test]
fn p2_2_none_of_the_four_is_a_default_page_from_the_start() {
    let data = Harness::new().list(json!({}));
    assert_eq!(ids(&data), all_ids()[..20]);
}

#[test]
fn p2_2_last_keeps_forward_order() {
    let data = Harness::new().list(json!({"last": 3}));
    assert_eq!(ids(&data), ["e_042", "e_043", "e_044"]);
    let (start, end) = (cursor(&data, "startCursor"), cursor(&data, "endCursor"));
    assert_ne!(start, end);
}

#[test]
fn p2_3_the_error_is_the_one_of_the_specification() {
    let error = Harness::new().refused(json!({"first": 1, "last": 1}));
    assert_eq!(
        error,
        json!({
            "code": "VALIDATION_INVALID_TYPE",
            "message": "Cannot use 'first' and 'last' together",
            "details": {
                "param_name": "pagination",
                "expected_type": "valid pagination combination",
                "actual_type": "conflicting parameters",
                "provided": ["first", "last"],
                "hint": "Use 'first' for forward pagination or 'last' for backward pagination",
            },
        })
    );
}

#[test]
fn p2_4_element_type_may_stand_at_the_top_or_among_the_parameters() {
    let harness = Harness::new();
    let top = json!({"operation": "list_elements", "element_type": "items"});
    let inner = json!({"operation": "list_elements", "params": {"element_type": "items"}});
    let both = json!({
        "operation": "list_elements",
        "element_type": "nope",
        "params": {"element_type": "items"},
    });
    for request in [top, inner, both] {
        assert_eq!(harness.ask(&request)["success"], true, "{request}");
    }
}

#[test]
fn p3_1_every_page_has_page_info_with_both_flags() {
    let harness = Harness::new();
    for params in [json!({}), json!({"first": 0}), json!({"last": 1}), json!({"first": 100})] {
        let info = harness.list(params)["pageInfo"].clone();
        assert!(info["hasNextPage"].is_boolean() && info["hasPreviousPage"].is_boolean());
    }
    let info = harness.page("list_elements", "empty", json!({}))["pageInfo"].clone();
    assert_eq!(info, json!({"hasNextPage": false, "hasPreviousPage": false, "totalCount": 0}));
}

#[test]
fn p3_1_flags_are_truthful_in_both_directions() {
    let harness = Harness::new();
    let first = harness.list(json!({"first": 10}));
    let second = harness.list(json!({"first": 10, "after": cursor(&first, "endCursor")}));
    assert_eq!(second["pageInfo"]["hasPreviousPage"], true);
    let back = harness.list(json!({"last": 10, "before": cursor(&second, "startCursor")}));
    assert_eq!(back["pageInfo"]["hasNextPage"], true);
    assert_eq!(back["pageInfo"]["hasPreviousPage"], false);
}

#[test]
fn p3_2_cursors_are_there_when_items_are_and_only_then() {
    let harness = Harness::new();
    let data = harness.list(json!({"first": 1}));
    assert_eq!(cursor(&data, "startCursor"), cursor(&data, "endCursor"));
    let data = harness.list(json!({"first": 0}));
    assert!(data["pageInfo"].get("startCursor").is_none());
    assert!(data["pageInfo"].get("endCursor").is_none());
}

#[test]
fn p4_1_items_and_edges_exclude_each_other() {
    let harness = Harness::new();
    let plain = harness.list(json!({"first": 2}));
    assert!(plain.get("items").is_some() && plain.get("edges").is_none());
    let edges = harness.list(json!({"first": 2, "include_edges": true}));
    assert!(edges.get("items").is_none() && edges.get("edges").is_some());
}

#[test]
fn p4_3_an_edge_has_its_node_and_its_cursor() {
    let harness = Harness::new();
    let data = harness.list(json!({"first": 5, "include_edges": true}));
    let edges = data["edges"].as_array().unwrap();
    assert_eq!(edges[0]["cursor"], data["pageInfo"]["startCursor"]);
    assert_eq!(edges[4]["cursor"], data["pageInfo"]["endCursor"]);
    for (number, edge) in edges.iter().enumerate() {
        let next = harness.list(json!({"first": 1, "after": edge["cursor"]}));
        assert_eq!(ids(&next), [all_ids()[number + 1].as_str()]);
        let edge = edge.as_object().unwrap();
        assert_eq!(edge.keys().collect::<Vec<_>>(), ["cursor", "node"]);
    }
}

#[test]
fn p4_5_compatibility_metadata_replaces_page_info() {
    let harness = Harness::new();
    let page = harness.list(json!({"page": 2, "page_size": 20}));
    assert!(page.get("pageInfo").is_none());
    assert_eq!(
        page["pagination"],
        json!({"page": 2, "page_size": 20, "total_items": 45, "total_pages": 3, "has_more": true})
    );
    let offset = harness.list(json!({"limit": 20, "offset": 40}));
    assert_eq!(
        offset["pagination"],
        json!({"limit": 20, "offset": 40, "returned": 5, "total_items": 45, "has_more": false})
    );
}

#[test]
fn p5_1_every_listing_operation_pages() {
    let harness = Harness::new();
    for operation in ["list_elements", "search_elements", "query_elements"] {
        let mut params = json!({"first": 2});
        if operation == "search_elements" {
            params["query"] = "e_".into();
        }
        let data = harness.page(operation, "items", params.clone());
        params["after"] = cursor(&data, "endCursor").into();
        let next = harness.page(operation, "items", params);
        assert_eq!(ids(&next), ["e_002", "e_003"], "{operation}");
    }
    let data = harness.ask(&json!({"operation": "list_collections", "params": {"first": 3}}));
    let names = |data: &Value| -> Vec<String> {
        let items = data["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&data["data"]), ["empty", "items", "people"]);
    let after = cursor(&data["data"], "endCursor");
    let request = json!({"operation": "list_collections", "params": {"first": 3, "after": after}});
    assert_eq!(names(&harness.ask(&request)["data"]), ["text"]);
}

#[test]
fn p5_2_the_default_page_size_is_configurable() {
    let settings = Settings { default_page_size: 7, ..Settings::default() };
    assert_eq!(ids(&Harness::with(settings).list(json!({}))).len(), 7);
}

#[test]
fn p5_3_more_than_the_maximum_is_clamped_and_said_only_if_it_matters() {
    let settings = Settings { max_page_size: 30, ..Settings::default() };
    let harness = Harness::with(settings);
    let ask = |params: Value| {
        harness
            .ask(&json!({"operation": "list_elements", "element_type": "items", "params": params}))
    };
    let answer = ask(json!({"first": 1000}));
    assert_eq!(ids(&answer["data"]).len(), 30);
    assert_eq!(
        answer["warnings"],
        json!([{
            "code": "VALIDATION_TRUNCATED_WARNING",
            "message": "Response truncated to 30 items",
            "details": {
                "field": "items",
                "truncated_count": 30,
                "limit": 30,
                "original_count": 45,
            },
            "severity": "medium",
        }])
    );
    let after = cursor(&answer["data"], "endCursor");
    let answer = ask(json!({"first": 1000, "after": after}));
    assert_eq!(ids(&answer["data"]).len(), 15);
    assert!(answer.get("warnings").is_none());
    let answer = ask(json!({"last": 1000}));
    assert_eq!(ids(&answer["data"])[0], "e_015");
    assert_eq!(answer["warnings"][0]["code"], "VALIDATION_TRUNCATED_WARNING");
}

#[test]
fn p5_4_pagination_is_introspected_where_the_closed_schema_allows_it() {
    let harness = Harness::new();
    let introspect = json!({"operation": "introspect", "params": {"query": "operations"}});
    let data = harness.ask(&introspect)["data"].clone();
    assert_eq!(data["_protocol"]["capabilities"]["pagination"], true);
    let blocks = data["_protocol"]["pagination"].as_array().unwrap();
    let expected = json!({
        "name": "list_elements",
        "supports_pagination": true,
        "pagination": {
            "default_page_size": 20,
            "max_page_size": 100,
            "supports_total_count": true,
        },
    });
    assert!(blocks.contains(&expected), "{blocks:?}");
    assert!(data["operations"][2].get("supports_pagination").is_none());
    let settings = Settings { literal_pagination_block: true, ..Settings::default() };
    let data = Harness::with(settings).ask(&introspect)["data"].clone();
    assert_eq!(data["operations"][2]["supports_pagination"], true);
}

#[test]
fn p6_1_5_order_stays_when_items_come_and_go() {
    // The collections that change are in handback-collections; here the value is exchanged.
    use std::sync::Arc;

    use handback_page::aql::Catalog;

    let over = |numbers: &[i64]| {
        let items: Vec<_> = numbers.iter().map(|n| json!({"id": format!("e_{n:03}")})).collect();
        let mut catalog = Catalog::new();
        let collection = json_collection(&json!(items), Some("id"));
        catalog.add("items", "", Arc::new(collection)).unwrap();
        Harness::over(catalog, Settings::default())
    };
    let before = over(&[10, 20, 30, 40, 50]);
    let page = before.list(json!({"first": 2}));
    // The row of the cursor is gone, one came before it and one after it.
    let mut after = over(&[5, 10, 25, 30, 40, 50]);
    after.sealer = before.sealer;
    let next = after.list(json!({"first": 10, "after": cursor(&page, "endCursor")}));
    assert_eq!(ids(&next), ["e_025", "e_030", "e_040", "e_050"]);
    assert_eq!(next["pageInfo"]["hasPreviousPage"], true);
}

#[test]
fn p6_2_1_totals_are_told_where_they_cost_nothing_and_can_be_left_out() {
    let harness = Harness::new();
    let filtered = harness.list(json!({"first": 1, "filter": {"even": true}}));
    assert_eq!(filtered["pageInfo"]["totalCount"], 23);
    let without = harness.list(json!({"first": 1, "include_total": false}));
    assert!(without["pageInfo"].get("totalCount").is_none());
}

#[test]
fn p6_3_2_cursors_expire() {
    let mut harness = Harness::new();
    let page = harness.list(json!({"first": 1}));
    let params = json!({"first": 1, "after": cursor(&page, "endCursor")});
    harness.now = handback_token::UnixTime::from_secs(NOW.as_secs() + 3600);
    let error = harness.refused(params);
    assert_eq!(error["details"]["actual_type"], "expired cursor");
    assert_eq!(error["code"], "VALIDATION_INVALID_TYPE");
}

#[test]
fn p6_3_3_cursors_outlive_the_process() {
    let first = Harness::new();
    let page = first.list(json!({"first": 2}));
    let mut second = Harness::new();
    let config = handback_token::SealerConfig::default();
    second.sealer = handback_token::Sealer::new(&first.ring, config).unwrap();
    let next = second.list(json!({"first": 2, "after": cursor(&page, "endCursor")}));
    assert_eq!(ids(&next), ["e_002", "e_003"]);
}

#[test]
fn p6_4_cursors_are_opaque_url_safe_stable_and_compact() {
    let harness = Harness::new();
    let page = harness.list(json!({"first": 2}));
    let text = cursor(&page, "endCursor");
    assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    assert!(text.len() <= 64, "{} characters", text.len());
    assert!(!text.contains("e_001"));
    let again = harness.list(json!({"first": 2}));
    assert_eq!(text, cursor(&again, "endCursor"), "the same page is the same text");
    let next = |_: ()| harness.list(json!({"first": 2, "after": text}));
    assert_eq!(next(()), next(()), "the same cursor is the same place");
}

#[test]
fn p7_1_sort_goes_with_pages() {
    let harness = Harness::new();
    let params = json!({"sort": {"field": "group", "order": "desc"}});
    for size in [1, 4, 45] {
        let (forward, backward) = walk(&harness, &params, size);
        assert_eq!(forward, backward);
        let mut expected: Vec<_> = (0..45).collect();
        expected.sort_by_key(|n| (std::cmp::Reverse(n % 3), std::cmp::Reverse(*n)));
        let expected: Vec<_> = expected.iter().map(|n| format!("e_{n:03}")).collect();
        assert_eq!(forward, expected);
    }
}

#[test]
fn p7_2_filters_go_with_pages() {
    let harness = Harness::new();
    let params = json!({"filter": {"even": true, "id": {"contains": "1"}}});
    let (forward, backward) = walk(&harness, &params, 2);
    assert_eq!(forward, ["e_010", "e_012", "e_014", "e_016", "e_018"]);
    assert_eq!(backward, forward);
    let people =
        harness.page("list_elements", "people", json!({"filter": {"tags": {"contains": "admin"}}}));
    let names: Vec<_> =
        people["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect();
    assert_eq!(names, ["Ada", "Edsger"]);
}

#[test]
fn p7_3_offsets_are_taken_unless_configured_away() {
    assert_eq!(ids(&Harness::new().list(json!({"offset": 20, "limit": 2}))), ["e_020", "e_021"]);
    let settings = Settings { page_style: false, offset_style: false, ..Settings::default() };
    let harness = Harness::with(settings);
    for params in [json!({"offset": 1}), json!({"limit": 1}), json!({"page": 1})] {
        assert_eq!(harness.refused(params)["code"], "VALIDATION_UNKNOWN_PARAM");
    }
}

#[test]
fn p7_4_a_streaming_page_waits_and_then_is_empty_with_the_same_cursor() {
    let harness = Harness::new();
    let last = harness.list(json!({"last": 1}));
    let end = cursor(&last, "endCursor");
    let request = json!({
        "operation": "list_elements",
        "element_type": "items",
        "params": {"first": 10, "after": end, "stream": true, "poll_interval_ms": 500},
    });
    let mut slept = 0;
    let mut step = harness.step(&request);
    let answer = loop {
        match step {
            Step::Wait(waiting) => {
                slept += waiting.sleep_ms();
                step = harness.engine.resume(&harness.call(), waiting, &mut rand::rng());
            }
            Step::Answer(answer) => break answer,
        }
    };
    assert_eq!(slept, 500);
    let info = answer.page().unwrap().page_info().unwrap();
    assert_eq!(info.end_cursor.as_deref(), Some(end));
    assert_eq!(info.start_cursor, None);
    assert!(!info.has_next_page && info.has_previous_page);
    // Where there are items, nothing waits; without `stream`, neither.
    let request = json!({
        "operation": "list_elements",
        "element_type": "items",
        "params": {"first": 10, "stream": true},
    });
    assert_eq!(harness.answer(&request).page().unwrap().items().len(), 10);
    let plain = harness.list(json!({"first": 10, "after": end}));
    assert!(plain["pageInfo"].get("endCursor").is_none());
}

#[test]
fn p7_4_streaming_goes_forward_by_cursor_within_bounds() {
    let harness = Harness::new();
    for params in [
        json!({"stream": true, "last": 1}),
        json!({"stream": true, "page": 1}),
        json!({"stream": true, "offset": 1}),
        json!({"stream": true, "snapshot": true}),
        json!({"poll_interval_ms": 1000}),
        json!({"stream": true, "poll_interval_ms": 249}),
        json!({"stream": true, "poll_interval_ms": 60_001}),
        json!({"stream": "yes"}),
    ] {
        let error = harness.refused(params.clone());
        assert_eq!(error["code"], "VALIDATION_INVALID_TYPE", "{params}");
    }
}

#[test]
fn p7_5_presets_set_size_total_and_edges_and_are_overruled() {
    let presets = [
        (
            "compact".to_owned(),
            PagePreset { page_size: Some(5), include_total: Some(false), include_edges: None },
        ),
        (
            "detailed".to_owned(),
            PagePreset {
                page_size: Some(20),
                include_total: Some(true),
                include_edges: Some(true),
            },
        ),
    ];
    let settings = Settings { presets: presets.into(), ..Settings::default() };
    let harness = Harness::with(settings);
    let compact = harness.list(json!({"page_preset": "compact"}));
    assert_eq!(ids(&compact).len(), 5);
    assert!(compact["pageInfo"].get("totalCount").is_none());
    let detailed = harness.list(json!({"page_preset": "detailed"}));
    assert_eq!(detailed["edges"].as_array().unwrap().len(), 20);
    assert_eq!(detailed["pageInfo"]["totalCount"], 45);
    let overruled = json!({"page_preset": "detailed", "first": 3, "include_edges": false});
    assert_eq!(ids(&harness.list(overruled)).len(), 3);
    let error = harness.refused(json!({"page_preset": "huge"}));
    assert_eq!(error["details"]["expected_type"], "one of compact, detailed");
    // A preset is no page size for a cursor: that needs `first`.
    let after = cursor(&compact, "endCursor");
    harness.refused(json!({"page_preset": "compact", "after": after}));
    let next = json!({"page_preset": "compact", "first": 5, "after": after});
    assert_eq!(ids(&harness.list(next))[0], "e_005");
    let unconfigured = Harness::new().refused(json!({"page_preset": "compact"}));
    assert_eq!(unconfigured["code"], "VALIDATION_UNKNOWN_PARAM");
}

#[test]
fn c5_unknown_columns_are_refused_with_the_valid_names() {
    let harness = Harness::new();
    let refused = |params: Value| {
        let request =
            json!({"operation": "list_elements", "element_type": "text", "params": params});
        harness.ask(&request)["error"].clone()
    };
    let error = refused(json!({"filter": {"nope": 1}}));
    assert_eq!(error["details"]["param_name"], "filter.nope");
    assert_eq!(error["details"]["valid_names"], json!(["line", "text"]));
    let error = refused(json!({"sort": {"field": "nope"}}));
    assert_eq!(error["details"]["param_name"], "sort.field");
    let error = refused(json!({"sort": {"field": "line", "order": "up"}}));
    assert_eq!(error["details"]["param_name"], "sort.order");
    let error = refused(json!({"sort": [{"field": "line"}, {"field": "line"}]}));
    assert_eq!(error["details"]["param_name"], "sort.field");
    let error = refused(json!({"sort": {"field": "line", "collate": "x"}}));
    assert_eq!(error["details"]["param_name"], "sort.collate");
}

#[test]
fn o5_4_faults_are_reported_in_order_one_at_a_time() {
    let harness = Harness::new();
    let code = |request: Value| harness.ask(&request)["error"]["code"].clone();
    let op = "list_elements";
    // Required before types before unknown before combinations before cursors.
    assert_eq!(
        code(json!({"operation": op, "params": {"first": "x", "zz": 1}})),
        "VALIDATION_MISSING_PARAM"
    );
    let with = |params: Value| json!({"operation": op, "element_type": "items", "params": params});
    assert_eq!(code(with(json!({"first": "x", "zz": 1, "last": 1}))), "VALIDATION_INVALID_TYPE");
    assert_eq!(code(with(json!({"first": 1, "zz": 1, "last": 1}))), "VALIDATION_UNKNOWN_PARAM");
    let error = harness.refused(json!({"first": 1, "last": 1, "after": "!!"}));
    assert_eq!(error["details"]["param_name"], "pagination");
}

#[test]
fn n4_6_unknown_parameters_are_refused_at_both_levels() {
    let harness = Harness::new();
    for request in [
        json!({"operation": "list_elements", "element_type": "items", "zz": 1}),
        json!({"operation": "list_elements", "element_type": "items", "params": {"zz": 1}}),
        json!({"operation": "list_elements", "element_type": "items", "params": {"pageSize": 1}}),
        json!({"operation": "get_element", "element_type": "items", "params": {"id": 1, "first": 1}}),
        json!({"operation": "count_elements", "element_type": "items", "params": {"first": 1}}),
    ] {
        assert_eq!(harness.ask(&request)["error"]["code"], "VALIDATION_UNKNOWN_PARAM", "{request}");
    }
    let request = json!({
        "operation": "list_elements",
        "element_type": "items",
        "_meta": {"x": 1},
        "params": {"_request_id": "r"},
    });
    assert_eq!(harness.ask(&request)["success"], true);
}

#[test]
fn f_field_selection_keeps_cursors_and_page_info() {
    let harness = Harness::new();
    let full = harness.list(json!({"first": 3}));
    let few = harness.list(json!({"first": 3, "fields": ["id"]}));
    assert_eq!(few["pageInfo"], full["pageInfo"]);
    assert_eq!(few["items"][0], json!({"id": "e_000"}));
    let edges = harness.list(json!({"first": 1, "fields": ["n"], "include_edges": true}));
    assert_eq!(edges["edges"][0]["node"], json!({"n": 0}));
    let nested = harness.page("list_elements", "people", json!({"fields": ["address.city", "zz"]}));
    assert_eq!(nested["items"][0], json!({"address": {"city": "London"}}));
    assert_eq!(nested["items"][3], json!({"address": null}));
    let old = harness.ask(&json!({
        "operation": "list_elements",
        "element_type": "items",
        "params": {"first": 1, "preset": "minimal", "fields": ["half"]},
    }));
    assert_eq!(old["warnings"][0]["code"], "DEPRECATION_WARNING");
    assert_eq!(old["data"]["items"][0], json!({"id": "e_000", "half": 0}));
    harness.refused(json!({"fields": "everything"}));
    harness.refused(json!({"fields": [1]}));
}

#[test]
fn p6_1_1_the_four_parameters_are_taken() {
    let harness = Harness::new();
    let first = harness.list(json!({"first": 3}));
    let after = harness.list(json!({"first": 3, "after": cursor(&first, "endCursor")}));
    let last = harness.list(json!({"last": 3}));
    let before = harness.list(json!({"last": 3, "before": cursor(&last, "startCursor")}));
    assert_eq!(ids(&first), ["e_000", "e_001", "e_002"]);
    assert_eq!(ids(&after), ["e_003", "e_004", "e_005"]);
    assert_eq!(ids(&last), ["e_042", "e_043", "e_044"]);
    assert_eq!(ids(&before), ["e_039", "e_040", "e_041"]);
}

#[test]
fn p6_1_2_flags_are_there_on_every_operation_that_pages() {
    let harness = Harness::new();
    for (operation, params) in [
        ("list_elements", json!({})),
        ("search_elements", json!({"query": "e_01"})),
        ("query_elements", json!({"filter": {"even": true}})),
    ] {
        let info = harness.page(operation, "items", params)["pageInfo"].clone();
        assert!(info["hasNextPage"].is_boolean() && info["hasPreviousPage"].is_boolean());
    }
}

#[test]
fn p6_1_3_both_cursors_are_there_with_items_and_with_edges() {
    let harness = Harness::new();
    for params in [json!({"first": 2}), json!({"last": 2, "include_edges": true})] {
        let data = harness.list(params);
        assert!(data["pageInfo"]["startCursor"].is_string());
        assert!(data["pageInfo"]["endCursor"].is_string());
    }
}

#[test]
fn p6_1_4_eleven_of_sixteen_combinations_are_refused_with_a_code() {
    let harness = Harness::new();
    let page = harness.list(json!({"first": 1}));
    let place = cursor(&page, "endCursor");
    let all = [
        ("first", json!(1)),
        ("after", json!(place)),
        ("last", json!(1)),
        ("before", json!(place)),
    ];
    let mut refused = 0;
    for chosen in 0..16 {
        let params: serde_json::Map<String, Value> = all
            .iter()
            .enumerate()
            .filter(|(bit, _)| chosen >> bit & 1 == 1)
            .map(|(_, (name, value))| ((*name).to_owned(), value.clone()))
            .collect();
        let request =
            json!({"operation": "list_elements", "element_type": "items", "params": params});
        let answer = harness.ask(&request);
        if answer["success"] == false {
            refused += 1;
            assert_eq!(answer["error"]["code"], "VALIDATION_INVALID_TYPE");
            assert_eq!(answer["error"]["details"]["param_name"], "pagination");
        }
    }
    assert_eq!(refused, 11);
}

#[test]
fn p6_2_2_a_maximum_is_enforced_on_every_style() {
    let settings = Settings { max_page_size: 10, default_page_size: 5, ..Settings::default() };
    let harness = Harness::with(settings);
    for params in
        [json!({"first": 99}), json!({"last": 99}), json!({"page_size": 99}), json!({"limit": 99})]
    {
        assert_eq!(ids(&harness.list(params)).len(), 10);
    }
}

#[test]
fn p6_2_3_both_directions_are_walked_on_every_kind_of_collection() {
    let harness = Harness::new();
    for collection in ["items", "people", "text"] {
        let forward = harness.page("list_elements", collection, json!({"first": 100}));
        let backward = harness.page("list_elements", collection, json!({"last": 100}));
        assert_eq!(forward["items"], backward["items"]);
    }
}

#[test]
fn p6_2_4_cursors_are_url_safe_whatever_they_stand_for() {
    let harness = Harness::new();
    for field in ["id", "n", "group", "even", "half"] {
        let data =
            harness.list(json!({"first": 50, "include_edges": true, "sort": {"field": field}}));
        for edge in data["edges"].as_array().unwrap() {
            let text = edge["cursor"].as_str().unwrap();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        }
    }
}

#[test]
fn p6_2_5_introspection_lists_the_parameters_of_pages() {
    let harness = Harness::new();
    let params = json!({"query": "operations", "name": "list_elements"});
    let answer = harness.ask(&json!({"operation": "introspect", "params": params}));
    let listed = answer["data"]["operation"]["parameters"].as_array().unwrap();
    for name in ["first", "after", "last", "before"] {
        let found = listed.iter().find(|parameter| parameter["name"] == name).unwrap();
        assert_eq!(found["required"], false);
    }
}

#[test]
fn p6_3_1_edges_have_cursors_of_their_own() {
    let data = Harness::new().list(json!({"first": 20, "include_edges": true}));
    let cursors: std::collections::BTreeSet<_> = data["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| edge["cursor"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(cursors.len(), 20);
}

#[test]
fn p6_3_4_sorting_goes_with_both_directions() {
    let harness = Harness::new();
    let sort = json!([{"field": "half", "order": "desc", "nulls": "first"}, {"field": "n"}]);
    let (forward, backward) = walk(&harness, &json!({"sort": sort}), 7);
    assert_eq!(forward, backward);
    assert_eq!(forward[0], "e_001");
    assert_eq!(forward.last().unwrap(), "e_000");
}

#[test]
fn p6_3_5_offset_answers_say_how_many_came() {
    let data = Harness::new().list(json!({"offset": 43, "limit": 10}));
    assert_eq!(data["pagination"]["returned"], 2);
}
