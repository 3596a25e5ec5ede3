-- Words that occur again and again, as small numbers: spaces, actors, states,
-- names of terms, types (kind 1 to 5).
CREATE TABLE name (
	id   INTEGER PRIMARY KEY,
	kind INTEGER NOT NULL,
	text BLOB NOT NULL,
	UNIQUE (kind, text)
);

-- Ordered lists, as small numbers, by the key of the resource they belong to.
CREATE TABLE list (
	id  INTEGER PRIMARY KEY,
	key BLOB NOT NULL UNIQUE
);

-- One row per change, only ever appended. What is filtered by stands before
-- the body, so that long bodies are not read over. at is in microseconds since
-- 1970, prev the entry that made the version before, op 1 a put, 2 a deletion.
CREATE TABLE log (
	seq     INTEGER PRIMARY KEY,
	at      INTEGER NOT NULL,
	space   INTEGER NOT NULL,
	actor   INTEGER NOT NULL,
	op      INTEGER NOT NULL,
	type    INTEGER NOT NULL,
	version INTEGER NOT NULL,
	prev    INTEGER NOT NULL,
	state   INTEGER,
	request BLOB,
	key     BLOB NOT NULL,
	body    BLOB
);

-- The newest entry of each resource. A deleted one keeps its row (gone), as
-- its versions go on counting should it come back. refs holds its terms and
-- places as the writer needs them to replace them.
CREATE TABLE tree (
	key     BLOB PRIMARY KEY,
	seq     INTEGER NOT NULL,
	version INTEGER NOT NULL,
	space   INTEGER NOT NULL,
	type    INTEGER NOT NULL,
	gone    INTEGER NOT NULL,
	state   INTEGER,
	refs    BLOB
) WITHOUT ROWID;

CREATE INDEX tree_state ON tree (state, key) WHERE state IS NOT NULL;

-- Members of lists and bearers of terms, by the newest entry of each.
CREATE TABLE place (
	list  INTEGER NOT NULL,
	pos   INTEGER NOT NULL,
	space INTEGER NOT NULL,
	seq   INTEGER NOT NULL,
	PRIMARY KEY (list, pos, space)
) WITHOUT ROWID;

CREATE TABLE term (
	space INTEGER NOT NULL,
	name  INTEGER NOT NULL,
	value BLOB NOT NULL,
	seq   INTEGER NOT NULL,
	PRIMARY KEY (space, name, value, seq)
) WITHOUT ROWID;
