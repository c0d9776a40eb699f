//! Who may use which tool.
//!
//! Two things must hold. The caller has every scope that the tool itself asks for. And the rules of
//! the operator let it:
//!
//! 1. If a rule that fits the caller denies the tool, it is denied. Nothing outweighs that.
//! 2. Otherwise, if a rule that fits the caller allows the tool, it is allowed.
//! 3. Otherwise the default decides: [`DefaultAccess::Identified`], everyone whom the
//!    listener lets in, as long as no rule allows anything; and [`DefaultAccess::Nobody`] from the
//!    first such rule on, as whoever lists what is allowed means that the rest is not. The operator
//!    can state another default.
//!
//! A rule fits a caller if one of its subjects matches, one of its issuers matches, and the caller
//! has all of its scopes; what a rule does not name, it does not ask for. Callers whom nobody could
//! grant scopes (mode `none`, peers of a socket) have all that is asked for to be allowed; a rule
//! that denies by scope fits only who was granted that scope by name.
//!
//! What a caller may not use is to be absent from its lists, and to answer as if it were not there.
//!
//! # Example
//!
//! ```
//! use handback_identity::permissions::{Permissions, Rule};
//! use handback_identity::{Caller, Glob};
//!
//! let permissions = Permissions::new([
//!     Rule::allow([Glob::new("shop.*")?]).subjects([Glob::new("*")?]),
//!     Rule::deny([Glob::new("*.delete")?]),
//! ]);
//! # let caller = handback_identity::UnixPeers::new("s")?.caller(1000);
//! assert!(permissions.allows(&caller, "shop.list", &["read"]));
//! assert!(!permissions.allows(&caller, "shop.delete", &["read"]));
//! assert!(!permissions.allows(&caller, "bank.list", &["read"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::caller::Caller;
use crate::glob::Glob;

/// The rules of an operator about tools.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Permissions {
    rules: Vec<Rule>,
    default: Option<DefaultAccess>,
}

/// Who may use what no rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DefaultAccess {
    /// Every caller that the listener let in: anyone in mode `none`, else whoever was identified.
    Identified,
    /// Nobody.
    Nobody,
}

impl Permissions {
    /// These rules, whose order does not matter.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), default: None }
    }

    /// With a default that does not depend on the rules.
    pub const fn with_default(mut self, default: DefaultAccess) -> Self {
        self.default = Some(default);
        self
    }

    /// Whether this caller may use this tool, which needs these scopes.
    #[must_use]
    pub fn allows<S: AsRef<str>>(&self, caller: &Caller, tool: &str, needed: &[S]) -> bool {
        needed.iter().all(|scope| caller.scopes().grant(scope.as_ref()))
            && self.allows_by_names(caller, &[tool], &[])
    }

    /// Whether this caller may use something that has several names. It is denied by any of them;
    /// only by one of `names`, and not by an alias, it is allowed: an alias is a name that somebody
    /// else may have chosen.
    #[must_use]
    pub fn allows_by_names(&self, caller: &Caller, names: &[&str], aliases: &[&str]) -> bool {
        let says = |effect, names: &[&str]| {
            let mut rules = self.rules.iter().filter(|rule| rule.effect == effect);
            rules.any(|rule| names.iter().any(|name| rule.covers(name)) && rule.fits(caller))
        };
        let is_denied = says(Effect::Deny, names) || says(Effect::Deny, aliases);
        !is_denied
            && (says(Effect::Allow, names) || self.default_access() == DefaultAccess::Identified)
    }

    /// What holds where no rule speaks.
    #[must_use]
    pub fn default_access(&self) -> DefaultAccess {
        let is_list = self.rules.iter().any(|rule| rule.effect == Effect::Allow);
        let implied = if is_list { DefaultAccess::Nobody } else { DefaultAccess::Identified };
        self.default.unwrap_or(implied)
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// One rule: some tools are allowed, or denied, to some callers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Rule {
    effect: Effect,
    tools: Vec<Glob>,
    subjects: Vec<Glob>,
    issuers: Vec<Glob>,
    scopes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

impl Rule {
    /// Allows these tools to all callers, unless narrowed.
    pub fn allow(tools: impl IntoIterator<Item = Glob>) -> Self {
        Self::new(Effect::Allow, tools)
    }

    /// Denies these tools to all callers, unless narrowed.
    pub fn deny(tools: impl IntoIterator<Item = Glob>) -> Self {
        Self::new(Effect::Deny, tools)
    }

    /// Only for callers whose subject matches one of these.
    pub fn subjects(mut self, subjects: impl IntoIterator<Item = Glob>) -> Self {
        self.subjects.extend(subjects);
        self
    }

    /// Only for callers whose issuer matches one of these.
    pub fn issuers(mut self, issuers: impl IntoIterator<Item = Glob>) -> Self {
        self.issuers.extend(issuers);
        self
    }

    /// Only for callers with all of these scopes.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    fn new(effect: Effect, tools: impl IntoIterator<Item = Glob>) -> Self {
        let tools = tools.into_iter().collect();
        Self { effect, tools, subjects: Vec::new(), issuers: Vec::new(), scopes: Vec::new() }
    }

    fn covers(&self, tool: &str) -> bool {
        self.tools.iter().any(|glob| glob.matches(tool))
    }

    fn fits(&self, caller: &Caller) -> bool {
        let principal = caller.principal();
        let has = |scope: &String| match self.effect {
            Effect::Allow => caller.scopes().grant(scope),
            Effect::Deny => caller.scopes().name(scope),
        };
        is_one_of(&self.subjects, principal.subject())
            && is_one_of(&self.issuers, principal.issuer())
            && self.scopes.iter().all(has)
    }
}

