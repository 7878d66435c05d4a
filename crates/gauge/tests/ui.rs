//! `gauge ui` as a browser sees it: pages, who may see them, the way from a description to a run, and what is never done.

mod ui {
    mod access;
    mod pages;
    pub(crate) mod server;
    mod services;
    mod wizard;
}
#[path = "history/database.rs"]
#[allow(dead_code)]
mod database;
