package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/services/internal/process"
)

func noEnv(string) (string, bool) { return "", false }

// within puts a route, and what else is given, into a document that is fine.
func within(route string) string {
	return `{"upstreams": {"a": {"servers": ["http://127.0.0.1:1"]}},` + "\n" + ` "routes": [` + route + `]}`
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, document string) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestEverythingIsRead(t *testing.T) {
	document := `{
  "$schema": "x", "description": "y",
  "listen": "0.0.0.0:${P:-1234}", "processes": 2, "body_bytes": 100, "health_path": "/up",
  "upstreams": {
    "a": {"servers": ["http://${H:-h}:1/x", "http://b:2/x/"], "host": "c.example", "max_connections": 3,
          "connect_timeout_ms": 4, "timeout_ms": 5, "idle_timeout_ms": 6},
    "b": {"servers": ["http://b"]}
  },
  "routes": [
    {"path": "/w/*", "upstream": "a", "methods": ["GET", "POST"], "rewrite": {"prefix": "/v2"}, "stream": true},
    {"path": "/t/{id}/{name}.json", "upstream": "b", "rewrite": {"path": "/u/{name}/{id}"}},
    {"path": "/r", "respond": {"status": 201, "content_type": "text/plain", "body": "hi"}},
    {"path": "/r2", "respond": {}}
  ]
}`
	if err := validate(t, compileSchema(t), document); err != nil {
		t.Error(err)
	}
	config, err := Parse([]byte(document), func(name string) (string, bool) { return "host", name == "H" })
	if err != nil {
		t.Fatal(err)
	}
	if config.Listen != (process.Listen{Host: "0.0.0.0", Port: 1234}) || config.Processes != 2 || config.BodyBytes != 100 || config.HealthPath != "/up" {
		t.Errorf("%+v", config)
	}
	a := config.Upstreams["a"]
	if !slices.Equal(a.Servers, []string{"http://host:1/x", "http://b:2/x/"}) || a.Host != "c.example" || a.MaxConnections != 3 ||
		a.ConnectTimeout != 4*time.Millisecond || a.Timeout != 5*time.Millisecond || a.IdleTimeout != 6*time.Millisecond {
		t.Errorf("%+v", a)
	}
	var shapes []string
	for _, route := range config.Routes {
		shapes = append(shapes, route.Path.shape())
	}
	if !slices.Equal(shapes, []string{"/r", "/r2", "/t/{}/{}.json", "/w/*"}) {
		t.Errorf("order: %q", shapes)
	}
	plain, silent, template, wildcard := config.Routes[0], config.Routes[1], config.Routes[2], config.Routes[3]
	if plain.Respond.Status != 201 || plain.Respond.ContentType != "text/plain" || string(plain.Respond.Body) != "hi" || plain.Upstream != "" {
		t.Errorf("%+v", plain)
	}
	if silent.Respond.Status != 200 || silent.Respond.ContentType != "application/json" || len(silent.Respond.Body) != 0 {
		t.Errorf("%+v", silent)
	}
	if template.Upstream != "b" || !slices.Equal(template.Methods, DefaultMethods) || !slices.Equal(template.Rewrite.Path, []string{"/u/", "name", "/", "id"}) || template.Stream {
		t.Errorf("%+v", template)
	}
	if !wildcard.Stream || !slices.Equal(wildcard.Methods, []string{"GET", "POST", "HEAD"}) || wildcard.Rewrite.Prefix != "/v2/" || wildcard.Rewrite.Strip != 3 {
		t.Errorf("%+v", wildcard)
	}
}

