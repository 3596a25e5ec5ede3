//go:build long

package messaging_test

func storms() []storm {
	return []storm{
		{messages: 10_000, people: 20, drops: 500, late: 100, kills: 100},
		{messages: 10_000, people: 20, drops: 500, late: 100, kills: 100, repeatable: true},
	}
}

func wireStorm() storm {
	return storm{messages: 10_000, people: 20, drops: 500, late: 100, kills: 100, repeatable: true}
}
