package tree

// LabelsOf is labelsOf.
var LabelsOf = labelsOf
