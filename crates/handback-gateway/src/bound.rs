//! Results that are over a client's budget.
