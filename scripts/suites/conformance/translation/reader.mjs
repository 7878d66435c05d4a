// An upstream on Node's http, that is, on llhttp with its strict rules: like `peers reader`, it says in X-Reading how it has read a request.
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const bytes = (text) => Buffer.from(text, "latin1").toString("base64");
const pairs = (raw) => Array.from({ length: raw.length / 2 }, (_, i) => [bytes(raw[2 * i]), bytes(raw[2 * i + 1])]);

const server = createServer({ insecureHTTPParser: false, maxHeaderSize: 1 << 20 }, async (request, response) => {
  const sum = createHash("sha256");
  let length = 0;
  try {
    for await (const piece of request) {
      sum.update(piece);
      length += piece.length;
    }
  } catch {
    // Not a whole request: the connection ends without a response.
    request.socket.destroy();
    return;
  }
  const reading = {
    method: bytes(request.method),
    target: bytes(request.url),
    host: bytes(request.headers.host ?? ""),
    fields: pairs(request.rawHeaders),
    trailers: pairs(request.rawTrailers),
    length,
    sha256: sum.digest("hex"),
  };
  response.setHeader("X-Reading", Buffer.from(JSON.stringify(reading)).toString("base64"));
  response.setHeader("Content-Length", "0");
  response.end();
});
// All fields are listed: without a limit of its own, Node would leave out those beyond 2,000.
server.maxHeadersCount = 0;
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
