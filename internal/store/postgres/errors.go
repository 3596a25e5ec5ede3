package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/fault"
	"steward/internal/resource"
)

// isCode reports whether err is from the server and has one of these codes.
func isCode(err error, codes ...string) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// away reports whether the server could not be reached, or has left in the middle
// of a call: it is starting, ending, or has crashed, or the connection broke. The
// call can be repeated; whether a commit has happened is not known.
func away(err error) bool {
	var e *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &e):
		return awayCode(e.Code)
	case errors.As(err, &connect): // also if its time was too short
		return true
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || closedConn(err)
}

func awayCode(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", // admin_shutdown, crash_shutdown, cannot_connect_now
		"25P03", "57P05", // idle_in_transaction_session_timeout, idle_session_timeout
		"53300": // too_many_connections
		return true
	}
	return strings.HasPrefix(code, "08") // connection_exception
}

// closedConn reports whether the connection ended without a word.
func closedConn(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || isEOF(err)
}

// coded translates an error of the server or the network into the contract's
// errors. Errors that have a code already are returned unchanged.
func coded(err error) error {
	var f *fault.Error
	var e *pgconn.PgError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !away(err):
		return fault.Of(err)
	case isCode(err, "28000", "28P01", "3D000", "42501", "42704"): // no such role or database; wrong password; not allowed
		return fault.New(fault.Denied, "store_refused", "PostgreSQL refuses the store: %w", err).
			WithHint("check the role, the password and the name of the database in the setting store")
	case away(err):
		return fault.New(fault.Unavailable, "store_unreachable", "PostgreSQL cannot be reached: %w", err).
			WithHint("start it, or check the address in the setting store").Retrying(fault.RetryBackoff, 0)
	case errors.As(err, &e):
		return codedServer(e)
	}
	return broken(err)
}

func codedServer(e *pgconn.PgError) error {
	switch e.Code {
	case "53100": // disk_full
		return fault.New(fault.NoSpace, "disk_full", "PostgreSQL has no space left: %w", e).
			WithHint("free some space on its machine; no acknowledged data is lost").Retrying(fault.RetryBackoff, 0)
	case "25006": // read_only_sql_transaction
		return fault.New(fault.Unavailable, "store_read_only", "this PostgreSQL only reads: %w", e).
			WithHint("name the primary server in the setting store, not a standby")
	case "54000", "53200": // program_limit_exceeded, out_of_memory
		return fault.New(fault.TooLarge, "body_too_large", "PostgreSQL cannot take something of this size: %w", e).
			WithHint("keep it in a file, and a reference to it here")
	case "57014", "55P03": // query_canceled, lock_not_available
		return fault.New(fault.Timeout, "store_busy", "PostgreSQL took too long: %w", e).
			WithHint("see what it is doing in pg_stat_activity").Retrying(fault.RetryBackoff, 0)
	}
	return broken(e)
}

func broken(err error) error {
	return fault.New(fault.Internal, "store_broken", "error in PostgreSQL: %w", err).
		WithHint("see the log of PostgreSQL")
}

// unknown is the error of a commit whose answer was lost, and about which the
// server could not be asked in time.
func unknown(err error) error {
	return fault.New(fault.Unavailable, "commit_unknown", "the connection to PostgreSQL broke during a commit, and its outcome is not known: %w", err).
		WithHint("read the resource again before repeating the change").Retrying(fault.RetryBackoff, 0)
}

func closed() error {
	return fault.New(fault.Unavailable, "store_closed", "the store is closed")
}

func notFound(u resource.URI) error {
	return fault.New(fault.NotFound, "not_found", "%s does not exist", u).Detail("uri", u.String())
}

func conflict(u resource.URI, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "conflict", "%s %s", u, fmt.Sprintf(format, args...)).
		Detail("uri", u.String()).WithHint("reload the resource, then decide")
}

func alreadyExists(u resource.URI) error { return conflict(u, "exists already") }

// refused reports whether err is the answer to one batch rather than a failure of
// the store.
func refused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}
