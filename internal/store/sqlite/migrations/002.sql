-- Packed bodies. From this version on, 16 in log.op says that the body is
-- packed (zstd), and 32 that it stands in this table under the number that is
-- the log's body: one that is too long for its row's page, as a row must not
-- come to need more of its page than before. Rows are only ever appended and
-- emptied. Op 3 is an erasure: the bodies of all versions before it are NULL.
CREATE TABLE pack (
	id   INTEGER PRIMARY KEY,
	body BLOB
);
