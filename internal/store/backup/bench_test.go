package backup

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// BenchmarkBackup backs up a log of 100,000 messages while somebody writes. It reports the size of the backup, and how
// long commits take meanwhile and without a backup.
func BenchmarkBackup(b *testing.B) {
	data := filepath.Join(b.TempDir(), "data")
	st, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(data, database)})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	const messages, together = 100_000, 500
	for i := 0; i < messages; i += together {
		var batch store.Batch
		for k := range together {
			u := conv(fmt.Sprint(i/50)).Child("common.Message", fmt.Sprint(i+k))
			batch.Changes = append(batch.Changes, store.Change{URI: u, Body: []byte(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%d %s"}]}`, i+k, strings.Repeat("words that people say ", 12)))})
		}
		if _, err := st.Commit(b.Context(), store.ForUser("ada"), batch); err != nil {
			b.Fatal(err)
		}
	}
	// commits writes until ctx is done and returns how long each commit took.
	commits := func(ctx context.Context) (took []time.Duration) {
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			if _, err := st.Commit(b.Context(), store.ForUser("bob"), store.Batch{Changes: []store.Change{{URI: conv("bob"), Body: []byte(fmt.Sprint(n))}}}); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(began))
			time.Sleep(2 * time.Millisecond)
		}
		slices.Sort(took)
		return took
	}
	quiet, cancel := context.WithTimeout(b.Context(), 3*time.Second)
	alone := commits(quiet)
	cancel()
	var during []time.Duration
	var size, files int64
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		var writer sync.WaitGroup
		writer.Go(func() { during = append(during, commits(ctx)...) })
		made, err := Make(b.Context(), Options{Data: data, Folder: filepath.Join(b.TempDir(), "backups")})
		stop()
		writer.Wait()
		if err != nil {
			b.Fatal(err)
		}
		size, files = made.Manifest.Bytes, int64(made.Manifest.Count())
	}
	slices.Sort(during)
	at := func(list []time.Duration, part float64) float64 {
		return float64(list[min(int(part*float64(len(list))), len(list)-1)]) / float64(time.Millisecond)
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(files), "files")
	b.ReportMetric(at(alone, 0.5), "p50-alone-ms")
	b.ReportMetric(at(alone, 1), "max-alone-ms")
	b.ReportMetric(at(during, 0.5), "p50-ms")
	b.ReportMetric(at(during, 0.99), "p99-ms")
	b.ReportMetric(at(during, 1), "max-ms")
}
