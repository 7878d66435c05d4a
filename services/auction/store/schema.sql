-- One schema for SQLite and PostgreSQL; {{id}} is how each numbers its rows. Times are milliseconds since 1970, values whole units of money.
CREATE TABLE IF NOT EXISTS users (
  id {{id}},
  name TEXT NOT NULL UNIQUE,
  password TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS auctions (
  id {{id}},
  owner_id BIGINT NOT NULL REFERENCES users (id),
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  start_price BIGINT NOT NULL,
  last_value BIGINT NOT NULL, -- the highest bid, or the start price
  last_bidder BIGINT REFERENCES users (id),
  bids BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS auctions_by_end ON auctions (ends_at);
CREATE TABLE IF NOT EXISTS images (
  auction_id BIGINT NOT NULL REFERENCES auctions (id),
  position BIGINT NOT NULL,
  file TEXT NOT NULL,
  type TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (auction_id, position)
);
CREATE TABLE IF NOT EXISTS bids (
  auction_id BIGINT NOT NULL REFERENCES auctions (id),
  value BIGINT NOT NULL,
  bidder_id BIGINT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL,
  PRIMARY KEY (auction_id, value) -- no two equal bids, whatever else goes wrong
);
