package turn

// A person who speaks waits for an answer that is heard, not read. Such a turn (Input.Spoken) has a small request, so
// that a model on the machine begins to answer soon, and the model is told to be brief and plain.

// spokenRoom is how many tokens the request of a spoken turn may have.
const spokenRoom = 4000

const spokenManners = "\n\nYour answer is read aloud. Answer in one or two short sentences of plain words, in the language of the user. " +
	"Use no Markdown, lists, code, URLs or emoji. Nobody can approve anything here: if a call is denied because it needs an approval, say that the user must ask for it in a chat with Steward."
