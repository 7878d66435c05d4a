package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/services/internal/harness"
	"weir/services/internal/process"
)

func TestMain(m *testing.M) { harness.Main(m, main) }

// app is an application service that responds with "ok" and keeps what it was sent.
func app(t *testing.T) *harness.Upstream {
	return harness.NewUpstream(t, func(conn net.Conn, _ int) bool {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	})
}

func start(t *testing.T, upstream *harness.Upstream, redisAddress string, args ...string) string {
	t.Helper()
	p := harness.Start(t, nil, append([]string{"-port", "0", "-app-endpoint", upstream.Address, "-redis-endpoint", redisAddress}, args...)...)
	return p.URL
}

var client = &http.Client{Timeout: harness.Deadline, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// get sends a request with an API key, and returns status, body and the field Retry-After.
func get(t *testing.T, url, key string) (status int, body, retryAfter string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("X-API-KEY", key)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return 0, "", ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text), answer.Header.Get("Retry-After")
}

func TestLimitPerKeyAndWindow(t *testing.T) {
	upstream := app(t)
	url := start(t, upstream, harness.NewRedis(t).URL, "-limit", "3", "-window", "600")
	for _, key := range []string{"first", "second"} {
		for i := range 5 {
			status, body, retryAfter := get(t, url+"/api/add?lhs=1&rhs=2", key)
			want, wantBody, wantRetry := 200, "ok", ""
			if i >= 3 {
				want, wantBody, wantRetry = 429, "rate limit exceeded", "600"
			}
			if status != want || body != wantBody || retryAfter != wantRetry {
				t.Errorf("request %d of %s: %d %q, Retry-After %q", i+1, key, status, body, retryAfter)
			}
		}
	}
	for range 6 {
		upstream.Request(t)
	}
	upstream.None(t)
	if status, body, _ := get(t, url, ""); status != 400 || body != "missing api key (X-API-KEY)" {
		t.Errorf("without a key: %d %q", status, body)
	}
	if status, body, _ := get(t, url+"/healthz", ""); status != 200 || body != `{"ok":true,"service":"limiter-fiber","redis":"up"}` {
		t.Errorf("healthz: %d %q", status, body)
	}
	upstream.None(t)
}

func TestRequestIsForwardedWhole(t *testing.T) {
	upstream := app(t)
	url := start(t, upstream, harness.NewRedis(t).URL)
	harness.Exchange(t, strings.TrimPrefix(url, "http://"),
		"PUT /a//b?c=%2F HTTP/1.1\r\nHost: api\r\nx-api-key: k\r\nKeep-Alive: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
	got := upstream.Request(t)
	if !strings.HasPrefix(got, "PUT /a//b?c=%2F HTTP/1.1\r\n") || !strings.HasSuffix(got, "\r\n\r\nabc") ||
		!strings.Contains(got, "\r\nHost: api\r\n") || !strings.Contains(got, "\r\nX-Forwarded-For: 127.0.0.1\r\n") || strings.Contains(got, "Keep-Alive") {
		t.Errorf("the app got:\n%s", got)
	}
}

// The concurrency property: of N requests at once exactly L pass, whatever the interleaving, over several replicas.
func TestExactlyTheLimitPassesOfManyAtOnce(t *testing.T) {
	const limit, requests, keys, replicas = 17, 200, 4, 2
	upstream := app(t)
	redisAddress := harness.NewRedis(t).URL
	var urls []string
	for range replicas {
		urls = append(urls, start(t, upstream, redisAddress, "-limit", fmt.Sprint(limit), "-window", "600"))
	}
	var passed, refused [keys]atomic.Int32
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for worker := range 25 {
		wait.Go(func() {
			<-begin
			for i := worker; i < requests*keys; i += 25 {
				switch status, body, _ := get(t, urls[i%replicas], fmt.Sprintf("key-%d", i%keys)); status {
				case 200:
					passed[i%keys].Add(1)
				case 429:
					refused[i%keys].Add(1)
				default:
					t.Errorf("%d %q", status, body)
				}
			}
		})
	}
	close(begin)
	wait.Wait()
	for key := range keys {
		if passed[key].Load() != limit || refused[key].Load() != requests-limit {
			t.Errorf("key %d: %d passed and %d refused of %d, want exactly %d to pass", key, passed[key].Load(), refused[key].Load(), requests, limit)
		}
	}
}

func TestNextWindowBeginsWhenTheFirstEnds(t *testing.T) {
	server := harness.NewRedis(t)
	url := start(t, app(t), server.URL, "-limit", "1", "-window", "1")
	if status, _, _ := get(t, url, "k"); status != 200 {
		t.Fatalf("first request: %d", status)
	}
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket, DisableIdentity: true})
	defer db.Close()
	// Requests over the limit must not prolong the window: the counter goes although they keep coming.
	harness.Eventually(t, "a second window", func() error {
		if status, _, _ := get(t, url, "k"); status != 200 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
}

// What Redis is sent, command by command: the design is the yardstick, and the key itself must not be there.
func TestEachRequestIsOneTransaction(t *testing.T) {
	server := harness.NewRedis(t)
	url := start(t, app(t), server.URL, "-limit", "1", "-window", "7")
	get(t, url, "warm-up")
	monitor, err := net.Dial("unix", server.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	_ = monitor.SetDeadline(time.Now().Add(harness.Deadline))
	lines := bufio.NewScanner(monitor)
	_, _ = io.WriteString(monitor, "MONITOR\r\n")
	lines.Scan() // +OK
	key := counterName("secret")
	for range 2 { // the second is over the limit, and costs the same
		get(t, url, "secret")
		for _, want := range []string{`"multi"`, `"set" "` + key + `" "0" "ex" "7" "nx"`, `"incr" "` + key + `"`, `"exec"`} {
			if !lines.Scan() {
				t.Fatalf("want %s: %v", want, lines.Err())
			}
			_, command, _ := strings.Cut(lines.Text(), "] ")
			if strings.ToLower(command) != want {
				t.Errorf("command %s, want %s", command, want)
			}
		}
	}
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket, DisableIdentity: true})
	defer db.Close()
	names, err := db.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "limiter:") || len(name) != len("limiter:")+64 || strings.Contains(name, "secret") {
			t.Errorf("key %q in Redis", name)
		}
		if left := db.TTL(context.Background(), name).Val(); left <= 0 || left > 7*time.Second {
			t.Errorf("%s expires in %s", name, left)
		}
	}
}

