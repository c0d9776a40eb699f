//! The exit codes of `handback`: part of its interface, and never renumbered.

use std::process::ExitCode;

/// What the process answers to whoever started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// The command did what it was asked for. A reader that went away early does not change that.
    pub(crate) const OK: Self = Self(0);

    /// The command could not do what it was asked for; the message on stderr says why.
    pub(crate) const FAILURE: Self = Self(1);

    /// The command line is wrong, or lacks a flag that the command insists on.
    pub(crate) const USAGE: Self = Self(2);

    /// The command worked, and its answer is that the token is refused.
    pub(crate) const REFUSED: Self = Self(3);

    /// The command worked, and its answer is that the server does not prove what it says.
    pub(crate) const UNPROVED: Self = Self(4);

    /// The command worked, and its answer is that the store is damaged.
    pub(crate) const DAMAGED: Self = Self(5);

    /// The wrapped server was started, and never came up.
    pub(crate) const NEVER_UP: Self = Self(6);
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.0.into()
    }
}
