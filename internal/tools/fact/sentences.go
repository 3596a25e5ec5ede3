package fact

// saveFact are the sentences by which people have a fact remembered.
var saveFact = []string{
	"remember that {content=my car is blue}",
	"remember [that|for later] {content}",
	"de: merk dir, dass {content=mein Auto blau ist}",
	"de: (merk|merke) dir [dass] {content}",
}
