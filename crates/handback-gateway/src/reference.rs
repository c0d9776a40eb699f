//! Arguments that name held values.
