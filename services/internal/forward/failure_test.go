package forward

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/services/internal/harness"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
const post = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"

// reset ends a connection with RST.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func TestDeadUpstreamIs502(t *testing.T) {
	proxy := proxyTo(t, Settings{Servers: []string{"http://" + harness.FreeAddress(t)}}, false)
	raw := harness.Exchange(t, proxy, get)
	wantStatus(t, raw, 502)
	if !strings.HasSuffix(raw, `{"error":"the upstream cannot be reached"}`) {
		t.Errorf("body:\n%s", raw)
	}
}

func TestSlowUpstreamIs504(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for what, begin := range map[string]string{
		"no answer": "", "half a head": "HTTP/1.1 200 OK\r\nContent-", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
	} {
		upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
			_, _ = io.WriteString(conn, begin)
			<-release
			return false
		})
		raw := harness.Exchange(t, proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}, Timeout: 200 * time.Millisecond}, false), get)
		if !strings.HasPrefix(raw, "HTTP/1.1 504 ") {
			t.Errorf("%s: want 504, got:\n%s", what, raw)
		}
	}
}

func TestBrokenAnswersAre502(t *testing.T) {
	for what, sent := range map[string]string{
		"not HTTP":                   "hello\r\n\r\n",
		"closed within the head":     "HTTP/1.1 200 OK\r\nContent-Length: 4",
		"closed within the body":     "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
		"closed between chunks":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"closed within a chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab",
		"a size that is not one":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nab\r\n0\r\n\r\n",
		"an interim answer, not 100": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	} {
		for _, end := range []func(net.Conn){func(net.Conn) {}, reset} {
			upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
				_, _ = io.WriteString(conn, sent)
				end(conn)
				return false
			})
			raw := harness.Exchange(t, through(t, upstream), get)
			if !strings.HasPrefix(raw, "HTTP/1.1 502 ") || strings.Contains(raw, "ab") {
				t.Errorf("%s: want 502 and nothing of the answer, got:\n%s", what, raw)
			}
		}
	}
}

// A pool full of connections that a restart has ended must not cost a failed request each.
func TestUpstreamThatRestartedIsUsedAtOnce(t *testing.T) {
	const pooled = 20
	var serving atomic.Int32
	arrived, release := make(chan struct{}, pooled), make(chan struct{})
	restarted := make(chan struct{})
	upstream := harness.NewUpstream(t, func(conn net.Conn, n int) bool {
		if int(serving.Add(1)) <= pooled { // the first requests wait for each other, so that each takes a connection
			arrived <- struct{}{}
			<-release
			_, _ = io.WriteString(conn, ok)
			<-restarted
			return false
		}
		_, err := io.WriteString(conn, ok)
		return err == nil
	})
	proxy := through(t, upstream)
	var clients []*harness.Client
	for range pooled {
		client := harness.Dial(t, proxy)
		client.Send(t, get)
		clients = append(clients, client)
	}
	for range pooled {
		<-arrived
	}
	close(release)
	for _, client := range clients {
		wantStatus(t, client.Rest(t), 200)
	}
	close(restarted)
	for i := range 5 {
		wantStatus(t, harness.Exchange(t, proxy, strings.Replace(get, "/ ", fmt.Sprintf("/%d ", i), 1)), 200)
	}
}

func TestOnlyWhatMayBeRepeatedIsSentTwice(t *testing.T) {
	for raw, want := range map[string]int32{get: 2, strings.Replace(post, "POST", "PUT", 1): 2, post: 1, strings.Replace(post, "POST", "PATCH", 1): 1} {
		var sent atomic.Int32
		upstream := harness.NewUpstream(t, func(net.Conn, int) bool {
			sent.Add(1)
			return false // closed before the response
		})
		wantStatus(t, harness.Exchange(t, through(t, upstream), raw), 502)
		if sent.Load() != want {
			t.Errorf("%s was sent %d times, want %d", raw[:5], sent.Load(), want)
		}
	}
}

func TestBusyUpstreamIs503(t *testing.T) {
	release := make(chan struct{})
	upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		<-release
		_, err := io.WriteString(conn, ok)
		return err == nil
	})
	proxy := proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}, MaxConnections: 1, ConnectTimeout: 50 * time.Millisecond}, false)
	first := harness.Dial(t, proxy)
	first.Send(t, get)
	upstream.Request(t)
	wantStatus(t, harness.Exchange(t, proxy, get), 503)
	close(release)
	wantStatus(t, first.Rest(t), 200)
}

func TestLargeBodiesPassAndTooLargeOnesDoNot(t *testing.T) {
	upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"+strings.Repeat("y", 9000000))
		return err == nil
	})
	for _, stream := range []bool{false, true} {
		proxy := proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}}, stream)
		body := strings.Repeat("x", 22<<20)
		raw := harness.Exchange(t, proxy, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))+body)
		wantStatus(t, raw, 200)
		if got := upstream.Request(t); strings.Count(got, "x") < len(body) {
			t.Errorf("%d bytes of %d arrived", strings.Count(got, "x"), len(body))
		}
		if strings.Count(raw, "y") != 9000000 {
			t.Errorf("%d bytes of 9000000 came back", strings.Count(raw, "y"))
		}
		wantStatus(t, harness.Exchange(t, proxy, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 32<<20+1)), 413)
		upstream.None(t)
	}
}

func TestStreamIsPassedOnAsItArrives(t *testing.T) {
	next := make(chan struct{})
	upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
		<-next // until the client has the first chunk
		_, _ = io.WriteString(conn, "3\r\ntwo\r\n0\r\n\r\n")
		return false
	})
	client := harness.Dial(t, proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}}, true))
	for range 2 { // the client's connection is kept
		client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		wantField(t, client.Until(t, "3\r\none\r\n"), "Transfer-Encoding", "chunked")
		wantField(t, upstream.Request(t), "Connection", "close")
		next <- struct{}{}
		client.Until(t, "3\r\ntwo\r\n0\r\n\r\n")
	}
}

// fasthttp ends such a body as if it were whole.
func TestStreamThatBreaksOffIsNotEnded(t *testing.T) {
	for _, end := range []func(net.Conn){func(net.Conn) {}, reset} {
		for _, last := range []string{"3\r\none\r\n", "3\r\none\r\n5\r\ntw"} {
			seen := make(chan struct{})
			upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+last)
				<-seen
				end(conn)
				return false
			})
			client := harness.Dial(t, proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}}, true))
			client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			client.Until(t, "3\r\none\r\n")
			close(seen)
			if rest := client.Rest(t); strings.Contains(rest, "0\r\n\r\n") {
				t.Errorf("after %q the stream was ended as if it were whole: %q", last, rest)
			}
		}
	}
}

// fasthttp gives the connection of a stream that the client has left back to its pool, and the rest of the stream is read as the
// next response.
func TestStreamThatTheClientLeavesEndsItsConnection(t *testing.T) {
	left, closed := make(chan struct{}), make(chan struct{})
	upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
		<-left
		fake := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake"
		for {
			if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(fake), fake); err != nil {
				close(closed)
				return false
			}
		}
	})
	settings := Settings{Servers: []string{"http://" + upstream.Address}, IdleTimeout: time.Hour} // a pooled connection would stay open
	client := harness.Dial(t, proxyTo(t, settings, true))
	client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	client.Until(t, "3\r\none\r\n")
	reset(client.Conn)
	close(left)
	select {
	case <-closed:
	case <-time.After(harness.Deadline):
		t.Error("the connection to the upstream stays open, and the rest of the stream on it")
	}
}
