//! Settings come from the environment; a value that cannot be used stops the start and names its variable.

#[cfg(test)]
mod tests;

use std::{env, net::IpAddr, time::Duration};

const DATABASE_URL: &str = "postgresql://postgres:password@localhost:5432/car_entities";

/// Everything a service may be told. Defaults are equal in all six services, ports excepted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `DATABASE_URL`
    pub database_url: String,
    /// `DATABASE_POOL_SIZE`: connections at most, 10. Six services at 10 stay under PostgreSQL's default of 100.
    pub pool_size: u32,
    /// `DATABASE_ACQUIRE_TIMEOUT_MS`: the wait for a connection, 3000; then the database counts as away.
    pub acquire_timeout: Duration,
    /// `DATABASE_STATEMENT_TIMEOUT_MS`: what PostgreSQL gives one statement, 10000.
    pub statement_timeout_ms: u32,
    /// `HEAD_TIMEOUT_MS`: for the head of a request, or a connection's HTTP/2 preface, 10000; then the connection is closed.
    pub head_timeout: Duration,
    /// `BODY_TIMEOUT_MS`: for the body of a request over REST, 30000; then the response is 408.
    pub body_timeout: Duration,
    /// `IDLE_TIMEOUT_MS`: between two REST requests, 60000; then the connection is closed. A gRPC client that was silent so long is pinged.
    pub idle_timeout: Duration,
    /// `REQUEST_TIMEOUT_MS`: for a request over REST whose body has arrived, or a whole gRPC call, 60000.
    pub request_timeout: Duration,
    /// `HOST`: the address to listen on, 127.0.0.1 (the images say 0.0.0.0).
    pub host: IpAddr,
    /// `SERVER_PORT` or `GRPC_SERVER_PORT`; 0 takes a free one.
    pub port: u16,
    /// `METRICS_PORT`: where a gRPC service serves `/metrics`; REST services serve it beside their API.
    pub metrics_port: u16,
    /// `MAX_BODY_BYTES`: the largest request body or gRPC message, 1 MiB.
    pub max_body_bytes: usize,
    /// `MAX_ENTITIES_PER_EVENT`: 1000.
    pub max_entities: usize,
    /// `MAX_EVENTS_PER_BULK`: 10000.
    pub max_events: usize,
    /// `SHUTDOWN_TIMEOUT_MS`: what requests in flight get to finish after SIGTERM, 10000.
    pub shutdown_timeout: Duration,
    /// `RUST_LOG`, else `LOG_LEVEL`, else `info`.
    pub log: String,
}

/// A variable that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{value} cannot be used: {wanted}")]
pub struct BadVariable {
    name: String,
    /// `="value"`, or nothing where it may hold a password.
    value: String,
    wanted: &'static str,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// The first variable whose value cannot be used.
    pub fn from_env(port_variable: &str, port: u16, metrics_port: u16) -> Result<Self, BadVariable> {
        Self::read(|name| env::var(name).ok().filter(|value| !value.is_empty()), port_variable, port, metrics_port)
    }

    fn read(
        get: impl Fn(&str) -> Option<String>,
        port_variable: &str,
        port: u16,
        metrics_port: u16,
    ) -> Result<Self, BadVariable> {
        let number = |name: &str, default: u64, low: u64, high: u64, wanted: &'static str| match get(name) {
            None => Ok(default),
            Some(value) => match value.parse() {
                Ok(n) if (low..=high).contains(&n) => Ok(n),
                _ => Err(BadVariable { name: name.to_owned(), value: format!("={value:?}"), wanted }),
            },
        };
        let port_number = |name: &str, default: u16| {
            number(name, u64::from(default), 0, 65_535, "give a port from 0 to 65535")
                .map(|n| u16::try_from(n).unwrap_or(default))
        };
        let millis = |name, default| number(name, default, 1, 3_600_000, "give milliseconds from 1 to 3600000");
        let count = |name, default| number(name, default, 1, 1 << 30, "give a whole number from 1 to 1073741824");
        let host = match get("HOST") {
            None => IpAddr::from([127, 0, 0, 1]),
            Some(value) => value.parse().map_err(|_| BadVariable {
                name: "HOST".to_owned(),
                value: format!("={value:?}"),
                wanted: "give an IP address, such as 127.0.0.1 or 0.0.0.0",
            })?,
        };
        let database_url = get("DATABASE_URL").unwrap_or_else(|| DATABASE_URL.to_owned());
        if !database_url.starts_with("postgresql://") && !database_url.starts_with("postgres://") {
            return Err(BadVariable {
                name: "DATABASE_URL".to_owned(),
                value: String::new(),
                wanted: "give postgresql://user:password@host:port/database",
            });
        }
        Ok(Self {
            database_url,
            pool_size: number("DATABASE_POOL_SIZE", 10, 1, 1000, "give a number of connections from 1 to 1000")? as u32,
            acquire_timeout: Duration::from_millis(millis("DATABASE_ACQUIRE_TIMEOUT_MS", 3000)?),
            statement_timeout_ms: millis("DATABASE_STATEMENT_TIMEOUT_MS", 10_000)? as u32,
            head_timeout: Duration::from_millis(millis("HEAD_TIMEOUT_MS", 10_000)?),
            body_timeout: Duration::from_millis(millis("BODY_TIMEOUT_MS", 30_000)?),
            idle_timeout: Duration::from_millis(millis("IDLE_TIMEOUT_MS", 60_000)?),
            request_timeout: Duration::from_millis(millis("REQUEST_TIMEOUT_MS", 60_000)?),
            host,
            port: port_number(port_variable, port)?,
            metrics_port: port_number("METRICS_PORT", metrics_port)?,
            max_body_bytes: count("MAX_BODY_BYTES", 1 << 20)? as usize,
            max_entities: count("MAX_ENTITIES_PER_EVENT", 1000)? as usize,
            max_events: count("MAX_EVENTS_PER_BULK", 10_000)? as usize,
            shutdown_timeout: Duration::from_millis(millis("SHUTDOWN_TIMEOUT_MS", 10_000)?),
            log: get("RUST_LOG").or_else(|| get("LOG_LEVEL")).unwrap_or_else(|| "info".to_owned()),
        })
    }
}