func TestDefaults(t *testing.T) {
	config, err := Parse([]byte(within(`{"path": "/*", "upstream": "a"}`)), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if config.Listen != (process.Listen{Host: "127.0.0.1", Port: 5000}) || config.Processes != 0 || config.BodyBytes != 32<<20 || config.HealthPath != "/healthz" {
		t.Errorf("%+v", config)
	}
}

// The schema may accept what the program refuses, never the other way round.
func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	schema := compileSchema(t)
	for _, c := range []struct {
		document, want string
		schemaToo      bool
	}{
		{``, "line 1, column 1: the document ends too early", false},
		{"{\n  \"routes\": [,]\n}", "line 2, column 14: invalid character ','", false},
		{"{\n  \"routes\": [1, true]\n}", "line 2, column 14: routes[0]: want an object, not a number", false},
		{"{\n  \"processes\": tru\n}", "line 2, column 19: invalid character '\\n' in literal true", false},
		{"{\n  \"listen\" \"a\"\n}", "line 2, column 12: invalid character '\"' after object key", false},
		{"{\n  \"listen\": \"a", "line 2, column 15: the document ends too early", false},
		{within(`{"path": "/a", "upstream": "a"}`) + "\n{}", "line 3, column 1: invalid character '{' after top-level value", false},
		{`[]`, "line 1, column 1: want an object, not an array", true},
		{`{"routes": null}`, "line 1, column 12: routes: want an array, not null", true},
		{`{}`, "line 1, column 1: routes: want at least one route", true},
		{"{\n \"route\": []}", `line 2, column 2: route: unknown key; there are: $schema, description, listen, processes, body_bytes, health_path, upstreams, routes`, true},
		{`{"Routes": []}`, "unknown key", true},
		{`{"processes": 1, "processes": 2}`, "line 1, column 18: processes: this key comes twice", false},
		{`{"processes": "2"}`, "line 1, column 15: processes: want a whole number, not a string", true},
		{`{"processes": 2.5}`, "processes: want a whole number", true},
		{`{"processes": -1, "routes": [{"path": "/a", "respond": {}}]}`, "processes: -1 is out of range: want 0 to 65535", true},
		{`{"body_bytes": 0, "routes": [{"path": "/a", "respond": {}}]}`, "body_bytes: 0 is out of range", true},
		{`{"body_bytes": 1e30}`, "body_bytes", true},
		{`{"listen": 5000}`, "listen: want a string, not a number", true},
		{`{"listen": "5000", "routes": [{"path": "/a", "respond": {}}]}`, `listen: "5000" is not an address: want HOST:PORT`, false},
		{`{"listen": "a:99999", "routes": [{"path": "/a", "respond": {}}]}`, `listen: "99999" is not a port`, false},
		{`{"listen": "a:${NO}", "routes": [{"path": "/a", "respond": {}}]}`, "listen: the variable NO is not set", false},
		{`{"health_path": "up", "routes": [{"path": "/a", "respond": {}}]}`, `health_path: "up" does not begin with a slash`, true},
		{`{"health_path": "/{x}", "routes": [{"path": "/a", "respond": {}}]}`, "health_path: want a path without parameters", true},
		{`{"upstreams": {"a": {}}, "routes": [{"path": "/a", "upstream": "a"}]}`, "line 1, column 21: upstreams.a.servers: want at least one URL", true},
		{`{"upstreams": {"a": {"servers": ["127.0.0.1:1"]}}}`, `upstreams.a.servers[0]: "127.0.0.1:1" is not a URL`, true},
		{`{"upstreams": {"a": {"servers": ["https://b"]}}}`, `upstreams.a.servers[0]: "https://b": want http://HOST:PORT (https is not supported)`, true},
		{`{"upstreams": {"a": {"servers": ["http://b/x", "http://c/y"]}}}`, "upstreams.a.servers: \"http://c/y\": all servers", false},
		{`{"upstreams": {"a": {"servers": ["http://b"], "timeout_ms": 0}}}`, "upstreams.a.timeout_ms: 0 is out of range", true},
		{`{"upstreams": {"a": {"servers": ["http://b"], "host": "http://x"}}}`, `upstreams.a.host: "http://x" is not a host`, true},
		{within(`{"path": "/a", "upstream": "b"}`), `line 2, column 40: routes[0].upstream: "b" is not an upstream; there are: a`, false},
		{within(`{"path": "/a"}`), "line 2, column 13: routes[0]: want an upstream, or respond", true},
		{within(`{"upstream": "a"}`), "routes[0].path: the path is missing", true},
		{within(`{"path": "/a", "upstream": "a", "respond": {}}`), "routes[0]: want either an upstream or respond, not both", true},
		{within(`{"path": "/a", "respond": {}, "stream": true}`), "routes[0]: rewrite and stream are for routes with an upstream", true},
		{within(`{"path": "a", "upstream": "a"}`), `routes[0].path: "a" does not begin with a slash`, true},
		{within(`{"path": "/a b", "upstream": "a"}`), `routes[0].path: "/a b" holds a character`, true},
		{within(`{"path": "/a/*/b", "upstream": "a"}`), "routes[0].path: * may stand only at the end", false},
		{within(`{"path": "/a*", "upstream": "a"}`), "routes[0].path: * may stand only at the end", false},
		{within(`{"path": "/{a", "upstream": "a"}`), "has a { that does not begin a {name}", false},
		{within(`{"path": "/{}", "upstream": "a"}`), "has a { that does not begin a {name}", false},
		{within(`{"path": "/a}", "upstream": "a"}`), "has a } without a {", false},
		{within(`{"path": "/{a}{b}", "upstream": "a"}`), "{a} and {b} need something between them", false},
		{within(`{"path": "/{a}b", "upstream": "a"}`), "after {a} must come one of / - . : or the end", false},
		{within(`{"path": "/{a}/{a}", "upstream": "a"}`), "the parameter {a} comes twice", false},
		{within(`{"path": "/a", "upstream": "a", "methods": []}`), "routes[0].methods: want at least one method", true},
		{within(`{"path": "/a", "upstream": "a", "methods": ["GET", "get"]}`), `routes[0].methods[1]: "get" is not one of the methods GET, HEAD`, true},
		{within(`{"path": "/a", "upstream": "a", "methods": ["GET", "GET"]}`), "routes[0].methods[1]: GET comes twice", true},
		{within(`{"path": "/a", "upstream": "a", "rewrite": {}}`), "routes[0].rewrite: want either path or prefix", true},
		{within(`{"path": "/a", "upstream": "a", "rewrite": {"path": "/b", "prefix": "/c"}}`), "routes[0].rewrite: want either path or prefix", true},
		{within(`{"path": "/a/{x}", "upstream": "a", "rewrite": {"path": "/{y}"}}`), "routes[0].rewrite.path: the route's path has no parameter {y}", false},
		{within(`{"path": "/a", "upstream": "a", "rewrite": {"prefix": "b"}}`), `routes[0].rewrite.prefix: "b" does not begin with a slash`, true},
		{within(`{"path": "/a", "upstream": "a", "rewrite": {"prefix": "/*"}}`), "routes[0].rewrite.prefix", true},
		{within(`{"path": "/a", "respond": {"status": 99}}`), "routes[0].respond.status: 99 is out of range: want 200 to 599", true},
		{within(`{"path": "/a", "respond": {"status": 204, "body": "x"}}`), "routes[0].respond.body: a response with status 204 has no body", false},
		{within(`{"path": "/a", "respond": {"content_type": "a\nb"}}`), "routes[0].respond.content_type", true},
		{within(`{"path": "/a", "respond": true}`), "routes[0].respond: want an object, not true", true},
		{within(`{"path": "/a/{x}", "upstream": "a", "methods": ["GET"]},` + "\n" + `{"path": "/a/{y}", "respond": {}, "methods": ["HEAD"]}`), "line 3, column 10: routes[1].path: routes[0] has this path and a method of this route", false},
	} {
		_, err := Parse([]byte(c.document), noEnv)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\nwant %q,\ngot  %v", c.document, c.want, err)
			continue
		}
		if c.schemaToo && validate(t, schema, c.document) == nil {
			t.Errorf("the schema accepts what the program refuses with %v:\n%s", err, c.document)
		}
	}
}

