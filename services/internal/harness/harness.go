// Package harness is what the tests of the services share: the program itself in a process of its own, applications on a free
// port, upstreams that send exact bytes, and a real Redis. Waits end with what they wait for, or fail at a deadline.
package harness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Deadline bounds every wait; no test should come near.
const Deadline = 20 * time.Second

// asProgram is the variable that makes a test binary be the program.
const asProgram = "SERVICE_TEST_RUN_MAIN"

// Main runs the tests of a program's package, or the program where Start has started it. TestMain calls it.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Program is the program under test in its own process.
type Program struct {
	URL     string // what it printed: http://ADDRESS
	command *exec.Cmd
	stderr  *output
	ended   chan struct{}
}

// Start starts the program of this test binary and waits for its line "listening on". env adds to an environment that holds
// nothing but PATH.
func Start(t *testing.T, env []string, args ...string) *Program {
	t.Helper()
	p := program(env, args...)
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url, found := strings.CutPrefix(lines.Text(), "listening on "); found {
				listening <- url
			}
		}
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	select {
	case p.URL = <-listening:
	case <-p.ended:
		t.Fatalf("the program ended at once: %s", p.stderr)
	case <-time.After(Deadline):
		t.Fatalf("the program does not listen: %s", p.stderr)
	}
	return p
}

// ownEnvironment is the environment of the programs that tests start: the settings of whoever runs the tests (DATABASE_URL, PGHOST,
// http_proxy, LC_ALL) do not reach them.
func ownEnvironment() []string { return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"} }

func program(env []string, args ...string) *Program {
	p := &Program{command: exec.Command(os.Args[0], args...), stderr: &output{}, ended: make(chan struct{})}
	p.command.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH")}, env...)
	p.command.Stderr = p.stderr
	return p
}

// Signal sends a signal.
func (p *Program) Signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Exit waits for the end and returns the exit code and what was written to stderr.
func (p *Program) Exit(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(Deadline):
		t.Fatalf("the program does not end: %s", p.stderr)
	}
	return p.command.ProcessState.ExitCode(), p.stderr.String()
}

// Run runs the program to its end and returns the exit code, stdout and stderr.
func Run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := program(env, args...)
	var out output
	p.command.Stdout = &out
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(Deadline, func() { _ = p.command.Process.Kill() })
	defer watchdog.Stop()
	_ = p.command.Wait()
	return p.command.ProcessState.ExitCode(), out.String(), p.stderr.String()
}

// output collects what a process writes; it may be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Serve serves an application on a free port until the test ends, and returns its address.
func Serve(t *testing.T, app *fiber.App) string {
	t.Helper()
	listener := Listen(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = app.Listener(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	return listener.Addr().String()
}

// Listen takes a free port of the loopback interface until the test ends.
func Listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// FreeAddress is an address on which nobody listens: a socket is bound to it until the test ends, so that no other process takes it.
func FreeAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// Upstream is a server that responds with exact bytes and keeps what it was sent.
type Upstream struct {
	Address  string
	requests chan string
}

// NewUpstream starts one. For each request head with its Content-Length of body, behave gets the connection and the number of the
// request on it, from 0; it writes what it likes, and says whether the connection is to be read further.
func NewUpstream(t *testing.T, behave func(conn net.Conn, n int) bool) *Upstream {
	t.Helper()
	listener := Listen(t)
	u := &Upstream{Address: listener.Addr().String(), requests: make(chan string, 1000)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for n := 0; ; n++ {
					request, err := readRequest(reader)
					if err != nil {
						return
					}
					u.requests <- request
					if !behave(conn, n) {
						return
					}
				}
			}()
		}
	}()
	return u
}

// Request is the next request that arrived, head and body.
func (u *Upstream) Request(t *testing.T) string {
	t.Helper()
	select {
	case request := <-u.requests:
		return request
	case <-time.After(Deadline):
		t.Fatal("the upstream got no request")
		return ""
	}
}

// None fails the test if an unexpected request has arrived.
func (u *Upstream) None(t *testing.T) {
	t.Helper()
	select {
	case request := <-u.requests:
		t.Fatalf("the upstream got a request it should not have got:\n%s", request)
	default:
	}
}

func readRequest(reader *bufio.Reader) (string, error) {
	var request strings.Builder
	length := 0
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return "", err
		}
		request.WriteString(line)
		if value, found := strings.CutPrefix(strings.ToLower(line), "content-length:"); found {
			for _, digit := range strings.TrimSpace(value) {
				length = length*10 + int(digit-'0')
			}
		}
		if line == "\r\n" {
			break
		}
	}
	_, err := io.CopyN(&request, reader, int64(length))
	return request.String(), err
}

// Client is a connection on which a test sends exact bytes.
type Client struct {
	net.Conn
	reader *bufio.Reader
}

// Dial opens one; all that is done on it must be done by the deadline.
func Dial(t *testing.T, address string) *Client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, Deadline)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(Deadline))
	return &Client{conn, bufio.NewReader(conn)}
}

// Send writes bytes.
func (c *Client) Send(t *testing.T, raw string) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
}

// Until reads up to and with a piece of text, and returns all of it.
func (c *Client) Until(t *testing.T, end string) string {
	t.Helper()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), end) {
		b, err := c.reader.ReadByte()
		if err != nil {
			t.Fatalf("%v, before %q came; until then:\n%s", err, end, got.String())
		}
		got.WriteByte(b)
	}
	return got.String()
}

// Rest reads to the end of the connection, whether it is closed or reset.
func (c *Client) Rest(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(c.reader)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%v, after:\n%s", err, rest)
	}
	return string(rest)
}

// Exchange sends one request, which must have Connection: close, and returns the raw response.
func Exchange(t *testing.T, address, raw string) string {
	t.Helper()
	client := Dial(t, address)
	client.Send(t, raw)
	return client.Rest(t)
}
