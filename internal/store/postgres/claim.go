package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/fault"
)

// How long Open waits for the session of a Steward that has just ended or crashed,
// how often it looks, and how often an idle writer checks its session.
const (
	claimPatience = 3 * time.Second
	claimRetry    = 20 * time.Millisecond
	claimCheck    = 5 * time.Second
)

// sessionName returns the name that a Steward's sessions have in PostgreSQL: it
// says where the Steward runs, and no other Steward has it. PostgreSQL keeps 63
// bytes of it.
func sessionName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("steward %.36s %d %.8s", strings.ReplaceAll(host, " ", "-"), os.Getpid(), rand.Text())
}

// claimWait is how long the start waits for the lock of the store.
func (s *Store) claimWait() time.Duration { return min(claimPatience, s.patience) }

// claim takes the lock of the store for a session, for as long as the session
// lasts: for a Steward on its own exclusively, for the nodes of a cluster together.
// It waits a while for another that has it, then returns store_in_use.
//
// The session that has the lock is the one that commits. So a Steward that has lost
// the lock cannot commit any more, and needs no clock to know it.
func (s *Store) claim(ctx context.Context, conn *pgx.Conn, wait time.Duration) error {
	take := "SELECT pg_try_advisory_lock($1)"
	if s.shared {
		take = "SELECT pg_try_advisory_lock_shared($1)"
	}
	for begun := time.Now(); ; {
		var got bool
		if err := conn.QueryRow(ctx, take, int64(storeLock)).Scan(&got); err != nil || got {
			return err
		}
		h, found, err := holderOf(ctx, conn)
		if err != nil {
			return err
		}
		// An earlier session of this Steward can go on existing in the server when
		// only this side has noticed that the connection broke.
		own := found && h.name == s.name && h.pid != conn.PgConn().PID()
		if own {
			if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend($1)", int32(h.pid)); err != nil {
				return err
			}
		} else if time.Since(begun) >= wait {
			return inUse(h)
		}
		select {
		case <-time.After(claimRetry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// holder is a session that has the lock of the store.
type holder struct {
	pid   uint32
	name  string // empty: of a role whose sessions this one may not see
	since time.Time
}

const findHolder = `SELECT l.pid, COALESCE(a.application_name, ''), COALESCE(a.backend_start, 'epoch')
	FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = 0 AND l.objid::bigint = $1 AND l.objsubid = 1
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	ORDER BY a.backend_start LIMIT 1`

func holderOf(ctx context.Context, conn *pgx.Conn) (h holder, found bool, err error) {
	err = conn.QueryRow(ctx, findHolder, int64(storeLock)).Scan(&h.pid, &h.name, &h.since)
	if errors.Is(err, pgx.ErrNoRows) { // it has just gone
		return h, false, nil
	}
	return h, err == nil, err
}

// inUse is the error of a database that another Steward uses.
func inUse(h holder) error {
	who, host, pid := "another Steward", "", ""
	if f := strings.Fields(h.name); len(f) == 4 && f[0] == "steward" {
		host, pid = f[1], f[2]
		who = fmt.Sprintf("the Steward on %s (process %s)", host, pid)
	}
	since := h.since.UTC().Format(time.RFC3339)
	return fault.New(fault.Unavailable, "store_in_use", "the database is in use by %s since %s", who, since).
		Detail("host", host).Detail("pid", pid).Detail("since", since).
		WithHint("stop that Steward, or name another database in the setting store; if its machine is gone, PostgreSQL notices within half a minute; commands that only read go on").
		Retrying(fault.RetryBackoff, 0)
}

// Claim keeps others from writing to a store that is open for reading, until Close.
func (s *Store) Claim(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.config.ConnConfig.Copy())
	if err != nil {
		return coded(err)
	}
	if err := s.claim(ctx, conn, s.claimWait()); err != nil {
		disconnect(conn)
		return coded(err)
	}
	s.claimed = conn
	return nil
}
