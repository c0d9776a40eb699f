//! Properties of the binding format, over all strings.

use handback_identity::{
    UnixPeers, VerifiedPrincipal,
    binding::{self, UNAUTHENTICATED_SENTINEL},
};
use proptest::prelude::*;

use crate::support::*;

/// A half of a binding: not empty, no NUL.
fn half() -> impl Strategy<Value = String> {
    "[^\0]{1,40}"
}

/// Text in which NUL, the sentinel and empty halves are frequent.
fn stored() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\0ab]{0,6}",
        Just(UNAUTHENTICATED_SENTINEL.to_owned()),
        "unauthenticated[\0a]{0,2}",
    ]
}

proptest! {
    #[test]
    fn written_value_is_read_back(iss in half(), sub in half()) {
        let stored = binding::format(&iss, &sub).unwrap();
        prop_assert_eq!(stored.split_once('\0'), Some((iss.as_str(), sub.as_str())));
        prop_assert_eq!(stored.matches('\0').count(), 1);
        prop_assert!(binding::parse(&stored).is_some());
        prop_assert!(!binding::is_unauthenticated(&stored));
    }

    #[test]
    fn writes_exactly_the_valid_halves(iss in stored(), sub in stored()) {
        let valid = |half: &str| !half.is_empty() && !half.contains('\0');
        prop_assert_eq!(binding::format(&iss, &sub).is_ok(), valid(&iss) && valid(&sub));
    }

    #[test]
    fn reads_exactly_what_is_written(stored in stored()) {
        let halves: Vec<_> = stored.split('\0').collect();
        let written = match halves.as_slice() {
            [iss, sub] => binding::format(iss, sub).ok(),
            _ => None,
        };
        prop_assert_eq!(binding::parse(&stored).is_some(), written.as_ref() == Some(&stored));
    }

    #[test]
    fn no_value_is_of_both_kinds(stored in stored()) {
        prop_assert!(!(binding::is_unauthenticated(&stored) && binding::parse(&stored).is_some()));
    }

    #[test]
    fn stored_value_matches_only_its_own_principal(stored in stored(), uid in any::<u32>()) {
        let peer = UnixPeers::new("a").unwrap().principal(uid);
        let nobody = VerifiedPrincipal::unauthenticated();
        prop_assert_eq!(binding::stored_matches(&stored, &peer), stored == peer.binding());
        prop_assert_eq!(binding::stored_matches(&stored, &nobody), stored == nobody.binding());
    }

    #[test]
    fn principal_of_a_token_is_bound_to_issuer_and_subject(sub in half(), other in half()) {
        let principal = |sub: &str| {
            validate(&es256_token(&claims_with("sub", sub.into()))).unwrap().principal().clone()
        };
        let stored = binding::format(ISSUER, &sub).unwrap();
        prop_assert_eq!(&principal(&sub).binding(), &stored);
        prop_assert!(binding::stored_matches(&stored, &principal(&sub)));
        prop_assert_eq!(binding::stored_matches(&stored, &principal(&other)), sub == other);
    }
}
