//! Tools that break, hang, and give what is none.

use std::time::Duration;

use bytes::Bytes;
use handback_tool::{
    CallContext, Content, Definition, Outcome, Registry, TaskMode, Tool, ToolError,
};
use serde_json::Value;

/// Bytes of a result that nobody can want.
pub(crate) const FLOOD_BYTES: usize = 1 << 30;

/// How long they may take.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// Longer than is waited for a tool that does not let go of its thread.
const BLOCKED: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bad {
    Panics,
    Hangs,
    Blocks,
    /// A gigabyte of text.
    Floods,
    /// A gigabyte in a JSON value.
    FloodsJson,
    /// A JSON text that is none.
    Garbles,
    /// A JSON text that is no text.
    GarblesBytes,
}

impl Bad {
    pub(crate) const ALL: [Self; 7] = [
        Self::Panics,
        Self::Hangs,
        Self::Blocks,
        Self::Floods,
        Self::FloodsJson,
        Self::Garbles,
        Self::GarblesBytes,
    ];

    pub(crate) fn name(self) -> String {
        format!("bad_{self:?}")
    }
}

pub(crate) fn register(registry: &mut Registry) {
    for bad in Bad::ALL {
        registry.add(bad).unwrap();
    }
}

impl Tool for Bad {
    type Args = Value;

    fn definition(&self) -> Definition {
        let definition = Definition::tool(self.name(), "Is no good.").tasks(TaskMode::Never);
        match self {
            Self::Hangs | Self::Blocks => definition.time_limit(TIME_LIMIT),
            _ => definition,
        }
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        let raw = |bytes: &'static [u8]| Ok(Outcome::Done(Content::Raw(Bytes::from_static(bytes))));
        match self {
            Self::Panics => panic!("this tool always does"),
            Self::Hangs => std::future::pending().await,
            Self::Blocks => {
                std::thread::sleep(BLOCKED);
                Ok(Outcome::text("too late"))
            }
            Self::Floods => Ok(Outcome::text("x".repeat(FLOOD_BYTES))),
            Self::FloodsJson => Ok(Outcome::Done(Content::Value("x".repeat(FLOOD_BYTES).into()))),
            Self::Garbles => raw(b"{\"open\": [1, 2"),
            Self::GarblesBytes => raw(b"\"\xff\xfe\""),
        }
    }
}
