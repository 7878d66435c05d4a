package harness

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// PostgresProxy stands between a program and a PostgreSQL server, and interferes with commits.
type PostgresProxy struct {
	URL string

	mu       sync.Mutex
	onCommit func() (pass bool)
}

// NewPostgresProxy starts a proxy in front of a server.
func NewPostgresProxy(t *testing.T, server *Postgres) *PostgresProxy {
	t.Helper()
	listener := Listen(t)
	p := &PostgresProxy{URL: "postgres://postgres@" + listener.Addr().String() + "/postgres?sslmode=disable"}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, server.Socket)
		}
	}()
	return p
}

// OnCommit sets what happens once the server has carried out a COMMIT, before its response is passed on; false cuts the connection
// instead. nil passes everything.
func (p *PostgresProxy) OnCommit(do func() (pass bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onCommit = do
}

func (p *PostgresProxy) serve(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		if half, can := server.(*net.UnixConn); can {
			_ = half.CloseWrite()
		}
	}()
	response := make([]byte, 64<<10)
	for {
		n, err := server.Read(response)
		if err != nil {
			return
		}
		if bytes.Contains(response[:n], []byte("COMMIT\x00")) { // CommandComplete
			p.mu.Lock()
			do := p.onCommit
			p.mu.Unlock()
			if do != nil && !do() {
				return
			}
		}
		if _, err := client.Write(response[:n]); err != nil {
			return
		}
	}
}
