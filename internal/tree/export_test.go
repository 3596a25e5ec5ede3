package tree

// LabelsOf exports labelsOf for tests.
var LabelsOf = labelsOf
