//! A check of the upstreams at the start: those that cannot be reached are warnings, with cause and address.

use handback_gateway::upstream::{Spec, unreached};

use crate::config::ServerConfig;

/// Checks all upstreams in the background.
pub(crate) fn check(config: &ServerConfig) {
    for allowed in &config.gateway.directions {
        for name in [&allowed.from, &allowed.to] {
            if !config.upstreams.iter().any(|spec| spec.name == *name) {
                tracing::warn!(upstream = %name, "gateway.references: there is no such upstream");
            }
        }
    }
    for spec in &config.upstreams {
        let Spec { name, place, .. } = spec.clone();
        tokio::spawn(async move {
            if let Some(unreached) = unreached(&place).await {
                let (address, cause) = (unreached.address, unreached.cause);
                tracing::warn!(upstream = %name, %address, %cause, "cannot reach an upstream");
            }
        });
    }
}
