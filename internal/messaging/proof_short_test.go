//go:build !long

package messaging_test

func storms() []storm {
	return []storm{
		{messages: 150, people: 4, drops: 4, late: 3, kills: 6},
		{messages: 150, people: 4, drops: 4, late: 3, kills: 6, repeatable: true},
	}
}

func wireStorm() storm {
	return storm{messages: 80, people: 3, drops: 2, late: 1, kills: 4, repeatable: true}
}
