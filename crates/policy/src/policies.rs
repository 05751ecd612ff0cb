//! The policies, one per file. Each file cites the paper and section that it follows.

pub mod a_steal;
pub mod abp;
pub mod abp_eq;
pub mod abp_mug;
pub mod bws;
pub mod bws_busy_wakes;
pub mod comity;
pub mod delay_yield;
pub mod dws;
pub mod dws_nc;
pub mod equipartition;
pub mod plain;
pub mod robinhood;
pub mod selective_yield;
pub mod ws_last;
pub mod wsgi;
