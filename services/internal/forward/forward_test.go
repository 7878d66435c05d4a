package forward

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"weir/services/internal/harness"
	"weir/services/internal/process"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// exact makes an upstream's behaviour out of fixed bytes on connections that stay open.
func exact(raw string) func(net.Conn, int) bool {
	return func(conn net.Conn, _ int) bool {
		_, err := io.WriteString(conn, raw)
		return err == nil
	}
}

// proxyTo serves an application that forwards everything to one upstream, and returns its address.
func proxyTo(t *testing.T, settings Settings, stream bool) string {
	t.Helper()
	upstream, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	app := process.NewApp("test", process.MaxBodyBytes, process.WriteTime)
	app.Use(upstream.Handler(nil, stream))
	return harness.Serve(t, app)
}

func through(t *testing.T, upstream *harness.Upstream) string {
	t.Helper()
	return proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}}, false)
}

func lines(raw string) []string {
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	return strings.Split(head, "\r\n")
}

func fields(raw, name string) []string {
	var values []string
	for _, line := range lines(raw)[1:] {
		field, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(field, name) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

func wantField(t *testing.T, raw, name string, want ...string) {
	t.Helper()
	if got := fields(raw, name); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s: got %q, want %q, in:\n%s", name, got, want, raw)
	}
}

func wantStatus(t *testing.T, raw string, status int) {
	t.Helper()
	if !strings.HasPrefix(raw, fmt.Sprintf("HTTP/1.1 %d ", status)) {
		t.Errorf("want status %d, got:\n%s", status, raw)
	}
}

func TestRequestIsPassedOnAsItWasSent(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := through(t, upstream)
	body := "--b--\r\n"
	for i := range 10 { // parsed and written anew, they would come in another order
		body = fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=\"%d\"\r\n\r\n1\r\n", i) + body
	}
	for _, c := range []struct{ line, head, body string }{
		{"GET /a?b=c&d=%2F HTTP/1.1", "Accept: x\r\nCookie: b=2; a=1\r\n", ""},
		{"GET /a%20b//c;d=e%2Ff/ HTTP/1.1", "", ""},
		{"GET /a?to=http://b/c HTTP/1.1", "", ""},
		{"POST /upload HTTP/1.1", "Content-Type: multipart/form-data; boundary=b\r\n", body},
		{"PATCH /x HTTP/1.1", "Content-Type: application/json\r\n", "{}"},
		{"POST /without-type HTTP/1.1", "", "data"},
		{"DELETE /x HTTP/1.1", "", ""},
	} {
		length := ""
		if c.body != "" {
			length = fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
		}
		raw := harness.Exchange(t, proxy, c.line+"\r\nHost: api.example\r\n"+c.head+length+"Connection: close\r\n\r\n"+c.body)
		wantStatus(t, raw, 200)
		got := upstream.Request(t)
		if lines(got)[0] != c.line {
			t.Errorf("request line %q became %q", c.line, lines(got)[0])
		}
		if _, gotBody, _ := strings.Cut(got, "\r\n\r\n"); gotBody != c.body {
			t.Errorf("%s: body %q became %q", c.line, c.body, gotBody)
		}
		wantField(t, got, "Host", "api.example")
		for _, name := range []string{"Accept", "Cookie", "Content-Type", "User-Agent", "Accept-Encoding"} {
			wantField(t, got, name, fields("\r\n"+c.head, name)...)
		}
	}
}

