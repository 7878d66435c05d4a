//! The history as its user has it: in SQLite and in a real PostgreSQL, written by several programs at once, killed, and on a full disk.

mod history {
    pub(crate) mod database;
    mod full;
    mod killed;
    mod many;
    mod series;
    mod stored;
}
