package forward

import (
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// hopByHop are the fields that end at each hop (RFC 9110 section 7.6.1), with the two of proxy authentication. Expect is among
// them for requests: the body has been read whole, so the server has answered it. Trailer and Connection have their own rules.
var hopByHop = []string{
	"Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade",
}

// protected fields are never removed because a Connection field names them: they decide where a message goes, how it is read,
// who sent it, or are written here.
var protected = map[string]bool{
	"authorization": true, "content-encoding": true, "content-length": true, "content-type": true, "cookie": true, "host": true,
	"set-cookie": true, "x-api-key": true, "x-forwarded-for": true, "x-forwarded-host": true, "x-forwarded-proto": true,
	"x-request-id": true,
}

// removeNamed removes the fields that a Connection field lists.
func removeNamed(connection string, remove func(string)) {
	for name := range strings.SplitSeq(connection, ",") {
		name = strings.TrimSpace(name)
		if name != "" && !protected[strings.ToLower(name)] {
			remove(name)
		}
	}
}

// cleanRequest makes a client's request fit for the next hop: no hop-by-hop field, no trailer, HTTP/1.1, and no content type that
// nobody sent.
func cleanRequest(h *fasthttp.RequestHeader) {
	if wasChunked(h) {
		dropTrailers(h)
	}
	for _, value := range h.PeekAll(fasthttp.HeaderConnection) {
		removeNamed(string(value), h.Del) // a copy: Del moves what value points to
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	h.Del(fasthttp.HeaderExpect)
	h.Del(fasthttp.HeaderConnection)
	h.SetNoDefaultContentType(true)
}

// wasChunked reports whether the body came in chunks. fasthttp has forgotten it where the body was empty.
func wasChunked(h *fasthttp.RequestHeader) (chunked bool) {
	if len(h.Peek(fasthttp.HeaderTransferEncoding)) > 0 {
		return true
	}
	if string(h.Peek(fasthttp.HeaderContentLength)) == "0" {
		h.VisitAllInOrder(func(name, _ []byte) {
			chunked = chunked || string(name) == fasthttp.HeaderTransferEncoding
		})
	}
	return chunked
}

// dropTrailers takes the head of a chunked request back to what was sent before the body: fasthttp appends trailer fields,
// announced or not, to the header, where they would pass for fields of the head (RFC 9110 section 6.5.1 forbids it). The framing
// is left out: fasthttp writes it from the body.
func dropTrailers(h *fasthttp.RequestHeader) {
	type field struct{ name, value string }
	var head []field
	h.VisitAllInOrder(func(name, value []byte) { head = append(head, field{string(name), string(value)}) })
	var all []string
	h.VisitAll(func(name, _ []byte) { all = append(all, string(name)) })
	for _, name := range all {
		h.Del(name)
	}
	for _, f := range head {
		switch f.name {
		case fasthttp.HeaderContentLength, fasthttp.HeaderTransferEncoding, fasthttp.HeaderTrailer:
		default:
			h.Add(f.name, f.value)
		}
	}
}

// cleanResponse makes an upstream's answer fit for the client.
func cleanResponse(h *fasthttp.ResponseHeader) {
	if len(h.Peek(fasthttp.HeaderTrailer)) > 0 {
		var names []string
		h.VisitAllTrailer(func(name []byte) { names = append(names, string(name)) })
		for _, name := range names {
			h.Del(name)
		}
		h.Del(fasthttp.HeaderTrailer)
	}
	for _, value := range h.PeekAll(fasthttp.HeaderConnection) {
		removeNamed(string(value), h.Del)
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	h.Del(fasthttp.HeaderConnection)
	h.SetNoDefaultContentType(true)
}

// addForwardedFor appends the peer's address to X-Forwarded-For, as one line whatever the client sent.
func addForwardedFor(c *fiber.Ctx) {
	h := &c.Request().Header
	line := make([]byte, 0, 128)
	for _, sent := range h.PeekAll(fiber.HeaderXForwardedFor) {
		line = append(append(line, sent...), ", "...)
	}
	if len(line) > 0 {
		h.Del(fiber.HeaderXForwardedFor) // all lines; Set would replace only the first
	}
	line = appendPeer(line, c.Context().RemoteAddr())
	h.SetBytesV(fiber.HeaderXForwardedFor, line)
}

func appendPeer(line []byte, peer net.Addr) []byte {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return append(line, "unknown"...)
	}
	address, _ := netip.AddrFromSlice(tcp.IP)
	return address.Unmap().AppendTo(line)
}

// maxRequestID bounds an id that a client chose.
const maxRequestID = 128

// ensureRequestID keeps the client's X-Request-Id, or writes a new one of 128 random bits in hex.
func ensureRequestID(h *fasthttp.RequestHeader) {
	if n := len(h.Peek(fiber.HeaderXRequestID)); n > 0 && n <= maxRequestID {
		return
	}
	var bits [16]byte
	for half := 0; half < len(bits); half += 8 {
		word := rand.Uint64()
		for i := range 8 {
			bits[half+i] = byte(word >> (8 * i))
		}
	}
	var text [32]byte
	hex.Encode(text[:], bits[:])
	h.SetBytesV(fiber.HeaderXRequestID, text[:])
}