func TestHopByHopFieldsEndHere(t *testing.T) {
	upstream := harness.NewUpstream(t, exact("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Gone, keep-alive, Content-Length\r\n"+
		"Keep-Alive: timeout=5\r\nX-Gone: 1\r\nX-Stays: 2\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n\r\nok"))
	client := harness.Dial(t, through(t, upstream))
	client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Secret\r\nConnection: Authorization, X-Forwarded-For, x-other\r\n"+
		"X-Secret: 1\r\nX-Other: 2\r\nAuthorization: Bearer t\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: websocket\r\nProxy-Connection: close\r\n"+
		"Proxy-Authorization: Basic x\r\nExpect: 100-continue\r\nX-Stays: 3\r\n\r\n")
	got := upstream.Request(t)
	for _, gone := range []string{"Connection", "X-Secret", "X-Other", "Keep-Alive", "TE", "Upgrade", "Proxy-Connection", "Proxy-Authorization", "Expect"} {
		wantField(t, got, gone)
	}
	wantField(t, got, "X-Stays", "3")
	wantField(t, got, "Authorization", "Bearer t")
	wantField(t, got, "X-Forwarded-For", "127.0.0.1")
	if interim := client.Until(t, "\r\n\r\n"); interim != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Errorf("want 100 Continue from the proxy itself, got:\n%s", interim)
	}
	final := client.Until(t, "\r\n\r\nok")
	wantStatus(t, final, 200)
	for _, gone := range []string{"X-Gone", "Keep-Alive", "Proxy-Authenticate", "Upgrade"} {
		wantField(t, final, gone)
	}
	wantField(t, final, "X-Stays", "2")
	wantField(t, final, "Content-Length", "2")
}

func TestEachHopByHopFieldAlone(t *testing.T) {
	for _, field := range []string{"Keep-Alive: x", "Proxy-Authorization: x", "Proxy-Connection: x", "TE: trailers", "Upgrade: x", "Trailer: X-Stays", "Connection: keep-alive"} {
		upstream := harness.NewUpstream(t, exact("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Stays: 1\r\n"+field+"\r\n\r\nok"))
		client := harness.Dial(t, through(t, upstream))
		client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\nX-Stays: 1\r\n"+field+"\r\n\r\n")
		got, back := upstream.Request(t), client.Until(t, "\r\n\r\nok")
		name, _, _ := strings.Cut(field, ":")
		wantField(t, got, name)
		wantField(t, back, name)
		wantField(t, got, "X-Stays", "1")
		if name != "Trailer" { // a response's announced trailer fields cannot be told from its header's
			wantField(t, back, "X-Stays", "1")
		}
	}
}

func TestForwardedForIsOneLineThatEndsWithThePeer(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := through(t, upstream)
	for sent, want := range map[string]string{
		"":                              "127.0.0.1",
		"X-Forwarded-For: 10.0.0.1\r\n": "10.0.0.1, 127.0.0.1",
		"X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nx-forwarded-for: 10.0.0.3\r\n": "10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1",
	} {
		harness.Exchange(t, proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+sent+"\r\n")
		wantField(t, upstream.Request(t), "X-Forwarded-For", want)
	}
}

func TestRequestIDIsMadeOrKept(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := through(t, upstream)
	get := func(sent string) string {
		harness.Exchange(t, proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+sent+"\r\n")
		values := fields(upstream.Request(t), "X-Request-Id")
		if len(values) != 1 {
			t.Fatalf("want one X-Request-Id, got %q", values)
		}
		return values[0]
	}
	made := regexp.MustCompile(`^[0-9a-f]{32}$`)
	first, second := get(""), get("")
	if !made.MatchString(first) || !made.MatchString(second) || first == second {
		t.Errorf("want two different ids of 32 hex digits, got %q and %q", first, second)
	}
	if got := get("X-Request-Id: mine\r\n"); got != "mine" {
		t.Errorf("the client's id became %q", got)
	}
	if got := get("X-Request-Id: " + strings.Repeat("x", maxRequestID+1) + "\r\n"); !made.MatchString(got) {
		t.Errorf("an overlong id was kept: %q", got)
	}
}

