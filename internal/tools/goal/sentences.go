package goal

// The sentences by which people ask for goals and projects.
var (
	listGoals = []string{
		"show my goals",
		"(show|list) [me] [all] [my|the] goals", "(what|which) goals do i have", "what are my goals", "my goals",
		"de: zeig mir meine Ziele",
		"de: (zeig|zeige) [mir] [alle|die|meine] ziele", "de: welche ziele habe ich", "de: was sind meine ziele", "de: meine ziele",
	}
	createGoal = []string{
		"add a goal: {title=learn Italian}",
		"(add|create|set) [me] [a|the] [new] goal [to|called|named] {title}", "new goal {title}",
		"de: neues Ziel: {title=Italienisch lernen}",
		"de: neues ziel {title}", "de: (leg|lege|setz|setze) [mir] [ein|das] [neues] ziel [an] {title}",
	}
	reviewGoals = []string{
		"review my goals",
		"review my (goals|projects)", "how are my (goals|projects) going", "how am i doing with my (goals|projects)", "which (goals|projects) are (overdue|stalled)",
		"de: wie steht es um meine Ziele",
		"de: wie (steht|stehts) [es] (um|mit) (meine|meinen) (ziele|zielen|projekte|projekten)",
	}
	listProjects = []string{
		"show my projects",
		"(show|list) [me] [all] [my|the] projects", "(what|which) projects do i have", "what are my projects", "my projects",
		"de: zeig mir meine Projekte",
		"de: (zeig|zeige) [mir] [alle|die|meine] projekte", "de: welche projekte habe ich", "de: meine projekte",
	}
	createProject = []string{
		"add a project: {title=paint the kitchen}",
		"(add|create|start) [me] [a|the] [new] project [to|called|named] {title}", "new project {title}",
		"de: neues Projekt: {title=Küche streichen}",
		"de: neues projekt {title}", "de: (leg|lege) [mir] [ein|das] [neues] projekt [an] {title}",
	}
)
