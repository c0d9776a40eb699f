//! An engine that fails by plan, for simulations.
//!
//! A [`FaultyDisk`] is what a machine keeps when a process on it dies; a [`FaultyStore`] is that
//! process's view of it. A [`FaultPlan`] says which write meets what, by number or by chance, and a seed
//! settles everything that a real disk would leave to luck: the same plan gives the same run, however
//! often. It is all in memory, so that thousands of crashes take a moment.
//!
//! The disk is modelled as bytes: a crash leaves any subset of the sectors that were not synced, some
//! of them torn. As with every engine, a write is there as a whole or not at all all the same, and an
//! acknowledged one stays. [`FaultPlan::unchecked`] and [`FaultPlan::forgetful`] break these
//! promises, to show that a test would notice. An [`Image`] does the same to the files of a real
//! engine.
//!
//! ```
//! use handback_store::faulty::{Fault, FaultPlan, FaultyDisk};
//! use handback_store::{Batch, Log, LogId, Record};
//!
//! let disk = FaultyDisk::new(FaultPlan::new(7).fault(1, Fault::Crash));
//! let store = disk.open();
//! let log = LogId::from_bytes([1; 24]);
//! let append = |number| {
//!     let record = Record { log, number, bytes: "x".into() };
//!     store.commit(&Batch { records: vec![record], ..Batch::default() })
//! };
//! assert!(append(0).is_ok());
//! assert!(append(1).is_err() && disk.is_crashed());
//! let last = disk.open().last(log)?.unwrap();
//! assert!(last.number <= 1, "the second is there as a whole, or is not");
//! # Ok::<(), handback_store::StoreError>(())
//! ```

mod disk;
mod image;
mod journal;
mod plan;
mod store;

pub use disk::FaultyDisk;
pub use image::Image;
pub use plan::{Fault, FaultPlan};
pub use store::FaultyStore;
