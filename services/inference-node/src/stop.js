// A graceful stop of a node:http server.

/**
 * Follows what a server has open and returns the function that stops it: no new connections, what is in flight is
 * finished, for up to limitMs; `done` is called at the end. server.close() alone would wait for connections that fall
 * idle later, and closeIdleConnections() passes over those that never sent a request.
 */
export function stopper(server, limitMs, done) {
  const sockets = new Set();
  const responses = new Set();
  let stopping = false;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('request', ({ socket }, res) => {
    responses.add(res);
    res.shouldKeepAlive &&= !stopping;
    res.once('close', () => {
      responses.delete(res);
      if (stopping) socket.destroySoon();
    });
  });
  return () => {
    if (stopping) return;
    stopping = true;
    server.close(done);
    setTimeout(() => server.closeAllConnections(), limitMs).unref();
    const busy = new Set(Array.from(responses, (res) => res.req.socket));
    for (const socket of sockets) if (!busy.has(socket)) socket.destroy();
    // Says `Connection: close` where the header has not gone out yet.
    for (const res of responses) res.shouldKeepAlive = false;
  };
}
