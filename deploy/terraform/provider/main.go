// Command provider is a provider for Terraform and OpenTofu with the resources of azurerm, aws and google, and nothing behind them: plans of
// the modules are computed with it. It accepts what the schemas name, of whatever type, and results are texts such as `aws_lb.dns_name`.
//
// It is started by its host under the name terraform-provider-NAME_vVERSION; WEIR_PROVIDER_SCHEMA is the path of ../check/schema.json.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// block is what schema.json says of a resource, or of a block in one.
type block struct {
	Required   bool             `json:"required"`
	Exports    []string         `json:"exports"`
	Attributes map[string]bool  `json:"attributes"`
	Blocks     map[string]block `json:"blocks"`
}

func main() {
	name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-"), "_")
	text, err := os.ReadFile(os.Getenv("WEIR_PROVIDER_SCHEMA"))
	all := map[string]block{}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil {
		resources := map[string]block{}
		for resource, schema := range all {
			if strings.HasPrefix(resource, name+"_") {
				resources[resource] = schema
			}
		}
		err = tf5server.Serve("hashicorp/"+name, func() tfprotov5.ProviderServer { return &server{resources: resources} })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// server has the calls that a plan of new resources makes; the interface has the others, which are not made.
type server struct {
	tfprotov5.ProviderServer
	resources map[string]block
}

func (s *server) GetMetadata(context.Context, *tfprotov5.GetMetadataRequest) (*tfprotov5.GetMetadataResponse, error) {
	return &tfprotov5.GetMetadataResponse{}, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	resources := map[string]*tfprotov5.Schema{}
	for name, resource := range s.resources {
		resources[name] = &tfprotov5.Schema{Block: schemaOf(resource)}
	}
	config := block{Attributes: map[string]bool{"project": false, "region": false}, Blocks: map[string]block{"features": {}}}
	return &tfprotov5.GetProviderSchemaResponse{Provider: &tfprotov5.Schema{Block: schemaOf(config)}, ResourceSchemas: resources}, nil
}

// schemaOf: everything of any type. What is no argument is a result.
func schemaOf(from block) *tfprotov5.SchemaBlock {
	to := &tfprotov5.SchemaBlock{}
	attribute := func(name string, required, isArgument bool) {
		if _, isBlock := from.Blocks[name]; !isBlock {
			to.Attributes = append(to.Attributes, &tfprotov5.SchemaAttribute{
				Name: name, Type: tftypes.DynamicPseudoType, Required: required, Optional: isArgument && !required, Computed: !required,
			})
		}
	}
	for name, required := range from.Attributes {
		attribute(name, required, true)
	}
	for _, name := range from.Exports {
		if _, isArgument := from.Attributes[name]; !isArgument {
			attribute(name, false, false)
		}
	}
	for name, nested := range from.Blocks {
		inner := &tfprotov5.SchemaNestedBlock{TypeName: name, Block: schemaOf(nested), Nesting: tfprotov5.SchemaNestedBlockNestingModeList}
		if nested.Required {
			inner.MinItems = 1
		}
		to.BlockTypes = append(to.BlockTypes, inner)
	}
	return to
}

func (s *server) PlanResourceChange(_ context.Context, request *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	resource := s.resources[request.TypeName]
	types := map[string]tftypes.Type{}
	for _, attribute := range schemaOf(resource).Attributes {
		types[attribute.Name] = tftypes.DynamicPseudoType
	}
	for name := range resource.Blocks {
		types[name] = tftypes.DynamicPseudoType
	}
	kind := tftypes.Object{AttributeTypes: types}
	proposed, err := request.ProposedNewState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	values := map[string]tftypes.Value{}
	if err := proposed.As(&values); err != nil {
		return nil, err
	}
	for name, value := range values {
		_, isArgument := resource.Attributes[name]
		_, isBlock := resource.Blocks[name]
		isResult := !isArgument && !isBlock || name == "id" || name == "region"
		if isResult && (value.IsNull() || !value.IsKnown()) && slices.Contains(resource.Exports, name) {
			values[name] = tftypes.NewValue(tftypes.String, request.TypeName+"."+name)
		}
	}
	planned, err := tfprotov5.NewDynamicValue(kind, tftypes.NewValue(kind, values))
	if err != nil {
		return nil, err
	}
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: &planned, UnsafeToUseLegacyTypeSystem: true}, nil
}

func (s *server) PrepareProviderConfig(_ context.Context, request *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: request.Config}, nil
}

func (s *server) ConfigureProvider(context.Context, *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (s *server) ValidateResourceTypeConfig(context.Context, *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov5.GetResourceIdentitySchemasRequest) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) GetFunctions(context.Context, *tfprotov5.GetFunctionsRequest) (*tfprotov5.GetFunctionsResponse, error) {
	return &tfprotov5.GetFunctionsResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}
