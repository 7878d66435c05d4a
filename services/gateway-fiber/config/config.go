// Package config reads the gateway's JSON file and says what is wrong with it, and where. The format is described in
// config.schema.json beside the gateway; this package is stricter where a schema cannot tell.
package config

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/services/internal/forward"
	"weir/services/internal/process"
)

// raw is what the file says.
type raw struct {
	Schema      string                 `json:"$schema"`
	Description string                 `json:"description"`
	Listen      *string                `json:"listen"`
	Processes   *int                   `json:"processes"`
	BodyBytes   *int                   `json:"body_bytes"`
	HealthPath  *string                `json:"health_path"`
	Upstreams   map[string]rawUpstream `json:"upstreams"`
	Routes      []rawRoute             `json:"routes"`
}

type rawUpstream struct {
	Servers          []string `json:"servers"`
	Host             string   `json:"host"`
	MaxConnections   *int     `json:"max_connections"`
	ConnectTimeoutMS *int     `json:"connect_timeout_ms"`
	TimeoutMS        *int     `json:"timeout_ms"`
	IdleTimeoutMS    *int     `json:"idle_timeout_ms"`
}

type rawRoute struct {
	Path     string      `json:"path"`
	Methods  []string    `json:"methods"`
	Upstream *string     `json:"upstream"`
	Rewrite  *rawRewrite `json:"rewrite"`
	Stream   bool        `json:"stream"`
	Respond  *rawRespond `json:"respond"`
}

type rawRewrite struct {
	Path   *string `json:"path"`
	Prefix *string `json:"prefix"`
}

type rawRespond struct {
	Status      *int    `json:"status"`
	ContentType *string `json:"content_type"`
	Body        string  `json:"body"`
}

// Config is what the file means.
type Config struct {
	Listen process.Listen
	// Processes is how many cores run Go code at once (GOMAXPROCS); 0 leaves it to Go.
	Processes int
	// BodyBytes bounds the body of a request.
	BodyBytes int
	// HealthPath is served by the gateway itself; empty: no path is.
	HealthPath string
	// Upstreams by name.
	Upstreams map[string]forward.Settings
	// Routes, the more specific ones first.
	Routes []Route
}

// Route has either an upstream or a response of its own.
type Route struct {
	Path Pattern
	// Methods are those that the route serves, with HEAD wherever GET is.
	Methods  []string
	Upstream string
	Rewrite  Rewrite
	// Stream passes the upstream's response on as it arrives.
	Stream  bool
	Respond *Respond
}

// Rewrite says what the upstream gets for a path. The zero value keeps the path.
type Rewrite struct {
	// Path replaces the whole path: constants and names of the pattern's parameters, in turn, beginning with a constant.
	Path []string
	// Prefix replaces the first Strip bytes of the path, the fixed part of the pattern before its first parameter or wildcard.
	Prefix string
	Strip  int
}

// Respond is a response that the gateway gives itself.
type Respond struct {
	Status      int
	ContentType string
	Body        []byte
}

// Defaults of the file.
const (
	DefaultHost       = "127.0.0.1"
	DefaultPort       = 5000
	DefaultHealthPath = "/healthz"
)

// Methods that a route may name: those that Fiber knows, without CONNECT, which opens a tunnel.
var Methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}

// DefaultMethods are those of a route that names none. TRACE must be named, as its response shows what proxies have added.
var DefaultMethods = Methods[:len(Methods)-1]

// Parse reads a document. ${NAME:-default} in listen and in the servers' URLs is replaced from the environment, which env reads.
func Parse(document []byte, env func(string) (string, bool)) (*Config, error) {
	var file raw
	at, err := decode(document, &file)
	if err != nil {
		return nil, err
	}
	p := &parser{at: at, env: env}
	config := &Config{
		Listen:     process.Listen{Host: DefaultHost, Port: DefaultPort},
		Processes:  p.number("processes", file.Processes, 0, 0, 65535),
		BodyBytes:  p.number("body_bytes", file.BodyBytes, process.MaxBodyBytes, 1, 1<<30),
		HealthPath: DefaultHealthPath,
		Upstreams:  map[string]forward.Settings{},
	}
	if file.Listen != nil {
		config.Listen = p.listen(*file.Listen)
	}
	if file.HealthPath != nil {
		config.HealthPath = *file.HealthPath
		if *file.HealthPath != "" {
			if pattern := p.pattern("health_path", *file.HealthPath); pattern.Wildcard || len(pattern.Params()) > 0 {
				p.fail("health_path", "want a path without parameters and without *")
			}
		}
	}
	for _, name := range sortedKeys(file.Upstreams) {
		config.Upstreams[name] = p.upstream("upstreams."+name, file.Upstreams[name])
	}
	if len(file.Routes) == 0 {
		p.fail("routes", "want at least one route")
	}
	for i, route := range file.Routes {
		config.Routes = append(config.Routes, p.route(fmt.Sprintf("routes[%d]", i), route, config.Upstreams))
	}
	if p.err == nil {
		p.ambiguous(config.Routes)
	}
	if p.err != nil {
		return nil, p.err
	}
	slices.SortStableFunc(config.Routes, func(a, b Route) int { return a.Path.compare(b.Path) })
	return config, nil
}

// parser keeps the first error; what is checked after it does not matter.
type parser struct {
	at  *positions
	env func(string) (string, bool)
	err error
}

func (p *parser) fail(path, format string, arguments ...any) {
	if p.err == nil {
		p.err = p.at.errorf(path, format, arguments...)
	}
}

func (p *parser) number(path string, value *int, otherwise, least, most int) int {
	if value == nil {
		return otherwise
	}
	if *value < least || *value > most {
		p.fail(path, "%d is out of range: want %d to %d", *value, least, most)
	}
	return *value
}