// fasthttp appends trailer fields to the header.
func TestTrailerFieldsDoNotBecomeHeaderFields(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := through(t, upstream)
	for _, body := range []string{"3\r\nabc\r\n0\r\n", "0\r\n"} {
		for _, announced := range []string{"", "Trailer: X-User\r\n"} {
			harness.Exchange(t, proxy, "POST / HTTP/1.1\r\nHost: a\r\nX-User: me\r\nCookie: a=1; b=2\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"+
				announced+"\r\n"+body+"X-User: root\r\nX-Admin: yes\r\n\r\n")
			got := upstream.Request(t)
			wantField(t, got, "X-User", "me")
			wantField(t, got, "X-Admin")
			wantField(t, got, "Trailer")
			wantField(t, got, "Transfer-Encoding")
			wantField(t, got, "Cookie", "a=1; b=2")
			wantField(t, got, "Host", "a")
			wantField(t, got, "Content-Type", "text/plain")
			wantField(t, got, "Content-Length", map[bool]string{true: "3", false: "0"}[body[0] == '3'])
		}
	}
	harness.Exchange(t, proxy, "GET /with-body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	got := upstream.Request(t)
	wantField(t, got, "Content-Length", "3")
	if !strings.HasSuffix(got, "\r\n\r\nabc") {
		t.Errorf("the body of GET was lost:\n%s", got)
	}
}

func TestTargetsThatTwoPartiesReadDifferentlyAreRefused(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := through(t, upstream)
	for _, path := range []string{"/a/../b", "/..", "/a/%2e%2E/b", "/a/./b", "/a/.%2e", "/%2E"} {
		raw := harness.Exchange(t, proxy, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		wantStatus(t, raw, 400)
	}
	wantStatus(t, harness.Exchange(t, proxy, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"), 400) // no Host
	wantStatus(t, harness.Exchange(t, proxy, "CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\nConnection: close\r\n\r\n"), 405)
	upstream.None(t)
	for _, path := range []string{"/a/.well-known/b", "/a/..b", "/a/b..", "/%2e%2ea", "/..."} {
		wantStatus(t, harness.Exchange(t, proxy, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200)
	}
}

func TestAbsoluteFormNamesTheHost(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	for _, scheme := range []string{"http", "https"} {
		harness.Exchange(t, through(t, upstream), "GET "+scheme+"://b.example/x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
		got := upstream.Request(t)
		if lines(got)[0] != "GET /x?y HTTP/1.1" {
			t.Errorf("the target became %q", lines(got)[0])
		}
		wantField(t, got, "Host", "b.example")
	}
}

func TestBasePathAndHostOfTheUpstream(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	proxy := proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address + "/base/"}, Host: "inner.example"}, false)
	harness.Exchange(t, proxy, "GET /x?y=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	got := upstream.Request(t)
	if lines(got)[0] != "GET /base/x?y=1 HTTP/1.1" {
		t.Errorf("the target became %q", lines(got)[0])
	}
	wantField(t, got, "Host", "inner.example")
}

func TestHTTP10ClientKeepsItsConnectionAndTheUpstreamSeesHTTP11(t *testing.T) {
	upstream := harness.NewUpstream(t, exact(ok))
	client := harness.Dial(t, through(t, upstream))
	for range 2 {
		client.Send(t, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") // HTTP/1.0 needs no Host
		if head := client.Until(t, "\r\n\r\nok"); !strings.Contains(head, "Connection: keep-alive\r\n") {
			t.Errorf("the connection is not kept:\n%s", head)
		}
		got := upstream.Request(t)
		if lines(got)[0] != "GET / HTTP/1.1" {
			t.Errorf("the request line became %q", lines(got)[0])
		}
		wantField(t, got, "Host", upstream.Address)
		wantField(t, got, "Connection")
	}
}

func TestAnswerIsPassedOnAsItCame(t *testing.T) {
	for _, c := range []struct{ method, sent, status, body string }{
		{"GET", "HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\nETag: \"x\"\r\nContent-Length: 3\r\n\r\nabc", "201 Created", "abc"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 OK", "ok"}, // no type: none is invented
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "204 No Content", ""},
		{"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "304 Not Modified", ""},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 1234\r\n\r\n", "200 OK", ""},
		{"GET", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 1\r\n\r\n!", "500 Internal Server Error", "!"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "200 OK", "abc"},
	} {
		upstream := harness.NewUpstream(t, exact(c.sent))
		raw := harness.Exchange(t, through(t, upstream), c.method+" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(raw, "HTTP/1.1 "+c.status+"\r\n") {
			t.Errorf("want %s, got:\n%s", c.status, raw)
		}
		if _, body, _ := strings.Cut(raw, "\r\n\r\n"); body != c.body {
			t.Errorf("%s: body %q, want %q", c.status, body, c.body)
		}
		for _, name := range []string{"Content-Type", "Set-Cookie", "ETag"} {
			wantField(t, raw, name, fields(c.sent, name)...)
		}
		if sent := fields(c.sent, "Content-Length"); len(sent) > 0 {
			wantField(t, raw, "Content-Length", sent...)
		}
		wantField(t, raw, "Transfer-Encoding")
	}
}

func TestAnswerUntilTheEndOfTheConnection(t *testing.T) {
	upstream := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nall there is")
		return false
	})
	for _, stream := range []bool{false, true} {
		client := harness.Dial(t, proxyTo(t, Settings{Servers: []string{"http://" + upstream.Address}}, stream))
		for range 2 { // the client's own connection stays
			client.Send(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			wantField(t, client.Until(t, "all there is"), "Content-Length", "12")
		}
	}
}

func TestConnectionsToTheUpstreamAreKept(t *testing.T) {
	var mu sync.Mutex
	connections := 0
	upstream := harness.NewUpstream(t, func(conn net.Conn, n int) bool {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 {
			connections++
		}
		_, err := io.WriteString(conn, ok)
		return err == nil
	})
	proxy := through(t, upstream)
	for range 20 { // each on a connection of its own, which the client closes
		wantStatus(t, harness.Exchange(t, proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200)
	}
	if connections != 1 {
		t.Errorf("20 requests one after the other took %d connections to the upstream, want 1", connections)
	}
}

func TestRequestsGoToTheServerWithTheFewestInFlight(t *testing.T) {
	release := make(chan struct{})
	slow := harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		<-release
		_, err := io.WriteString(conn, ok)
		return err == nil
	})
	quick := harness.NewUpstream(t, exact(ok))
	proxy := proxyTo(t, Settings{Servers: []string{"http://" + slow.Address, "http://" + quick.Address}}, false)
	stuck := harness.Dial(t, proxy)
	stuck.Send(t, "GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n")
	slow.Request(t)
	for range 10 {
		wantStatus(t, harness.Exchange(t, proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200)
		quick.Request(t)
	}
	slow.None(t)
	close(release)
	stuck.Until(t, "\r\n\r\nok")
}

func TestSettingsAreChecked(t *testing.T) {
	for _, servers := range [][]string{nil, {"ftp://a"}, {"https://a"}, {"http://"}, {"a:1"}, {"http://a?b"}, {"http://u:p@a"}, {"http://a/x", "http://b/y"}, {"http://a b"}} {
		if _, err := New(Settings{Servers: servers}); err == nil {
			t.Errorf("servers %q were accepted", servers)
		}
	}
	for base, want := range map[string][2]string{
		"http://a":           {"a:80", ""},
		"http://a:81/":       {"a:81", ""},
		"http://[::1]:81/x/": {"[::1]:81", "/x"},
		"http://a/b%20c":     {"a:80", "/b%20c"},
	} {
		address, path, err := ParseServer(base)
		if err != nil || [2]string{address, path} != want {
			t.Errorf("ParseServer(%q) = %q, %q, %v; want %q", base, address, path, err, want)
		}
	}
}

// What the duties of a proxy cost for a browser's request, apart from the exchange itself.
func BenchmarkHeaderDuties(b *testing.B) {
	var request fasthttp.Request
	for name, value := range map[string]string{"Host": "a", "User-Agent": "b", "Accept": "*/*", "Accept-Encoding": "gzip", "Accept-Language": "en", "Cookie": "a=1"} {
		request.Header.Set(name, value)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, nil)
	app := fiber.New()
	c := app.AcquireCtx(&ctx)
	defer app.ReleaseCtx(c)
	b.ReportAllocs()
	for b.Loop() {
		h := &c.Request().Header
		h.Del(fiber.HeaderXForwardedFor)
		h.Del(fiber.HeaderXRequestID)
		prepareRequest(h, ctx.RemoteAddr())
		cleanResponse(&c.Response().Header)
	}
}
