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
async fn wound_a1_one_upstream_leaves_threads_for_another() {
    use futures_util::FutureExt as _;
    let schemas = Schemas::default();
    let mut taken = Vec::new();
    for _ in 0..JOBS_OF_UPSTREAM_MAX {
        taken.push(schemas.job("hostile").await);
    }
    assert!(schemas.job("hostile").now_or_never().is_none());
    assert!(schemas.job("other").now_or_never().is_some());
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
    for _ in 0..JOBS_OF_UPSTREAM_MAX {
        taken.push(schemas.job("up").await);
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
