// Package store keeps users, auctions and bids in SQLite or PostgreSQL, and images in files.
package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

//go:embed schema.sql
var schema string

// What a caller may be told.
var (
	ErrNotFound = errors.New("not found")
	ErrTaken    = errors.New("the name is taken")
	ErrEnded    = errors.New("the auction has ended")
	// ErrOutcomeUnknown means that the connection was lost during COMMIT: what was to be stored may be stored.
	ErrOutcomeUnknown = errors.New("the outcome of the commit is not known")
)

const (
	openTime = 10 * time.Second
	// commitTime is how long a commit may take: the caller cannot end it.
	commitTime = 30 * time.Second
	// poolSize is how many connections PostgreSQL gets from one process.
	poolSize = 16
	// schemaLock is the advisory lock under which PostgreSQL's tables are made: replicas may start at once.
	schemaLock = 7219403
)

// Store is the database and the folder of images. Its methods may be called concurrently.
type Store struct {
	read, write *sql.DB // of SQLite, which has one writer, two pools; of PostgreSQL one
	images      string
	postgres    bool
}

// Open opens the database, makes the tables that are missing, and the folder for images in dir. Without a database URL it is
// auction.sqlite in dir; otherwise postgres://USER:PASSWORD@HOST/NAME, or sqlite:PATH.
func Open(dir, database string) (*Store, error) {
	images := filepath.Join(dir, "images")
	if err := os.MkdirAll(images, 0o750); err != nil {
		return nil, err
	}
	if err := removeParts(images); err != nil {
		return nil, err
	}
	s := &Store{images: images}
	switch scheme, rest, _ := strings.Cut(database, ":"); {
	case database == "":
		return s, s.openSQLite(filepath.Join(dir, "auction.sqlite"))
	case scheme == "sqlite" && rest != "":
		return s, s.openSQLite(strings.TrimPrefix(rest, "//"))
	case scheme == "postgres" || scheme == "postgresql":
		return s, s.openPostgres(database)
	default:
		return nil, errors.New("the database's URL must begin with postgres://, postgresql:// or sqlite:")
	}
}

func (s *Store) openSQLite(path string) error {
	// A bid that was accepted outlives a power cut: synchronous is FULL. Writers wait for their turn, here and in other processes.
	pragmas := url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "busy_timeout(10000)"},
		"_txlock": {"immediate"},
	}
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: pragmas.Encode()}).String()
	var err error
	if s.write, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := s.makeTables("INTEGER PRIMARY KEY AUTOINCREMENT", nil); err != nil {
		_ = s.write.Close()
		return fmt.Errorf("SQLite in %s: %w", path, err)
	}
	if s.read, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(2 * runtime.GOMAXPROCS(0))
	s.read.SetMaxIdleConns(2 * runtime.GOMAXPROCS(0))
	return nil
}

func (s *Store) openPostgres(database string) error {
	s.postgres = true
	var err error
	if s.write, err = sql.Open("pgx", database); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(poolSize)
	s.write.SetMaxIdleConns(poolSize)
	s.read = s.write
	lock := func(tx *sql.Tx) error {
		_, err := tx.Exec("SELECT pg_advisory_xact_lock($1)", schemaLock)
		return err
	}
	if err := s.makeTables("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", lock); err != nil {
		_ = s.write.Close()
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	return nil
}

func (s *Store) makeTables(id string, first func(*sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return s.transaction(ctx, func(tx *sql.Tx) error {
		if first != nil {
			if err := first(tx); err != nil {
				return err
			}
		}
		for statement := range strings.SplitSeq(strings.ReplaceAll(comment.ReplaceAllString(schema, ""), "{{id}}", id), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
}

var comment = regexp.MustCompile(`--[^\n]*`)

// Close closes the database.
func (s *Store) Close() error {
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	return err
}

// Ping says whether the database responds.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.read.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// q writes a query's $1 as SQLite has it.
func (s *Store) q(query string) string {
	if s.postgres {
		return query
	}
	return strings.ReplaceAll(query, "$", "?")
}

// transaction does work in a transaction. A caller may give up, by ctx, until the commit begins: interrupted, a commit would have no
// known outcome. The error is then ErrOutcomeUnknown; after every other error nothing is stored.
func (s *Store) transaction(ctx context.Context, work func(*sql.Tx) error) error {
	connection, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	commit, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	tx, err := connection.BeginTx(commit, nil)
	if err != nil {
		return err
	}
	err = work(tx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	timer := time.AfterFunc(commitTime, cancel)
	defer timer.Stop()
	err = tx.Commit()
	var refused *pgconn.PgError
	if err != nil && s.postgres && !errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// isDuplicate says whether a unique key refused a row.
func isDuplicate(err error) bool {
	const sqliteUnique, sqlitePrimary, postgresUnique = 2067, 1555, "23505"
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) {
		return postgres.Code == postgresUnique
	}
	var sqlite interface{ Code() int }
	return errors.As(err, &sqlite) && (sqlite.Code() == sqliteUnique || sqlite.Code() == sqlitePrimary)
}
