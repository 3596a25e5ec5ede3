package main

import (
	"errors"
	"fmt"
	"slices"

	"steward/test/postgres"
)

// stores compares Steward with its store in SQLite and in PostgreSQL. Both sync each
// commit; PostgreSQL is a cluster of its own with its default settings, on the same
// machine, over a Unix socket. Its CPU time counts as Steward's.
func (b *bench) stores() error {
	c, err := postgres.Start(true)
	if err != nil {
		return err
	}
	defer c.Close()
	databases := 0
	there := func(folder string) (*server, error) {
		databases++
		name := fmt.Sprint("bench", databases)
		if err := c.Create(name, ""); err != nil {
			return nil, err
		}
		s, err := b.openSteward(folder, "STEWARD_STORE="+c.URL(postgres.App, name), "STEWARD_STORE_OWNER="+c.URL(postgres.Owner, name))
		if err == nil {
			s.name, s.more = "Steward on PostgreSQL", c.CPU
		}
		return s, err
	}
	fmt.Printf("\nThe same turns with the store in SQLite and in PostgreSQL, in alternating windows. Each figure is the least of\n" +
		"its windows, the ratio the median of the windows' ratios. CPU time is Steward's with that of PostgreSQL.\n\n")
	fmt.Println("| turns a conversation | conversations | CPU ms a turn: SQLite | PostgreSQL | ratio | p50 ms: SQLite | PostgreSQL | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range b.stored {
		servers, err := b.open([2]func(string) (*server, error){func(folder string) (*server, error) { return b.openSteward(folder) }, there})
		if err != nil {
			return err
		}
		got, err := alternate(servers, s)
		for _, srv := range servers {
			err = errors.Join(err, srv.stop())
		}
		if err != nil {
			return err
		}
		cpu := func(f figures) float64 { return f.cpu }
		p50 := func(f figures) float64 { return f.p50 }
		fmt.Printf("| %d | %d | %.2f | %.2f | **%.2f** | %.1f | %.1f | **%.2f** |\n", s.turns, s.window*s.windows,
			least(got[0], cpu), least(got[1], cpu), ratio(got, cpu), least(got[0], p50), least(got[1], p50), ratio(got, p50))
	}
	return nil
}

func least(list []figures, f func(figures) float64) float64 {
	return f(slices.MinFunc(list, func(x, y figures) int {
		if f(x) < f(y) {
			return -1
		}
		return 1
	}))
}
