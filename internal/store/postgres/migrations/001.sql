-- The scope of a transaction: the spaces that it reads, or all; the spaces that it
-- writes. They are set with set_config(…, true), so that they end with the
-- transaction. Where nothing is set, nothing is seen.
CREATE FUNCTION reads() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
	AS $$ SELECT NULLIF(current_setting('steward.reads', true), '')::text[] $$;
CREATE FUNCTION writes() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
	AS $$ SELECT NULLIF(current_setting('steward.writes', true), '')::text[] $$;
CREATE FUNCTION reads_all() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
	AS $$ SELECT COALESCE(current_setting('steward.all', true) = 'on', false) $$;

-- One row per change, only ever appended; only a body can be emptied. at is in
-- microseconds since 1970, prev the entry that made the version before; op 1 is a
-- put, 2 a deletion, 3 an erasure. The last entry of a group that was committed as
-- one has the group's mark, by which a writer learns the outcome of a commit whose
-- answer was lost. Words compare by their bytes, whatever the language of the
-- database.
CREATE TABLE log (
	seq     bigint PRIMARY KEY,
	at      bigint NOT NULL,
	version bigint NOT NULL,
	prev    bigint NOT NULL,
	op      smallint NOT NULL,
	space   text COLLATE "C" NOT NULL,
	actor   text COLLATE "C" NOT NULL,
	type    text COLLATE "C" NOT NULL,
	state   text COLLATE "C",
	request bytea,
	key     bytea NOT NULL,
	mark    uuid,
	body    bytea
);

-- The marks of groups that wrote no entry.
CREATE TABLE silent (
	mark uuid PRIMARY KEY,
	at   timestamptz NOT NULL DEFAULT now()
);

-- The newest entry of each resource. A deleted one keeps its row (gone), as its
-- versions go on counting should it come back. refs holds its terms and places as
-- the writer needs them to replace them.
CREATE TABLE tree (
	key     bytea PRIMARY KEY,
	seq     bigint NOT NULL,
	version bigint NOT NULL,
	gone    boolean NOT NULL,
	space   text COLLATE "C" NOT NULL,
	type    text COLLATE "C" NOT NULL,
	state   text COLLATE "C",
	refs    bytea
) WITH (fillfactor = 80);
CREATE INDEX tree_state ON tree (state, key) WHERE state IS NOT NULL;

-- Members of lists and bearers of terms, by the newest entry of each. A list is
-- named by the key of the resource it belongs to.
CREATE TABLE place (
	list  bytea NOT NULL,
	pos   bigint NOT NULL,
	space text COLLATE "C" NOT NULL,
	seq   bigint NOT NULL,
	PRIMARY KEY (list, pos, space)
);
CREATE TABLE term (
	space text COLLATE "C" NOT NULL,
	name  text COLLATE "C" NOT NULL,
	value bytea NOT NULL,
	seq   bigint NOT NULL,
	PRIMARY KEY (space, name, value, seq)
);

-- All spaces that were ever written.
CREATE TABLE space (
	name text COLLATE "C" PRIMARY KEY
);

-- The audit chain. A seal is over the entries from first on, one for every two
-- bytes in tags: the beginnings of their hashes. hash is the chain's behind the
-- last of them, salts where their salts come from. Who seals locks the row of
-- sealed, which has the newest sealed entry.
CREATE TABLE seal (
	first bigint PRIMARY KEY,
	hash  bytea NOT NULL,
	salts bytea,
	tags  bytea NOT NULL
);
CREATE TABLE sealed (
	seq bigint NOT NULL
) WITH (fillfactor = 20);
INSERT INTO sealed VALUES (0);

-- The salted hashes of bodies that were erased, by their entries.
CREATE TABLE scar (
	seq  bigint PRIMARY KEY,
	hash bytea NOT NULL
);

-- What a copy that is not complete yet is a copy of. As long as there is a row, the
-- database is no store.
CREATE TABLE transfer (
	source text NOT NULL
);

-- What belongs to a space is read and written only within a scope that names it.
-- The subqueries are evaluated once a statement, not once a row.
DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['log', 'tree', 'place', 'term'] LOOP
		EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
		EXECUTE format('CREATE POLICY reads ON %I FOR SELECT USING ((SELECT reads_all()) OR space = ANY ((SELECT reads())::text[]))', t);
		EXECUTE format('CREATE POLICY adds ON %I FOR INSERT WITH CHECK (space = ANY ((SELECT writes())::text[]))', t);
		EXECUTE format('CREATE POLICY changes ON %I FOR UPDATE USING (space = ANY ((SELECT writes())::text[]))', t);
		EXECUTE format('CREATE POLICY removes ON %I FOR DELETE USING (space = ANY ((SELECT writes())::text[]))', t);
	END LOOP;
	FOREACH t IN ARRAY ARRAY['silent', 'seal', 'sealed', 'scar', 'transfer'] LOOP
		EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
		EXECUTE format('CREATE POLICY node ON %I USING ((SELECT reads_all()))', t);
	END LOOP;
END $$;
ALTER TABLE space ENABLE ROW LEVEL SECURITY;
ALTER TABLE space FORCE ROW LEVEL SECURITY;
CREATE POLICY reads ON space FOR SELECT USING ((SELECT reads_all()) OR name = ANY ((SELECT reads())::text[]));
CREATE POLICY adds ON space FOR INSERT WITH CHECK (name = ANY ((SELECT writes())::text[]));
ALTER TABLE version ENABLE ROW LEVEL SECURITY;
ALTER TABLE version FORCE ROW LEVEL SECURITY;
CREATE POLICY everybody ON version FOR SELECT USING (true);
CREATE POLICY owner ON version FOR UPDATE USING (true);

-- Where PostgreSQL was built with it, lz4 packs long bodies faster than pglz.
DO $$
BEGIN
	ALTER TABLE log ALTER body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN NULL;
END $$;
