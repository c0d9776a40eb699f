//! Subscriptions of streams, as the configuration bounds them, and the targets of their webhooks.

use std::net::SocketAddr;
use std::sync::Arc;

use handback_store::Kv;
use handback_stream::SigningKey;
use handback_surface::streams::{SubscriptionQuotas, SubscriptionSettings, WebhookTargets};
use handback_tool::Quota;

use crate::config::ServerConfig;
use crate::identity::{FetchError, client_config};

/// The settings of subscriptions of a server that listens at an address.
pub(crate) fn settings(
    config: &ServerConfig,
    address: SocketAddr,
    kv: Arc<dyn Kv>,
    key: SigningKey,
) -> Result<SubscriptionSettings, FetchError> {
    let limits = &config.limits;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    Ok(SubscriptionSettings {
        kv,
        key,
        targets: targets(config, address)?,
        base: format!("{scheme}://{address}"),
        quotas: SubscriptionQuotas {
            count: Quota::new(limits.subscriptions, limits.caller_share),
            bytes: Quota::new(limits.subscription_bytes, limits.caller_share),
        },
    })
}

/// The targets of webhooks. Where callers are identified, only the
/// configuration opens a target: a caller that reaches this machine only through the server must not
/// reach its other services through it.
fn targets(config: &ServerConfig, address: SocketAddr) -> Result<WebhookTargets, FetchError> {
    let patterns = config.webhooks.targets.clone();
    let needs_tls = patterns.iter().any(|pattern| pattern.is_tls());
    let targets = if config.identity.is_none() && patterns.is_empty() {
        WebhookTargets::loopback()
    } else {
        WebhookTargets::listed(patterns)
    };
    let targets = targets.own_address(address);
    let targets = config.hosts.iter().fold(targets, |targets, host| targets.own_host(host));
    if !needs_tls {
        return Ok(targets);
    }
    Ok(targets.tls(Arc::new(client_config(config.webhooks.ca_file.as_ref())?)))
}
