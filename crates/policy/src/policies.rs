//! One file per policy; each cites the paper and section whose rule it is.

pub mod abp;
pub mod bws;
pub mod bws_busy_wakes;
pub mod comity;
pub mod delay_yield;
pub mod plain;
pub mod selective_yield;
pub mod wsgi;