func TestRedisDownIs503AndRedisBackIsUsed(t *testing.T) {
	server := harness.NewRedis(t)
	upstream := app(t)
	url := start(t, upstream, server.URL, "-limit", "1000000", "-window", "600")
	var wait sync.WaitGroup
	for range 30 { // a pool of connections, all of which will be dead
		wait.Go(func() { get(t, url, "k") })
	}
	wait.Wait()
	server.Stop(t)
	harness.Eventually(t, "503", func() error {
		status, body, retryAfter := get(t, url, "k")
		if status != 503 || body != "rate limiter unavailable" || retryAfter != "1" {
			return fmt.Errorf("%d %q, Retry-After %q", status, body, retryAfter)
		}
		return nil
	})
	if _, body, _ := get(t, url+"/healthz", ""); body != `{"ok":true,"service":"limiter-fiber","redis":"down"}` {
		t.Errorf("healthz: %s", body)
	}
	server.Start(t)
	harness.Eventually(t, "200 again", func() error {
		if status, body, _ := get(t, url, "k"); status != 200 {
			return fmt.Errorf("%d %q", status, body)
		}
		return nil
	})
	for range 50 {
		if status, body, _ := get(t, url, "k"); status != 200 {
			t.Errorf("after it has come back: %d %q", status, body)
		}
	}
}

func TestStartsWithoutRedis(t *testing.T) {
	url := start(t, app(t), harness.FreeAddress(t))
	if status, body, _ := get(t, url, "k"); status != 503 || body != "rate limiter unavailable" {
		t.Errorf("%d %q", status, body)
	}
}

func TestAppDownIs502(t *testing.T) {
	p := harness.Start(t, nil, "-port", "0", "-app-endpoint", harness.FreeAddress(t), "-redis-endpoint", harness.NewRedis(t).URL)
	if status, body, _ := get(t, p.URL, "k"); status != 502 || body != `{"error":"the upstream cannot be reached"}` {
		t.Errorf("%d %q", status, body)
	}
}

func TestLimitZeroAsksForNoKeyAndNoRedis(t *testing.T) {
	url := start(t, app(t), harness.FreeAddress(t), "-limit", "0")
	for range 5 {
		if status, body, _ := get(t, url, ""); status != 200 {
			t.Errorf("%d %q", status, body)
		}
	}
	if _, body, _ := get(t, url+"/healthz", ""); body != `{"ok":true,"service":"limiter-fiber","redis":"unused"}` {
		t.Errorf("healthz: %s", body)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		env, args []string
		says      string
	}{
		{nil, []string{"-window", "0"}, `"0" is not a window: want whole seconds`},
		{nil, []string{"-window", "1500ms"}, "want whole seconds"},
		{nil, []string{"-window=-5"}, "want whole seconds"},
		{nil, []string{"-limit", "-1"}, `"-1" is not a limit`},
		{nil, []string{"-app-endpoint", "https://a"}, "https is not supported"},
		{nil, []string{"-redis-endpoint", "http://u:secret@a"}, "not a Redis endpoint"},
		{[]string{"LIMIT=many"}, nil, `limiter-fiber: LIMIT: "many" is not a limit`},
	} {
		code, _, stderr := harness.Run(t, c.env, c.args...)
		if code != process.ExitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v %v: exit %d, want %d and %q, got:\n%s", c.env, c.args, code, process.ExitUsage, c.says, stderr)
		}
	}
}

func TestSettingsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "90s": 90 * time.Second, "2m": 2 * time.Minute, "1h": time.Hour} {
		var o options
		if err := o.setWindow(text); err != nil || o.length != want {
			t.Errorf("window %q: %s, %v", text, o.length, err)
		}
	}
	for text, want := range map[string]string{"a:1": "a:1", "redis://a:1/2": "a:1", "redis://u:p@a": "a:6379"} {
		var o options
		if err := o.setRedis(text); err != nil || o.redis.Addr != want {
			t.Errorf("redis %q: %+v, %v", text, o.redis, err)
		}
	}
	for text, want := range map[string]string{"a:1": "http://a:1", "http://a": "http://a"} {
		var o options
		if err := o.setApp(text); err != nil || o.app != want {
			t.Errorf("app %q: %s, %v", text, o.app, err)
		}
	}
}
