package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode"

	"weir/services/auction/store"
)

const (
	// bodyLimit takes one image of 16 MiB in base64, and what is said of it.
	bodyLimit    = 24 << 20
	maxImages    = 10
	maxPrice     = 1_000_000_000_000
	maxSeconds   = 30 * 24 * 3600
	usualSeconds = 7 * 24 * 3600
	maxPage      = 1_000_000
	maxPageSize  = 100
)

// descriptionView is what an auction was created with, as JSON.
type descriptionView struct {
	ID         int64  `json:"id"`
	Owner      string `json:"owner"`
	Title      string `json:"title"`
	Text       string `json:"text"`
	StartPrice int64  `json:"startPrice"`
	CreatedAt  string `json:"createdAt"`
	EndsAt     string `json:"endsAt"`
	ImageCount int    `json:"imageCount"`
}

func describe(a *store.Auction) descriptionView {
	return descriptionView{a.ID, a.Owner, a.Title, a.Text, a.StartPrice, a.CreatedAt.Format(time.RFC3339), a.EndsAt.Format(time.RFC3339), len(a.Images)}
}

// auctionView is an auction as it stands.
type auctionView struct {
	descriptionView
	Status     string  `json:"status"`     // active or ended
	LastValue  int64   `json:"lastValue"`  // the highest bid, or the start price
	LastBidder *string `json:"lastBidder"` // null before the first bid
	Bids       int64   `json:"bids"`
}

func view(a *store.Auction) auctionView {
	v := auctionView{describe(a), "active", a.LastValue, nil, a.Bids}
	if a.Ended(time.Now()) {
		v.Status = "ended"
	}
	if a.Bids > 0 {
		v.LastBidder = &a.LastBidder
	}
	return v
}

func (a *api) createDescription(w http.ResponseWriter, r *request) error {
	user, err := a.bearer(r)
	if err != nil {
		return err
	}
	leave, err := enter(r.Context(), a.uploads)
	if err != nil {
		return err
	}
	defer leave()
	auction := &store.Auction{}
	seconds := int64(usualSeconds)
	printable := func(c rune) bool { return !unicode.IsControl(c) }
	err = readObject(w, r, bodyLimit, map[string]member{
		"title":           {true, text(&auction.Title, 1, 200, "printable characters", printable)},
		"text":            {false, text(&auction.Text, 0, 10000, "printable characters and line breaks", func(c rune) bool { return printable(c) || c == '\n' || c == '\t' || c == '\r' })},
		"startPrice":      {true, whole(&auction.StartPrice, 0, maxPrice)},
		"durationSeconds": {false, whole(&seconds, 1, maxSeconds)},
		"images":          {false, a.readImages(auction)},
	})
	if err == nil {
		auction.CreatedAt = time.Now().UTC()
		auction.EndsAt = auction.CreatedAt.Add(time.Duration(seconds) * time.Second)
		err = a.store.AddAuction(r.Context(), user, auction)
	}
	if err != nil {
		if !errors.Is(err, store.ErrOutcomeUnknown) { // then the row may be there, and needs them
			a.store.DiscardImages(auction.Images)
		}
		return err
	}
	if auction, err = a.store.Auction(r.Context(), auction.ID); err != nil {
		return err
	}
	w.Header().Set("Location", "/description/"+strconv.FormatInt(auction.ID, 10))
	return send(w, http.StatusCreated, describe(auction))
}

// readImages writes each image of an array to a file as soon as it has arrived.
func (a *api) readImages(into *store.Auction) func(*json.Decoder) error {
	return func(decoder *json.Decoder) error {
		if token, err := decoder.Token(); err != nil {
			return err
		} else if token != json.Delim('[') {
			return bad(" must be an array of images in base64")
		}
		for decoder.More() {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			position := len(into.Images)
			if position == maxImages {
				return bad(" must hold at most %d images", maxImages)
			}
			encoded, isText := token.(string)
			if !isText {
				return bad("[%d] must be a string, an image in base64", position)
			}
			image, err := a.store.AddImage(encoded)
			if errors.Is(err, store.ErrBase64) || errors.Is(err, store.ErrKind) || errors.Is(err, store.ErrTooLarge) {
				return bad("[%d] %v", position, err)
			}
			if err != nil {
				return err
			}
			into.Images = append(into.Images, image)
		}
		_, err := decoder.Token() // the closing bracket
		return err
	}
}

