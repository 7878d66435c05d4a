package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// AddUser adds a user and returns the number, or ErrTaken. password is what is kept of it, not the password.
func (s *Store) AddUser(ctx context.Context, name, password string) (int64, error) {
	var id int64
	err := s.write.QueryRowContext(ctx, s.q("INSERT INTO users (name, password, created_at) VALUES ($1, $2, $3) RETURNING id"),
		name, password, time.Now().UnixMilli()).Scan(&id)
	if isDuplicate(err) {
		return 0, ErrTaken
	}
	return id, err
}

// User is a user's number and what is kept of the password, or ErrNotFound.
func (s *Store) User(ctx context.Context, name string) (id int64, password string, err error) {
	err = s.read.QueryRowContext(ctx, s.q("SELECT id, password FROM users WHERE name = $1"), name).Scan(&id, &password)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return id, password, err
}

// HasUser says whether there is a user of this number: a token may be older than the database.
func (s *Store) HasUser(ctx context.Context, id int64) (bool, error) {
	var found int
	err := s.read.QueryRowContext(ctx, s.q("SELECT count(*) FROM users WHERE id = $1"), id).Scan(&found)
	return found == 1, err
}
