package forward

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// hopByHop are the fields that end at each hop (RFC 9110 section 7.6.1), with the two of proxy authentication, as fasthttp
// writes them. Expect is among them: the body has been read whole, so the server has responded to it. Trailer and Connection have
// their own rules.
var hopByHop = []string{
	"Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade",
}

// seen says which fields that matter here a header has. One look at all names is cheaper than one look-up for each.
type seen struct{ connection, hopByHop, chunked, forwardedFor, requestID bool }

func look(names [][]byte) (s seen) {
	for _, name := range names {
		switch string(name) {
		case "Connection":
			s.connection = true
		case "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Upgrade":
			s.hopByHop = true
		case "Transfer-Encoding":
			s.hopByHop, s.chunked = true, true
		case "X-Forwarded-For":
			s.forwardedFor = true
		case "X-Request-Id":
			s.requestID = true
		}
	}
	return s
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

// prepareRequest makes a client's request fit for the next hop: no hop-by-hop field, no trailer, no content type that nobody sent,
// the peer in X-Forwarded-For, and an X-Request-Id.
func prepareRequest(h *fasthttp.RequestHeader, peer net.Addr) {
	s := look(h.PeekKeys())
	if s.chunked || wasChunked(h) {
		dropTrailers(h)
		s = look(h.PeekKeys())
	}
	if len(h.PeekTrailerKeys()) > 0 {
		h.Del(fasthttp.HeaderTrailer)
	}
	if s.connection {
		for _, value := range h.PeekAll(fasthttp.HeaderConnection) {
			removeNamed(string(value), h.Del) // a copy: Del moves what value points to
		}
		h.Del(fasthttp.HeaderConnection)
	}
	if s.hopByHop {
		for _, name := range hopByHop {
			h.Del(name)
		}
	}
	h.SetNoDefaultContentType(true)
	line := scratch.Get().(*[]byte)
	*line = appendForwardedFor((*line)[:0], h, s.forwardedFor, peer)
	h.AddBytesV(fiber.HeaderXForwardedFor, *line)
	if n := len(h.Peek(fiber.HeaderXRequestID)); !s.requestID || n == 0 || n > maxRequestID {
		*line = appendRequestID((*line)[:0])
		h.SetBytesV(fiber.HeaderXRequestID, *line)
	}
	scratch.Put(line)
}

// scratch holds a field's value or a target while it is made.
var scratch = sync.Pool{New: func() any { line := make([]byte, 0, 128); return &line }}

// wasChunked reports whether an empty body came in chunks: fasthttp has put Content-Length: 0 in the place of the field.
func wasChunked(h *fasthttp.RequestHeader) (chunked bool) {
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

// cleanResponse makes an upstream's response fit for the client.
func cleanResponse(h *fasthttp.ResponseHeader) {
	if len(h.PeekTrailerKeys()) > 0 {
		var names []string
		h.VisitAllTrailer(func(name []byte) { names = append(names, string(name)) })
		for _, name := range names {
			h.Del(name)
		}
		h.Del(fasthttp.HeaderTrailer)
	}
	s := look(h.PeekKeys())
	if s.connection {
		for _, value := range h.PeekAll(fasthttp.HeaderConnection) {
			removeNamed(string(value), h.Del)
		}
		h.Del(fasthttp.HeaderConnection)
	}
	if s.hopByHop {
		for _, name := range hopByHop {
			h.Del(name)
		}
	}
	h.SetNoDefaultContentType(true)
}

// appendForwardedFor appends what X-Forwarded-For must be, one line that ends with the peer, and removes what was sent.
func appendForwardedFor(line []byte, h *fasthttp.RequestHeader, sent bool, peer net.Addr) []byte {
	if sent {
		for _, value := range h.PeekAll(fiber.HeaderXForwardedFor) {
			line = append(append(line, value...), ", "...)
		}
		h.Del(fiber.HeaderXForwardedFor)
	}
	return appendPeer(line, peer)
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

// appendRequestID appends 128 random bits in hex.
func appendRequestID(line []byte) []byte {
	var bits [16]byte
	binary.LittleEndian.PutUint64(bits[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(bits[8:], rand.Uint64())
	return hex.AppendEncode(line, bits[:])
}
