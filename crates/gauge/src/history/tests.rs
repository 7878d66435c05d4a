use std::ffi::OsString;

use super::target::Target;

fn find(option: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<(String, String, bool)>, String> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let target = Target::from(option, variable).map_err(|error| error.to_string())?;
    Ok(target.map(|target| (target.url(), target.to_string(), target.requested)))
}

#[test]
fn the_option_goes_before_the_variables_and_they_before_the_file_of_the_user() {
    let own = |url: &str, shown: &str, requested| Ok(Some((url.to_owned(), shown.to_owned(), requested)));
    let home = [("HOME", "/home/me")];
    let default = "/home/me/.local/share/gauge/history.db";
    assert_eq!(find(None, &home), own(&format!("sqlite://{default}?mode=rwc"), default, false));
    let data = [("HOME", "/home/me"), ("XDG_DATA_HOME", "/data"), ("DB_HOST", ""), ("DB_NAME", "other")];
    assert_eq!(find(None, &data), own("sqlite:///data/gauge/history.db?mode=rwc", "/data/gauge/history.db", false));
    // XDG Base Directory Specification: a relative path is ignored.
    assert_eq!(find(None, &[("HOME", "/home/me"), ("XDG_DATA_HOME", "data")]), find(None, &home));
    assert_eq!(find(Some("a b?.db"), &home), own("sqlite://a%20b%3F.db?mode=rwc", "a b?.db", true));
    let database = [("HOME", "/home/me"), ("DB_HOST", "db"), ("DB_PASSWORD", "p@s/s:")];
    let plain = own("postgres://postgres:p%40s%2Fs%3A@db:5432/gauge", "postgres://db:5432/gauge", true);
    assert_eq!(find(None, &database), plain);
    let all = [("DB_HOST", "::1"), ("DB_PORT", "5433"), ("DB_NAME", "runs"), ("DB_USER", "me")];
    assert_eq!(find(None, &all), own("postgres://me@[::1]:5433/runs", "postgres://[::1]:5433/runs", true));
    assert_eq!(find(Some("none"), &all), Ok(None));
    let url = "postgresql://me:secret@db/runs?password=secret";
    assert_eq!(find(Some(url), &all), own(url, "postgresql://db/runs", true));
}

#[test]
fn what_makes_no_sense_is_refused_without_the_password() {
    for (option, variables, expected) in [
        (Some(""), &[][..], "--store is empty"),
        (Some("mysql://me:secret@db/x"), &[], "--store mysql://db/x: expected a file"),
        (None, &[("DB_HOST", "db"), ("DB_PORT", "many")], "DB_PORT is `many`"),
        (None, &[], "neither XDG_DATA_HOME nor HOME"),
    ] {
        let error = find(option, variables).expect_err(expected);
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
}

/// A history of an earlier version, in which the workload was called mode.
#[test]
fn rows_of_earlier_versions_keep_their_workload_and_have_a_mode_where_it_is_known() {
    use super::{Filter, History, schema};
    use sqlx::{Connection as _, Executor as _};
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("history.db");
    let target = Target::find(file.to_str()).expect("a store").expect("one");
    sqlx::any::install_default_drivers();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut old = sqlx::AnyConnection::connect(&target.url()).await.expect("a database");
        for migration in &schema::MIGRATIONS[..2] {
            old.execute(sqlx::raw_sql(*migration)).await.expect("applied");
        }
        let rows = "CREATE TABLE gauge_schema (version BIGINT PRIMARY KEY);
            INSERT INTO gauge_schema VALUES (1), (2);
            INSERT INTO campaigns (id, name, status, started_unix_ms, gauge_version, host, directory, environment, document)
            VALUES ('c', 'old', 'done', 1, '0', 'h', '/', '{}', '{}');
            INSERT INTO test_runs (id, campaign_id, api, mode, round, status) VALUES
            ('c/1', 'c', 'rust', 'full', 1, 'done'), ('c/2', 'c', 'rust', 'write', 1, 'done')";
        old.execute(sqlx::raw_sql(rows)).await.expect("rows");
    });
    let history = History::open(&target).expect("migrated");
    let listed = |filter: Filter| -> Vec<(String, String)> {
        let groups = history.list(&filter).expect("a list").into_iter();
        groups.map(|group| (group.workload, group.mode)).collect()
    };
    let of = |workload: &str, mode: &str| (workload.to_owned(), mode.to_owned());
    assert_eq!(listed(Filter::default()), [of("full", "full"), of("write", "-")]);
    assert_eq!(listed(Filter { mode: Some("full".to_owned()), ..Filter::default() }), [of("full", "full")]);
    assert_eq!(listed(Filter { workload: Some("write".to_owned()), ..Filter::default() }), [of("write", "-")]);
    assert_eq!(listed(Filter { mode: Some("smoke".to_owned()), ..Filter::default() }), []);
    drop(history);
    assert_eq!(History::open(&target).expect("once").list(&Filter::default()).expect("a list").len(), 2);
}
