package store

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Image is an image in a file.
type Image struct {
	Type  string // image/jpeg, image/png or image/gif
	Bytes int64
	file  string
}

const (
	// MaxImageBytes is the size of the largest image.
	MaxImageBytes = 16 << 20
	partSuffix    = ".part"
)

// What is wrong with an image that was sent.
var (
	ErrBase64    = errors.New("is not base64 (RFC 4648, section 4)")
	ErrKind      = errors.New("is not a JPEG, PNG or GIF image")
	ErrTooLarge  = fmt.Errorf("has more than %d bytes", MaxImageBytes)
	beginnings   = []struct{ bytes, kind string }{{"\xff\xd8\xff", "image/jpeg"}, {"\x89PNG\r\n\x1a\n", "image/png"}, {"GIF87a", "image/gif"}, {"GIF89a", "image/gif"}}
	longestText  = base64.StdEncoding.EncodedLen(MaxImageBytes)
	encodingPart = 3 << 14 // bytes that are encoded at once: a multiple of three
)

// AddImage writes an image, in base64, to a file of its own, and to the disk before it returns.
func (s *Store) AddImage(text string) (image Image, err error) {
	if len(text) > longestText {
		return image, ErrTooLarge
	}
	if strings.ContainsAny(text, "\r\n") { // which Go's decoder would pass over
		return image, ErrBase64
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return image, ErrBase64
	}
	if len(data) > MaxImageBytes {
		return image, ErrTooLarge
	}
	for _, beginning := range beginnings {
		if bytes.HasPrefix(data, []byte(beginning.bytes)) {
			image.Type = beginning.kind
		}
	}
	if image.Type == "" {
		return image, ErrKind
	}
	image.Bytes, image.file = int64(len(data)), rand.Text()
	return image, s.writeFile(image.file, data)
}

func (s *Store) writeFile(name string, data []byte) (err error) {
	path := filepath.Join(s.images, name)
	file, err := os.OpenFile(path+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path + partSuffix)
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(path+partSuffix, path)
}

// DiscardImages removes the files of an auction that was not stored.
func (s *Store) DiscardImages(images []Image) {
	for _, image := range images {
		_ = os.Remove(filepath.Join(s.images, image.file))
	}
}

// removeParts removes what a crash has left half written, but not what another process may be writing.
func removeParts(dir string) error {
	parts, err := filepath.Glob(filepath.Join(dir, "*"+partSuffix))
	for _, part := range parts {
		if info, failed := os.Stat(part); failed == nil && time.Since(info.ModTime()) > time.Hour {
			err = errors.Join(err, os.Remove(part))
		}
	}
	return err
}

// ImageReader is an image's file, opened.
type ImageReader struct{ file *os.File }

// OpenImage opens an image's file, which must have the size that it had.
func (s *Store) OpenImage(image Image) (*ImageReader, error) {
	file, err := os.Open(filepath.Join(s.images, image.file))
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || info.Size() != image.Bytes {
		_ = file.Close()
		return nil, errors.Join(err, fmt.Errorf("the file %s has not the %d bytes that it should have", image.file, image.Bytes))
	}
	return &ImageReader{file}, nil
}

// Base64Length is how long an image is in base64.
func (i Image) Base64Length() int64 { return int64(base64.StdEncoding.EncodedLen(int(i.Bytes))) }

// WriteBase64 writes the image in base64, piece by piece.
func (r *ImageReader) WriteBase64(w io.Writer) error {
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.CopyBuffer(struct{ io.Writer }{encoder}, struct{ io.Reader }{r.file}, make([]byte, encodingPart)); err != nil {
		return err
	}
	return encoder.Close()
}

// Close closes the file.
func (r *ImageReader) Close() { _ = r.file.Close() }
