package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/services/gateway-fiber/config"
	"weir/services/internal/harness"
	"weir/services/internal/process"
)

func TestMain(m *testing.M) { harness.Main(m, main) }

func answerOK(conn net.Conn, _ int) bool {
	_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err == nil
}

// gateway serves a configuration whose only upstream is called "up", and returns the address of the gateway.
func gateway(t *testing.T, upstream *harness.Upstream, routes string) string {
	t.Helper()
	document := fmt.Sprintf(`{"upstreams": {"up": {"servers": ["http://%s"]}}, "routes": [%s]}`, upstream.Address, routes)
	cfg, err := config.Parse([]byte(document), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newGateway(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return harness.Serve(t, app)
}

func ask(t *testing.T, address, methodAndPath string) string {
	t.Helper()
	return harness.Exchange(t, address, methodAndPath+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

func status(raw string) string {
	code, _, _ := strings.Cut(strings.TrimPrefix(raw, "HTTP/1.1 "), " ")
	return code
}

func TestPathsAreMatchedAsDocumented(t *testing.T) {
	upstream := harness.NewUpstream(t, answerOK)
	for _, c := range []struct{ pattern, matches, not string }{
		{"/a", "/a /a?x=1", "/A /a/ /ab /a/b /"},
		{"/a/", "/a/", "/a /a/b"},
		{"/", "/", "/a //"},
		{"/a/*", "/a/ /a/b /a/b/c/ /a//b", "/a /ab /b/a/"},
		{"/*", "/ /a /a/b", ""},
		{"/a/{x}", "/a/1 /a/a%2Fb /a/é", "/a/ /a /a/1/ /a/1/2"},
		{"/a/{x}/", "/a/1/", "/a/1 /a//"},
		{"/a/{x}/b", "/a/1/b /a/b/b", "/a/1/c /a//b /a/1/2/b /a/1/b/"},
		{"/{x}/{y}", "/a/b", "/a /a/ //b /a/b/c"},
		{"/a/{x}/*", "/a/1/ /a/1/2 /a/1/2/3", "/a/1 /a/ /a//"},
		{"/v1/models/{m}:predict", "/v1/models/x:predict", "/v1/models/x /v1/models/:predict /v1/models/x:train /v1/models/x/y:predict"},
		{"/v1/models:list", "/v1/models:list", "/v1/modelsxlist /v1/models"},
		{"/{name}.json", "/a.json", "/a /.json /a/b.json /a.jsonx"},
		{"/{a}-{b}", "/x-y", "/x /-y /x/y-z /x-y/z"},
		{"/a+b/(c)", "/a+b/(c)", "/aab/(c) /a/c"},
	} {
		address := gateway(t, upstream, fmt.Sprintf(`{"path": %q, "upstream": "up"}`, c.pattern))
		for path := range strings.FieldsSeq(c.matches) {
			if got := status(ask(t, address, "GET "+path)); got != "200" {
				t.Errorf("%s should match %s: %s", c.pattern, path, got)
			}
		}
		for path := range strings.FieldsSeq(c.not) {
			if got := status(ask(t, address, "GET "+path)); got != "404" {
				t.Errorf("%s should not match %s: %s", c.pattern, path, got)
			}
		}
	}
}

func TestRewritesGiveTheUpstreamItsPath(t *testing.T) {
	upstream := harness.NewUpstream(t, answerOK)
	for _, c := range []struct{ path, rewrite, sent, want string }{
		{"/api/*", ``, "/api/x/y?z=1", "/api/x/y?z=1"},
		{"/api/*", `{"prefix": "/"}`, "/api/x//y?z=%2F", "/x//y?z=%2F"},
		{"/api/*", `{"prefix": "/"}`, "/api/", "/"},
		{"/api/*", `{"prefix": "/v2"}`, "/api/x", "/v2/x"},
		{"/api/*", `{"prefix": "/v2/"}`, "/api/x", "/v2/x"},
		{"/api/{id}/x", `{"prefix": "/v2"}`, "/api/7/x", "/v2/7/x"},
		{"/api", `{"prefix": "/"}`, "/api?q", "/?q"},
		{"/infer/python", `{"path": "/infer"}`, "/infer/python?a=b", "/infer?a=b"},
		{"/a/{x}/b/{y-id}", `{"path": "/{y-id}/of/{x}"}`, "/a/1%202/b/3", "/3/of/1%202"},
		{"/*", `{"path": "/all"}`, "/whatever", "/all"},
	} {
		rewrite := ""
		if c.rewrite != "" {
			rewrite = `, "rewrite": ` + c.rewrite
		}
		address := gateway(t, upstream, fmt.Sprintf(`{"path": %q, "upstream": "up"%s}`, c.path, rewrite))
		if got := status(ask(t, address, "GET "+c.sent)); got != "200" {
			t.Errorf("%s: status %s", c.sent, got)
			continue
		}
		line, _, _ := strings.Cut(upstream.Request(t), "\r\n")
		if line != "GET "+c.want+" HTTP/1.1" {
			t.Errorf("%s %s: %s became %q, want %s", c.path, c.rewrite, c.sent, line, c.want)
		}
	}
}

func TestWrongMethodIs405WithTheRightOnes(t *testing.T) {
	upstream := harness.NewUpstream(t, answerOK)
	address := gateway(t, upstream, `
		{"path": "/a/{id}", "methods": ["PUT"], "upstream": "up"}, {"path": "/a/{id}", "methods": ["GET"], "respond": {"body": "1"}},
		{"path": "/b", "methods": ["POST"], "respond": {"status": 202}}`)
	for request, want := range map[string]string{
		"GET /a/1":    "200 ",
		"HEAD /a/1":   "200 ",
		"PUT /a/1":    "200 ",
		"DELETE /a/1": "405 GET, HEAD, PUT",
		"POST /b":     "202 ",
		"GET /b":      "405 POST",
		"GET /c":      "404 ",
		"POST /c/d":   "404 ",
	} {
		raw := ask(t, address, request)
		_, after, _ := strings.Cut(raw, "\r\nAllow: ")
		allow, _, _ := strings.Cut(after, "\r\n")
		if got := status(raw) + " " + allow; got != want {
			t.Errorf("%s: got %q, want %q", request, got, want)
		}
	}
	upstream.Request(t) // PUT alone went there
	upstream.None(t)
}

func TestLocalAnswers(t *testing.T) {
	address := gateway(t, harness.NewUpstream(t, answerOK), `
		{"path": "/json", "respond": {"body": "{\"ok\":true}"}},
		{"path": "/teapot", "respond": {"status": 418, "content_type": "text/plain; charset=utf-8", "body": "ü"}},
		{"path": "/nothing", "respond": {"status": 204}}`)
	for path, want := range map[string][]string{
		"/json":    {"HTTP/1.1 200 OK\r\n", "\r\nContent-Type: application/json\r\n", "\r\nContent-Length: 11\r\n", "\r\n\r\n{\"ok\":true}"},
		"/teapot":  {"HTTP/1.1 418 I'm a teapot\r\n", "\r\nContent-Type: text/plain; charset=utf-8\r\n", "\r\n\r\nü"},
		"/nothing": {"HTTP/1.1 204 No Content\r\n"},
	} {
		raw := ask(t, address, "GET "+path)
		for _, part := range want {
			if !strings.Contains(raw, part) {
				t.Errorf("%s: no %q in:\n%s", path, part, raw)
			}
		}
	}
}

func TestHealthGivesWayToARouteForItsPath(t *testing.T) {
	upstream := harness.NewUpstream(t, answerOK)
	for routes, want := range map[string]string{
		`{"path": "/*", "upstream": "up"}`:                                                    `{"ok":true,"service":"gateway-fiber"}`,
		`{"path": "/*", "upstream": "up"}, {"path": "/healthz", "respond": {"body": "mine"}}`: "mine",
	} {
		if raw := ask(t, gateway(t, upstream, routes), "GET /healthz"); !strings.HasSuffix(raw, "\r\n\r\n"+want) {
			t.Errorf("%s: want %s, got:\n%s", routes, want, raw)
		}
	}
	document := fmt.Sprintf(`{"health_path": "", "upstreams": {"up": {"servers": ["http://%s"]}}, "routes": [{"path": "/*", "upstream": "up"}]}`, upstream.Address)
	cfg, err := config.Parse([]byte(document), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newGateway(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if raw := ask(t, harness.Serve(t, app), "GET /healthz"); !strings.HasSuffix(raw, "\r\n\r\nok") {
		t.Errorf("health is off, and yet:\n%s", raw)
	}
}

func TestDefaultFileIsTheGatewayOfTheComparison(t *testing.T) {
	upstream := harness.NewUpstream(t, answerOK)
	p := harness.Start(t, []string{"AUTH_URL=http://" + upstream.Address}, "-port", "0", "-processes", "1")
	address := strings.TrimPrefix(p.URL, "http://")
	if raw := ask(t, address, "GET /api/auth/sample"); status(raw) != "200" {
		t.Errorf("/api/auth/sample:\n%s", raw)
	}
	if line, _, _ := strings.Cut(upstream.Request(t), "\r\n"); line != "GET /api/auth/sample HTTP/1.1" {
		t.Errorf("the service got %q", line)
	}
	if raw := ask(t, address, "GET /gates"); !strings.HasSuffix(raw, "\r\n\r\n"+`{"ok":true,"service":"fiber"}`) {
		t.Errorf("/gates:\n%s", raw)
	}
	upstream.None(t)
}

func TestConfigurationIsCheckedBeforeItListens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(file, []byte("{\n  \"routes\": [{\"path\": \"/a\", \"upstream\": \"b\"}]\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, args []string
		code      int
		says      string
	}{
		{nil, []string{"-config", file}, process.ExitUsage, "gateway-fiber: " + file + `: line 2, column 41: routes[0].upstream: "b" is not an upstream`},
		{[]string{"CONFIG=" + file}, []string{"-check"}, process.ExitUsage, "line 2, column 41"},
		{nil, []string{"-config", "nowhere.json"}, process.ExitUsage, "open nowhere.json: no such file"},
		{nil, []string{"-processes", "-1"}, process.ExitUsage, "-processes"},
		{nil, []string{"-check"}, process.ExitOK, "fine: 2 routes, upstreams: 1"},
	} {
		code, stdout, stderr := harness.Run(t, c.env, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v %v: exit %d, want %d and %q, got:\n%s%s", c.env, c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

func TestListenOfTheFileIsOverriddenByTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.json")
	if err := os.WriteFile(file, []byte(`{"listen": "127.0.0.3:0", "routes": [{"path": "/a", "respond": {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := harness.Start(t, []string{"CONFIG=" + file}); !strings.HasPrefix(p.URL, "http://127.0.0.3:") {
		t.Errorf("it listens on %s", p.URL)
	}
	if p := harness.Start(t, []string{"CONFIG=" + file, "HOST=127.0.0.2"}); !strings.HasPrefix(p.URL, "http://127.0.0.2:") {
		t.Errorf("it listens on %s", p.URL)
	}
}
