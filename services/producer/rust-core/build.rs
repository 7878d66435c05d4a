//! The query is checked against the committed data in `.sqlx`, also where a DATABASE_URL happens to be set. To make that
//! data again: `make producers-sqlx`.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=PRODUCER_SQLX_PREPARE");
    println!("cargo:rerun-if-changed=.sqlx");
    println!("cargo:rerun-if-changed=../sql/store_event.sql");
    if env::var_os("PRODUCER_SQLX_PREPARE").is_none() {
        println!("cargo:rustc-env=SQLX_OFFLINE=true");
    }
}
