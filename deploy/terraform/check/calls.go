package main

import (
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Arguments of a call that are no variables of the module.
var callMeta = []string{"source", "version", "providers", "count", "for_each", "depends_on"}

// call compares the arguments of a `module` block with the variables of the module, which lies in a folder of this repository.
func (m *module) call(b *hclsyntax.Block) {
	source := ""
	if attribute := b.Body.Attributes["source"]; attribute != nil {
		if value, problems := attribute.Expr.Value(nil); !problems.HasErrors() {
			source = value.AsString()
		}
	}
	files, _ := filepath.Glob(filepath.Join(m.folder, source, "*.tf"))
	if source == "" || len(files) == 0 {
		m.report(b.TypeRange, "module %s has no source in this repository", b.Labels[0])
		return
	}
	required := map[string]bool{}
	parser := hclparse.NewParser()
	for _, file := range files {
		parsed, problems := parser.ParseHCLFile(file)
		if problems.HasErrors() {
			m.findings = append(m.findings, problems.Error())
			return
		}
		for _, inner := range parsed.Body.(*hclsyntax.Body).Blocks {
			switch inner.Type {
			case "variable":
				required[inner.Labels[0]] = inner.Body.Attributes["default"] == nil
			case "output":
				m.declared["module."+b.Labels[0]+"."+inner.Labels[0]] = true
			}
		}
	}
	for name, attribute := range b.Body.Attributes {
		if _, known := required[name]; !known && !slices.Contains(callMeta, name) {
			m.report(attribute.NameRange, "module %s has no variable %s", b.Labels[0], name)
		}
	}
	for name, isRequired := range required {
		if isRequired && b.Body.Attributes[name] == nil {
			m.report(b.TypeRange, "module %s lacks the variable %s", b.Labels[0], name)
		}
	}
}

// outputOf reports a reference to an output that the called module does not have.
func (m *module) outputOf(traversal hcl.Traversal) {
	name, isName := traversal[1].(hcl.TraverseAttr)
	if !isName || len(traversal) < 3 {
		return
	}
	if output, isOutput := traversal[2].(hcl.TraverseAttr); isOutput && !m.declared["module."+name.Name+"."+output.Name] {
		m.report(traversal.SourceRange(), "module %s has no output %s", name.Name, output.Name)
	}
}
