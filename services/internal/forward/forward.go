// Package forward is the reverse proxy of the Fiber services: Fiber's own proxy middleware (proxy.Balancer) over a tuned fasthttp
// client for each upstream, with the duties of a proxy that the middleware leaves to its user.
package forward

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/proxy"
	"github.com/valyala/fasthttp"

	"weir/services/internal/process"
)

// Settings of an upstream. A zero value stands for the default beside it.
type Settings struct {
	// Servers are the base URLs of equal servers, http only, all with the same path, which is put before each request's own.
	// The one with the fewest requests in flight is chosen.
	Servers []string
	// Host replaces the Host field of requests. Default: the client's is kept.
	Host string
	// MaxConnections to each server (1024). A request that finds all in use waits up to the connect timeout, then is a 503.
	MaxConnections int
	// ConnectTimeout bounds making a connection (2 s).
	ConnectTimeout time.Duration
	// Timeout bounds an exchange, from the choice of a server to the last byte of its response (60 s).
	Timeout time.Duration
	// IdleTimeout closes a connection that was not used for so long (4 s: below the 5 s after which Node.js closes its side,
	// since fasthttp sees that only when it sends the next request).
	IdleTimeout time.Duration
}

func (s Settings) withDefaults() Settings {
	if s.MaxConnections == 0 {
		s.MaxConnections = 1024
	}
	if s.ConnectTimeout == 0 {
		s.ConnectTimeout = 2 * time.Second
	}
	if s.Timeout == 0 {
		s.Timeout = 60 * time.Second
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = 4 * time.Second
	}
	return s
}

// ParseServer checks the base URL of a server and splits it into host:port and path, which has no slash at its end.
func ParseServer(base string) (address, path string, err error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%q is not a URL", base)
	case u.Scheme != "http":
		return "", "", fmt.Errorf("%q: want http://HOST:PORT (https is not supported)", base)
	case u.Hostname() == "":
		return "", "", fmt.Errorf("%q names no host: want http://HOST:PORT", base)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", "", fmt.Errorf("%q: want http://HOST:PORT and at most a path", base)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), strings.TrimRight(u.EscapedPath(), "/"), nil
}

// Upstream is one or more equal servers and the connections to them.
type Upstream struct {
	host    string // empty: the client's
	address string // of the first server, for HTTP/1.0 requests that name no host
	path    string
	// whole reads a response before it passes it on; streamed passes on what is there.
	whole, streamed fiber.Handler
}

// New makes an upstream. It opens no connection.
func New(settings Settings) (*Upstream, error) {
	settings = settings.withDefaults()
	if len(settings.Servers) == 0 {
		return nil, errors.New("an upstream needs at least one server")
	}
	whole := &fasthttp.LBClient{Timeout: settings.Timeout}
	streamed := &fasthttp.LBClient{Timeout: settings.Timeout}
	u := &Upstream{host: settings.Host}
	for i, base := range settings.Servers {
		address, path, err := ParseServer(base)
		if err != nil {
			return nil, err
		}
		if i > 0 && path != u.path {
			return nil, fmt.Errorf("%q: all servers of an upstream must have the same path, and the first has %q", base, u.path)
		}
		if i == 0 {
			u.address, u.path = address, path
		}
		whole.Clients = append(whole.Clients, &server{HostClient: newClient(address, settings)})
		streaming := newClient(address, settings)
		streaming.StreamResponseBody = true
		streaming.MaxResponseBodySize = streamFromBytes
		streamed.Clients = append(streamed.Clients, &server{HostClient: streaming})
	}
	u.whole = proxy.Balancer(proxy.Config{Client: whole})
	u.streamed = proxy.Balancer(proxy.Config{Client: streamed, ModifyRequest: closeAfter})
	return u, nil
}

// closeAfter gives a streamed exchange its own connection: a stream that the client leaves goes back to fasthttp's pool half
// read, and its rest would be the next response.
func closeAfter(c *fiber.Ctx) error {
	c.Request().SetConnectionClose()
	return nil
}

// streamFromBytes: a streamed response with a Content-Length up to this is read whole all the same.
const streamFromBytes = 64 << 10

func newClient(address string, settings Settings) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr:                      address,
		ConnPoolStrategy:          fasthttp.LIFO, // the connection used last is the least likely to have been closed
		Dial:                      dialer(settings.ConnectTimeout),
		DisablePathNormalizing:    true,
		MaxConns:                  settings.MaxConnections,
		MaxConnWaitTimeout:        settings.ConnectTimeout,
		MaxIdemponentCallAttempts: 1, // server.DoDeadline decides
		MaxIdleConnDuration:       settings.IdleTimeout,
		NoDefaultUserAgentHeader:  true,
		ReadBufferSize:            process.HeadBytes,
	}
}

// Target appends the path of a request to the upstream, without the upstream's own path, to dst.
type Target func(dst []byte, c *fiber.Ctx) []byte

