package harness

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Postgres is a real PostgreSQL server on a Unix socket, with its data in a folder of its own. It does not wait for the disk.
type Postgres struct {
	URL     string
	Socket  string // the path of the socket
	dir     string
	command *exec.Cmd
}

// NewPostgres makes a server and starts it; the package of the server must be installed. As root it runs as the user postgres,
// since it refuses root.
func NewPostgres(t *testing.T) *Postgres {
	t.Helper()
	// Not t.TempDir, which only its owner may enter.
	dir, err := os.MkdirTemp("", "postgres-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Postgres{URL: "postgres:///postgres?user=postgres&sslmode=disable&host=" + dir, Socket: filepath.Join(dir, ".s.PGSQL.5432"), dir: dir}
	t.Cleanup(func() {
		p.Stop(t)
		_ = os.RemoveAll(dir)
	})
	initdb := p.program(t, "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", filepath.Join(dir, "data"))
	if said, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, said)
	}
	p.Start(t)
	return p
}

// Start starts it, again after Stop, on the same socket and with the same data, and waits until it responds.
func (p *Postgres) Start(t *testing.T) {
	t.Helper()
	p.command = p.program(t, "postgres", "-D", filepath.Join(p.dir, "data"), "-p", "5432",
		"-c", "listen_addresses=", "-c", "unix_socket_directories="+p.dir, "-c", "fsync=off")
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "postgres answers", func() error {
		db, err := sql.Open("pgx", p.URL)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Ping()
	})
}

// Stop stops it at once, as if the machine had crashed.
func (p *Postgres) Stop(t *testing.T) {
	t.Helper()
	if p.command == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGQUIT) // which its children follow; on SIGKILL they would outlive it
	_ = p.command.Wait()
	p.command = nil
}

func (p *Postgres) program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Fatal("PostgreSQL is not installed; on Debian and Ubuntu: apt-get install postgresql")
	}
	slices.Sort(found)
	command := exec.Command(found[len(found)-1], args...)
	command.Env = ownEnvironment()
	command.Dir = p.dir
	if os.Geteuid() != 0 {
		return command
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(fmt.Errorf("PostgreSQL refuses to run as root: %w", err))
	}
	uid, _ := strconv.Atoi(postgres.Uid)
	gid, _ := strconv.Atoi(postgres.Gid)
	if err := os.Chown(p.dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return command
}
