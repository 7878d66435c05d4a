//! `gauge ui`: the history, evaluations and their configurations in a browser.
//!
//! Pages are made here and need no script; one small script replaces what changes while a run goes on. Every page is made on a blocking thread, from the
//! database and the files as they are at that moment: nothing of them is kept between requests but logins and the programs that were started.
//!
//! The order of a request: [`admin_http::serve`] bounds it, [`access`] refuses what a foreign page may have caused and who is not logged in, [`request`] reads it and
//! checks the secret of forms, and one function makes the page.

mod access;
mod chart;
mod compare;
mod configurations;
mod dashboard;
mod evaluations;
mod html;
mod live;
mod multipart;
mod page;
mod request;
mod run;
mod runs;
mod starts;
mod tar;
mod trend;
mod wizard;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin_http::Bounds;
use axum::Router;
use axum::routing::get;

use crate::history::{History, Target};
use access::Access;
use page::Failure;
use request::{action, view};
use starts::Starts;

/// What is served, and to whom.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What a visitor must know; none: whoever reaches the loopback interface may use it.
    pub token: Option<String>,
    /// The history.
    pub target: Target,
    /// The `--store` that programs are started with, where one was given.
    pub store: Option<String>,
    /// Only evaluations in this folder are started; results are written there. Absolute.
    pub folder: PathBuf,
    /// This program.
    pub gauge: PathBuf,
}

/// What all requests share.
#[derive(Debug)]
struct App {
    options: Options,
    access: Access,
    starts: Starts,
}

impl App {
    /// The history as it is now; what was killed is marked.
    fn history(&self) -> Result<History, Failure> {
        Ok(History::open(&self.options.target)?)
    }
}

/// Serves until `stop` completes; then programs that it started are told to end, and waited for. `ready` is told where.
///
/// # Errors
/// When the address cannot be had, or the system has no random bytes.
pub fn serve(options: Options, ready: impl FnOnce(SocketAddr), stop: impl Future<Output = ()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let access = Access::new(options.token.as_deref(), address)?;
        let app = Arc::new(App { options, access, starts: Starts::default() });
        ready(address);
        admin_http::serve(listener, router(Arc::clone(&app)), BOUNDS, stop).await;
        tokio::task::spawn_blocking(move || app.starts.end()).await.map_err(io::Error::other)
    })
}

/// Few visitors, short requests.
const BOUNDS: Bounds = Bounds { connections: 64, head_or_idle: Duration::from_secs(30) };

/// Every page and action.
fn router(app: Arc<App>) -> Router {
    let own = Router::new()
        .route("/", view(dashboard::page))
        .route("/runs", view(runs::page))
        .route("/runs/{id}", view(run::page))
        .route("/runs/{id}/live", view(live::of_campaign))
        .route("/runs/{id}/report", view(run::report))
        .route("/runs/{id}/results.json", view(run::json))
        .route("/runs/{id}/results.csv", view(run::csv))
        .route("/runs/{id}/configurations", view(configurations::of_campaign))
        .route("/runs/{id}/configurations/{system}/{*path}", view(configurations::file_of_campaign))
        .route("/compare", view(compare::page))
        .route("/trends", view(trend::page))
        .route("/evaluations", view(evaluations::page))
        .route("/evaluations/show", view(evaluations::show).merge(action(evaluations::start)))
        .route("/started/{key}", view(live::of_start))
        .route("/started/{key}/stop", action(evaluations::stop))
        .route("/new", view(wizard::upload_page).merge(action(wizard::upload)))
        .route("/new/{draft}", view(wizard::choose_page).merge(action(wizard::choose)))
        .route("/new/{draft}/services", view(wizard::services_page).merge(action(wizard::choose_services)))
        .route("/new/{draft}/{gateway}", view(configurations::of_draft))
        .route("/new/{draft}/{gateway}/{*path}", view(configurations::file_of_draft))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), access::require_visitor));
    Router::new()
        .merge(own)
        .route("/login", get(access::login_page).post(access::login))
        .route("/logout", axum::routing::post(access::logout))
        .route("/web/{name}", get(page::asset))
        .fallback(page::not_found)
        .layer(axum::middleware::from_fn(access::guard))
        .with_state(app)
}
