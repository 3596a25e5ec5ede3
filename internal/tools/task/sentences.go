package task

// The sentences by which people ask for the to-do list.
var (
	addSentences = []string{
		"add {title=buy milk} to my to-do list",
		"(add|put) {title} (to|on|onto|in) [my|the] (to-do|todo|to do|task|tasks) list [by {due:date}|for {due:date}]",
		"(add|put) {title} (to|on) (my|the) (tasks|todos|to-dos|list)",
		"(add|put) {title} (to|on|onto) [my|the|our] {list:label} list",
		"(add|put) {title:items} (to|on|onto) [my|the|our] shopping list => list=shopping",
		"(add|put) {title:items} (to|on|onto) [my|the|our] grocery list => list=grocery", "(add|put) {title:items} (to|on|onto) [my|the|our] groceries list => list=groceries",
		"(add|create|make) a [new] (task|to-do|todo) [to|called|named] {title} [by {due:date}|due {due:date}|for {due:date}|{due:date}]", "[a] new (task|to-do|todo) {title} [by {due:date}|due {due:date}|for {due:date}|{due:date}]",
		"(add|create) the (task|to-do|todo) {title} [by {due:date}|due {due:date}|for {due:date}]",
		"i (need|have) to {title} by {due:date}", "i must {title} by {due:date}",
		"de: setz {title:items=Milch} auf die Einkaufsliste => list=Einkaufsliste",
		"de: (setz|setze|schreib|schreibe|pack|tu) {title:items} auf (die|meine|unsere) einkaufsliste => list=Einkaufsliste",
		"de: (setz|setze|schreib|schreibe|pack|tu) {title} auf (die|meine) (to-do-liste|todo-liste|aufgabenliste|liste)",
		"de: füge {title} (zu|zur) [den|meinen|der|meiner] (aufgaben|to-do-liste|aufgabenliste|todo-liste|liste) hinzu",
		"de: füge {title:items} (zur|der|zu meiner) einkaufsliste hinzu => list=Einkaufsliste",
		"de: [eine] neue aufgabe {title} [bis {due:date}]",
	}
	listSentences = []string{
		"what is on my to-do list",
		"(what is|what's) [still|left] on [my|the] (to-do|todo|to do|task|tasks) list", "(what|which) (tasks|todos|to-dos) (do i have|are open|are left) [left|open|to do]",
		"(show|list|read) [me] [all] [my|the] [open] (tasks|todos|to-dos|to-do list|todo list|to do list|task list)", "what (do i have|do i need|is there) to do", "what are my (tasks|todos|to-dos)", "(what is|what's) on my list",
		"(show|list) [me] [all] [my|the] (completed|done|finished) tasks => show=completed",
		"(what is|what's) due [by] {due_before:date}", "(what|which) tasks are due [by] {due_before:date}",
		"(what is|what's) [still|left] on [my|the|our] {list:label} list", "(show|read|list) [me] [my|the|our] shopping list => list=shopping",
		"what (do i|do we) [still] (need|have) to buy => list=shopping",
		"de: welche Aufgaben habe ich",
		"de: (welche|was für) aufgaben (habe ich|sind|gibt es) [noch] [offen]", "de: (zeig|zeige) [mir] [alle|die|meine] [offenen] (aufgaben|to-do-liste|aufgabenliste)",
		"de: was (habe ich|muss ich) [noch] [alles] (zu tun|tun|erledigen)", "de: was steht auf (der|meiner) (to-do-liste|todo-liste|aufgabenliste)",
		"de: was (muss ich|müssen wir) [noch] [alles] (kaufen|einkaufen) => list=Einkaufsliste", "de: was (steht|ist) [noch] [alles] auf (der|meiner|unserer) einkaufsliste => list=Einkaufsliste", "de: (zeig|zeige) [mir] (die|meine|unsere) einkaufsliste => list=Einkaufsliste",
	}
	completeSentences = []string{
		"mark {task=buy milk} as done",
		"mark [the|my] [task] {task} as (done|complete|completed|finished)", "(complete|finish) [the|my] (task|to-do|todo) {task}", "(tick|check|cross) off [the|my] [task] {task}",
		"(tick|check|cross) {task} off [my|the|our] [to-do|todo|to do|task|shopping|grocery] list", "(tick|check|cross) {task} off",
		"de: hake {task=Milch} ab",
		"de: (hake|hak|streich|streiche) [die] [aufgabe] {task} ab", "de: (markier|markiere) [die] [aufgabe] {task} als (erledigt|fertig)",
	}
	deleteSentences = []string{
		"delete the task {task=buy milk}",
		"(delete|remove) [the|my] (task|to-do|todo) {task}", "(delete|remove|take) {task} (from|off) [my|the|our] (to-do|todo|to do|task|shopping|grocery) list",
		"de: lösche die Aufgabe {task=Milch}",
		"de: (lösch|lösche|entfern|entferne|streich|streiche) [die|meine] aufgabe {task}", "de: (lösch|lösche|entfern|entferne|nimm|streich|streiche) {task} von (der|meiner|unserer) (einkaufsliste|to-do-liste|aufgabenliste|liste)",
	}
)
