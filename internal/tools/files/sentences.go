package files

import "strings"

// The sentences by which people ask for notes.
var (
	listNotes = []string{
		"show my notes",
		"(show|list|open) [me] [all] [my|the] notes", "(what|which) notes (do i have|are there)",
		"de: zeig mir meine Notizen",
		"de: (zeig|zeige) [mir] [alle|meine|die] notizen", "de: welche notizen (habe ich|gibt es)",
	}
	searchNotes = []string{
		"search my notes for {query=bird house}",
		"search [my|the|all] notes for [the|my] {query:any}", "find [the|my] {query} in [my|the] notes", "(what do|what did) my notes say about {query}", "which notes mention {query:any}",
		"de: such in meinen Notizen nach {query=Vogelhaus}",
		"de: (such|suche|durchsuch|durchsuche) [in] (meinen|meine|den) notizen nach {query:any}",
	}
	readNote = []string{
		"read the note {title=Ideas}",
		"(read|show|open) [me] [my|the] note [called|named|about] {title}", "(read|show|open) [me] [my|the] {title:label} note", "(what is|what's) in [my|the] note [called|named|about] {title}",
		"de: lies die Notiz {title=Ideen}",
		"de: (lies|lese|zeig|zeige|öffne) [mir] (die|meine) notiz {title} [vor]", "de: was steht in (der|meiner) notiz {title}",
	}
	writeNote = []string{
		"make a note called {title=Ideas} saying {text=build a bird house}",
		"(make|write|create|take|add|start|save) a [new] note (called|named|titled) {title} (saying|with|that says|with the text|:) {text:any}",
		"de: schreib eine Notiz namens {title=Ideen} mit dem Text {text=Vogelhaus bauen}",
		"de: (schreib|schreibe|mach|mache|erstell|erstelle) eine [neue] notiz (namens|mit dem titel) {title} mit (dem text|dem inhalt) {text:any}",
	}
	appendNote = []string{
		"note down {text=the plumber comes on Monday} => title=Notes",
		"(note down|make a note|take a note|write down|jot down|remember) [that|to|saying] {text:any} => title=Notes",
		"note [that] {text:any} => title=Notes",
		"(add|append) {text:any} to [my|the] note [called|named] {title}", "(add|append) {text:any} to [my|the] {title:label} note",
		"de: notiere {text=der Installateur kommt am Montag} => title=Notizen",
		"de: (notiere|notier) [dir] [dass] {text:any} => title=Notizen", "de: notiz {text:any} => title=Notizen", "de: (merk|merke) dir [dass] {text:any} => title=Notizen", "de: (schreib|schreibe) [mir|dir] auf [dass] {text:any} => title=Notizen",
	}
)

// withFolder completes patterns with the folder of files that are named without one.
func withFolder(folder string, patterns ...string) (out []string) {
	for _, p := range patterns {
		out = append(out, strings.ReplaceAll(p, ":file", strings.TrimSuffix(":file "+folder, " ")))
	}
	return out
}

// listFiles are the sentences by which people ask which files there are. Without a folder they mean
// the main one.
func listFiles(main string) (out []string) {
	for _, p := range []string{
		"show my files",
		"(show|list) [me] [all] [my|the] files", "(what|which) files (do i have|are there|are in my folder)", "[show me] (what is|what's) in my folder",
		"de: zeig mir meine Dateien",
		"de: (zeig|zeige|liste) [mir] [alle|meine|die] dateien [auf]", "de: welche dateien (habe ich|gibt es|sind in meinem ordner)",
	} {
		if main != "" {
			p += " => path=" + main
		}
		out = append(out, p)
	}
	return append(out, listFolder...)
}

// The sentences by which people ask for files.
var (
	listFolder = []string{
		"(show|list) [me] [all] [the] files in [the] [folder] {path:folder}", "(what|which) files are in [the] [folder] {path:folder}", "[show me] (what is|what's) in [the|my] folder {path:folder}",
		"de: (zeig|zeige) [mir] die dateien in {path:folder}", "de: was (ist|steht|liegt) (im ordner|in dem ordner) {path:folder}",
	}
	readFile = []string{
		"read the file {path:file}",
		"(read|show|open|display|print) [me] [my|the] [file] {path:file}", "[show me] (what is|what's) [written] (in|inside) [my|the] [file] {path:file}", "what does [my|the] [file] {path:file} (say|contain)",
		"show me what [my|the] [file] {path:file} (says|contains)", "(read|show|open|display|print) [me] the (contents|content|text) of [my|the] [file] {path:file}", "(what is|what are|what's) the (contents|content) of [my|the] [file] {path:file}",
		"de: lies die Datei {path:file}",
		"de: (lies|lese|zeig|zeige|öffne) [mir] [die] [datei] {path:file} [vor|an]", "de: was (steht|ist) in [der|meiner] [datei] {path:file}",
		"de: (zeig|zeige|sag|sage) [mir] was in [der|meiner] [datei] {path:file} (steht|ist)", "de: (lies|lese|zeig|zeige) [mir] den (inhalt|text) (von|der) [datei] {path:file} [vor|an]",
	}
	searchFiles = []string{
		"search my files for {query=invoice}",
		"search [through] [my|the|all] files for [the|my] {query:any}", "find [the|my] {query} in [my|the] files", "(which|what) files (mention|contain|have) {query:any}", "(search for|look for) [the|my] {query} in [my|the] files",
		"de: such in meinen Dateien nach {query=Rechnung}",
		"de: (such|suche|durchsuch|durchsuche) [in] (meinen|meine|den|die) dateien nach {query:any}", "de: welche dateien (enthalten|erwähnen) {query:any}",
	}
	moveFile = []string{
		"rename {from:file=draft.txt} to {to:file=final.txt}",
		"(rename|move) [the|my] [file] {from:file} to {to:file}",
		"de: benenne {from:file=entwurf.txt} in {to:file=fertig.txt} um",
	}
	deleteFile = []string{
		"delete the file {path:file}",
		"(delete|remove) [the|my] [file] {path:file}",
		"de: lösche die Datei {path:file}",
		"de: (lösch|lösche|entfern|entferne) [die|meine] [datei] {path:file}",
	}
	writeFile = []string{
		`write {content="call the plumber"} to {path:file}`,
		"(write|save) {content:any} (to|in|into|as) [the|a] [new] [file] {path:file}", "(create|make|write) [a|the] [new] [text] file [called|named] {path:file} (with|saying|containing|with the text|with the content) {content:any}",
		`de: schreib {content="Installateur anrufen"} in {path:file}`,
		"de: (schreib|schreibe|speicher|speichere) {content:any} in [die|eine] [neue] [datei] {path:file}", "de: (erstell|erstelle) [die|eine] [neue] datei [namens] {path:file} mit [dem inhalt|dem text] {content:any}",
	}
)
