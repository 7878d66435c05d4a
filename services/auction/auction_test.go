package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir/services/internal/harness"
	"weir/services/internal/process"
)

const asProgram = "AUCTION_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the program in its own process, with three ports.
type program struct {
	urls    map[string]string
	command *exec.Cmd
	said    *bytes.Buffer
}

func command(env []string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append([]string{asProgram + "=1", "USERS_PORT=0", "ACTIVE_PORT=0", "DESCRIPTIONS_PORT=0"}, env...)
	return c
}

func start(t *testing.T, env ...string) *program {
	t.Helper()
	p := &program{map[string]string{}, command(env), &bytes.Buffer{}}
	p.command.Stderr = p.said
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	})
	watchdog := time.AfterFunc(harness.Deadline, func() { _ = p.command.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewScanner(stdout)
	for len(p.urls) < 3 && lines.Scan() {
		var url, service string
		if _, err := fmt.Sscanf(lines.Text(), "listening on %s (%s", &url, &service); err == nil {
			p.urls[strings.TrimSuffix(service, ")")] = url
		}
	}
	if len(p.urls) < 3 {
		_ = p.command.Wait()
		t.Fatalf("it did not start: %s", p.said)
	}
	return p
}

func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Wait(); err != nil || p.said.Len() != 0 {
		t.Fatalf("%v: %s", err, p.said)
	}
}

// call sends JSON and returns the status with the response's JSON.
func (p *program) call(t *testing.T, service, request, token, body string) (int, map[string]any) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, p.urls[service]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var came map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&came); err != nil {
		t.Fatalf("%s: %d, %v", request, answer.StatusCode, err)
	}
	return answer.StatusCode, came
}

const ada = `{"name":"ada","password":"correct horse"}`

func (p *program) token(t *testing.T) string {
	t.Helper()
	_, _ = p.call(t, users, "POST /users/register", "", ada)
	status, came := p.call(t, users, "POST /users/login", "", ada)
	if status != 200 {
		t.Fatalf("login: %d, %v", status, came)
	}
	return came["token"].(string)
}

func TestEverythingOutlivesARestart(t *testing.T) {
	data := "DATA_DIR=" + t.TempDir()
	first := start(t, data)
	token := first.token(t)
	if status, came := first.call(t, descriptions, "POST /description", token, `{"title":"A violin","startPrice":7,"images":["R0lGODlh"]}`); status != 201 {
		t.Fatalf("%d, %v", status, came)
	}
	first.stop(t)
	second := start(t, data)
	if status, came := second.call(t, active, "POST /active/bid/1", token, `{"value":8}`); status != 201 {
		t.Errorf("the token of before: %d, %v", status, came)
	}
	status, came := second.call(t, active, "GET /active/1", "", "")
	if status != 200 || came["lastValue"] != 8.0 || came["images"].([]any)[0].(map[string]any)["data"] != "R0lGODlh" {
		t.Errorf("%d, %v", status, came)
	}
	second.stop(t)
}

func TestTokensOfOthersAreNone(t *testing.T) {
	p := start(t, "DATA_DIR="+t.TempDir(), "JWT_SECRET="+strings.Repeat("k", 32))
	right := p.token(t)
	issue := func(key, issuer, subject string, ends time.Duration, method jwt.SigningMethod) string {
		claims := jwt.RegisteredClaims{Issuer: issuer, Subject: subject}
		if ends != 0 {
			claims.ExpiresAt = jwt.NewNumericDate(time.Now().Add(ends))
		}
		token, err := jwt.NewWithClaims(method, claims).SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	key := strings.Repeat("k", 32)
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"the right one":        {right, 404},
		"one like it":          {issue(key, "auction", "1", time.Hour, jwt.SigningMethodHS256), 404},
		"another key":          {issue(strings.Repeat("x", 32), "auction", "1", time.Hour, jwt.SigningMethodHS256), 401},
		"another algorithm":    {issue(key, "auction", "1", time.Hour, jwt.SigningMethodHS512), 401},
		"another issuer":       {issue(key, "bank", "1", time.Hour, jwt.SigningMethodHS256), 401},
		"an old one":           {issue(key, "auction", "1", -time.Hour, jwt.SigningMethodHS256), 401},
		"one without end":      {issue(key, "auction", "1", 0, jwt.SigningMethodHS256), 401},
		"a user there is not":  {issue(key, "auction", "2", time.Hour, jwt.SigningMethodHS256), 401},
		"a user without name":  {issue(key, "auction", "", time.Hour, jwt.SigningMethodHS256), 401},
		"a user who is a name": {issue(key, "auction", "ada", time.Hour, jwt.SigningMethodHS256), 401},
	} {
		if status, came := p.call(t, active, "POST /active/bid/5", c.token, `{"value":8}`); status != c.want {
			t.Errorf("%s: %d, %v", name, status, came)
		}
	}
}

