package core

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/weir/producer/sql"
)

// pingTimeout is how long a health check waits.
const pingTimeout = 2 * time.Second

// Why an event was not stored. Nothing of it was written.
var (
	// ErrUnavailable means that the database is away, overloaded or refused to work now; the same event may succeed later.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrRefused means that the event holds what PostgreSQL cannot store, such as a number outside of numeric's range.
	ErrRefused = errors.New("attributes cannot be stored")
	// ErrFailed is anything else; a table that is missing, for one.
	ErrFailed = errors.New("statement failed")
)

// Store is the database.
type Store struct {
	pool           *pgxpool.Pool
	acquireTimeout time.Duration
}

// NewStore makes the pool. No connection is opened yet: a service starts, and responds with 503, also while the database is away.
// The error is a DATABASE_URL that cannot be read.
func NewStore(settings Settings, service string) (*Store, error) {
	config, err := pgxpool.ParseConfig(settings.DatabaseURL)
	if err != nil {
		return nil, &BadVariable{Name: "DATABASE_URL", Wanted: err.Error()}
	}
	config.MaxConns = settings.PoolSize
	config.MinConns = 0
	config.MaxConnIdleTime = 10 * time.Minute
	config.MaxConnLifetime = 30 * time.Minute
	connection := config.ConnConfig
	connection.ConnectTimeout = settings.AcquireTimeout
	connection.RuntimeParams["application_name"] = service
	connection.RuntimeParams["statement_timeout"] = strconv.Itoa(settings.StatementTimeoutMillis)
	// A service that is killed cannot cancel its statements: PostgreSQL looks whether the client is still there (milliseconds).
	connection.RuntimeParams["client_connection_check_interval"] = "250"
	// A call whose deadline passes cancels its statement and keeps the connection, rather than closing it.
	connection.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 5 * time.Second}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("the pool of connections cannot be made: %w", err)
	}
	return &Store{pool, settings.AcquireTimeout}, nil
}

// Store stores an event in one transaction: every entity of it, or none. The rows are locked in the order of their keys, so
// that two events with entities in common never wait for each other in a circle. The error is one of the Err values, or the
// context's own.
func (s *Store) Store(ctx context.Context, event Event) error {
	err := s.withConnection(ctx, func(connection *pgxpool.Conn) error {
		_, err := connection.Exec(ctx, sql.StoreEvent, event.Types, event.IDs, event.Attributes)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (s *Store) withConnection(ctx context.Context, work func(*pgxpool.Conn) error) error {
	waiting, cancel := context.WithTimeout(ctx, s.acquireTimeout)
	connection, err := s.pool.Acquire(waiting)
	cancel()
	if err != nil {
		// Whatever keeps a connection away (refused, no such role, no such database) means that the database is away.
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer connection.Release()
	if err := work(connection); err != nil {
		return fmt.Errorf("%w: %w", classify(err), err)
	}
	return nil
}

// classify sorts an error by its SQLSTATE class (PostgreSQL's appendix A); without one the connection broke.
func classify(err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || len(answer.Code) < 2 {
		return ErrUnavailable
	}
	switch answer.Code[:2] {
	case "08", "40", "53", "57": // connection, conflict with another writer, resources, operator's intervention
		return ErrUnavailable
	case "22":
		return ErrRefused
	}
	if answer.Code == "25006" { // a standby
		return ErrUnavailable
	}
	return ErrFailed
}

// IsUp says whether the database responds within two seconds.
func (s *Store) IsUp(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.withConnection(ctx, func(connection *pgxpool.Conn) error {
		_, err := connection.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
		return err
	}) == nil
}

// Connections gives the connections that are open: at work and idle.
func (s *Store) Connections() (used, idle int) {
	stat := s.pool.Stat()
	return int(stat.AcquiredConns()), int(stat.IdleConns())
}

// Close closes every connection once it is given back.
func (s *Store) Close() { s.pool.Close() }
