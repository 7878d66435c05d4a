package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/services/gateway-fiber/config"
	"weir/services/internal/forward"
	"weir/services/internal/process"
)

// name of the service, in its responses and messages.
const name = "gateway-fiber"

// newGateway makes the application that a configuration describes. Fiber tries routes in the order in which they were added, which
// is that of the configuration; it responds with 404 and, with Allow, 405 by itself.
func newGateway(cfg *config.Config) (*fiber.App, error) {
	app := process.NewApp(name, cfg.BodyBytes, writeTime(cfg))
	upstreams := map[string]*forward.Upstream{}
	for upstream, settings := range cfg.Upstreams {
		made, err := forward.New(settings)
		if err != nil {
			return nil, fmt.Errorf("upstream %s: %w", upstream, err)
		}
		upstreams[upstream] = made
	}
	if cfg.HealthPath != "" && !routed(cfg.Routes, cfg.HealthPath) {
		process.Health(app, cfg.HealthPath, name)
	}
	for _, route := range cfg.Routes {
		handler := respond(route.Respond)
		if route.Respond == nil {
			handler = upstreams[route.Upstream].Handler(target(route), route.Stream)
		}
		for _, path := range fiberPaths(route.Path) {
			for _, method := range route.Methods {
				app.Add(method, path, strict(route.Path, path, handler))
			}
		}
	}
	return app, nil
}

// writeTime leaves streamed responses the time that their upstreams have.
func writeTime(cfg *config.Config) time.Duration {
	longest := process.WriteTime
	for _, route := range cfg.Routes {
		if route.Stream {
			longest = max(longest, cfg.Upstreams[route.Upstream].Timeout)
		}
	}
	return longest
}

// routed reports whether a route of the file is for this very path: it is then served in place of the health check.
func routed(routes []config.Route, path string) bool {
	for _, route := range routes {
		if !route.Path.Wildcard && len(route.Path.Parts) == 1 && route.Path.Parts[0] == path {
			return true
		}
	}
	return false
}

// fiberPaths writes a pattern as Fiber's paths. Its wildcard "/a/*" would match "/a" too, "/a/+" needs something to follow.
func fiberPaths(pattern config.Pattern) []string {
	var b strings.Builder
	for i, part := range pattern.Parts {
		if i%2 == 1 {
			b.WriteString(":" + parameter(i/2))
			continue
		}
		b.WriteString(strings.NewReplacer(":", `\:`, "+", `\+`).Replace(part))
	}
	path := b.String()
	switch {
	case !pattern.Wildcard:
		return []string{path}
	case path == "/":
		return []string{"/*"}
	}
	return []string{path, path + "+"}
}

// parameter is Fiber's name for the i-th parameter of a pattern: its own name may hold what Fiber's cannot.
func parameter(i int) string { return "p" + strconv.Itoa(i) }

// strict fixes two liberties of Fiber's templates: a slash at the end counts as optional, and a parameter that ends at a "-" or
// "." within its segment may run over a slash.
func strict(pattern config.Pattern, path string, handler fiber.Handler) fiber.Handler {
	params := len(pattern.Params())
	slash := params > 0 && strings.HasSuffix(path, "/")
	within := false
	for i := 2; i < len(pattern.Parts); i += 2 {
		within = within || pattern.Parts[i][0] != '/'
	}
	if !slash && !within {
		return handler
	}
	return func(c *fiber.Ctx) error {
		if slash && !strings.HasSuffix(c.Path(), "/") {
			return c.Next()
		}
		for i := range params {
			if strings.Contains(c.Params(parameter(i)), "/") {
				return c.Next()
			}
		}
		return handler(c)
	}
}

func respond(answer *config.Respond) fiber.Handler {
	if answer == nil {
		return nil
	}
	return func(c *fiber.Ctx) error {
		response := c.Response()
		response.SetStatusCode(answer.Status)
		response.Header.SetContentType(answer.ContentType)
		response.SetBodyRaw(answer.Body)
		return nil
	}
}

// target is the path that the upstream gets, or nil where it stays.
func target(route config.Route) forward.Target {
	rewrite := route.Rewrite
	switch {
	case rewrite.Path != nil:
		parts := slices.Clone(rewrite.Path)
		for i := 1; i < len(parts); i += 2 {
			parts[i] = parameter(slices.Index(route.Path.Params(), parts[i]))
		}
		return func(dst []byte, c *fiber.Ctx) []byte {
			for i, part := range parts {
				if i%2 == 1 {
					part = c.Params(part)
				}
				dst = append(dst, part...)
			}
			return dst
		}
	case rewrite.Strip > 0:
		return func(dst []byte, c *fiber.Ctx) []byte {
			return append(append(dst, rewrite.Prefix...), c.Request().URI().PathOriginal()[rewrite.Strip:]...)
		}
	}
	return nil
}