func TestADatabaseThatGoesAwayIsSaidAndIsUsedAgainWhenItIsBack(t *testing.T) {
	server := harness.NewPostgres(t)
	p := start(t, "DATA_DIR="+t.TempDir(), "DATABASE_URL="+server.URL)
	token := p.token(t)
	if status, came := p.call(t, active, "GET /healthz", "", ""); status != 200 || came["database"] != "up" {
		t.Errorf("%d, %v", status, came)
	}
	server.Stop(t)
	if status, came := p.call(t, active, "GET /healthz", "", ""); status != 503 || came["database"] != "down" || came["ok"] != false {
		t.Errorf("%d, %v", status, came)
	}
	if status, came := p.call(t, active, "POST /active/bid/1", token, `{"value":8}`); status != 503 || came["error"] != "the database is unavailable" {
		t.Errorf("%d, %v", status, came)
	}
	server.Start(t)
	harness.Eventually(t, "the database is used again", func() error {
		if status, came := p.call(t, active, "POST /active/bid/1", token, `{"value":8}`); status != 404 {
			return fmt.Errorf("%d, %v", status, came)
		}
		return nil
	})
}

func TestAnImageThatIsGoneIsAFailureOfTheService(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "DATA_DIR="+dir)
	token := p.token(t)
	_, _ = p.call(t, descriptions, "POST /description", token, `{"title":"A violin","startPrice":7,"images":["R0lGODlh"]}`)
	files, _ := filepath.Glob(filepath.Join(dir, "images", "*"))
	if len(files) != 1 || os.Remove(files[0]) != nil {
		t.Fatal(files)
	}
	if status, came := p.call(t, active, "GET /active/1", "", ""); status != 500 || came["error"] != "internal error" {
		t.Errorf("%d, %v", status, came)
	}
}

func TestARefusedDescriptionLeavesNoImage(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "DATA_DIR="+dir)
	token := p.token(t)
	for _, body := range []string{
		`{"images":["R0lGODlh","/9j/"],"title":"A violin"}`,
		`{"images":["R0lGODlh","no"],"title":"A violin","startPrice":7}`,
		`{"images":["R0lGODlh"],"title":"A violin","startPrice":7`,
	} {
		if status, came := p.call(t, descriptions, "POST /description", token, body); status != 400 {
			t.Errorf("%d, %v", status, came)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "images", "*")); len(files) != 0 {
		t.Errorf("files: %v", files)
	}
}

// More large descriptions than are read at once, all at once: each is stored whole.
func TestLargeDescriptionsAtOnce(t *testing.T) {
	p := start(t, "DATA_DIR="+t.TempDir())
	token := p.token(t)
	image := strings.Repeat("/9j/", 1<<18)
	var all sync.WaitGroup
	for range 3 * uploadsAtOnce {
		all.Go(func() {
			status, came := p.call(t, descriptions, "POST /description", token, `{"title":"A violin","startPrice":7,"images":["`+image+`"]}`)
			if status != 201 {
				t.Errorf("%d, %v", status, came)
				return
			}
			_, came = p.call(t, active, fmt.Sprintf("GET /active/%.0f", came["id"]), "", "")
			if came["images"].([]any)[0].(map[string]any)["data"] != image {
				t.Error("the image is another")
			}
		})
	}
	all.Wait()
}

func TestABodyThatEndsEarlyIsRefused(t *testing.T) {
	p := start(t, "DATA_DIR="+t.TempDir())
	client := harness.Dial(t, strings.TrimPrefix(p.urls[users], "http://"))
	client.Send(t, "POST /users/login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 30000000\r\n\r\n{")
	if raw := client.Rest(t); !strings.HasPrefix(raw, "HTTP/1.1 413 ") {
		t.Errorf("got:\n%s", raw)
	}
}

