// Command tool lints and renders a chart with the packages of Helm.
//
//	tool lint CHART VALUES.yaml [KEY=VALUE...]       as `helm lint --strict`
//	tool template CHART VALUES.yaml [KEY=VALUE...]   as `helm template shop CHART --namespace edge`
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
)

const kubernetes = "v1.36.3"

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: tool lint|template CHART VALUES.yaml [KEY=VALUE...]"))
	}
	values, err := chartutil.ReadValuesFile(os.Args[3])
	if err != nil {
		fail(err)
	}
	for _, set := range os.Args[4:] {
		if err := strvals.ParseInto(set, values); err != nil {
			fail(err)
		}
	}
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		fail(err)
	}
	switch os.Args[1] {
	case "lint":
		err = check(os.Args[2], values, version)
	case "template":
		err = render(os.Args[2], values, version)
	default:
		err = fmt.Errorf("unknown command %q; expected lint or template", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

// check is `helm lint --strict`: a warning fails it too.
func check(path string, values chartutil.Values, version *chartutil.KubeVersion) error {
	found := lint.AllWithKubeVersion(path, values, "edge", version)
	for _, message := range found.Messages {
		fmt.Println(message)
	}
	if found.HighestSeverity >= support.WarningSev {
		return fmt.Errorf("the chart has findings")
	}
	return nil
}

// render writes every manifest, by the names of the templates.
func render(path string, values chartutil.Values, version *chartutil.KubeVersion) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "edge", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if base := filepath.Base(name); base != "NOTES.txt" && strings.TrimSpace(rendered[name]) != "" && !strings.HasPrefix(base, "_") {
			fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(rendered[name]))
		}
	}
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "Error:", err)
	os.Exit(1)
}