func (a *api) getDescription(w http.ResponseWriter, r *request) error {
	auction, err := a.auction(r)
	if err != nil {
		return err
	}
	return a.sendWithImages(w, r, describe(auction), auction.Images)
}

func (a *api) getAuction(w http.ResponseWriter, r *request) error {
	auction, err := a.auction(r)
	if err != nil {
		return err
	}
	return a.sendWithImages(w, r, view(auction), auction.Images)
}

func (a *api) auction(r *request) (*store.Auction, error) {
	auction, err := a.store.Auction(r.Context(), r.id)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(http.StatusNotFound, "there is no auction %d", r.id)
	}
	return auction, err
}

// sendWithImages responds with an object and, as its last member, the images in base64, which go from their files to the client piece
// by piece. The length is known before.
func (a *api) sendWithImages(w http.ResponseWriter, r *request, object any, images []store.Image) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	pieces := [][]byte{append(bytes.TrimSuffix(text, []byte("}")), `,"images":[`...)}
	length := int64(0)
	readers := make([]*store.ImageReader, len(images))
	for i, image := range images {
		reader, err := a.store.OpenImage(image)
		if err != nil {
			return err
		}
		defer reader.Close()
		comma := map[bool]string{true: ","}[i > 0]
		head := comma + `{"type":"` + image.Type + `","bytes":` + strconv.FormatInt(image.Bytes, 10) + `,"data":"`
		pieces[i] = append(pieces[i], head...)
		pieces = append(pieces, []byte(`"}`))
		length += image.Base64Length()
		readers[i] = reader
	}
	pieces[len(images)] = append(pieces[len(images)], "]}"...)
	for _, piece := range pieces {
		length += int64(len(piece))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if r.Method == http.MethodHead {
		return nil
	}
	for i, piece := range pieces {
		_, err := w.Write(piece)
		if err == nil && i < len(images) {
			err = readers[i].WriteBase64(w)
		}
		if err != nil {
			// The status has gone. What is missing must be seen by the client: the connection breaks off.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

func (a *api) listActive(w http.ResponseWriter, r *request) error {
	filter := store.Filter{Page: 1, PageSize: 20}
	order := "price"
	q := &query{values: r.URL.Query()}
	q.whole("page", maxPage, &filter.Page)
	q.whole("pageSize", maxPageSize, &filter.PageSize)
	q.choice("sortBy", []string{"price", "date"}, &order)
	q.price("lowerPrice", &filter.Lower)
	q.price("higherPrice", &filter.Higher)
	if q.err != nil {
		return q.err
	}
	filter.ByDate = order == "date"
	found, total, err := a.store.Active(r.Context(), filter)
	if err != nil {
		return err
	}
	items := make([]auctionView, len(found))
	for i, auction := range found {
		items[i] = view(auction)
	}
	return send(w, http.StatusOK, map[string]any{"page": filter.Page, "pageSize": filter.PageSize, "total": total, "items": items})
}

func (a *api) placeBid(w http.ResponseWriter, r *request) error {
	user, err := a.bearer(r)
	if err != nil {
		return err
	}
	var value int64
	err = readObject(w, r, smallBody, map[string]member{"value": {true, whole(&value, 1, maxPrice)}})
	if err != nil {
		return err
	}
	last, accepted, err := a.store.Bid(r.Context(), r.id, user, value)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(http.StatusNotFound, "there is no auction %d", r.id)
	case errors.Is(err, store.ErrEnded):
		return refuse(http.StatusConflict, "the auction has ended")
	case err != nil:
		return err
	case !accepted:
		return &refusal{http.StatusForbidden, "the bid is not above the last", map[string]any{"lastValue": last, "value": last + 1}}
	}
	return send(w, http.StatusCreated, map[string]any{"auctionID": r.id, "value": value})
}
