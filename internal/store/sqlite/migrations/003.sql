-- The audit chain. A seal is over the entries from first on, one for every two
-- bytes in tags: the beginnings of their hashes. hash is the chain's behind the
-- last of them. A seal over fewer than 256 grows until it is full.
CREATE TABLE seal (
	first INTEGER PRIMARY KEY,
	hash  BLOB NOT NULL,
	salt  INTEGER NOT NULL,
	tags  BLOB NOT NULL
);

-- Where a seal's salts come from (see salts.go). Rows are only ever appended
-- and emptied, so that no copy stays behind of what is to be gone for good.
CREATE TABLE salt (
	id  INTEGER PRIMARY KEY,
	key BLOB
);

-- The salted hashes of bodies that were erased, by their entries.
CREATE TABLE scar (
	seq  INTEGER PRIMARY KEY,
	hash BLOB NOT NULL
);
