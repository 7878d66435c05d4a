//! A client of the load that speaks HTTP/2, by an implementation of other authors. A GOAWAY makes it open another connection; a request that this
//! or anything else takes from it is a failure.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use testkit::Address;
use tokio::net::TcpStream;

use super::DEADLINE;
use super::load::{Refused, Request, State, Way};

pub(super) fn client(state: &State, way: &Way, requests: &[Request], is_good: fn(u16) -> bool) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve(state, way, requests, is_good))
}

async fn serve(state: &State, way: &Way, requests: &[Request], is_good: fn(u16) -> bool) -> Vec<String> {
    let mut failures = Vec::new();
    let mut next = 0;
    while !state.stops() && failures.len() < 10 {
        let before = state.refused(way);
        let refused = || if before == Refused::Failure { state.refused(way) } else { before };
        let mut connection = match connect(&way.address).await {
            Ok(connection) => connection,
            Err(error) => {
                match refused() {
                    Refused::Failure => failures.push(format!("connect to {}: {error}", way.address)),
                    Refused::Again => tokio::task::yield_now().await,
                    Refused::End => break,
                }
                continue;
            }
        };
        let mut is_first = true;
        while !state.stops() {
            let request = &requests[next % requests.len()];
            // Fails after a GOAWAY, with nothing of a request sent.
            let Ok(ready) = connection.ready().await else { break };
            connection = ready;
            next += 1;
            let response = tokio::time::timeout(DEADLINE, send(&mut connection, request)).await;
            match response.map_err(|_| "no response".to_owned()).and_then(|sent| sent.map_err(|e| e.to_string())) {
                Ok(status) => failures.extend(state.count(request, status, is_good)),
                Err(error) => {
                    match refused() {
                        Refused::End if is_first => return failures,
                        Refused::Again if is_first => {}
                        _ => failures.push(format!(
                            "{} over HTTP/2: {error}: {request:?}, first on its connection: {is_first}",
                            way.address
                        )),
                    }
                    break;
                }
            }
            is_first = false;
        }
    }
    failures
}

async fn connect(address: &Address) -> Result<SendRequest<Bytes>, Box<dyn std::error::Error>> {
    let Address::Tcp(address) = address else { return Err("no TCP".into()) };
    let socket = tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(address)).await??;
    let (sender, connection) = h2::client::handshake(socket).await?;
    tokio::spawn(async {
        // What ends it is seen by the requests.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn send(connection: &mut SendRequest<Bytes>, request: &Request) -> Result<u16, h2::Error> {
    let mut head = http::Request::builder().method(&*request.method).uri(format!("http://localhost{}", request.path));
    for (name, value) in &request.fields {
        head = head.header(name, value);
    }
    if request.method != "GET" {
        head = head.header("content-type", "application/json");
    }
    let is_bare = request.body.is_empty();
    let (response, mut sending) = connection.send_request(head.body(()).unwrap(), is_bare)?;
    if !is_bare {
        sending.send_data(Bytes::from(request.body.clone()), true)?;
    }
    let response = response.await?;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    Ok(status)
}
