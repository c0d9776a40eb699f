//! Names of schemas, and what references refer to.

use std::borrow::Cow;

use referencing::{Uri, unescape_segment, uri};
use serde_json::Value;

use super::draft::{Draft, published};
use super::error::Unusable;
use super::read::{Origin, Reader};
use super::table::{NodeId, Resource, ResourceId};

/// Bytes of an address. Every resource has its whole one.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Resources of a schema: subschemas with a name of their own. Bundles have some dozens.
const RESOURCES_MAX: usize = 1_000;

/// A place that a reference refers to.
pub(super) struct Target {
    pub(super) node: NodeId,
    /// The name of a dynamic anchor, if the reference has one.
    pub(super) dynamic_anchor: Option<String>,
}

impl<'v> Reader<'v, '_> {
    pub(super) fn add_resource(
        &mut self,
        root: &'v Value,
        node: NodeId,
        base: Uri<String>,
        draft: Draft,
    ) -> ResourceId {
        let id = ResourceId(self.resources.len());
        let is_recursive = root.get("$recursiveAnchor") == Some(&Value::Bool(true));
        self.by_uri.entry(base.as_str().to_owned()).or_insert(id);
        self.origins.push(Origin { base, root });
        self.resources.push(Resource {
            root: node,
            draft,
            anchors: [].into(),
            dynamic_anchors: [].into(),
            is_recursive,
        });
        id
    }

    /// Takes the names that a subschema gives itself; gives the resource that it is in.
    pub(super) fn enter(
        &mut self,
        value: &'v Value,
        node: NodeId,
        within: ResourceId,
    ) -> Result<ResourceId, Unusable> {
        let Value::Object(schema) = value else { return Ok(within) };
        let draft = match schema.get("$schema").and_then(Value::as_str) {
            Some(name) => Draft::of(name).ok_or(Unusable::UnknownDraft)?,
            None => self.draft(within),
        };
        let mut resource = within;
        if let Some(id) = draft.id(schema) {
            let id = id.as_str().ok_or(Unusable::Malformed)?;
            let (address, anchor) = id.split_once('#').unwrap_or((id, ""));
            if !address.is_empty() {
                if self.resources.len() >= RESOURCES_MAX {
                    return Err(Unusable::TooLarge);
                }
                let base = self.resolved(within, address)?;
                // A published meta-schema names itself as it was referred to.
                if !self.is_root(within, value, &base) {
                    resource = self.add_resource(value, node, base, draft);
                }
            }
            if !anchor.is_empty() && draft <= Draft::Seven {
                self.add_anchor(resource, anchor, node);
            }
        }
        let name = |keyword: &str, since: Draft| {
            schema.get(keyword).filter(|_| draft >= since).and_then(Value::as_str)
        };
        if let Some(name) = name("$anchor", Draft::Draft201909) {
            self.add_anchor(resource, name, node);
        }
        if let Some(name) = name("$dynamicAnchor", Draft::Draft202012) {
            self.add_anchor(resource, name, node);
            if let Some(resource) = self.resources.get_mut(resource.0) {
                resource.dynamic_anchors.insert(name.to_owned(), node);
            }
        }
        Ok(resource)
    }

    /// Reports that a value is the root of a resource, under the address of that.
    fn is_root(&self, resource: ResourceId, value: &Value, base: &Uri<String>) -> bool {
        let origin = self.origins.get(resource.0);
        origin.is_some_and(|origin| {
            std::ptr::eq(origin.root, value) && origin.base.as_str() == base.as_str()
        })
    }

    fn add_anchor(&mut self, resource: ResourceId, name: &str, node: NodeId) {
        if let Some(resource) = self.resources.get_mut(resource.0) {
            resource.anchors.insert(name.to_owned(), node);
        }
    }

    /// An address in full.
    fn resolved(&self, within: ResourceId, address: &str) -> Result<Uri<String>, Unusable> {
        let origin = self.origins.get(within.0).ok_or(Unusable::Malformed)?;
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let resolved = uri::resolve_against(&origin.base.borrow(), address);
        let resolved = resolved.map_err(|_| Unusable::Malformed)?;
        match resolved.as_str().len() > ADDRESS_BYTES_MAX {
            true => Err(Unusable::TooLarge),
            false => Ok(resolved),
        }
    }

    /// The target of a reference in a resource.
    pub(super) fn target(
        &mut self,
        within: ResourceId,
        reference: &str,
    ) -> Result<Target, Unusable> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match address {
            "" => within,
            address => self.resource(within, address)?,
        };
        let origin = self.origins.get(resource.0).cloned().ok_or(Unusable::Elsewhere)?;
        let fragment = percent_encoding::percent_decode_str(fragment);
        let fragment = fragment.decode_utf8().map_err(|_| Unusable::Malformed)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            let node = self.pointed(resource, origin.root, &fragment)?;
            return Ok(Target { node, dynamic_anchor: None });
        }
        let found = self.resources.get(resource.0).ok_or(Unusable::Elsewhere)?;
        let node = *found.anchors.get(&*fragment).ok_or(Unusable::Elsewhere)?;
        let is_dynamic = found.dynamic_anchors.get(&*fragment) == Some(&node);
        let dynamic_anchor = is_dynamic.then(|| fragment.into_owned());
        Ok(Target { node, dynamic_anchor })
    }

    /// The resource of an address: one of this schema, or a published meta-schema.
    fn resource(&mut self, within: ResourceId, address: &str) -> Result<ResourceId, Unusable> {
        let full = self.resolved(within, address)?;
        if let Some(known) = self.by_uri.get(full.as_str()) {
            return Ok(*known);
        }
        let (document, draft) = published(full.as_str()).ok_or(Unusable::Elsewhere)?;
        let key = full.as_str().to_owned();
        self.document(document, full, draft)?;
        self.by_uri.get(&key).copied().ok_or(Unusable::Elsewhere)
    }

    /// The subschema at a JSON pointer, counted from the root of a resource.
    fn pointed(
        &mut self,
        resource: ResourceId,
        root: &'v Value,
        pointer: &str,
    ) -> Result<NodeId, Unusable> {
        let (mut at, mut within) = (root, resource);
        for token in pointer.split('/').skip(1) {
            let name: Cow<'_, str> = unescape_segment(token);
            let next = match at {
                Value::Object(members) => members.get(&*name),
                Value::Array(items) => name.parse().ok().and_then(|at: usize| items.get(at)),
                _ => None,
            };
            at = next.ok_or(Unusable::Elsewhere)?;
            within = self.resource_of(at).unwrap_or(within);
        }
        match at {
            Value::Object(_) | Value::Bool(_) => self.subschema(at, within),
            _ => Err(Unusable::Malformed),
        }
    }
}
