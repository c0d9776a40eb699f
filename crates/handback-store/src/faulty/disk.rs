//! What outlives a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal::Journal;
use super::plan::{Chance, Fault, FaultPlan};
use super::store::FaultyStore;
use crate::state::State;
use crate::{Batch, KvBatch, StoreError};

/// The disk of a machine, and the button that cuts its power.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    shared: Arc<Mutex<Disk>>,
}

impl FaultyDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(plan: FaultPlan) -> Self {
        let disk = Disk {
            chance: Chance::new(plan.seed),
            plan,
            written: State::default(),
            journal: Journal::default(),
            torn: 0,
            broken: None,
            life: 0,
            is_up: false,
            writes: 0,
            crashes: 0,
        };
        Self { shared: Arc::new(Mutex::new(disk)) }
    }

    /// Starts a process on this disk. If one still runs, it crashes.
    #[must_use]
    pub fn open(&self) -> FaultyStore {
        let mut disk = self.lock();
        if disk.is_up {
            disk.crash();
        }
        disk.is_up = true;
        disk.life += 1;
        FaultyStore { disk: self.clone(), life: disk.life }
    }

    /// Kills the process: what was not synced may be lost, and every store that was open fails from
    /// now on.
    pub fn crash(&self) {
        self.lock().crash();
    }

    /// Whether no process runs: none was started, or it crashed.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        !self.lock().is_up
    }

    /// How many writes there were, with those that failed.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How often a process was killed.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.lock().crashes
    }

    /// How many writes were on the disk in part when the power failed.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.lock().torn
    }

    /// Plans one more fault, for the write with this number; [`writes`](Self::writes) is the next one's.
    pub fn plan(&self, number: u64, fault: Fault) {
        let mut disk = self.lock();
        disk.plan = disk.plan.clone().fault(number, fault);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Disk> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Log(Batch),
    Values(KvBatch),
}

impl Write {
    pub(super) fn apply(&self, state: &mut State) {
        match self {
            Self::Log(batch) => state.apply(batch),
            Self::Values(batch) => state.apply_values(batch),
        }
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    plan: FaultPlan,
    chance: Chance,
    /// What the process reads.
    written: State,
    /// What the next one will find.
    journal: Journal,
    torn: u64,
    /// How many recoveries will fail, if the store is broken.
    broken: Option<u32>,
    life: u64,
    is_up: bool,
    writes: u64,
    crashes: u64,
}

impl Disk {
    /// What a process reads, if it still runs.
    pub(super) fn state(&self, life: u64) -> Result<&State, StoreError> {
        if !self.is_up || self.life != life {
            return Err(StoreError::Unavailable("the process has crashed".to_owned()));
        }
        if self.broken.is_some() {
            return Err(broken());
        }
        Ok(&self.written)
    }

    pub(super) fn write(&mut self, write: Write) -> Result<(), StoreError> {
        let number = self.writes;
        self.writes += 1;
        match self.plan.of(number, &mut self.chance) {
            None => {
                self.sync(&write);
                Ok(())
            }
            Some(Fault::Full) => Err(StoreError::Full),
            Some(Fault::Unavailable) => Err(StoreError::Unavailable("by plan".to_owned())),
            Some(Fault::Broken { stuck }) => {
                self.journal.write(&write);
                self.broken = Some(stuck);
                Err(broken())
            }
            Some(Fault::Crash) => {
                self.journal.write(&write);
                self.crash();
                Err(broken())
            }
            Some(Fault::CrashAfterSync) => {
                self.sync(&write);
                self.crash();
                Err(broken())
            }
        }
    }

    pub(super) fn recover(&mut self) -> Result<(), StoreError> {
        match self.broken {
            Some(0) => {
                self.broken = None;
                self.settle();
                Ok(())
            }
            Some(stuck) => {
                self.broken = Some(stuck - 1);
                Err(broken())
            }
            None => Ok(()),
        }
    }

    fn crash(&mut self) {
        self.settle();
        self.broken = None;
        self.is_up = false;
        self.crashes += 1;
    }

    /// Decides what became of what was not synced, and opens what there is.
    fn settle(&mut self) {
        self.torn += u64::from(self.journal.power_off(&mut self.chance) > 0);
        self.written = self.journal.open(self.plan.is_checked);
    }

    fn sync(&mut self, write: &Write) {
        write.apply(&mut self.written);
        self.journal.write(write);
        self.journal.sync(self.plan.forgotten);
    }
}

fn broken() -> StoreError {
    StoreError::Broken("by plan".to_owned())
}
