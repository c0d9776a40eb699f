//! What a run is asked for, and what it says.

/// What is broken on purpose, to see that the oracle notices; or, at the end, what is looked at that
/// is known not to hold yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// Nothing.
    No,
    /// Producer state is not derived from the records, but written down now and then.
    ProducersOutside,
    /// The disk forgets what it said was synced.
    Syncs,
    /// A write that the power tore is taken for a whole one.
    Torn,
    /// That a stream was deleted is not written down.
    Removals,
    /// Appends go to whatever stream has the name, not to the one that was meant.
    ByName,
    /// Streams end before their time.
    Early,
    /// Forks say that they were forked elsewhere.
    ForkHeads,
    /// Streams that should be encrypted are not.
    Clear,
    /// Whoever comes takes a duplex over, whatever was presented before.
    Tokens,
    /// The events of a chunk are written one by one.
    Piecemeal,
    /// Where a handler stood is not written down with its events.
    Position,
    /// The oracle is shown records without the signatures that prove them.
    Unsigned,
    /// Nothing, but streams must not live longer by each restart, only by one: they do.
    SlackOnce,
}

impl Broken {
    /// What is known not to hold.
    pub const KNOWN: [Self; 1] = [Self::SlackOnce];

    /// All that is broken on purpose.
    pub const ALL: [Self; 12] = [
        Self::ProducersOutside,
        Self::Syncs,
        Self::Torn,
        Self::Removals,
        Self::ByName,
        Self::Early,
        Self::ForkHeads,
        Self::Clear,
        Self::Tokens,
        Self::Piecemeal,
        Self::Position,
        Self::Unsigned,
    ];
}

/// What is below the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// A journal in memory, in sectors.
    Memory,
    /// The real engine, on a directory that is torn as a loss of power would.
    Embedded,
}

/// What happened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How often the server died.
    pub crashes: u64,
    /// How often the network, or a connection, was cut.
    pub cuts: u64,
    /// How many producers and duplexes were taken over.
    pub takeovers: u64,
    /// Writes that were on the disk in part when the power failed.
    pub torn: u64,
    /// Appends and chunks that were acknowledged.
    pub acked: u64,
    /// Streams that were created, forks among them.
    pub created: u64,
    /// Forks.
    pub forked: u64,
    /// Streams that were deleted.
    pub deleted: u64,
    /// Streams whose life ended.
    pub expired: u64,
    /// Streams that were closed.
    pub closed: u64,
    /// Appends of those who were fenced off, which were refused.
    pub fenced: u64,
    /// Tokens that were over, and refused.
    pub superseded: u64,
    /// Events that clients of duplexes received.
    pub events: u64,
    /// Records that were tampered with.
    pub tampered: u64,
    /// What should not have happened.
    pub faults: Vec<String>,
    /// A digest of everything that happened: the same for the same seed.
    pub trace: u64,
}

impl Report {
    /// How many faults are of a kind: `lost`, `duplicate`, `order`, `tampering`, `zombie`.
    #[must_use]
    pub fn count(&self, kind: &str) -> usize {
        let is_of = |fault: &&String| {
            fault.split_once(": ").is_some_and(|(_, fault)| fault.starts_with(kind))
        };
        self.faults.iter().filter(is_of).count()
    }
}
