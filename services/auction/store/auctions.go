package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Auction is one auction with what is known of its images.
type Auction struct {
	ID         int64
	Owner      string
	Title      string
	Text       string
	StartPrice int64
	LastValue  int64 // the highest bid, or the start price
	LastBidder string
	Bids       int64
	CreatedAt  time.Time
	EndsAt     time.Time
	Images     []Image
}

// Ended says whether the time for bids is over.
func (a *Auction) Ended(now time.Time) bool { return !now.Before(a.EndsAt) }

// AddAuction stores an auction whose images are in files already, and sets its ID. Its images are the store's from then on. When it
// fails the caller discards them, unless the error is ErrOutcomeUnknown.
func (s *Store) AddAuction(ctx context.Context, owner int64, a *Auction) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, s.q(`INSERT INTO auctions (owner_id, title, body, start_price, last_value, created_at, ends_at)
			VALUES ($1, $2, $3, $4, $4, $5, $6) RETURNING id`),
			owner, a.Title, a.Text, a.StartPrice, a.CreatedAt.UnixMilli(), a.EndsAt.UnixMilli()).Scan(&a.ID)
		if err != nil {
			return err
		}
		for position, image := range a.Images {
			_, err := tx.ExecContext(ctx, s.q("INSERT INTO images (auction_id, position, file, type, bytes) VALUES ($1, $2, $3, $4, $5)"),
				a.ID, position, image.file, image.Type, image.Bytes)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const columns = `a.id, o.name, a.title, a.body, a.start_price, a.last_value, COALESCE(b.name, ''), a.bids, a.created_at, a.ends_at,
	(SELECT count(*) FROM images i WHERE i.auction_id = a.id)
	FROM auctions a JOIN users o ON o.id = a.owner_id LEFT JOIN users b ON b.id = a.last_bidder`

func scanAuction(row interface{ Scan(...any) error }) (*Auction, error) {
	var a Auction
	var created, ends, images int64
	err := row.Scan(&a.ID, &a.Owner, &a.Title, &a.Text, &a.StartPrice, &a.LastValue, &a.LastBidder, &a.Bids, &created, &ends, &images)
	a.CreatedAt, a.EndsAt = time.UnixMilli(created).UTC(), time.UnixMilli(ends).UTC()
	a.Images = make([]Image, images)
	return &a, err
}

// Auction is one auction with its images, or ErrNotFound.
func (s *Store) Auction(ctx context.Context, id int64) (*Auction, error) {
	a, err := scanAuction(s.read.QueryRowContext(ctx, s.q("SELECT "+columns+" WHERE a.id = $1"), id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil || len(a.Images) == 0 {
		return a, err
	}
	rows, err := s.read.QueryContext(ctx, s.q("SELECT file, type, bytes FROM images WHERE auction_id = $1 ORDER BY position"), id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	a.Images = a.Images[:0]
	for rows.Next() {
		var image Image
		if err := rows.Scan(&image.file, &image.Type, &image.Bytes); err != nil {
			return nil, err
		}
		a.Images = append(a.Images, image)
	}
	return a, rows.Err()
}

// Filter says which auctions a page of the list has.
type Filter struct {
	Page, PageSize int64    // from 1
	ByDate         bool     // newest first; otherwise by price, lowest first
	Lower, Higher  *float64 // bounds of the last value, themselves included
}

// Active is a page of the auctions that have not ended, and how many there are on all pages. Their Images are not filled in, but as
// many as there are.
func (s *Store) Active(ctx context.Context, f Filter) (page []*Auction, total int64, err error) {
	conditions, arguments := []string{"a.ends_at > $1"}, []any{time.Now().UnixMilli()}
	bound := func(condition string, value *float64) {
		if value != nil {
			arguments = append(arguments, *value)
			conditions = append(conditions, fmt.Sprintf(condition, len(arguments)))
		}
	}
	bound("a.last_value >= CAST($%d AS DOUBLE PRECISION)", f.Lower)
	bound("a.last_value <= CAST($%d AS DOUBLE PRECISION)", f.Higher)
	where := " WHERE " + strings.Join(conditions, " AND ")
	if err = s.read.QueryRowContext(ctx, s.q("SELECT count(*) FROM auctions a"+where), arguments...).Scan(&total); err != nil {
		return nil, 0, err
	}
	order := " ORDER BY a.last_value, a.id"
	if f.ByDate {
		order = " ORDER BY a.created_at DESC, a.id DESC"
	}
	limit := fmt.Sprintf(" LIMIT %d OFFSET %d", f.PageSize, (f.Page-1)*f.PageSize)
	rows, err := s.read.QueryContext(ctx, s.q("SELECT "+columns+where+order+limit), arguments...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scanAuction(rows)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, a)
	}
	return page, total, rows.Err()
}

// Bid puts a value above the last one, in the name of a user. It returns the auction's last value after that: where accepted is
// false, the one that the bid does not exceed. The errors are ErrNotFound and ErrEnded.
//
// Bids on one auction come one after the other, by the lock of its row (PostgreSQL) or of the database (SQLite): of any number at
// once the accepted ones rise, and the highest is among them.
func (s *Store) Bid(ctx context.Context, auction, bidder, value int64) (last int64, accepted bool, err error) {
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		lock := ""
		if s.postgres {
			lock = " FOR UPDATE"
		}
		var ends int64
		err := tx.QueryRowContext(ctx, s.q("SELECT last_value, ends_at FROM auctions WHERE id = $1"+lock), auction).Scan(&last, &ends)
		now := time.Now().UnixMilli() // after the wait for the lock
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return err
		case now >= ends:
			return ErrEnded
		case value <= last:
			return nil
		}
		if _, err := tx.ExecContext(ctx, s.q("INSERT INTO bids (auction_id, value, bidder_id, created_at) VALUES ($1, $2, $3, $4)"),
			auction, value, bidder, now); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.q("UPDATE auctions SET last_value = $2, last_bidder = $3, bids = bids + 1 WHERE id = $1"), auction, value, bidder)
		last, accepted = value, err == nil
		return err
	})
	return last, accepted && err == nil, err
}
