package forward

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// errReset stands for a connection that the upstream reset.
var errReset = errors.New("the upstream reset the connection")

// upstreamConn fixes two ways in which fasthttp 1.51 takes a broken response for a whole one: a reset within a body counts as the
// end of the body, and so does a connection that ends between two chunks of a streamed body.
type upstreamConn struct {
	net.Conn
	// chunksFollow: a streamed chunked body is being read, so the end of the connection is not the end of the body.
	// Set by the upstream once the head is there; the connection serves no request after that one.
	chunksFollow bool
}

func (c *upstreamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case err == nil:
	case c.chunksFollow && err == io.EOF:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, syscall.ECONNRESET):
		err = errReset
	}
	return n, err
}

// LocalAddr returns the connection itself, which is how fasthttp hands it on: Response.LocalAddr.
func (c *upstreamConn) LocalAddr() net.Addr { return c }

// Network and String are those of the local address.
func (c *upstreamConn) Network() string { return c.Conn.LocalAddr().Network() }
func (c *upstreamConn) String() string  { return c.Conn.LocalAddr().String() }

func dialer(timeout time.Duration) fasthttp.DialFunc {
	// Its own dialer, as the package's shares one limit of concurrent dials. Names are cached for a minute.
	dial := &fasthttp.TCPDialer{Concurrency: 1000}
	return func(address string) (net.Conn, error) {
		conn, err := dial.DialDualStackTimeout(address, timeout)
		if err != nil {
			return nil, err
		}
		return &upstreamConn{Conn: conn}, nil
	}
}
