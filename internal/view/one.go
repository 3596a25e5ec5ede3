package view

import "steward/internal/message"

// One returns what a model is shown of a message that comes last, as Render
// would with the same Clip.
func One(it Item, clip int) *message.Message { return show(&it, clip) }
