//! Which values may go where.

/// Stands for every upstream in a rule.
pub const ANY: &str = "*";

/// Stands in a rule for values that no upstream made: those of our own tools. No upstream may have
/// this name.
pub const OWN: &str = "handback";

/// Bytes of all values of one call, if nothing else is configured: a message of this size is taken by
/// most servers, and it is in memory for as long as the call is made.
pub const DEFAULT_BYTES_MAX: u64 = 8 << 20;

/// What may be passed by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Rules {
    /// Directions beside the one back to where a value came from.
    pub allowed: Vec<Allowed>,
    /// Bytes of all values of one call.
    pub bytes_max: u64,
}

/// A direction in which values may go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Allowed {
    /// The upstream that made a value; [`ANY`] for each of them, which those of our own tools are not
    /// among; [`OWN`] for those.
    pub from: String,
    /// The upstream that gets it; [`ANY`] for each of them.
    pub to: String,
}

impl Default for Rules {
    /// Nothing goes elsewhere.
    fn default() -> Self {
        Self { allowed: Vec::new(), bytes_max: DEFAULT_BYTES_MAX }
    }
}

impl Rules {
    /// Whether a value of this upstream, or of none, may go to that one.
    #[must_use]
    pub fn allow(&self, from: Option<&str>, to: &str) -> bool {
        from == Some(to) || self.allowed.iter().any(|rule| rule.covers(from, to))
    }
}

impl Allowed {
    fn covers(&self, from: Option<&str>, to: &str) -> bool {
        let from = match from {
            None => self.from == OWN,
            // An upstream that has the name nevertheless gets nothing by it.
            Some(from) => self.from == ANY || (self.from == from && from != OWN),
        };
        from && (self.to == ANY || self.to == to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_came_from_unless_a_rule_says_otherwise() {
        let rule = |from: &str, to: &str| Allowed { from: from.to_owned(), to: to.to_owned() };
        let rules = |allowed: &[Allowed]| Rules { allowed: allowed.to_vec(), ..Rules::default() };
        let none = Rules::default();
        assert!(none.allow(Some("a"), "a"));
        for from in [None, Some("b"), Some(OWN), Some(""), Some(ANY)] {
            assert!(!none.allow(from, "a"), "{from:?}");
        }
        let one = rules(&[rule("a", "b")]);
        assert!(one.allow(Some("a"), "b") && one.allow(Some("b"), "b"));
        assert!(!one.allow(Some("b"), "a") && !one.allow(Some("a"), "c") && !one.allow(None, "b"));
        let to_any = rules(&[rule("a", ANY)]);
        assert!(to_any.allow(Some("a"), "c") && !to_any.allow(Some("b"), "c"));
        let from_any = rules(&[rule(ANY, "c")]);
        assert!(from_any.allow(Some("a"), "c") && !from_any.allow(Some("a"), "b"));
        assert!(!from_any.allow(None, "c"), "our own are named");
        let own = rules(&[rule(OWN, "c")]);
        assert!(own.allow(None, "c") && !own.allow(None, "b") && !own.allow(Some(OWN), "c"));
        assert!(rules(&[rule(OWN, ANY)]).allow(None, "b"));
    }
}
