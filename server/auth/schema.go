package auth

import "github.com/weirgpu/weir/server/store"

// Room is the accounts' part of the state. It needs that of package audit beside it.
var Room = store.Room{Name: "auth", Migrations: []string{`
CREATE TABLE auth_accounts (
	name TEXT PRIMARY KEY,
	weight REAL NOT NULL,
	queue INTEGER NOT NULL
) STRICT;
CREATE TABLE auth_grants (
	account TEXT NOT NULL REFERENCES auth_accounts ON DELETE CASCADE,
	pattern TEXT NOT NULL,
	rights INTEGER NOT NULL, -- bits, see Rights
	PRIMARY KEY (account, pattern)
) STRICT;
CREATE TABLE auth_names (
	kind TEXT NOT NULL, -- certificate or subject
	name TEXT NOT NULL,
	account TEXT NOT NULL REFERENCES auth_accounts ON DELETE CASCADE,
	PRIMARY KEY (kind, name)
) STRICT;
CREATE TABLE auth_tokens (
	id TEXT PRIMARY KEY,
	account TEXT NOT NULL REFERENCES auth_accounts ON DELETE CASCADE,
	name TEXT NOT NULL,
	hash BLOB NOT NULL, -- SHA-256 of the secret
	made INTEGER NOT NULL, -- seconds since 1970
	expires INTEGER NOT NULL, -- likewise, 0 for never
	UNIQUE (account, name)
) STRICT;
`, `
CREATE TABLE auth_ids (
	id INTEGER PRIMARY KEY AUTOINCREMENT, -- which SQLite never gives to another row
	account TEXT NOT NULL UNIQUE REFERENCES auth_accounts ON DELETE CASCADE
) STRICT;
INSERT INTO auth_ids (account) SELECT name FROM auth_accounts;
`}}

// The kinds of names by which others know an account.
const (
	kindCertificate = "certificate"
	kindSubject     = "subject"
)
