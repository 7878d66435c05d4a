package harness

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Redis is a real Redis server on a free port, without persistence.
type Redis struct {
	Address string
	command *exec.Cmd
}

// NewRedis starts one; the program redis-server must be installed.
func NewRedis(t *testing.T) *Redis {
	t.Helper()
	r := &Redis{Address: FreeAddress(t)}
	r.Start(t)
	t.Cleanup(func() { r.Stop(t) })
	return r
}

// Start starts it, again after Stop, empty and on the same port, and waits until it answers.
func (r *Redis) Start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed; on Debian: apt-get install redis-server")
	}
	_, port, _ := net.SplitHostPort(r.Address)
	log := filepath.Join(t.TempDir(), "redis.log")
	r.command = exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--logfile", log)
	r.command.Dir = t.TempDir()
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "redis-server answers", func() error {
		conn, err := net.DialTimeout("tcp", r.Address, time.Second)
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
