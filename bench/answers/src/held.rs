//! What stands for the gateway until there is one: a server of Handback whose tools hold the data.
//! `--handback PROGRAM` takes the real one instead.

use std::path::Path;

use anyhow::Result;
use handback_page::aql::{Catalog, Settings};
use handback_server::prelude::*;
use handback_server::serve_stdio;

use crate::data::{DataSet, orders, results};

/// Serves on the standard streams, with its files in `folder`, until the input ends.
pub(crate) fn serve(folder: &Path) -> Result<()> {
    let mut config = ServerConfig::open(folder)?.collections(Catalog::new(), Settings::default());
    for data in DataSet::ALL {
        config = config.tool(Holding(data))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let uid = rustix::process::getuid().as_raw();
    Ok(runtime.block_on(serve_stdio(config, uid))?)
}

struct Holding(DataSet);

impl Tool for Holding {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool(self.0.tool(), self.0.about()).class(ToolClass::ReadOnly)
    }

    async fn call(&self, _: Value, ctx: &CallContext) -> ToolResult {
        // The list is what is read, wherever it is in the document.
        let (kind, bytes) = match self.0 {
            DataSet::Log | DataSet::Handbook => ("text/plain", self.0.text()),
            DataSet::Orders => (JSON, serde_json::to_string(&orders::all()).unwrap_or_default()),
            DataSet::Results => (JSON, serde_json::to_string(&results::all()).unwrap_or_default()),
            DataSet::Issues | DataSet::Config => (JSON, self.0.text()),
        };
        ctx.hold(kind, bytes).await
    }
}

const JSON: &str = "application/json";
