package process_test

import (
	"flag"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gofiber/fiber/v2"

	"weir/services/internal/harness"
	"weir/services/internal/process"
)

// program is what this test binary runs as: /slow ends when the test has opened and closed the FIFO.
func program() {
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	var at process.ListenFlags
	otherwise := process.Listen{Host: "127.0.0.1", Port: 1}
	if err := at.Register(flags, os.Getenv, otherwise); err != nil {
		os.Exit(process.Fail(os.Stderr, "program", process.ExitUsage, err))
	}
	if exit, run := process.Parse(flags, os.Args[1:]); !run {
		os.Exit(exit)
	}
	app := process.NewApp("program", 100, process.WriteTime)
	process.Health(app, "/healthz", "program")
	app.Get("/slow", func(c *fiber.Ctx) error {
		fifo, err := os.Open(os.Getenv("FIFO")) // blocks until the test opens it to write
		if err != nil {
			return err
		}
		defer fifo.Close()
		_, _ = io.Copy(io.Discard, fifo)
		return c.SendString("done")
	})
	app.Get("/bug", func(*fiber.Ctx) error { return io.ErrNoProgress })
	os.Exit(process.Serve("program", at.Over(otherwise), app, os.Stdout, os.Stderr))
}

func TestMain(m *testing.M) { harness.Main(m, program) }

func request(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
}

func TestPrintsWhereItListensAndIsHealthy(t *testing.T) {
	p := harness.Start(t, nil, "-port", "0")
	raw := harness.Exchange(t, strings.TrimPrefix(p.URL, "http://"), request("/healthz"))
	if !strings.HasPrefix(raw, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(raw, "\r\n\r\n"+`{"ok":true,"service":"program"}`) {
		t.Errorf("healthz:\n%s", raw)
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	p := harness.Start(t, []string{"HOST=127.0.0.2", "PORT=1"}, "-port=0")
	if !strings.HasPrefix(p.URL, "http://127.0.0.2:") || strings.HasSuffix(p.URL, ":1") {
		t.Errorf("it listens on %s", p.URL)
	}
}

func TestStopLetsTheRequestInFlightEnd(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		fifo := t.TempDir() + "/fifo"
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		p := harness.Start(t, []string{"FIFO=" + fifo}, "-port", "0")
		address := strings.TrimPrefix(p.URL, "http://")
		idle := harness.Dial(t, address)
		idle.Send(t, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
		idle.Until(t, "}")
		busy := harness.Dial(t, address)
		busy.Send(t, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		release, err := os.OpenFile(fifo, os.O_WRONLY, 0) // blocks until the handler is there
		if err != nil {
			t.Fatal(err)
		}
		p.Signal(t, signal)
		if rest := idle.Rest(t); rest != "" { // closed, and so the shutdown has begun
			t.Errorf("the idle connection got %q", rest)
		}
		_ = release.Close()
		if raw := busy.Rest(t); !strings.HasPrefix(raw, "HTTP/1.1 200 ") || !strings.HasSuffix(raw, "done") || !strings.Contains(raw, "Connection: close\r\n") {
			t.Errorf("the request in flight got:\n%s", raw)
		}
		if code, stderr := p.Exit(t); code != process.ExitOK || stderr != "" {
			t.Errorf("%v: exit %d, %s", signal, code, stderr)
		}
	}
}

func TestMistakesHaveTheirExitCode(t *testing.T) {
	taken := harness.Listen(t).Addr().String()
	_, port, _ := strings.Cut(taken, ":")
	for _, c := range []struct {
		env, args []string
		code      int
		says      string
	}{
		{nil, []string{"-port", port}, process.ExitUnavailable, "program: " + taken + " is in use by another program"},
		{nil, []string{"-host", "192.0.2.1", "-port", "0"}, process.ExitUnavailable, "cannot listen on 192.0.2.1:0"},
		{[]string{"PORT=http"}, nil, process.ExitUsage, `program: PORT: "http" is not a port: want a number from 0 to 65535`},
		{nil, []string{"-port", "65536"}, process.ExitUsage, `"65536" is not a port`},
		{nil, []string{"-prot", "1"}, process.ExitUsage, "-prot"},
		{nil, []string{"start"}, process.ExitUsage, `unexpected argument "start"`},
		{nil, []string{"-help"}, process.ExitOK, "also PORT (default 1)"},
	} {
		code, stdout, stderr := harness.Run(t, c.env, c.args...)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%v %v: exit %d, want %d and %q; stdout %q, stderr:\n%s", c.env, c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

func TestFailuresAreShortAndTellNothingOfTheInside(t *testing.T) {
	p := harness.Start(t, nil, "-port", "0")
	address := strings.TrimPrefix(p.URL, "http://")
	for raw, want := range map[string]string{
		request("/nowhere?<b>"): `404 Not Found|{"error":"not found"}`,
		request("/healthz/"):    `404 Not Found|{"error":"not found"}`,
		request("/HEALTHZ"):     `404 Not Found|{"error":"not found"}`,
		request("/bug"):         `500 Internal Server Error|{"error":"internal error"}`,
		"POST /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":                              `405 Method Not Allowed|{"error":"method not allowed"}`,
		"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n":                            `413 Request Entity Too Large|{"error":"request entity too large"}`,
		"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("x", process.HeadBytes) + "\r\n\r\n": `431 Request Header Fields Too Large|{"error":"request header fields too large"}`,
		"GET / HTTP/1.1\r\nsecret : x\r\n\r\n":                                                        `400 Bad Request|{"error":"bad request"}`,
	} {
		got := harness.Exchange(t, address, raw)
		status, body, _ := strings.Cut(want, "|")
		if !strings.HasPrefix(got, "HTTP/1.1 "+status+"\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+body) {
			t.Errorf("%.60q: want %s, got:\n%s", raw, want, got)
		}
	}
}
