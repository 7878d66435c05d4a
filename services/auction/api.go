package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/services/auction/store"
)

// The services: each has its port and its routes.
const (
	users        = "users"
	active       = "active"
	descriptions = "descriptions"
)

// uploadsAtOnce bounds the descriptions that are read at once, and so the memory: one may hold 24 MiB of base64. The others wait,
// unread, and their clients feel it.
const uploadsAtOnce = 8

type api struct {
	store   *store.Store
	tokens  tokens
	log     *log.Logger
	uploads chan struct{} // holds a place for each description that is read
	hashes  chan struct{} // and one for each password that is hashed, at 19 MiB and one core each
}

func newAPI(places *store.Store, key []byte, stderr io.Writer) *api {
	return &api{places, tokens{key}, log.New(stderr, name+": ", 0), make(chan struct{}, uploadsAtOnce), make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// route is one operation. A segment "*" of its path stands for a number from 1.
type route struct {
	service, method, path string
	handle                func(a *api, w http.ResponseWriter, r *request) error
}

var routes = []route{
	{users, http.MethodPost, "/users/register", (*api).register},
	{users, http.MethodPost, "/users/login", (*api).login},
	{active, http.MethodGet, "/active/all", (*api).listActive},
	{active, http.MethodGet, "/active/*", (*api).getAuction},
	{active, http.MethodPost, "/active/bid/*", (*api).placeBid},
	{descriptions, http.MethodPost, "/description", (*api).createDescription},
	{descriptions, http.MethodGet, "/description/*", (*api).getDescription},
}

// request is a request with the number from its path.
type request struct {
	*http.Request
	id int64
}

// handler serves the routes of one service, and its health.
func (a *api) handler(service string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.respond(w, r, a.dispatch(service, w, r))
	})
}

func (a *api) dispatch(service string, w http.ResponseWriter, r *http.Request) error {
	var methods []string
	method, path := r.Method, r.URL.EscapedPath()
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if path == "/healthz" {
		methods = []string{http.MethodGet, http.MethodHead}
		if method == http.MethodGet {
			return a.health(w, r)
		}
	}
	for _, route := range routes {
		parameter, matches := match(route.path, path)
		if route.service != service || !matches {
			continue
		}
		if method != route.method {
			// Two routes may match one path: /active/all and /active/*.
			if !slices.Contains(methods, route.method) {
				methods = append(methods, route.method)
				if route.method == http.MethodGet {
					methods = append(methods, http.MethodHead)
				}
			}
			continue
		}
		req := &request{Request: r}
		if parameter != "" {
			var err error
			if req.id, err = number(parameter); err != nil {
				return refuse(http.StatusBadRequest, "the number in the path %w", err)
			}
		}
		return route.handle(a, w, req)
	}
	if methods != nil {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return refuse(http.StatusMethodNotAllowed, "method not allowed")
	}
	return refuse(http.StatusNotFound, "there is nothing at this path")
}

// match says whether a path is a route's, and what stands for its "*".
func match(pattern, path string) (parameter string, matches bool) {
	wanted, came := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wanted) != len(came) {
		return "", false
	}
	for i := range wanted {
		if wanted[i] == "*" && came[i] != "" {
			parameter = came[i]
		} else if wanted[i] != came[i] {
			return "", false
		}
	}
	return parameter, true
}

// largest is the largest number that every JSON parser keeps exact.
const largest = 1<<53 - 1

// number reads a whole number from 1 as JSON writes it.
func number(text string) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 1 || value > largest || text[0] == '+' || text[0] == '0' {
		return 0, fmt.Errorf("must be a whole number from 1 to %d", int64(largest))
	}
	return value, nil
}

func (a *api) health(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := a.store.Ping(ctx); err != nil {
		return send(w, http.StatusServiceUnavailable, map[string]any{"ok": false, "service": name, "database": "down"})
	}
	return send(w, http.StatusOK, map[string]any{"ok": true, "service": name, "database": "up"})
}

// refusal is a response that says why not.
type refusal struct {
	status int
	text   string
	more   map[string]any // members beside "error"
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, arguments ...any) error {
	return &refusal{status: status, text: fmt.Errorf(format, arguments...).Error()}
}

// respond turns what a handler returned into a response, unless it has sent one.
func (a *api) respond(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil || r.Context().Err() != nil {
		return
	}
	var known *refusal
	if !errors.As(err, &known) {
		a.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		known = &refusal{status: http.StatusInternalServerError, text: "internal error"}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if a.store.Ping(ctx) != nil {
			known = &refusal{status: http.StatusServiceUnavailable, text: "the database is unavailable"}
		}
	}
	body := map[string]any{"error": known.text}
	for name, value := range known.more {
		body[name] = value
	}
	switch known.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	if err := send(w, known.status, body); err != nil {
		a.log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

// send responds with JSON.
func send(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone has no more questions
	return nil
}

// enter takes a place, or gives up with the client.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bearer is the user whom the request's token names.
func (a *api) bearer(r *request) (int64, error) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "bearer") || token == "" {
		return 0, refuse(http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN, from POST /users/login")
	}
	user, err := a.tokens.user(token)
	if err != nil {
		return 0, refuse(http.StatusUnauthorized, "the token is not valid; log in again")
	}
	found, err := a.store.HasUser(r.Context(), user)
	if err == nil && !found {
		err = refuse(http.StatusUnauthorized, "the token's user is not known; log in again")
	}
	return user, err
}

// query reads the parameters that an operation has; others are passed over.
type query struct {
	values map[string][]string
	err    error
}

func (q *query) one(name string, read func(text string) error) {
	values, found := q.values[name]
	if !found || q.err != nil {
		return
	}
	if len(values) > 1 {
		q.err = refuse(http.StatusBadRequest, "%s is given %d times", name, len(values))
	} else if err := read(values[0]); err != nil {
		q.err = refuse(http.StatusBadRequest, "%s %w", name, err)
	}
}

func (q *query) whole(name string, highest int64, into *int64) {
	q.one(name, func(text string) error {
		value, err := number(text)
		if err != nil || value > highest {
			return fmt.Errorf("must be a whole number from 1 to %d", highest)
		}
		*into = value
		return nil
	})
}

func (q *query) price(name string, into **float64) {
	q.one(name, func(text string) error {
		var value float64
		if json.Unmarshal([]byte(text), &value) != nil || value < 0 || strings.TrimSpace(text) != text || text == "null" {
			return errors.New("must be a number from 0")
		}
		*into = &value
		return nil
	})
}

func (q *query) choice(name string, choices []string, into *string) {
	q.one(name, func(text string) error {
		if !slices.Contains(choices, text) {
			return fmt.Errorf("must be %s", strings.Join(choices, " or "))
		}
		*into = text
		return nil
	})
}
