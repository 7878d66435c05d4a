package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// service is what a service that runs containers needs: where its probes and its time to stop are written.
type service struct {
	longest int64    // seconds until it kills a container that has been told to end
	blocks  []string // probes, as blocks of a container
	words   []string // what a text of container definitions has to name
	stop    string   // the attribute with the time to stop; without it the time is fixed
}

var services = map[string]service{
	"azurerm_container_app":       {longest: 600, blocks: []string{"startup_probe", "readiness_probe", "liveness_probe"}, stop: "termination_grace_period_seconds"},
	"aws_ecs_task_definition":     {longest: 120, words: []string{"stopTimeout", "healthCheck", "logConfiguration", "readonlyRootFilesystem = true", "drop = [\"ALL\"]"}},
	"google_cloud_run_v2_service": {longest: 10, blocks: []string{"startup_probe", "liveness_probe"}},
}

// Credentials that do not change by themselves: services have identities for them.
var (
	credentials         = []string{"password", "password_secret_name", "access_key", "secret_key", "credentials", "admin_enabled"}
	credentialResources = []string{"aws_iam_access_key", "google_service_account_key", "azuread_application_password"}
)

// containers is the policy for modules that run Weir in a container, and for rights that any module gives.
func (m *module) containers(blocks hclsyntax.Blocks) {
	for _, b := range blocks {
		if b.Type == "resource" {
			m.rights(b)
			if service, known := services[b.Labels[0]]; known {
				m.container(b, service)
				m.inputs(blocks, b, service)
			}
		}
	}
}

func (m *module) rights(b *hclsyntax.Block) {
	if slices.Contains(credentialResources, b.Labels[0]) {
		m.report(b.TypeRange, "%s makes a credential that does not change by itself", b.Labels[0])
	}
	walk(b.Body, func(attribute *hclsyntax.Attribute) {
		if slices.Contains(credentials, attribute.Name) {
			m.report(attribute.NameRange, "%s is a credential that does not change by itself: use an identity of the service", attribute.Name)
		}
		eachText(attribute.Expr, func(text string) {
			if strings.HasPrefix(b.Labels[0], "aws_iam_") && text == "*" {
				m.report(attribute.NameRange, "%s gives rights for everything", b.Labels[0])
			}
			if strings.HasPrefix(text, "allUsers") || strings.HasPrefix(text, "allAuthenticatedUsers") {
				if count := b.Body.Attributes["count"]; count == nil || len(count.Expr.Variables()) == 0 {
					m.report(attribute.NameRange, "everybody may call the service without a variable that says so")
				}
			}
		})
	})
}

// container: probes, and the time that Weir has to drain, from the configuration.
func (m *module) container(b *hclsyntax.Block, service service) {
	text := source(b.Body.SrcRange)
	for _, word := range service.words {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), word) {
			m.report(b.TypeRange, "%s does not say %s", b.Labels[0], word)
		}
	}
	found, stops := map[string]bool{}, service.stop == ""
	each(b.Body, func(nested *hclsyntax.Block) { found[nested.Type] = true })
	walk(b.Body, func(attribute *hclsyntax.Attribute) {
		stops = stops || attribute.Name == service.stop && strings.Contains(source(attribute.Expr.Range()), "module.config.stop_seconds")
	})
	for _, probe := range service.blocks {
		if !found[probe] {
			m.report(b.TypeRange, "%s has no %s", b.Labels[0], probe)
		}
	}
	if !stops {
		m.report(b.TypeRange, "%s does not take %s from module.config.stop_seconds", b.Labels[0], service.stop)
	}
}

// inputs: images by digest, a configuration that is not printed, and one whose drain fits.
func (m *module) inputs(blocks hclsyntax.Blocks, b *hclsyntax.Block, service service) {
	isRead := false
	for _, other := range blocks {
		switch {
		case other.Type == "variable" && (other.Labels[0] == "image" || strings.HasSuffix(other.Labels[0], "_image")):
			if !strings.Contains(source(other.Body.SrcRange), "@sha256:[0-9a-f]{64}$") {
				m.report(other.TypeRange, "%s needs a validation that demands a digest", other.Labels[0])
			}
		case other.Type == "variable" && other.Labels[0] == "config":
			if sensitive := other.Body.Attributes["sensitive"]; sensitive == nil || !isLiteral(sensitive.Expr, cty.True) {
				m.report(other.TypeRange, "config must be sensitive")
			}
		case other.Type == "module" && other.Labels[0] == "config":
			longest := other.Body.Attributes["longest"]
			isRead = longest != nil && isLiteral(longest.Expr, cty.NumberIntVal(service.longest))
		}
	}
	if !isRead {
		m.report(b.TypeRange, "no module config with longest = %d, after which %s kills a container", service.longest, b.Labels[0])
	}
}

func isLiteral(expression hclsyntax.Expression, want cty.Value) bool {
	value, problems := expression.Value(nil)
	return !problems.HasErrors() && value.RawEquals(want)
}

// walk visits the attributes of a body and of all blocks in it.
func walk(body *hclsyntax.Body, visit func(*hclsyntax.Attribute)) {
	for _, attribute := range body.Attributes {
		visit(attribute)
	}
	for _, nested := range body.Blocks {
		walk(nested.Body, visit)
	}
}

// each visits the blocks in a body, at all depths.
func each(body *hclsyntax.Body, visit func(*hclsyntax.Block)) {
	for _, nested := range body.Blocks {
		visit(nested)
		each(nested.Body, visit)
	}
}

func eachText(expression hclsyntax.Expression, visit func(string)) {
	_ = hclsyntax.VisitAll(expression, func(node hclsyntax.Node) hcl.Diagnostics {
		if literal, ok := node.(*hclsyntax.LiteralValueExpr); ok && literal.Val.Type() == cty.String && !literal.Val.IsNull() {
			visit(literal.Val.AsString())
		}
		return nil
	})
}

func source(at hcl.Range) string {
	text, err := os.ReadFile(filepath.Clean(at.Filename))
	if err != nil {
		return ""
	}
	return string(at.SliceBytes(text))
}