func (p *parser) listen(text string) process.Listen {
	text = p.expand("listen", text)
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		p.fail("listen", "%q is not an address: want HOST:PORT", text)
		return process.Listen{}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		p.fail("listen", "%q is not a port: want a number from 0 to 65535", portText)
	}
	return process.Listen{Host: host, Port: int(port)}
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

func (p *parser) expand(path, text string) string {
	return variable.ReplaceAllStringFunc(text, func(reference string) string {
		parts := variable.FindStringSubmatch(reference)
		if value, set := p.env(parts[1]); set && value != "" {
			return value
		}
		if parts[2] == "" {
			p.fail(path, "the variable %s is not set, and %s gives no default", parts[1], reference)
		}
		return strings.TrimPrefix(parts[2], ":-")
	})
}

func (p *parser) upstream(path string, upstream rawUpstream) forward.Settings {
	milliseconds := func(key string, value *int, most time.Duration) time.Duration {
		return time.Duration(p.number(path+"."+key, value, 0, 1, int(most.Milliseconds()))) * time.Millisecond
	}
	settings := forward.Settings{
		Host:           upstream.Host,
		MaxConnections: p.number(path+".max_connections", upstream.MaxConnections, 0, 1, 1_000_000),
		ConnectTimeout: milliseconds("connect_timeout_ms", upstream.ConnectTimeoutMS, time.Minute),
		Timeout:        milliseconds("timeout_ms", upstream.TimeoutMS, 24*time.Hour),
		IdleTimeout:    milliseconds("idle_timeout_ms", upstream.IdleTimeoutMS, time.Hour),
	}
	if len(upstream.Servers) == 0 {
		p.fail(path+".servers", "want at least one URL")
	}
	if strings.ContainsFunc(upstream.Host, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '@' }) {
		p.fail(path+".host", "%q is not a host", upstream.Host)
	}
	for i, server := range upstream.Servers {
		member := fmt.Sprintf("%s.servers[%d]", path, i)
		server = p.expand(member, server)
		if _, _, err := forward.ParseServer(server); err != nil {
			p.fail(member, "%v", err)
		}
		settings.Servers = append(settings.Servers, server)
	}
	if p.err == nil {
		if _, err := forward.New(settings); err != nil { // the rules about servers together
			p.fail(path+".servers", "%v", err)
		}
	}
	return settings
}

func (p *parser) route(path string, file rawRoute, upstreams map[string]forward.Settings) Route {
	route := Route{Path: p.pattern(path+".path", file.Path), Stream: file.Stream}
	if file.Methods != nil && len(file.Methods) == 0 {
		p.fail(path+".methods", "want at least one method; without the key a route serves all but TRACE")
	}
	for i, method := range file.Methods {
		member := fmt.Sprintf("%s.methods[%d]", path, i)
		if !slices.Contains(Methods, method) {
			p.fail(member, "%q is not one of the methods %s", method, strings.Join(Methods, ", "))
		}
		if slices.Contains(file.Methods[:i], method) {
			p.fail(member, "%s comes twice", method)
		}
	}
	route.Methods = slices.Clone(file.Methods)
	if file.Methods == nil {
		route.Methods = DefaultMethods
	}
	if slices.Contains(route.Methods, "GET") && !slices.Contains(route.Methods, "HEAD") {
		route.Methods = append(route.Methods, "HEAD")
	}
	switch {
	case file.Upstream == nil && file.Respond == nil:
		p.fail(path, "want an upstream, or respond")
	case file.Upstream != nil && file.Respond != nil:
		p.fail(path, "want either an upstream or respond, not both")
	case file.Respond != nil:
		route.Respond = p.respond(path+".respond", *file.Respond)
		if file.Rewrite != nil || file.Stream {
			p.fail(path, "rewrite and stream are for routes with an upstream")
		}
	default:
		route.Upstream = *file.Upstream
		if _, known := upstreams[route.Upstream]; !known {
			p.fail(path+".upstream", "%q is not an upstream; there are: %s", route.Upstream, strings.Join(sortedKeys(upstreams), ", "))
		}
		if file.Rewrite != nil {
			route.Rewrite = p.rewrite(path+".rewrite", *file.Rewrite, route.Path)
		}
	}
	return route
}

func (p *parser) respond(path string, file rawRespond) *Respond {
	respond := &Respond{
		Status:      p.number(path+".status", file.Status, 200, 200, 599),
		ContentType: "application/json",
		Body:        []byte(file.Body),
	}
	if file.ContentType != nil {
		respond.ContentType = *file.ContentType
		if strings.ContainsFunc(respond.ContentType, func(r rune) bool { return r < ' ' || r > '~' }) {
			p.fail(path+".content_type", "%q is not a content type", respond.ContentType)
		}
	}
	if len(file.Body) > 0 && (respond.Status == 204 || respond.Status == 304) {
		p.fail(path+".body", "a response with status %d has no body", respond.Status)
	}
	return respond
}

// ambiguous refuses two routes that match the same paths with a method in common: the first would hide the second.
func (p *parser) ambiguous(routes []Route) {
	for j, b := range routes {
		for i, a := range routes[:j] {
			if a.Path.shape() != b.Path.shape() {
				continue
			}
			if slices.ContainsFunc(a.Methods, func(method string) bool { return slices.Contains(b.Methods, method) }) {
				p.fail(fmt.Sprintf("routes[%d].path", j), "routes[%d] has this path and a method of this route", i)
			}
		}
	}
}

// Load reads a file.
func Load(name string) (*Config, error) {
	document, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	config, err := Parse(document, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return config, nil
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
