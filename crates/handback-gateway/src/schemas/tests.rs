use handback_wire::schema::Verdict;
use serde_json::json;

use super::*;

fn tool(schema: Value) -> ToolSchema {
    ToolSchema::input(&Bytes::from(json!({"name": "t", "inputSchema": schema}).to_string()))
}

async fn checking(schemas: &Arc<Schemas>, schema: &ToolSchema) -> Option<Checking> {
    schemas.checking(("up", "t"), schema).await
}

#[tokio::test]
async fn wound_a1_a_schema_is_read_when_a_check_needs_it_and_then_remembered() {
    let schemas = Arc::new(Schemas::default());
    let schema = tool(json!({"type": "object"}));
    assert_eq!(schemas.read_count(), 0);
    for _ in 0..3 {
        let checking = checking(&schemas, &schema).await.unwrap();
        let job = checking.job();
        assert!(checking.is_usable() && job.validator().fits(&json!({})));
        assert!(!job.validator().fits(&json!([])));
        assert_eq!(schemas.read_count(), 1);
    }
    for count in 0..SCHEMAS_MAX {
        checking(&schemas, &tool(json!({"minProperties": count}))).await.unwrap();
    }
    assert_eq!(schemas.read_count(), 1 + SCHEMAS_MAX as u64);
    checking(&schemas, &schema).await.unwrap();
    assert_eq!(schemas.read_count(), 2 + SCHEMAS_MAX as u64, "memory is bounded");
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_not_none() {
    let schemas = Arc::new(Schemas::default());
    for none in
        [Bytes::new(), Bytes::from_static(b"{}"), Bytes::from_static(b"{\"inputSchema\":null}")]
    {
        assert!(checking(&schemas, &ToolSchema::input(&none)).await.is_none());
    }
    for schema in [
        json!({"$ref": "https://schemas.invalid/x"}),
        json!({"properties": {"a": {"pattern": "(?<=x)["}}}),
        json!({"type": "nonsense"}),
        json!("object"),
        json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}),
    ] {
        let checking = checking(&schemas, &tool(schema)).await.unwrap();
        assert!(!checking.is_usable());
        let validator = checking.job().validator();
        assert!(!validator.fits(&json!({})) && !validator.fits(&json!(null)));
    }
}

#[tokio::test]
async fn wound_a1_a_call_that_is_over_ends_its_check() {
    let schemas = Arc::new(Schemas::default());
    let checking = checking(&schemas, &tool(json!({"items": {"type": "integer"}}))).await.unwrap();
    let (job, numbers) = (checking.job(), (0..100_000).collect::<Value>());
    assert!(job.validator().fits(&numbers));
    drop(checking);
    let validator = job.validator();
    assert!(!validator.fits(&numbers) && validator.is_over());
    assert!(validator.steps() < 10_000, "{}", validator.steps());
}

#[tokio::test]
async fn wound_a1_one_upstream_leaves_turns_for_another() {
    let schemas = Arc::new(Schemas { turn_time: Duration::ZERO, ..Schemas::default() });
    let schema = tool(json!({"type": "object"}));
    let mut taken = Vec::new();
    for _ in 0..CHECKS_OF_UPSTREAM_MAX {
        taken.push(schemas.checks.take("hostile".to_owned()).await);
    }
    for (upstream, is_checked) in [("hostile", false), ("other", true)] {
        let checking = schemas.checking((upstream, "t"), &schema).await.unwrap();
        let validator = checking.job().validator();
        assert_eq!(validator.fits(&json!({})), is_checked, "{upstream}");
        assert_eq!(validator.is_over(), !is_checked, "{upstream}");
    }
}

#[tokio::test]
async fn wound_a1_a_check_without_a_turn_has_no_result() {
    let turn_time = Duration::from_millis(500);
    let schemas = Arc::new(Schemas { turn_time, ..Schemas::default() });
    let checking = checking(&schemas, &tool(json!({"type": "object"}))).await.unwrap();
    let mut taken = Vec::new();
    for number in 0..CHECKS_MAX {
        let upstream = format!("hostile-{}", number % 2);
        taken.push(schemas.checks.take(upstream).await);
    }
    let validator = checking.job().validator();
    let began = Instant::now();
    for value in [json!({}), json!([])] {
        assert_eq!(validator.check(&value), Verdict::Unknown);
    }
    let waited = began.elapsed();
    assert!(validator.is_over() && waited >= turn_time, "{waited:?}");
    assert!(waited < 2 * turn_time, "both checks wait as long as one: {waited:?}");
    // A turn that comes in time is used.
    let validator = checking.job().validator();
    let freed = taken.pop();
    thread::spawn(move || {
        thread::sleep(turn_time / 4);
        drop(freed);
    });
    assert!(validator.fits(&json!({})) && !validator.is_over());
}

#[tokio::test]
async fn wound_a1_a_turn_ends_with_its_check() {
    let schemas = Arc::new(Schemas { turn_time: Duration::ZERO, ..Schemas::default() });
    let checking = checking(&schemas, &tool(json!({"type": "object"}))).await.unwrap();
    let job = checking.job();
    let validators: Vec<_> = (0..2 * CHECKS_MAX).map(|_| job.validator()).collect();
    // Each call goes on with other work after its check.
    assert!(validators.iter().all(|validator| validator.fits(&json!({}))));
}

#[tokio::test(start_paused = true)]
async fn wound_a1_a_call_does_not_wait_for_a_schema_for_ever() {
    let schemas = Arc::new(Schemas::default());
    let mut taken = Vec::new();
    for _ in 0..READINGS_OF_UPSTREAM_MAX {
        taken.push(schemas.readings.take("up".to_owned()).await);
    }
    let schema = tool(json!({}));
    assert!(!checking(&schemas, &schema).await.unwrap().is_usable());
    drop(taken);
    tokio::time::resume();
    assert!(checking(&schemas, &schema).await.unwrap().is_usable(), "it is not remembered");
}

#[tokio::test]
async fn wound_a1_a_schema_is_read_while_checks_take_their_time() {
    let schemas = Arc::new(Schemas::default());
    let mut taken = Vec::new();
    for _ in 0..CHECKS_OF_UPSTREAM_MAX {
        taken.push(schemas.checks.take("up".to_owned()).await);
    }
    assert!(checking(&schemas, &tool(json!({}))).await.unwrap().is_usable());
}

#[tokio::test]
async fn wound_a1_a_tool_that_is_too_large_is_not_remembered() {
    let schemas = Arc::new(Schemas::default());
    let small = tool(json!({}));
    checking(&schemas, &small).await.unwrap();
    for count in 0..SCHEMAS_MAX {
        let large = tool(json!({"description": "x".repeat(SCHEMA_BYTES_MAX + count)}));
        assert!(!checking(&schemas, &large).await.unwrap().is_usable());
    }
    checking(&schemas, &small).await.unwrap();
    assert_eq!(schemas.read_count(), 1);
}