func TestRoutesOfOnePathMayDifferInMethod(t *testing.T) {
	document := within(`{"path": "/a/{x}", "upstream": "a", "methods": ["GET"]}, {"path": "/a/{y}", "respond": {}, "methods": ["PUT"]}`)
	if _, err := Parse([]byte(document), noEnv); err != nil {
		t.Error(err)
	}
}

func TestMoreSpecificRoutesComeFirst(t *testing.T) {
	want := []string{"/a/b", "/a/{x}/c/d", "/a/{x}/c", "/a/{x}", "/{x}/b", "/a/b/c/*", "/a/b/*", "/a/{x}/*", "/a/*", "/*"}
	var routes []string
	for _, path := range want {
		routes = append([]string{`{"path": "` + path + `", "upstream": "a"}`}, routes...)
	}
	config, err := Parse([]byte(within(strings.Join(routes, ","))), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, route := range config.Routes {
		got = append(got, strings.ReplaceAll(route.Path.shape(), "{}", "{x}"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSchemaAndProgramAcceptEveryFileThatIsShipped(t *testing.T) {
	files, err := filepath.Glob("../examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range append(files, "../gateway.json") {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(document, noEnv); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := validate(t, compileSchema(t), string(document)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	if _, err := Load("no-such-file.json"); err == nil || !strings.Contains(err.Error(), "no-such-file.json") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(within(`{"path": "/a/{x}/*", "upstream": "a", "rewrite": {"path": "/{x}"}}`)))
	f.Add([]byte(`{"listen": "${A:-b}:1", "routes": [{"path": "/{a}.{b}", "respond": {"status": 204}}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		config, err := Parse(document, noEnv)
		if (config == nil) == (err == nil) {
			t.Errorf("config %v, error %v", config, err)
		}
	})
}
