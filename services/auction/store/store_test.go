package store_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/services/auction/store"
	"weir/services/internal/harness"
)

// everywhere runs a test on SQLite and on PostgreSQL, each time with two stores of one database: two processes might have them.
func everywhere(t *testing.T, test func(t *testing.T, one, other *store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		test(t, open(t, dir, ""), open(t, dir, ""))
	})
	t.Run("postgres", func(t *testing.T) {
		server := harness.NewPostgres(t)
		dir := t.TempDir()
		test(t, open(t, dir, server.URL), open(t, dir, server.URL))
	})
}

func open(t *testing.T, dir, database string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func auction(t *testing.T, s *store.Store, startPrice int64, open time.Duration, images ...store.Image) *store.Auction {
	t.Helper()
	owner, err := s.AddUser(t.Context(), "owner"+rand.Text(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a := &store.Auction{Title: "A violin", StartPrice: startPrice, CreatedAt: now, EndsAt: now.Add(open), Images: images}
	if err := s.AddAuction(t.Context(), owner, a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Two hundred bids from two stores at once, in no order, each value twice: the accepted ones are as many as are counted, no two are
// equal, and the highest of all has won.
func TestConcurrentBidsLoseNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, one, other *store.Store) {
		a := auction(t, one, 10, time.Hour)
		bidder, err := one.AddUser(t.Context(), "bidder", "kept")
		if err != nil {
			t.Fatal(err)
		}
		var mutex sync.Mutex
		var accepted []int64
		var all sync.WaitGroup
		for i := range 200 {
			s := []*store.Store{one, other}[i%2]
			value := int64(11 + (i/2*37)%100)
			all.Go(func() {
				last, won, err := s.Bid(context.Background(), a.ID, bidder, value)
				if err != nil {
					t.Error(err)
					return
				}
				if won != (last == value) && last < value {
					t.Errorf("a bid of %d: accepted %v, last value %d", value, won, last)
				}
				if won {
					mutex.Lock()
					accepted = append(accepted, value)
					mutex.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(accepted)
		if len(slices.Compact(slices.Clone(accepted))) != len(accepted) {
			t.Errorf("equal bids were accepted: %v", accepted)
		}
		now, err := other.Auction(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.LastValue != 110 || accepted[len(accepted)-1] != 110 || now.Bids != int64(len(accepted)) || now.LastBidder != "bidder" {
			t.Errorf("last value %d by %s, %d bids; accepted: %v", now.LastValue, now.LastBidder, now.Bids, accepted)
		}
	})
}

func TestABidIsRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, s, _ *store.Store) {
		a, ended := auction(t, s, 10, time.Hour), auction(t, s, 10, 0)
		for _, c := range []struct {
			auction, value, last int64
			err                  error
		}{{a.ID, 10, 10, nil}, {a.ID, 9, 10, nil}, {ended.ID, 11, 10, store.ErrEnded}, {a.ID + 1000, 11, 0, store.ErrNotFound}} {
			last, accepted, err := s.Bid(t.Context(), c.auction, 1, c.value)
			if accepted || last != c.last || !errors.Is(err, c.err) {
				t.Errorf("%+v: last %d, accepted %v, %v", c, last, accepted, err)
			}
		}
		if now, err := s.Auction(t.Context(), a.ID); err != nil || now.Bids != 0 || now.LastValue != 10 || now.LastBidder != "" {
			t.Errorf("after refusals: %+v, %v", now, err)
		}
	})
}

func TestNamesAreTakenOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, one, other *store.Store) {
		id, err := one.AddUser(t.Context(), "ada", "kept")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.AddUser(t.Context(), "ada", "other"); !errors.Is(err, store.ErrTaken) {
			t.Errorf("the second: %v", err)
		}
		found, kept, err := other.User(t.Context(), "ada")
		if err != nil || found != id || kept != "kept" {
			t.Errorf("found %d, %q, %v", found, kept, err)
		}
		if _, _, err := other.User(t.Context(), "Ada"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another case: %v", err)
		}
		if has, err := other.HasUser(t.Context(), id+1); has || err != nil {
			t.Errorf("nobody: %v, %v", has, err)
		}
	})
}

func TestThePagesOfTheList(t *testing.T) {
	everywhere(t, func(t *testing.T, s, _ *store.Store) {
		var ids []int64
		now := time.Now()
		auction(t, s, 5, 0) // has ended, and adds the owner, user 1
		for i, price := range []int64{30, 10, 20, 10} {
			a := &store.Auction{Title: "A violin", StartPrice: price, CreatedAt: now.Add(time.Duration(i) * time.Second), EndsAt: now.Add(time.Hour)}
			if err := s.AddAuction(t.Context(), 1, a); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID)
		}
		nine, twenty := 9.5, 20.0
		for _, c := range []struct {
			filter store.Filter
			want   []int64
			total  int64
		}{
			{store.Filter{Page: 1, PageSize: 10}, []int64{ids[1], ids[3], ids[2], ids[0]}, 4},
			{store.Filter{Page: 2, PageSize: 3}, []int64{ids[0]}, 4},
			{store.Filter{Page: 3, PageSize: 3}, nil, 4},
			{store.Filter{Page: 1, PageSize: 10, ByDate: true}, []int64{ids[3], ids[2], ids[1], ids[0]}, 4},
			{store.Filter{Page: 1, PageSize: 10, Lower: &nine, Higher: &twenty}, []int64{ids[1], ids[3], ids[2]}, 3},
			{store.Filter{Page: 1, PageSize: 10, Lower: &twenty, Higher: &nine}, nil, 0},
		} {
			page, total, err := s.Active(t.Context(), c.filter)
			var got []int64
			for _, a := range page {
				got = append(got, a.ID)
			}
			if err != nil || total != c.total || !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v of %d, want %v of %d; %v", c.filter, got, total, c.want, c.total, err)
			}
		}
	})
}

func TestImagesAreFilesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "")
	var images []store.Image
	for range 2 { // the same twice: no file is shared
		image, err := s.AddImage("iVBORw0KGgoAAQ==")
		if err != nil || image.Type != "image/png" || image.Bytes != 10 || image.Base64Length() != 16 {
			t.Fatalf("%+v, %v", image, err)
		}
		images = append(images, image)
	}
	a := auction(t, s, 1, time.Hour, images...)
	stored, err := s.Auction(t.Context(), a.ID)
	if err != nil || len(stored.Images) != 2 {
		t.Fatalf("%+v, %v", stored, err)
	}
	for _, image := range stored.Images {
		reader, err := s.OpenImage(image)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := reader.WriteBase64(&text); err != nil || text.String() != "iVBORw0KGgoAAQ==" {
			t.Errorf("%q, %v", text.String(), err)
		}
		reader.Close()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "images", "*"))
	if len(files) != 2 {
		t.Errorf("files: %v", files)
	}
	if err := os.Truncate(files[0], 5); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, image := range stored.Images {
		if _, err := s.OpenImage(image); err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d images are damaged, want 1", failed)
	}
	s.DiscardImages(images)
	if files, _ = filepath.Glob(filepath.Join(dir, "images", "*")); len(files) != 0 {
		t.Errorf("files left: %v", files)
	}
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, "")
	old, fresh := filepath.Join(dir, "images", "old.part"), filepath.Join(dir, "images", "fresh.part")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	open(t, dir, "")
	if _, err := os.Stat(old); err == nil {
		t.Error("the old half is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error("what may be in the making is gone")
	}
}

func TestAnAuctionThatCannotBeStoredLeavesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, s, _ *store.Store) {
		now := time.Now()
		a := &store.Auction{Title: "x", CreatedAt: now, EndsAt: now.Add(time.Hour)}
		if err := s.AddAuction(t.Context(), 77, a); err == nil {
			t.Error("an owner that there is not was accepted")
		}
		if page, total, err := s.Active(t.Context(), store.Filter{Page: 1, PageSize: 1}); len(page) != 0 || total != 0 || err != nil {
			t.Errorf("%d auctions, %v", total, err)
		}
	})
}

func TestDatabasesThatCannotBeOpened(t *testing.T) {
	for database, says := range map[string]string{
		"mysql://localhost/auction":                            "must begin with postgres://",
		"sqlite:/nowhere/auction.sqlite":                       "/nowhere/auction.sqlite",
		"postgres://a@" + harness.FreeAddress(t) + "/auctions": "PostgreSQL:",
	} {
		s, err := store.Open(t.TempDir(), database)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", database, s, err)
		}
	}
}

// controlQueries are queries without end that the driver interrupts when their caller gives up. Once one is interrupted, a commit of the
// same caller would have been interrupted too, if it could be.
type controlQueries struct {
	t  *testing.T
	db *sql.DB
}

func openControl(t *testing.T, url string) controlQueries {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return controlQueries{t, db}
}

// query starts one, which runs when it returns; the function that it gives waits until it was interrupted.
func (c controlQueries) query(ctx context.Context) (interrupted func()) {
	c.t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := c.db.ExecContext(ctx, "SELECT pg_sleep(3600)")
		ended <- err
	}()
	harness.Eventually(c.t, "a query that runs", func() error {
		var running bool
		err := c.db.QueryRowContext(c.t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')").Scan(&running)
		if err == nil && !running {
			err = errors.New("there is none")
		}
		return err
	})
	return func() {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			c.t.Errorf("the query without end: %v", err)
		}
	}
}

// Regression: a client that disconnected while its auction was committed left the row, and an error, after which the images were deleted.
func TestACommitIsNotInterruptedByItsCaller(t *testing.T) {
	proxy := harness.NewPostgresProxy(t, harness.NewPostgres(t))
	s := open(t, t.TempDir(), proxy.URL)
	a := auction(t, s, 1, time.Hour)
	control := openControl(t, proxy.URL)
	for _, c := range []struct {
		name    string
		pass    bool
		want    error
		happens func(cancel, interrupted func())
	}{
		{"the caller gives up", true, nil, func(cancel, interrupted func()) { cancel(); interrupted() }},
		{"the connection is lost", false, store.ErrOutcomeUnknown, func(func(), func()) {}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		interrupted := control.query(ctx)
		proxy.OnCommit(func() bool { c.happens(cancel, interrupted); return c.pass })
		next := *a
		if err := s.AddAuction(ctx, 1, &next); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		cancel()
		proxy.OnCommit(nil)
		if _, err := s.Auction(t.Context(), next.ID); err != nil {
			t.Errorf("%s: the row: %v", c.name, err)
		}
	}
	// Before the commit a caller may give up: nothing is stored, and that is known.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AddAuction(ctx, 1, &store.Auction{Title: "x"}); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("a caller that has given up: %v", err)
	}
}
