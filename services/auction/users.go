package main

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/argon2"

	"weir/services/auction/store"
)

const (
	smallBody = 64 << 10
	tokenTime = 24 * time.Hour
	keyBytes  = 32
)

type credentials struct{ name, password string }

func readCredentials(w http.ResponseWriter, r *request) (c credentials, err error) {
	err = readObject(w, r, smallBody, map[string]member{
		"name": {true, text(&c.name, 1, 64, "letters and digits of ASCII, and . _ @ + -", func(c rune) bool {
			return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._@+-", c)
		})},
		"password": {true, text(&c.password, 8, 256, "characters", func(rune) bool { return true })},
	})
	return c, err
}

func (a *api) register(w http.ResponseWriter, r *request) error {
	c, err := readCredentials(w, r)
	if err != nil {
		return err
	}
	leave, err := enter(r.Context(), a.hashes)
	if err != nil {
		return err
	}
	kept := hash(c.password)
	leave()
	id, err := a.store.AddUser(r.Context(), c.name, kept)
	if errors.Is(err, store.ErrTaken) {
		return refuse(http.StatusConflict, "the name is taken")
	}
	if err != nil {
		return err
	}
	return send(w, http.StatusCreated, map[string]any{"id": id, "name": c.name})
}

func (a *api) login(w http.ResponseWriter, r *request) error {
	c, err := readCredentials(w, r)
	if err != nil {
		return err
	}
	id, kept, err := a.store.User(r.Context(), c.name)
	unknown := errors.Is(err, store.ErrNotFound)
	if err != nil && !unknown {
		return err
	}
	leave, err := enter(r.Context(), a.hashes)
	if err != nil {
		return err
	}
	if unknown {
		kept = nobody // as long as for a user, so that names cannot be probed
	}
	right := matches(kept, c.password)
	leave()
	if unknown || !right {
		return refuse(http.StatusUnauthorized, "name or password is wrong")
	}
	token, err := a.tokens.issue(id, time.Now())
	if err != nil {
		return err
	}
	return send(w, http.StatusOK, map[string]any{"token": token, "tokenType": "Bearer", "expiresIn": int(tokenTime / time.Second)})
}

// hash is what is kept of a password: the salt and the key of argon2id, with the least parameters that OWASP recommends.
func hash(password string) string {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	return base64.RawStdEncoding.EncodeToString(append(salt, derive(password, salt)...))
}

func derive(password string, salt []byte) []byte {
	return argon2.IDKey([]byte(password), salt, 2, 19<<10, 1, keyBytes)
}

func matches(kept, password string) bool {
	both, err := base64.RawStdEncoding.DecodeString(kept)
	if err != nil || len(both) != 16+keyBytes {
		return false
	}
	return subtle.ConstantTimeCompare(derive(password, both[:16]), both[16:]) == 1
}

var nobody = base64.RawStdEncoding.EncodeToString(make([]byte, 16+keyBytes))

// tokens issues and reads JSON Web Tokens (RFC 7519), signed with HMAC and SHA-256.
type tokens struct{ key []byte }

func (t tokens) issue(user int64, now time.Time) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer:    name,
		Subject:   strconv.FormatInt(user, 10),
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(tokenTime)),
	}).SignedString(t.key)
}

func (t tokens) user(token string) (int64, error) {
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return t.key, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(), jwt.WithIssuer(name))
	if err != nil {
		return 0, err
	}
	return number(claims.Subject)
}

// tokenKey is the key of tokens: the secret, or else what the file holds, which is made when it is missing. So tokens outlive a
// restart; replicas need the same secret.
func tokenKey(secret, path string) ([]byte, error) {
	if secret != "" {
		if len(secret) < keyBytes {
			return nil, fmt.Errorf("JWT_SECRET has %d bytes; give it %d or more, or none to have a key made in %s", len(secret), keyBytes, path)
		}
		return []byte(secret), nil
	}
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			key, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the key of tokens: %w", err)
	}
	if len(key) < keyBytes {
		return nil, fmt.Errorf("the key of tokens in %s is too short; remove the file to have another made", path)
	}
	return key, nil
}

// makeKey makes the file of a key, unless another process makes it first: it appears whole, and is never replaced.
func makeKey(path string) error {
	part := path + "." + rand.Text()
	defer os.Remove(part)
	if err := os.WriteFile(part, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return err
	}
	if err := os.Link(part, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}
