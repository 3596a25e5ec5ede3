package contract

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"steward/internal/store"
)

// packedBodies: bodies of every kind and length come back as they were.
func packedBodies(e *env) {
	r := rand.NewChaCha8([32]byte{2})
	noise := make([]byte, 70_000)
	if _, err := r.Read(noise); err != nil {
		e.Fatal(err)
	}
	text := []byte(strings.Repeat("It was the best of times, it was the worst of times. ", 2000))
	var bodies [][]byte
	for _, n := range []int{0, 1, 2, 10, 63, 64, 65, 300, 1000, 3000, 3900, 4000, 4050, 4100, 5000, 8000, 9000, 20_000, 70_000} {
		bodies = append(bodies, noise[:n], text[:n], make([]byte, n), append(bytes.Clone(text[:n]), noise[:n]...))
	}
	for first := range 256 { // whatever a body begins with
		bodies = append(bodies, append([]byte{byte(first)}, text[:200]...))
	}
	bodies = append(bodies, []byte("\x28\xb5\x2f\xfd"), []byte("\x28\xb5\x2f\xfd\x00\x00"), bytes.Repeat([]byte("\x28\xb5\x2f\xfd"), 50))
	var puts, packs []store.Change
	for i, b := range bodies {
		u := message("c", fmt.Sprint(i))
		puts = append(puts, store.Change{URI: u, Body: b})
		packs = append(packs, of(store.Pack, u))
	}
	e.must(ada, puts...)
	for range 2 {
		e.must(ada, packs...)
		for i, want := range bodies {
			if got := e.get(ada, message("c", fmt.Sprint(i))); !bytes.Equal(got.Body, want) {
				e.Errorf("body %d of %d bytes comes back as %d others", i, len(want), len(got.Body))
			}
		}
	}
	for i, en := range e.log(ada, store.LogQuery{}) {
		e.failIf(!bytes.Equal(en.Body, bodies[i]), "the log has another body %d", i)
	}
	for _, it := range e.all(ada, store.Query{}) {
		var i int
		if _, err := fmt.Sscan(it.URI.ID(), &i); err != nil || !bytes.Equal(it.Body, bodies[i]) {
			e.Errorf("a query has another body of %s", it.URI)
		}
	}
}