func TestStopLetsTheRequestInFlightEnd(t *testing.T) {
	p := start(t, "DATA_DIR="+t.TempDir())
	client := harness.Dial(t, strings.TrimPrefix(p.urls[users], "http://"))
	body := ada
	client.Send(t, fmt.Sprintf("POST /users/register HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)))
	client.Until(t, "100 Continue\r\n\r\n") // the handler reads
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "nobody is let in", func() error {
		answer, err := http.Get(p.urls[users] + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
			return fmt.Errorf("it answered %s", answer.Status)
		}
		return nil
	})
	client.Send(t, body)
	if raw := client.Rest(t); !strings.HasPrefix(raw, "HTTP/1.1 201 ") {
		t.Errorf("got:\n%s", raw)
	}
	if err := p.command.Wait(); err != nil {
		t.Errorf("%v: %s", err, p.said)
	}
}

func TestMistakesHaveTheirExitCode(t *testing.T) {
	taken := harness.Listen(t).Addr().String()
	_, port, _ := strings.Cut(taken, ":")
	data := "DATA_DIR=" + t.TempDir()
	short := t.TempDir()
	if err := os.WriteFile(filepath.Join(short, "token.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{[]string{data, "USERS_PORT=http"}, nil, process.ExitUsage, `auction: USERS_PORT: "http" is not a port`},
		{[]string{data}, []string{"-active-port", "65536"}, process.ExitUsage, `"65536" is not a port`},
		{[]string{data}, []string{"-active-port", port}, process.ExitUnavailable, taken + " is in use by another program; stop it, or choose another port with -active-port"},
		{[]string{data, "JWT_SECRET=short"}, nil, process.ExitUsage, "JWT_SECRET has 5 bytes; give it 32 or more"},
		{[]string{"DATA_DIR=" + short}, nil, process.ExitUsage, "token.key is too short"},
		{[]string{data, "DATABASE_URL=mysql://a"}, nil, process.ExitUnavailable, "must begin with postgres://"},
		{[]string{"DATA_DIR=/dev/null/x"}, nil, process.ExitUnavailable, "cannot open the database (DATABASE_URL, -data)"},
		{[]string{data}, []string{"start"}, process.ExitUsage, `unexpected argument "start"`},
		{[]string{data}, []string{"-help"}, process.ExitOK, "DESCRIPTIONS_PORT (default 10000)"},
	} {
		command := command(c.env, c.args...)
		var stderr bytes.Buffer
		command.Stderr, command.Stdout = &stderr, io.Discard
		_ = command.Run()
		if code := command.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v %v: exit %d, want %d and %q:\n%s", c.env, c.args, code, c.code, c.says, stderr.String())
		}
	}
}

// Regression: DELETE /active/all had "Allow: GET, HEAD, GET, HEAD", since /active/* matches as well.
func TestAllowNamesEachMethodOnce(t *testing.T) {
	p := start(t, "DATA_DIR="+t.TempDir())
	for path, want := range map[string]string{"/active/all": "GET, HEAD", "/active/1": "GET, HEAD", "/active/bid/1": "POST"} {
		r, err := http.NewRequest(http.MethodDelete, p.urls[active]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Header.Get("Allow"); response.StatusCode != http.StatusMethodNotAllowed || got != want {
			t.Errorf("%s: %d, Allow: %s; want %s", path, response.StatusCode, got, want)
		}
	}
}

// Regression: two processes that started on a new data folder at once each made a key, and refused each other's tokens.
func TestProcessesOnANewFolderShareOneKey(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "token.key")
		keys := make([]string, 16)
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				key, err := tokenKey("", path)
				if err != nil {
					t.Error(err)
				}
				keys[i] = string(key)
			})
		}
		all.Wait()
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if key != string(kept) {
				t.Fatalf("%d keys were used: %q", len(keys), keys)
			}
		}
		if others, _ := filepath.Glob(path + "?*"); len(others) != 0 {
			t.Fatalf("left behind: %v", others)
		}
	}
}

// Regression: the images of an auction were deleted when the response to COMMIT was lost, although the row was stored.
func TestAnAuctionWhoseCommitHasNoKnownOutcomeKeepsItsImages(t *testing.T) {
	proxy := harness.NewPostgresProxy(t, harness.NewPostgres(t))
	dir := t.TempDir()
	p := start(t, "DATA_DIR="+dir, "DATABASE_URL="+proxy.URL)
	token := p.token(t)
	proxy.OnCommit(func() (pass bool) { return false }) // it is carried out, and the connection is cut before the response
	status, came := p.call(t, descriptions, "POST /description", token, `{"title":"A violin","startPrice":7,"images":["R0lGODlh"]}`)
	if status < 500 {
		t.Fatalf("%d, %v", status, came)
	}
	proxy.OnCommit(nil)
	status, came = p.call(t, active, "GET /active/1", "", "")
	if status != 200 || came["images"].([]any)[0].(map[string]any)["data"] != "R0lGODlh" {
		t.Errorf("%d, %v", status, came)
	}
}