/// Whether a value is there and matches, or nothing is asked for.
fn is_one_of(globs: &[Glob], value: Option<&str>) -> bool {
    globs.is_empty() || value.is_some_and(|value| globs.iter().any(|glob| glob.matches(value)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::principal::{Issuer, Subject, VerifiedPrincipal};
    use crate::scopes::Scopes;

    fn caller(subject: &str, scopes: &[&str]) -> Caller {
        let issuer = Issuer::new("static:s").unwrap();
        let principal = VerifiedPrincipal::identified(&issuer, &Subject::new(subject).unwrap());
        Caller::new(principal, Scopes::new(scopes).unwrap(), None)
    }

    fn globs(patterns: &[&str]) -> Vec<Glob> {
        patterns.iter().map(|pattern| Glob::new(pattern).unwrap()).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn without_rules_whoever_is_let_in_may_use_everything() {
        let permissions = Permissions::default();
        assert!(permissions.allows(&caller("alice", &[]), "t", &NONE));
        assert!(permissions.allows(&Caller::unauthenticated(), "t", &["any"]));
        assert!(!permissions.allows(&caller("alice", &["read"]), "t", &["read", "write"]));
        assert!(permissions.allows(&caller("alice", &["read", "write"]), "t", &["write"]));
        let closed = Permissions::default().with_default(DefaultAccess::Nobody);
        assert!(!closed.allows(&caller("alice", &[]), "t", &NONE));
    }

    #[test]
    fn a_rule_that_allows_closes_the_rest() {
        let rule = Rule::allow(globs(&["shop.*"])).subjects(globs(&["ali*"]));
        let permissions = Permissions::new([rule.clone()]);
        assert!(permissions.allows(&caller("alice", &[]), "shop.list", &NONE));
        assert!(!permissions.allows(&caller("bob", &[]), "shop.list", &NONE));
        assert!(!permissions.allows(&caller("alice", &[]), "bank.list", &NONE));
        assert!(!permissions.allows(&Caller::unauthenticated(), "shop.list", &NONE));
        let open = Permissions::new([rule]).with_default(DefaultAccess::Identified);
        assert!(open.allows(&caller("bob", &[]), "bank.list", &NONE));
    }

    #[test]
    fn scopes_and_issuers_narrow_a_rule() {
        let rule =
            Rule::allow(globs(&["*"])).scopes(["read", "shop"]).issuers(globs(&["static:*"]));
        let permissions = Permissions::new([rule]);
        assert!(permissions.allows(&caller("a", &["read", "shop"]), "t", &NONE));
        assert!(!permissions.allows(&caller("a", &["read"]), "t", &NONE));
        let peer = crate::UnixPeers::new("s").unwrap().caller(0);
        assert!(!permissions.allows(&peer, "t", &NONE));
    }

    #[test]
    fn denial_by_scope_fits_only_who_was_granted_it_by_name() {
        let permissions = Permissions::new([Rule::deny(globs(&["*.delete"])).scopes(["guest"])]);
        assert!(!permissions.allows(&caller("a", &["guest"]), "shop.delete", &NONE));
        assert!(permissions.allows(&caller("a", &["read"]), "shop.delete", &NONE));
        assert!(permissions.allows(&Caller::unauthenticated(), "shop.delete", &NONE));
    }

    #[test]
    fn a_rule_without_tools_says_nothing() {
        let permissions = Permissions::new([Rule::deny([])]);
        assert!(permissions.allows(&caller("a", &[]), "t", &NONE));
    }

    const WORDS: [&str; 3] = ["a", "b", "ab"];

    fn word() -> impl Strategy<Value = String> {
        proptest::sample::select(&WORDS[..]).prop_map(str::to_owned)
    }

    fn some_globs() -> impl Strategy<Value = Vec<Glob>> {
        let pattern = proptest::sample::select(&["a", "b", "a*", "*b", "*", "?"][..]);
        proptest::collection::vec(pattern.prop_map(|text| Glob::new(text).unwrap()), 0..3)
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let scopes = proptest::collection::vec(word(), 0..2);
        (any::<bool>(), some_globs(), some_globs(), scopes).prop_map(
            |(is_allow, tools, subjects, scopes)| {
                let rule = if is_allow { Rule::allow(tools) } else { Rule::deny(tools) };
                rule.subjects(subjects).scopes(scopes)
            },
        )
    }

    fn any_caller() -> impl Strategy<Value = Caller> {
        let identified =
            (word(), proptest::collection::vec(word(), 0..3)).prop_map(|(subject, scopes)| {
                let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
                caller(&subject, &scopes)
            });
        prop_oneof![4 => identified, 1 => Just(Caller::unauthenticated())]
    }

    proptest! {
        #[test]
        fn a_further_denial_never_allows(
            rules in proptest::collection::vec(rule(), 0..5),
            denial in rule(),
            caller in any_caller(),
            tool in word(),
            needed in proptest::collection::vec(word(), 0..2),
        ) {
            let denial = Rule { effect: Effect::Deny, ..denial };
            let before = Permissions::new(rules.clone()).allows(&caller, &tool, &needed);
            let more = [rules, vec![denial.clone()]].concat();
            let after = Permissions::new(more).allows(&caller, &tool, &needed);
            prop_assert!(before || !after);
            if denial.covers(&tool) && denial.fits(&caller) {
                prop_assert!(!after);
            }
        }

        #[test]
        fn the_order_of_rules_does_not_matter(
            rules in proptest::collection::vec(rule(), 0..5),
            caller in any_caller(),
            tool in word(),
        ) {
            let mut reversed = rules.clone();
            reversed.reverse();
            prop_assert_eq!(
                Permissions::new(rules).allows(&caller, &tool, &NONE),
                Permissions::new(reversed).allows(&caller, &tool, &NONE)
            );
        }

        #[test]
        fn nobody_gets_a_tool_without_the_scopes_that_it_needs(
            rules in proptest::collection::vec(rule(), 0..5),
            caller in any_caller(),
            tool in word(),
            needed in word(),
        ) {
            let is_allowed = Permissions::new(rules).allows(&caller, &tool, &[&needed]);
            prop_assert!(!is_allowed || caller.scopes().grant(&needed));
        }

        #[test]
        fn needing_less_never_denies(
            rules in proptest::collection::vec(rule(), 0..5),
            caller in any_caller(),
            tool in word(),
            needed in proptest::collection::vec(word(), 1..3),
        ) {
            let permissions = Permissions::new(rules);
            if permissions.allows(&caller, &tool, &needed) {
                prop_assert!(permissions.allows(&caller, &tool, &needed[1..]));
            }
        }
    }
}
