package local

import (
	"context"
	"errors"
	"io"
	"net/http"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Ask makes a request at a server of others, and reads at most so many bytes of the answer. An error of the
// dialer, such as that it may not connect there, comes as it is; every other one has the given code.
func Ask(t http.RoundTripper, req *http.Request, most int64, code string) (resp *http.Response, body []byte, err error) {
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "Steward")
	}
	if resp, err = t.RoundTrip(req); err == nil {
		defer resp.Body.Close() //nolint:errcheck // it is only read
		if body, err = io.ReadAll(io.LimitReader(resp.Body, most)); err == nil {
			return resp, body, nil
		}
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return nil, nil, tool.NotDone(e) // nothing was sent
	}
	if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		return nil, nil, fault.New(fault.Timeout, code, "%s did not answer in time", req.URL.Host).WithHint("try again later")
	}
	return nil, nil, fault.New(fault.Unavailable, code, "%s cannot be reached: %w", req.URL.Host, err).WithHint("try again later")
}