// Handler forwards requests to the upstream: below the request's own path, or below what target makes of it. With stream, an
// response is passed on as it arrives, and the exchange gets a connection of its own.
func (u *Upstream) Handler(target Target, stream bool) fiber.Handler {
	ask := u.whole
	if stream {
		ask = u.streamed
	}
	return func(c *fiber.Ctx) error {
		request := c.Request()
		if request.Header.IsConnect() {
			return process.AnswerError(c, fiber.StatusMethodNotAllowed, "CONNECT is not served")
		}
		uri := request.URI()
		uri.DisablePathNormalizing = true // else the middleware sends "//" as "/" and %2F as a slash
		if hasDotSegment(uri.PathOriginal()) {
			return process.AnswerError(c, fiber.StatusBadRequest, "the path holds a dot segment")
		}
		if target != nil || u.path != "" || request.Header.RequestURI()[0] != '/' {
			u.setTarget(c, target)
		}
		switch {
		case u.host != "":
			request.Header.SetHost(u.host)
		case len(request.Header.Host()) > 0:
		case request.Header.IsHTTP11(): // RFC 9112 section 3.2
			return process.AnswerError(c, fiber.StatusBadRequest, "the Host field is missing")
		default:
			request.Header.SetHost(u.address)
		}
		prepareRequest(&request.Header, c.Context().RemoteAddr())
		if !request.Header.IsHTTP11() {
			keep := string(request.Header.Protocol())
			request.Header.SetProtocol("HTTP/1.1")
			defer request.Header.SetProtocol(keep)
		}
		if err := ask(c); err != nil {
			c.Response().Reset()
			return explain(err)
		}
		return nil
	}
}

// setTarget writes the request's target for the upstream, in origin form.
func (u *Upstream) setTarget(c *fiber.Ctx, target Target) {
	request := c.Request()
	uri := request.URI()
	if request.Header.RequestURI()[0] != '/' { // absolute form: its authority is the host (RFC 9112 section 3.2.2)
		request.Header.SetHostBytes(uri.Host())
	}
	line := scratch.Get().(*[]byte)
	*line = append((*line)[:0], u.path...)
	if target != nil {
		*line = target(*line, c)
	} else {
		*line = append(*line, uri.PathOriginal()...)
	}
	if query := uri.QueryString(); len(query) > 0 {
		*line = append(append(*line, '?'), query...)
	}
	request.SetRequestURIBytes(*line) // copies
	scratch.Put(line)
}

// hasDotSegment finds "." and ".." segments, also written %2e: an upstream that resolves them would serve another path than the
// one that was routed.
func hasDotSegment(path []byte) bool {
	if bytes.Index(path, []byte("/.")) < 0 && bytes.IndexByte(path, '%') < 0 {
		return false
	}
	for segment := range bytes.SplitSeq(path, []byte("/")) {
		plain := strings.ReplaceAll(strings.ToLower(string(segment)), "%2e", ".")
		if plain == "." || plain == ".." {
			return true
		}
	}
	return false
}

// explain turns a failed exchange into a response: 503 when all connections stayed busy, 504 when time was over, else 502.
func explain(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, fasthttp.ErrNoFreeConns):
		return fiber.NewError(fiber.StatusServiceUnavailable, "all connections to the upstream are in use")
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, fasthttp.ErrDialTimeout):
		return fiber.NewError(fiber.StatusGatewayTimeout, "the upstream did not respond within the timeout")
	case errors.Is(err, errAnswer):
		return fiber.NewError(fiber.StatusBadGateway, "the upstream's response cannot be used")
	}
	return fiber.NewError(fiber.StatusBadGateway, "the upstream cannot be reached")
}

// errAnswer: the upstream responded, with something that cannot be passed on.
var errAnswer = errors.New("unusable response")

// server is one server of an upstream, for fasthttp's balancing client.
type server struct{ *fasthttp.HostClient }

// DoDeadline exchanges one request. A server that has restarted leaves dead connections in the pool: the first one found drops
// them all, and the request goes once more if it may be repeated (RFC 9110 section 9.2.2).
func (s *server) DoDeadline(request *fasthttp.Request, response *fasthttp.Response, deadline time.Time) error {
	err := s.HostClient.DoDeadline(request, response, deadline)
	if errors.Is(err, fasthttp.ErrConnectionClosed) || errors.Is(err, errReset) || errors.Is(err, syscall.EPIPE) {
		s.CloseIdleConnections()
		if repeatable(&request.Header) {
			err = s.HostClient.DoDeadline(request, response, deadline)
		}
	}
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", errAnswer, err)
		}
		return err
	}
	if response.StatusCode() < fiber.StatusOK {
		// fasthttp takes an interim response other than 100 for the final one, which is then still to come on the connection.
		s.CloseIdleConnections()
		return fmt.Errorf("%w: status %d", errAnswer, response.StatusCode())
	}
	if response.IsBodyStream() && response.Header.ContentLength() < 0 {
		if conn, ok := response.LocalAddr().(*upstreamConn); ok {
			conn.chunksFollow = true
		}
	}
	cleanResponse(&response.Header)
	return nil
}

// repeatable: the methods that are idempotent by definition. fasthttp's own list lacks three.
func repeatable(h *fasthttp.RequestHeader) bool {
	switch string(h.Method()) {
	case fiber.MethodGet, fiber.MethodHead, fiber.MethodPut, fiber.MethodDelete, fiber.MethodOptions, fiber.MethodTrace:
		return true
	}
	return false
}
