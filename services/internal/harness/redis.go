package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Redis is a real Redis server on a Unix socket, without persistence.
type Redis struct {
	URL     string // unix://SOCKET
	Socket  string // the path of the socket
	command *exec.Cmd
}

// NewRedis starts one; the program redis-server must be installed.
func NewRedis(t *testing.T) *Redis {
	t.Helper()
	// Not t.TempDir, whose names may be longer than the path of a socket can be.
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{Socket: filepath.Join(dir, "redis.sock")}
	r.URL = "unix://" + r.Socket
	t.Cleanup(func() {
		r.Stop(t)
		_ = os.RemoveAll(dir)
	})
	r.Start(t)
	return r
}

// Start starts it, again after Stop, empty and on the same socket, and waits until it responds.
func (r *Redis) Start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed; on Debian and Ubuntu: apt-get install redis-server")
	}
	dir := filepath.Dir(r.Socket)
	r.command = exec.Command(program, "--port", "0", "--unixsocket", r.Socket, "--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "redis.log"))
	r.command.Dir, r.command.Env = dir, ownEnvironment()
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "redis-server answers", func() error {
		conn, err := net.DialTimeout("unix", r.Socket, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return err
		}
		answer := make([]byte, 7)
		if _, err := conn.Read(answer); err != nil || string(answer) != "+PONG\r\n" {
			return fmt.Errorf("answer %q, %w", answer, err)
		}
		return nil
	})
}

// Stop kills it.
func (r *Redis) Stop(t *testing.T) {
	t.Helper()
	if r.command == nil {
		return
	}
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
	r.command = nil
}

// Eventually tries until it succeeds, and fails the test with the last error at the deadline.
func Eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(Deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}
