package jobs

import "github.com/weirgpu/weir/server/store"

// Room is the jobs' part of the state, which needs those of packages audit and auth before it. An
// account is what auth.Account.Owner returns. Times are milliseconds since 1970, 0 for never.
var Room = store.Room{Name: "jobs", Migrations: []string{`
CREATE TABLE jobs_jobs (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	account TEXT NOT NULL,
	key TEXT NOT NULL,
	asked TEXT NOT NULL, -- digest of what was asked with the key
	name TEXT NOT NULL,
	model TEXT NOT NULL,
	version TEXT NOT NULL,
	outputs TEXT NOT NULL, -- JSON, the names of those that are kept
	state TEXT NOT NULL,
	reason TEXT NOT NULL DEFAULT '', -- why it waits or failed
	input TEXT NOT NULL, -- digest of a blob, '' once it is not needed any more
	input_bytes INTEGER NOT NULL,
	rows INTEGER NOT NULL,
	done INTEGER NOT NULL DEFAULT 0,
	form TEXT NOT NULL DEFAULT '', -- JSON of what a row of the result is, '' before the first
	attempts INTEGER NOT NULL DEFAULT 0, -- that began since a row was done
	rests INTEGER NOT NULL DEFAULT 0, -- until this time
	turn INTEGER NOT NULL DEFAULT 0, -- counts how often a job began
	result TEXT NOT NULL DEFAULT '', -- digest of a blob
	result_bytes INTEGER NOT NULL DEFAULT 0, -- of the result, and before of its parts
	made INTEGER NOT NULL,
	began INTEGER NOT NULL DEFAULT 0,
	ended INTEGER NOT NULL DEFAULT 0,
	UNIQUE (account, key),
	CHECK (done <= rows)
) STRICT;
CREATE INDEX jobs_by_state ON jobs_jobs (state);
CREATE TABLE jobs_parts (
	job INTEGER NOT NULL REFERENCES jobs_jobs ON DELETE CASCADE,
	first INTEGER NOT NULL,
	rows INTEGER NOT NULL,
	digest TEXT NOT NULL,
	PRIMARY KEY (job, first)
) STRICT;
CREATE TABLE jobs_log (
	job INTEGER NOT NULL REFERENCES jobs_jobs ON DELETE CASCADE,
	n INTEGER NOT NULL, -- from 1 on
	at INTEGER NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (job, n)
) STRICT;
`, `
UPDATE jobs_jobs SET account = account || '#' || (SELECT id FROM auth_ids AS a WHERE a.account =
	jobs_jobs.account) WHERE EXISTS (SELECT 1 FROM auth_ids AS a WHERE a.account =
	jobs_jobs.account);
`, `
CREATE TABLE jobs_turns ( -- of accounts of which others that wait had no turn since
	account TEXT PRIMARY KEY,
	turn INTEGER NOT NULL -- counts how often jobs began, of any account
) STRICT, WITHOUT ROWID;
INSERT INTO jobs_turns SELECT account, max(turn) FROM jobs_jobs WHERE turn > 0 GROUP BY account;
ALTER TABLE jobs_jobs DROP COLUMN turn;
`}, Blobs: []string{"SELECT input FROM jobs_jobs WHERE input <> ''",
	"SELECT result FROM jobs_jobs WHERE result <> ''", "SELECT digest FROM jobs_parts"}}
