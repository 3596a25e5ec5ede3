package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"steward/internal/exchange"
	"steward/internal/face/api"
)

// Import sends a file to the Steward that serves, as it is read.
func (r *remote) Import(ctx context.Context, in io.Reader, o exchange.Options) (rep api.ImportReport, err error) {
	q := url.Values{"name": {o.Name}, "format": {o.Format}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/v1/import?"+q.Encode(), io.NopCloser(in))
	if err != nil {
		return rep, err
	}
	if err := r.authorize(req.Header); err != nil {
		return rep, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := r.http.Do(req)
	if err != nil {
		return rep, unreachable(r.url, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return rep, refused(res)
	}
	if err := json.NewDecoder(res.Body).Decode(&rep); err != nil {
		return rep, unreachable(r.url, err)
	}
	return rep, nil
}
